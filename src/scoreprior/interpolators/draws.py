"""`FunctionDraws`: what score matching learns from, functions of many tasks at one random measurement set."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from scoreprior.inference.measurement import MeasurementDistribution
from scoreprior.interpolators._base import FittedInterpolator


class FunctionDraws(eqx.Module):
    """One measurement set X ~ nu^k for a batch of the tasks, and one function f_i ~ p(f | D_i) of each.

    Args:
        fitted: the tasks' interpolators.
        measurement: nu.
        points: k.
        batch: functions of a draw, each of another task.
    """

    fitted: FittedInterpolator
    measurement: MeasurementDistribution
    points: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    count: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        fitted: FittedInterpolator,
        measurement: MeasurementDistribution,
        points: int,
        batch: int | None,
        chosen: Int[np.ndarray, " n"],
    ) -> FunctionDraws:
        """Draws of the chosen tasks; a batch of None is all of them."""
        # By NumPy: JAX compiles a program for every shape.
        states = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], fitted.states)
        some = eqx.tree_at(lambda f: f.states, fitted, states)
        size = len(chosen) if batch is None else min(batch, len(chosen))
        return cls(some, measurement, points, size, len(chosen))

    @property
    def dim(self) -> int:
        """Number of input dimensions d."""
        return jax.eval_shape(lambda: self.measurement.sample(jax.random.key(0), 1)).shape[1]

    def sample(self, key: PRNGKeyArray) -> tuple[Float[Array, "b k"], Float[Array, "k d"]]:
        """Function values, and the measurement set."""
        task_key, point_key, draw_key = jax.random.split(key, 3)
        states = self.fitted.states
        if self.batch < self.count:
            chosen = jax.random.choice(task_key, self.count, (self.batch,), replace=False)
            states = jax.tree.map(lambda leaf: leaf[chosen], states)
        x = self.measurement.sample(point_key, self.points)
        keys = jax.random.split(draw_key, self.batch)
        return jax.vmap(self.fitted.draw, in_axes=(0, None, 0))(states, x, keys), x
