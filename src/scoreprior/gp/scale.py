"""Scale calibration: factors on a Gaussian process's predictive scale, by level and by surprise."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

_LARGEST_LOG_FACTOR = 1.6
"""Factors stay between a fifth and five."""
_PSEUDO_POINTS = 10.0
"""So many points of average surprise are counted beside those of a task: two or three say little."""


class ScaleCalibration(eqx.Module):
    """Factors on a predictive's scale, by the level that is predicted and by how surprising the task's points are.

    A Gaussian process is as uncertain at the ceiling of a bounded scale as in its middle, and as certain of a volatile
    task as of a calm one. The factor's logarithm is linear between the `levels` and constant beyond them. The level
    counts by the explained fraction, from 0 (all the prior's variance is left) to 1 (none): the prior's own level says
    nothing.
    """

    levels: Float[Array, " k"]
    by_level: Float[Array, " k"]
    by_surprise: Float[Array, ""]

    def __call__(
        self, mean: Float[Array, " q"], explained: Float[Array, " q"], surprise: Float[Array, ""]
    ) -> Float[Array, " q"]:
        """The factors at q points."""
        log_factor = explained * jnp.interp(mean, self.levels, self.by_level) + self.by_surprise * surprise
        return jnp.exp(_LARGEST_LOG_FACTOR * jnp.tanh(log_factor / _LARGEST_LOG_FACTOR))


def explained_fraction(variance: Float[Array, " q"], prior_variance: Float[Array, " q"]) -> Float[Array, " q"]:
    """sqrt(1 - variance / prior variance): how much of each point's standard deviation the known points explain."""
    return jnp.sqrt(jnp.maximum(1 - variance / prior_variance, 0.0))


def surprise(squares: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
    """log of the mean whitened square, shrunk to 0: 0 as expected, below for calm tasks, above for volatile ones."""
    return jnp.log((_PSEUDO_POINTS + squares) / (_PSEUDO_POINTS + count))
