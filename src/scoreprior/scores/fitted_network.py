"""The score network as an estimator: `fit(samples, x, key)` at one measurement set (the paper's appendix D.1).

The network sees z = R (f - m), with m the samples' mean. The paper's own has R = 1 / (one common standard deviation):

    s(f) = R^T network(z, x)

Three departures are on offer. `anchor` whitens the samples, R = S^-1/2 (`whitened.py`), and adds a Gaussian's score:

    s(f) = R^T (network(z, x) - z)

With a network of zero the estimate is the Gaussian's, and the network learns only what is not Gaussian. `rotate`
trains it on randomly rotated z: a regulariser towards elliptical distributions, which the marginals of Gaussian
and Student-t processes are. `reweight` then finds m and S anew as the learned tails weigh the samples:

    m = sum_i w_i f_i / sum_i w_i,   S = 1/n sum_i w_i (f_i - m) (f_i - m)^T,   w = -<z, s(z)> / |z|^2

These are the likelihood equations of the elliptical distribution whose score the network is (w = 1 is a Gaussian's;
Maronna, 1976): a sample far out in a heavy tail hardly counts, while for Gaussian samples all count alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._settings import check_counts, check_positive
from scoreprior._types import KeyLike, as_key
from scoreprior.scores import losses, spectral
from scoreprior.scores.gaussian import Gaussian, ShrunkGaussian
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.scores.whitened import Whitening, whitening
from scoreprior.training import TrainingConfig, train

Objective = Literal["exact", "sliced", "denoising"]
SMALL = NetworkConfig(embedding=16, heads=2, key_size=8, widening=2)
"""For two or three points: half the width of the default learns as much, in a quarter of the time."""


@dataclass(frozen=True)
class NetworkEstimator:
    """How a score network is fitted to samples of one marginal.

    Args:
        level: noise of the denoising objective, in units of the standardised (or whitened) samples.
        batch: samples per step; None takes all of them.
        anchor: a Gaussian to start from; the network learns the rest, in whitened coordinates.
        rotate: a new random rotation of the whitened samples at every step.
        reweight: fixed-point steps for mean and covariance after training.
    """

    objective: Objective = "exact"
    network: NetworkConfig = SMALL
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(steps=2000, chunk=100_000))
    level: float = 0.1
    batch: int | None = 32
    anchor: Gaussian | ShrunkGaussian | None = None
    rotate: bool = False
    reweight: int = 0

    def __post_init__(self) -> None:
        if self.objective not in ("exact", "sliced", "denoising"):
            raise ValueError(f"objective is exact, sliced or denoising, not {self.objective!r}.")
        check_counts(self, "batch")
        check_positive(self, "level")
        if (self.rotate or self.reweight) and self.anchor is None:
            raise ValueError("rotate and reweight are for whitened samples; set anchor=Gaussian() too.")

    def fit(self, samples: Float[Array, "n k"], x: Float[Array, "k d"], key: KeyLike) -> NetworkScore:
        """The score of the samples' distribution; x (k, d) tells the network which coordinate is which."""
        start_key, train_key = jax.random.split(as_key(key))
        anchored = self.anchor is not None
        change = _standardised(samples, self.anchor)
        start = ScoreNetwork(x.shape[1], self.network, start_key)
        if anchored:
            start = eqx.tree_at(lambda n: n.final, start, jax.tree.map(jnp.zeros_like, start.final))
        count = len(samples) if self.batch is None else min(self.batch, len(samples))
        loss = _Loss(change(samples), x, jnp.float32(self.level), self.objective, count, anchored, self.rotate)
        network, _ = train(
            loss,
            start,
            replace(self.training, patience=None),
            train_key,
            project=spectral.power_iterate,
            trainable=spectral.trainable(start),
        )
        return _finalise(NetworkScore(_Anchored(network, anchored), x, change), samples, self.reweight)


def elliptical_network() -> NetworkEstimator:
    """All three departures, with steps and learning rate chosen on measurement sets that no table reports."""
    training = TrainingConfig(steps=1000, learning_rate=3e-3, schedule="cosine", chunk=100_000)
    return NetworkEstimator(training=training, anchor=Gaussian(), rotate=True, reweight=20)


