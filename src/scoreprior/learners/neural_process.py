"""Neural processes: the latent one of Garnelo et al. (2018), and the attentive one of Kim et al. (2019).

A context C is encoded as q(z | C) = N(mu, diag sigma^2), a function of the mean of its points' encodings, and
optionally by a deterministic path r(C, x): the mean of other encodings, or cross attention from x to the context's
inputs. Given z the targets are independent, y ~ N(mu(x, z, r), sigma(x, z, r)^2). With T the target points of a task,
    log p(y_T | C) >= E_{q(z | C, T)} [ sum_{t in T} log p(y_t | x_t, z, r) ] - KL( q(z | C, T) || q(z | C) )
(Garnelo et al., eq. 9) is maximised over random splits of the meta-training tasks, some with an empty context: those
make q(z | {}) the prior. A prediction is a mixture over many z from q(z | C).
Departures: no self attention within the encoders; the number of training steps is chosen on held-out tasks, as for
`maml.MAML`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior import networks as nets
from scoreprior._settings import check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.learners._base import Prior
from scoreprior.learners._episodes import Cut, MetaLoss, check_episodes, meta_train, mixture_nll
from scoreprior.networks import MLP
from scoreprior.predictive import Mixture
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig

_VALIDATION_SAMPLES = 16


class Latent(eqx.Module):
    """N(mean, diag std^2) of the latent z (c,)."""

    mean: Float[Array, " c"]
    std: Float[Array, " c"]


class Networks(eqx.Module):
    """The encoders and the decoder; `deterministic` is None without that path, `address` without attention."""

    latent: MLP  # (x, y) -> encoding of the latent path
    head: MLP  # mean encoding -> mean and std of z
    deterministic: MLP | None  # (x, y) -> encoding of the deterministic path
    address: MLP | None  # x -> query or key of the cross attention
    decoder: MLP  # (x, z, r) -> mean and std of y
    least_std: Float[Array, ""]
    heads: int = eqx.field(static=True)

    def encode(self, task: PaddedTasks) -> Latent:
        """q(z | task); of no point, the learned prior of z."""
        return self.summarise(self.latent(_pairs(task)), task.mask)

    def summarise(self, encodings: Float[Array, "m r"], mask: Bool[Array, " m"]) -> Latent:
        """q(z | points) of points that are encoded already."""
        mean, raw = jnp.split(self.head(masked_mean(encodings, mask)), 2)
        return Latent(mean, 0.01 + 0.99 * jax.nn.sigmoid(raw))

    def decode(
        self, z: Float[Array, " c"], context: PaddedTasks, x: Float[Array, "q d"]
    ) -> tuple[Float[Array, " q"], Float[Array, " q"]]:
        """Mean and standard deviation of y at x given z and the context."""
        parts = [x, jnp.broadcast_to(z, (len(x), len(z)))]
        if self.deterministic is not None:
            parts.append(self._path(self.deterministic(_pairs(context)), context, x))
        mean, raw = self.decoder(jnp.concatenate(parts, axis=1)).T
        return mean, self.least_std + jax.nn.softplus(raw)

    def _path(self, values: Float[Array, "m r"], context: PaddedTasks, x: Float[Array, "q d"]) -> Float[Array, "q r"]:
        if self.address is None:
            return jnp.broadcast_to(masked_mean(values, context.mask), (len(x), values.shape[-1]))
        keys = self.address(jnp.where(context.mask[:, None], context.x, 0.0))
        return attend(self.address(x), keys, values, context.mask, self.heads)


def masked_mean(encodings: Float[Array, "m r"], mask: Bool[Array, " m"]) -> Float[Array, " r"]:
    """The mean over the real points; 0 if there are none."""
    return jnp.sum(jnp.where(mask[:, None], encodings, 0.0), axis=0) / jnp.maximum(jnp.sum(mask), 1)


def attend(
    query: Float[Array, "q r"],
    key: Float[Array, "m r"],
    value: Float[Array, "m r"],
    mask: Bool[Array, " m"],
    heads: int,
) -> Float[Array, "q r"]:
    """softmax(query key^T / sqrt(r / heads)) value, head by head over the real points; 0 if there are none."""
    query, key, value = (part.reshape(len(part), heads, -1) for part in (query, key, value))
    logits = jnp.einsum("qhc,mhc->hqm", query, key) * query.shape[-1] ** -0.5
    # A finite stand-in: a row of nothing but -inf would make NaN of an empty context.
    weights = jax.nn.softmax(jnp.where(mask, logits, -1e30), axis=-1)
    return jnp.einsum("hqm,mhc->qhc", jnp.where(mask, weights, 0.0), value).reshape(len(query), -1)


def kl_divergence(q: Latent, p: Latent) -> Float[Array, ""]:
    """KL(q || p) of two diagonal Gaussians."""
    ratio = (q.std / p.std) ** 2
    return 0.5 * jnp.sum(ratio + ((q.mean - p.mean) / p.std) ** 2 - 1 - jnp.log(ratio))


def elbo(networks: Networks, context: PaddedTasks, target: PaddedTasks, noise: Float[Array, "S c"]) -> Float[Array, ""]:
    """The bound on log p(y_T | C), its expectation by z = mean + std * noise with standard normal `noise`."""
    both = context._replace(mask=context.mask | target.mask)
    encodings = networks.latent(_pairs(both))  # once for prior and posterior, whose points differ by a mask only
    prior, posterior = (networks.summarise(encodings, mask) for mask in (context.mask, both.mask))
    x = jnp.where(target.mask[:, None], target.x, 0.0)

    def log_prob(one: Float[Array, " c"]) -> Float[Array, ""]:
        mean, std = networks.decode(posterior.mean + posterior.std * one, context, x)
        white = jnp.where(target.mask, target.y - mean, 0.0) / std
        return jnp.sum(jnp.where(target.mask, -0.5 * white**2 - jnp.log(std) - 0.5 * jnp.log(2 * jnp.pi), 0.0))

    return jnp.mean(jax.vmap(log_prob)(noise)) - kl_divergence(posterior, prior)


def _pairs(task: PaddedTasks) -> Float[Array, "m d+1"]:
    return jnp.where(task.mask[:, None], jnp.concatenate([task.x, task.y[:, None]], axis=1), 0.0)


class _NegativeBound(eqx.Module):
    """-ELBO of one task: a sum over its target points, divided by nothing."""

    samples: int = eqx.field(static=True)
    latent: int = eqx.field(static=True)

    def __call__(
        self, networks: Networks, context: PaddedTasks, target: PaddedTasks, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        return -elbo(networks, context, target, jax.random.normal(key, (self.samples, self.latent)))


class _Curve(eqx.Module):
    """Negative log predictive density of a held-out task's target points, (1,)."""

    def __call__(
        self, networks: Networks, context: PaddedTasks, target: PaddedTasks, key: PRNGKeyArray
    ) -> Float[Array, " 1"]:
        z = _draw(networks.encode(context), _VALIDATION_SAMPLES, key)
        x = jnp.where(target.mask[:, None], target.x, 0.0)
        locs, scales = jax.vmap(lambda one: networks.decode(one, context, x))(z)
        return mixture_nll(locs, scales, target)[None]


