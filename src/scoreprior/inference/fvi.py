"""Functional variational inference (Sun et al., 2019), the alternative to fSVGD that the paper names (section 5.4).

A mean-field Gaussian over one network's weights ascends the functional ELBO E_q log p(y | f) - KL(q(f^X) || p(f^X)) at
a new measurement set X per step. The prior enters by its score alone; the score of q(f^X) is estimated from draws.
Answers with particles drawn from q, so prediction is shared with fSVGD.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._budget import share_of
from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior._types import Score
from scoreprior.inference.fsvgd import MeasurementSet, Offset, functions, measurement_set
from scoreprior.inference.likelihood import likelihood_score
from scoreprior.inference.measurement import MeasurementDistribution
from scoreprior.inference.svgd import Algorithm, ascend, check_final_rate, decayed, iterate, start
from scoreprior.scores.gaussian import gaussian_score
from scoreprior.scores.ssge import spectral_score
from scoreprior.tasks import PaddedTasks

Entropy = Literal["gaussian", "spectral"]


@dataclass(frozen=True)
class FVIConfig:
    """Functional variational inference.

    `entropy` names the estimate of grad log q(f^X): "spectral" is Sun et al.'s (SSGE), "gaussian" the score of a
    Gaussian with the draws' moments: closer on process marginals at any affordable number of draws, and cheaper.
    """

    particles: int = 10
    samples: int = 20  # draws of q per step
    steps: int = 2_000
    learning_rate: float = 1e-2
    function_noise: float = 0.1  # added to draws before both scores
    initial_std: float = 0.02  # of every weight
    entropy: Entropy = "gaussian"
    measurement_points: int = 16
    context_batch: int | None = None
    final_rate: float = 0.01

    def __post_init__(self) -> None:
        check_choice("entropy", self.entropy, get_args(Entropy))
        check_counts(self, "particles", "samples", "steps", "measurement_points", "context_batch")
        check_positive(self, "learning_rate", "function_noise", "initial_std")
        check_final_rate(self.final_rate)
        if self.samples < 2:
            raise ValueError(f"The score of q needs at least 2 samples, not {self.samples}.")

    def with_budget(self, share: float) -> FVIConfig:
        """The same with this share of the steps."""
        return replace(self, steps=share_of(self.steps, share))

    def hyper(self, noise_std: float | Float[Array, ""]) -> FVIHyper:
        """What may change without retracing, as arrays; the observation noise is in standardised units."""
        values = (self.learning_rate, noise_std, self.function_noise, self.initial_std)
        return FVIHyper(*(jnp.asarray(value, jnp.float32) for value in values))


class FVIHyper(eqx.Module):
    """Hyper-parameters as arrays."""

    learning_rate: Float[Array, ""]
    noise_std: Float[Array, ""]
    function_noise: Float[Array, ""]
    initial_std: Float[Array, ""]


class MeanField(NamedTuple):
    """q(weights) = N(mean, softplus(raw)^2), independent; two pytrees like one particle."""

    mean: PyTree
    raw: PyTree

    def sample(self, key: PRNGKeyArray, number: int) -> PyTree:
        """Reparametrised draws, every leaf with a leading axis `number`."""
        flat, unravel = ravel_pytree(self.mean)
        std = jax.nn.softplus(ravel_pytree(self.raw)[0])
        return jax.vmap(unravel)(flat + std * jax.random.normal(key, (number, len(flat)), flat.dtype))


class FVIState(NamedTuple):
    """The variational distribution, Adam's moments, and the number of steps made."""

    q: MeanField
    optimiser: optax.OptState
    made: Array


class FVIInfo(NamedTuple):
    """The step's measurement set, function draws there, and the functional ELBO's gradient with respect to them."""

    measured: MeasurementSet
    f: Float[Array, "S k"]
    direction: Float[Array, "S k"]


def init(params: PyTree, initial_std: Float[Array, ""]) -> FVIState:
    """q around one particle's weights."""
    raw = jnp.log(jnp.expm1(initial_std))
    q = MeanField(params, jax.tree.map(lambda leaf: jnp.full_like(leaf, raw), params))
    return FVIState(q, start(q), jnp.zeros((), int))


def step(
    key: PRNGKeyArray,
    state: FVIState,
    context: PaddedTasks,
    score: Score,
    measurement: MeasurementDistribution,
    config: FVIConfig,
    hyper: FVIHyper,
    offset: Offset | None = None,
) -> tuple[FVIState, FVIInfo]:
    """Ascend the functional ELBO: its gradient is E[J^T (likelihood score + prior score - score of q)]."""
    set_key, draw_key, noise_key = jax.random.split(key, 3)
    measured = measurement_set(set_key, context, measurement, config.measurement_points, config.context_batch)
    f, pull_back = jax.vjp(lambda q: functions(q.sample(draw_key, config.samples), measured.x, offset), state.q)
    data = jax.vmap(lambda one: likelihood_score(one, measured.y, measured.observed, hyper.noise_std))(f)
    # Noise on both sides keeps the divergence finite where q or the prior has no density, at close-by points.
    noisy = f + hyper.function_noise * jax.random.normal(noise_key, f.shape, f.dtype)
    prior = jax.vmap(lambda one: score(one, measured.x, hyper.function_noise))(noisy)
    own = spectral_score(noisy) if config.entropy == "spectral" else gaussian_score(noisy, f, hyper.function_noise)
    direction = (measured.weight * data + prior - own) / config.samples
    rate = decayed(hyper.learning_rate, state.made, config.steps, config.final_rate)
    q, optimiser = ascend(state.q, pull_back(direction)[0], state.optimiser, rate)
    return FVIState(q, optimiser, state.made + 1), FVIInfo(measured, f, direction)


def build(
    score: Score,
    measurement: MeasurementDistribution,
    config: FVIConfig,
    hyper: FVIHyper,
    offset: Offset | None = None,
) -> Algorithm:
    """fVI as `init(params)` and `step(key, state, context)`."""
    return Algorithm(
        lambda params: init(params, hyper.initial_std),
        lambda key, state, context: step(key, state, context, score, measurement, config, hyper, offset),
    )


def run(
    score: Score,
    measurement: MeasurementDistribution,
    config: FVIConfig,
    hyper: FVIHyper,
    context: PaddedTasks,
    particles: PyTree,
    key: PRNGKeyArray,
    offset: Offset | None = None,
) -> PyTree:
    """As many draws from q, fitted to one padded task, as there are `particles`; q starts at the first of them."""
    run_key, draw_key = jax.random.split(key)
    first = jax.tree.map(lambda leaf: leaf[0], particles)
    number = len(jax.tree.leaves(particles)[0])
    state = iterate(build(score, measurement, config, hyper, offset), first, context, config.steps, run_key)
    return state.q.sample(draw_key, number)
