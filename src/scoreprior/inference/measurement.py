"""Measurement distributions nu: where functions are looked at during training and inference (appendix A.5)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._types import KeyLike, as_generator
from scoreprior.tasks import PaddedTasks


class MeasurementDistribution(eqx.Module):
    """A distribution nu over inputs, in standardised units."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, k: int) -> Float[Array, "k d"]:
        """k independent points."""


class Box(MeasurementDistribution):
    """Uniform over the box [low, high]."""

    low: Float[Array, " d"]
    high: Float[Array, " d"]

    @classmethod
    def around(cls, tasks: PaddedTasks, margin: float = 0.2) -> Box:
        """The box of the meta-training inputs, widened by `margin` of its length on each side per dimension."""
        points = _real_points(tasks)
        low, high = points.min(0), points.max(0)
        ends = (low - margin * (high - low), high + margin * (high - low))
        return cls(*(jnp.asarray(end, jnp.float32) for end in ends))

    def sample(self, key: PRNGKeyArray, k: int) -> Float[Array, "k d"]:
        return self.low + jax.random.uniform(key, (k, len(self.low))) * (self.high - self.low)


class DataDriven(MeasurementDistribution):
    """Known inputs, each draw jittered by N(0, jitter^2) per dimension with probability 1/2.

    Where inputs fill only a small part of their box, as lagged readings in 11 dimensions do, uniform points would
    nearly always fall where no function is ever asked for.
    """

    points: Float[Array, "N d"]
    jitter: Float[Array, " d"]

    @classmethod
    def around(cls, tasks: PaddedTasks, key: KeyLike, jitter: float = 0.2, limit: int = 4096) -> DataDriven:
        """The meta-training inputs, at most `limit` of them, with jitter relative to their standard deviation."""
        points = _real_points(tasks)
        scale = jitter * points.std(0)
        if len(points) > limit:
            points = points[as_generator(key).choice(len(points), limit, replace=False)]
        return cls(jnp.asarray(points, jnp.float32), jnp.asarray(scale, jnp.float32))

    def sample(self, key: PRNGKeyArray, k: int) -> Float[Array, "k d"]:
        row_key, coin_key, noise_key = jax.random.split(key, 3)
        rows = jax.random.randint(row_key, (k,), 0, len(self.points))
        moved = jax.random.bernoulli(coin_key, 0.5, (k, 1))
        return self.points[rows] + moved * self.jitter * jax.random.normal(noise_key, (k, len(self.jitter)))


Measurement = Literal["data", "box"]
"""Where functions are measured: at training inputs, half of them jittered, or uniformly in their box (the paper)."""


def measurement_around(kind: Measurement, tasks: PaddedTasks, key: KeyLike) -> MeasurementDistribution:
    """The measurement distribution of this kind for the meta-training tasks."""
    return Box.around(tasks) if kind == "box" else DataDriven.around(tasks, key)


def _real_points(tasks: PaddedTasks) -> np.ndarray:
    points = np.asarray(tasks.x)[np.asarray(tasks.mask)]
    if len(points) == 0:
        raise ValueError("A measurement distribution needs at least one meta-training input.")
    return points