def _draw(latent: Latent, samples: int, key: PRNGKeyArray) -> Float[Array, "S c"]:
    return latent.mean + latent.std * jax.random.normal(key, (samples, len(latent.mean)))


class NPState(eqx.Module):
    """Draws of z given the context, and the context itself for the deterministic path."""

    z: Float[Array, "S c"]
    context: PaddedTasks


class NeuralProcessPrior(Prior):
    """Trained networks."""

    standardizer: Standardizer
    networks: Networks
    samples: int = eqx.field(static=True)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> NPState:
        return NPState(_draw(self.networks.encode(context), self.samples, key), context)

    def evaluate(self, state: NPState, x: Float[Array, "q d"]) -> Mixture:
        locs, scales = jax.vmap(lambda z: self.networks.decode(z, state.context, x))(state.z)
        return Mixture(locs, scales, locs)


@short_repr
@dataclass(frozen=True)
class NeuralProcess:
    """The latent neural process.

    Args:
        width: units of hidden layers and of encodings; `layers` hidden layers in each encoder and the decoder.
        latent: dimensions of z.
        deterministic: whether the decoder also sees the deterministic path.
        attention: whether that path is cross attention with `heads` heads (Kim et al. 2019) rather than a mean.
        least_std: lower bound of the predicted standard deviation given z, standardised units.
        samples: draws of z for a prediction; `training_samples` for the bound.
        context, tasks_per_step, held_out: as for `maml.MAML`.
    """

    width: int = 64
    layers: int = 2
    latent: int = 16
    deterministic: bool = False
    attention: bool = False
    heads: int = 4
    least_std: float = 0.02
    samples: int = 64
    training_samples: int = 4
    context: tuple[float, float] = (0.0, 0.9)
    forward: float = 0.5
    tasks_per_step: int | None = 16
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=10_000, weight_decay=0.1, chunk=250, patience=8)
    )
    held_out: float = 0.25

    space: ClassVar[Space] = {
        "width": Choice((32, 64, 128)),
        "layers": Choice((1, 2, 3)),
        "latent": Choice((4, 16, 64)),
        "least_std": Range(0.01, 0.2, log=True),
        "training.learning_rate": Range(1e-4, 1e-2, log=True),
        "training.weight_decay": Choice((0.0, 1e-3, 1e-2, 1e-1)),
    }

    def __post_init__(self) -> None:
        check_counts(self, "width", "latent", "heads", "samples", "training_samples")
        check_counts(self, "layers", least=0)
        if self.attention and (not self.deterministic or self.width % self.heads):
            raise ValueError("Attention is a deterministic path, and its heads share the width equally.")
        check_positive(self, "least_std")
        check_episodes(self.context, self.forward, self.tasks_per_step, self.held_out)

    @classmethod
    def attentive(cls) -> NeuralProcess:
        """The attentive neural process."""
        return cls(deterministic=True, attention=True)

    def with_budget(self, share: float) -> NeuralProcess:
        """The same with this share of the meta-training steps."""
        return replace(self, training=self.training.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> NeuralProcessPrior:
        """Learn encoders and decoder."""
        start_key, train_key = jax.random.split(as_key(key))
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        batch = len(tasks) if self.tasks_per_step is None else min(self.tasks_per_step, len(tasks))
        bound = _NegativeBound(self.training_samples, self.latent)
        loss = MetaLoss(padded, Cut(self.context, self.forward), batch, bound)
        start = self.init(tasks.dim, start_key)
        trainable = eqx.tree_at(lambda n: n.least_std, jax.tree.map(eqx.is_inexact_array, start), False)
        networks, _ = meta_train(
            loss, _Curve(), start, self.training, self.held_out, train_key, trainable=trainable, progress=progress
        )
        return NeuralProcessPrior(standardizer, networks, self.samples)

    def init(self, dim: int, key: PRNGKeyArray) -> Networks:
        """Untrained networks for `dim` inputs."""
        hidden, width = (self.width,) * self.layers, self.width
        seen = dim + self.latent + (width if self.deterministic else 0)
        sizes = {
            "latent": (dim + 1, *hidden, width),
            "head": (width, *hidden[:1], 2 * self.latent),
            "deterministic": (dim + 1, *hidden, width) if self.deterministic else None,
            "address": (dim, *hidden, width) if self.attention else None,
            "decoder": (seen, *hidden, 2),
        }
        return Networks(**_init(sizes, key), least_std=jnp.asarray(self.least_std), heads=self.heads)


@eqx.filter_jit
def _init(sizes: dict[str, tuple[int, ...] | None], key: PRNGKeyArray) -> dict[str, Any]:
    keys = jax.random.split(key, len(sizes))
    each = zip(sizes.items(), keys)
    return {name: None if size is None else nets.uniform(size, "silu", one) for (name, size), one in each}
