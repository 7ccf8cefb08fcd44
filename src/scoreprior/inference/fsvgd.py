"""Functional Stein variational gradient descent (appendix A.1): particles of networks, updates in function space.

A particle is a callable pytree of arrays, x (k, d) -> (k,); the prior is any score. Everything here concerns one task
in standardised units: `vmap` over tasks and `jit` outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from scoreprior._budget import share_of
from scoreprior._settings import check_counts, check_positive
from scoreprior._types import Score
from scoreprior.inference.bnn import function_values
from scoreprior.inference.likelihood import likelihood_score, minibatch
from scoreprior.inference.measurement import MeasurementDistribution
from scoreprior.inference.svgd import (
    Algorithm,
    ascend,
    check_final_rate,
    decayed,
    iterate,
    start,
    svgd_direction,
)
from scoreprior.scores.levels import NoiseLevels
from scoreprior.tasks import PaddedTasks

Offset: TypeAlias = Callable[[Any], Any]
"""A fixed mean function x (k, d) -> (k,) added to every particle: h = offset + network."""


@dataclass(frozen=True)
class FSVGDConfig:
    """Functional SVGD; the paper: 10 particles, 10000 steps."""

    particles: int = 10
    steps: int = 10_000
    learning_rate: float = 1e-3
    bandwidth: float = 1.0
    measurement_points: int | None = 16  # drawn from nu at every step, beside the context's; None: by `points`
    context_batch: int | None = None  # context points per step; None: all of them
    final_rate: float = 0.01  # the learning rate's last value over its first (cosine); 1: constant

    def __post_init__(self) -> None:
        check_counts(self, "particles", "steps", "measurement_points", "context_batch")
        check_positive(self, "learning_rate", "bandwidth")
        check_final_rate(self.final_rate)

    def with_budget(self, share: float) -> FSVGDConfig:
        """The same with this share of the steps."""
        return replace(self, steps=share_of(self.steps, share))

    def points(self, dim: int) -> int:
        """Measurement points for inputs of this many dimensions, if not given: 12 on a line, 3 for each further one.

        Between too few points in a large space particles are free to be anything, and the predictive is too wide.
        """
        return 9 + 3 * dim if self.measurement_points is None else self.measurement_points

    def hyper(self, noise_std: float | Float[Array, ""]) -> FSVGDHyper:
        """What may change without retracing, as arrays; the observation noise is in standardised units."""
        values = (self.learning_rate, self.bandwidth, noise_std)
        return FSVGDHyper(*(jnp.asarray(value, jnp.float32) for value in values))


class FSVGDHyper(eqx.Module):
    """Hyper-parameters as arrays."""

    learning_rate: Float[Array, ""]
    bandwidth: Float[Array, ""]
    noise_std: Float[Array, ""]


class FSVGDState(NamedTuple):
    """Particles with a leading axis L, Adam's moments, and the number of steps made."""

    particles: PyTree
    optimiser: optax.OptState
    made: Array


class MeasurementSet(NamedTuple):
    """One joint set x (k, d), all points real: context points (`observed`, with y) and draws from nu."""

    x: Float[Array, "k d"]
    y: Float[Array, " k"]
    observed: Bool[Array, " k"]
    weight: Float[Array, ""]  # of the likelihood: m / batch


class FSVGDInfo(NamedTuple):
    """The step's measurement set, function values and posterior scores there, and the direction taken."""

    measured: MeasurementSet
    f: Float[Array, "L k"]
    scores: Float[Array, "L k"]
    direction: Float[Array, "L k"]


def init(particles: PyTree) -> FSVGDState:
    """The state before the first step."""
    return FSVGDState(particles, start(particles), jnp.zeros((), int))


