"""Stein variational gradient descent: the update in any flat space, and SVGD over network weights.

Order of this file: the direction and what all algorithms share, then config, state, init, step, build, run of the
weight-space algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._budget import share_of
from scoreprior._settings import check_counts, check_positive
from scoreprior.inference.likelihood import log_likelihood, minibatch
from scoreprior.tasks import PaddedTasks

T = TypeVar("T")


def rbf_kernel_and_repulsion(
    particles: Float[Array, "L p"], bandwidth: Float[Array, ""]
) -> tuple[Float[Array, "L L"], Float[Array, "L p"]]:
    """k_il = exp(-|h_i - h_l|^2 / (2 bandwidth)) and sum_i grad_{h_i} k_il = sum_i k_il (h_l - h_i) / bandwidth."""
    # Distances are those of the centred particles; their inner products keep the digits that the raw ones lose.
    centred = particles - jnp.mean(particles, axis=0)
    inner = centred @ centred.T
    norms = jnp.diagonal(inner)
    gram = jnp.exp(-jnp.maximum(norms[:, None] + norms[None, :] - 2 * inner, 0.0) / (2 * bandwidth))
    repulsion = (jnp.sum(gram, axis=0)[:, None] * centred - gram @ centred) / bandwidth
    return gram, repulsion


def svgd_direction(
    particles: Float[Array, "L p"], scores: Float[Array, "L p"], bandwidth: Float[Array, ""]
) -> Float[Array, "L p"]:
    """phi_l = 1/L sum_i [k(h_i, h_l) s_i + grad_{h_i} k(h_i, h_l)]: the direction to go along, an ascent (eq. 1)."""
    gram, repulsion = rbf_kernel_and_repulsion(particles, bandwidth)
    return (gram @ scores + repulsion) / len(particles)


def ascend(particles: T, direction: T, optimiser: optax.OptState, rate: Float[Array, ""]) -> tuple[T, optax.OptState]:
    """particles + rate * Adam(direction); the rate is an array, so a new one does not retrace."""
    updates, optimiser = optax.scale_by_adam().update(direction, optimiser)
    return jax.tree.map(lambda leaf, update: leaf + rate * update, particles, updates), optimiser


def start(particles: PyTree) -> optax.OptState:
    """The state of `ascend` before its first step."""
    return optax.scale_by_adam().init(particles)


def decayed(rate: Float[Array, ""], count: Array, steps: int, final: float) -> Float[Array, ""]:
    """Cosine decay from `rate` to `final` * rate over `steps` steps; final = 1 leaves it constant."""
    progress = jnp.minimum(count / max(1, steps - 1), 1.0)
    return rate * (final + (1 - final) * 0.5 * (1 + jnp.cos(jnp.pi * progress)))


def check_final_rate(final: float) -> None:
    """Refuse a last value over the first of a learning rate that is not in [0, 1]."""
    if not 0 <= final <= 1:
        raise ValueError(f"final_rate is a share of the learning rate between 0 and 1, not {final}.")


class Algorithm(NamedTuple):
    """`init(particles) -> state` and `step(key, state, batch) -> (state, info)`."""

    init: Callable[[PyTree], Any]
    step: Callable[[PRNGKeyArray, Any, PaddedTasks], tuple[Any, Any]]


def iterate(algorithm: Algorithm, particles: PyTree, context: PaddedTasks, steps: int, key: PRNGKeyArray) -> Any:
    """The state after `steps` steps on one padded task, as one scan; step t uses the t-th key folded from `key`."""

    def body(state: Any, count: Array) -> tuple[Any, None]:
        return algorithm.step(jax.random.fold_in(key, count), state, context)[0], None

    return jax.lax.scan(body, algorithm.init(particles), jnp.arange(steps))[0]


@runtime_checkable
class InferenceConfig(Protocol):
    """A config whose rates and scales may become arrays."""

    def hyper(self, noise_std: Any) -> Any:
        """What may change without retracing, as arrays."""


Config = TypeVar("Config", bound=InferenceConfig)


def static_part(config: Config) -> Config:
    """The config with what `hyper` holds as arrays set to 1: it is static, and a new rate must not retrace."""
    known = {field.name for field in fields(config)}  # type: ignore[arg-type]
    return replace(config, **{f.name: 1.0 for f in fields(config.hyper(1.0)) if f.name in known})  # type: ignore[type-var]


@dataclass(frozen=True)
class SVGDConfig:
    """Weight-space SVGD of a Bayesian network with weights N(0, prior_std^2).

    The kernel compares thousands of weights at once, so its bandwidth is larger than in function space.
    """

    particles: int = 10
    steps: int = 10_000
    learning_rate: float = 1e-3
    bandwidth: float = 100.0
    prior_std: float = 1.0
    context_batch: int | None = None
    final_rate: float = 1.0  # the learning rate's last value over its first

    def __post_init__(self) -> None:
        check_counts(self, "particles", "steps", "context_batch")
        check_positive(self, "learning_rate", "bandwidth", "prior_std")
        check_final_rate(self.final_rate)

    def with_budget(self, share: float) -> SVGDConfig:
        """The same with this share of the steps."""
        return replace(self, steps=share_of(self.steps, share))

    def hyper(self, noise_std: float | Float[Array, ""]) -> SVGDHyper:
        """What may change without retracing, as arrays; the observation noise is in standardised units."""
        values = (self.learning_rate, self.bandwidth, noise_std, self.prior_std)
        return SVGDHyper(*(jnp.asarray(value, jnp.float32) for value in values))


class SVGDHyper(eqx.Module):
    """Hyper-parameters as arrays."""

    learning_rate: Float[Array, ""]
    bandwidth: Float[Array, ""]
    noise_std: Float[Array, ""]
    prior_std: Float[Array, ""]


class SVGDState(NamedTuple):
    """Particles with a leading axis L, Adam's moments, and the number of steps made."""

    particles: PyTree
    optimiser: optax.OptState
    made: Array