class NetworkScore(eqx.Module):
    """A fitted network: points (m, k) -> (m, k)."""

    score: _Anchored
    x: Float[Array, "k d"]
    change: Whitening

    def __call__(self, points: Float[Array, "m k"]) -> Float[Array, "m k"]:
        return self.change.pull_back(self.standardised(self.change(points)))

    def standardised(self, z: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """The score of the standardised or whitened values."""
        return jax.vmap(self.score, in_axes=(0, None))(z, self.x)


class _Anchored(eqx.Module):
    """network(z, x) - z, or the network alone."""

    network: ScoreNetwork
    anchored: bool = eqx.field(static=True)

    def __call__(
        self, z: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, ""] | None = None
    ) -> Float[Array, " k"]:
        return self.network(z, x, noise) - (z if self.anchored else 0.0)

    def value_and_divergence(self, z: Float[Array, " k"], x: Float[Array, "k d"]) -> tuple[Array, Array]:
        value, divergence = self.network.value_and_divergence(z, x)
        return (value - z, divergence - len(z)) if self.anchored else (value, divergence)


class _Loss(eqx.Module):
    """A score-matching objective on a random batch of the samples."""

    z: Float[Array, "n k"]
    x: Float[Array, "k d"]
    level: Float[Array, ""]
    objective: Objective = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    anchored: bool = eqx.field(static=True)
    rotate: bool = eqx.field(static=True)

    def __call__(self, network: ScoreNetwork, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        batch_key, turn_key, loss_key = jax.random.split(key, 3)
        z = self.z
        if self.batch < len(z):
            z = z[jax.random.choice(batch_key, len(z), (self.batch,), replace=False)]
        if self.rotate:
            z = _turn(z, turn_key)
        score = _Anchored(spectral.normalise(network), self.anchored)
        objectives = {"exact": losses.exact_trace, "sliced": losses.sliced, "denoising": losses.denoising(self.level)}
        return objectives[self.objective](score, z, self.x, loss_key), {}


def _turn(z: Float[Array, "n k"], key: PRNGKeyArray) -> Float[Array, "n k"]:
    """Every row on its own sphere, in a random direction: uniform rotations, without a matrix."""
    directions = jax.random.normal(key, z.shape, z.dtype)
    return directions * jnp.linalg.norm(z, axis=1, keepdims=True) / jnp.linalg.norm(directions, axis=1, keepdims=True)


def _standardised(samples: Float[Array, "n k"], anchor: Gaussian | ShrunkGaussian | None) -> Whitening:
    """To the anchor's whitened coordinates, or to one common standard deviation of 1."""
    mean = jnp.mean(samples, axis=0)
    if anchor is not None:
        return whitening(mean, anchor.covariance(samples))
    scale = jnp.sqrt(jnp.mean((samples - mean) ** 2))
    return Whitening(mean, jnp.eye(len(mean), dtype=samples.dtype) / jnp.where(scale > 0, scale, 1.0))


@eqx.filter_jit
def _finalise(fitted: NetworkScore, samples: Float[Array, "n k"], reweight: int) -> NetworkScore:
    """The network normalised exactly, then mean and covariance reweighted by it."""
    fitted = replace(fitted, score=spectral.finalise(fitted.score))
    return replace(fitted, change=reweighted(fitted.standardised, fitted.change, samples, reweight))


def reweighted(
    score: Callable[[Float[Array, "n k"]], Float[Array, "n k"]],
    change: Whitening,
    samples: Float[Array, "n k"],
    steps: int,
) -> Whitening:
    """The whitening after fixed-point steps of the likelihood equations of the elliptical law with this score of z."""

    def step(_: int, change: Whitening) -> Whitening:
        z = change(samples)
        weights = -jnp.sum(z * score(z), axis=1) / jnp.maximum(jnp.sum(z**2, axis=1), 1e-12)
        # A network is no density's score exactly; a negative weight would leave no covariance at all.
        weights = jnp.clip(weights, 1e-3, None)
        mean = weights @ samples / jnp.sum(weights)
        centred = samples - mean
        return whitening(mean, (weights * centred.T) @ centred / len(samples))

    return jax.lax.fori_loop(0, steps, step, change)