def step(
    key: PRNGKeyArray,
    state: FSVGDState,
    context: PaddedTasks,
    score: Score,
    levels: NoiseLevels,
    measurement: MeasurementDistribution,
    config: FSVGDConfig,
    hyper: FSVGDHyper,
    offset: Offset | None = None,
) -> tuple[FSVGDState, FSVGDInfo]:
    """theta_l <- theta_l + rate * Adam(J_l^T phi_l), phi the SVGD direction of the functions (eq. 1, as an ascent)."""
    measured = measurement_set(key, context, measurement, config.points(context.x.shape[-1]), config.context_batch)
    f, pull_back = jax.vjp(lambda particles: functions(particles, measured.x, offset), state.particles)
    level = levels(state.made / config.steps)
    scores = posterior_scores(f, measured, score, level, hyper.noise_std)
    direction = svgd_direction(f, scores, hyper.bandwidth)
    rate = decayed(hyper.learning_rate, state.made, config.steps, config.final_rate)
    particles, optimiser = ascend(state.particles, pull_back(direction)[0], state.optimiser, rate)
    info = FSVGDInfo(measured, f, scores, direction)
    return FSVGDState(particles, optimiser, state.made + 1), info


def build(
    score: Score,
    levels: NoiseLevels,
    measurement: MeasurementDistribution,
    config: FSVGDConfig,
    hyper: FSVGDHyper,
    offset: Offset | None = None,
) -> Algorithm:
    """fSVGD as `init(particles)` and `step(key, state, context)`."""
    return Algorithm(
        init,
        lambda key, state, context: step(key, state, context, score, levels, measurement, config, hyper, offset),
    )


def run(
    score: Score,
    levels: NoiseLevels,
    measurement: MeasurementDistribution,
    config: FSVGDConfig,
    hyper: FSVGDHyper,
    context: PaddedTasks,
    particles: PyTree,
    key: PRNGKeyArray,
    offset: Offset | None = None,
) -> PyTree:
    """Particles of the posterior of one padded task, x (m, d), y (m,), mask (m,); no real point gives the prior.

    Args:
        score: the prior, s(f, x, noise).
        levels: the noise that the score is asked for, from the first step to the last.
        config: its sizes are static; learning rate, bandwidth and noise are read from `hyper`.
        particles: where to start, every leaf with a leading axis L (`bnn.init_particles`).
        offset: a fixed mean function added to every particle.
    """
    algorithm = build(score, levels, measurement, config, hyper, offset)
    return iterate(algorithm, particles, context, config.steps, key).particles


def predict(
    particles: PyTree, x: Float[Array, "q d"], noise_std: Float[Array, ""], offset: Offset | None = None
) -> tuple[Float[Array, "L q"], Float[Array, "L q"]]:
    """Component means and standard deviations of y at x: 1/L sum_l N(h_l(x), noise_std^2)."""
    locs = functions(particles, x, offset)
    return locs, jnp.broadcast_to(noise_std, locs.shape)


def functions(particles: PyTree, x: Float[Array, "k d"], offset: Offset | None = None) -> Float[Array, "L k"]:
    """h_l(x) = network_l(x) (+ offset(x)), (L, k)."""
    f = function_values(particles, x)
    return f if offset is None else f + offset(x)


def measurement_set(
    key: PRNGKeyArray,
    context: PaddedTasks,
    measurement: MeasurementDistribution,
    points: int,
    context_batch: int | None,
) -> MeasurementSet:
    """A batch of the context plus `points` draws from nu; draws fill the padding too: no score needs a mask."""
    draw_key, batch_key = jax.random.split(key)
    batch, weight = minibatch(batch_key, context, context_batch)
    slots = len(batch.y)
    draws = measurement.sample(draw_key, slots + points)
    x = jnp.concatenate([jnp.where(batch.mask[:, None], batch.x, draws[:slots]), draws[slots:]])
    return MeasurementSet(x, jnp.pad(batch.y, (0, points)), jnp.pad(batch.mask, (0, points)), weight)


def posterior_scores(
    f: Float[Array, "L k"],
    measured: MeasurementSet,
    score: Score,
    level: Float[Array, "*#k"],
    noise_std: Float[Array, ""],
) -> Float[Array, "L k"]:
    """grad_f log p(f | x, D) = weight * (y - f) / noise_std^2 where observed + s(f, x) (appendix A.1)."""

    def one(f: Float[Array, " k"]) -> Float[Array, " k"]:
        data = likelihood_score(f, measured.y, measured.observed, noise_std)
        # What depends on x alone, such as a Gram matrix's factor, is not batched by vmap: it is computed once.
        return measured.weight * data + score(f, measured.x, level)

    return jax.vmap(one)(f)