class SVGDInfo(NamedTuple):
    """Unnormalised log posterior (minibatch estimate) of each particle before the step."""

    log_density: Float[Array, " L"]


def init(particles: PyTree) -> SVGDState:
    """The state before the first step."""
    return SVGDState(particles, start(particles), jnp.zeros((), int))


def log_posterior(params: PyTree, batch: PaddedTasks, weight: Float[Array, ""], hyper: SVGDHyper) -> Float[Array, ""]:
    """weight * log p(y | h) + log N(weights; 0, prior_std^2), the latter up to a constant."""
    squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
    # Padding may hold anything, but a network's gradient at a non-finite input is not finite.
    x = jnp.where(batch.mask[:, None], batch.x, 0.0)
    data = log_likelihood(params(x), batch.y, batch.mask, hyper.noise_std)
    return weight * data - 0.5 * squares / hyper.prior_std**2


def step(
    key: PRNGKeyArray, state: SVGDState, context: PaddedTasks, config: SVGDConfig, hyper: SVGDHyper
) -> tuple[SVGDState, SVGDInfo]:
    """One SVGD step over weights given a task's padded context."""
    batch, weight = minibatch(key, context, config.context_batch)
    value_and_score = jax.value_and_grad(lambda params: log_posterior(params, batch, weight, hyper))
    values, scores = jax.vmap(value_and_score)(state.particles)
    flat, unravel = _ravel(state.particles)
    direction = jax.vmap(unravel)(svgd_direction(flat, _ravel(scores)[0], hyper.bandwidth))
    rate = decayed(hyper.learning_rate, state.made, config.steps, config.final_rate)
    particles, optimiser = ascend(state.particles, direction, state.optimiser, rate)
    return SVGDState(particles, optimiser, state.made + 1), SVGDInfo(values)


def build(config: SVGDConfig, hyper: SVGDHyper) -> Algorithm:
    """Weight-space SVGD as `init` and `step(key, state, context)`."""
    return Algorithm(init, lambda key, state, context: step(key, state, context, config, hyper))


def run(config: SVGDConfig, hyper: SVGDHyper, context: PaddedTasks, particles: PyTree, key: PRNGKeyArray) -> PyTree:
    """Particles of the weight posterior of one padded task: x (m, d), y (m,), mask (m,)."""
    return iterate(build(config, hyper), particles, context, config.steps, key).particles


def _ravel(particles: PyTree) -> tuple[Float[Array, "L p"], Callable[[Array], PyTree]]:
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], particles))
    return jax.vmap(lambda one: ravel_pytree(one)[0])(particles), unravel
