"""How wide predictives are beside what a Gaussian process says, which knows neither ceilings nor restless tasks."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

_MOST = 1.6
"""Logarithms of factors stay below this: five-fold, either way."""
_USUAL = 10.0
"""So many unsurprising points are imagined beside those of a task: two or three say little."""


class Widths(eqx.Module):
    """Factors on a predictive's width, by the level that is predicted and by how surprising the task has been.

    A Gaussian process is as uncertain at the ceiling of a scale as in its middle, and as certain of a restless task as
    of a calm one. The factor's logarithm is linear between the `levels` and constant beyond them. Levels count as far
    as a point is `known`, from 0 (all the prior's variance is left) to 1 (none): the prior's own level says nothing.
    """

    levels: Float[Array, " k"]
    by_level: Float[Array, " k"]
    by_surprise: Float[Array, ""]

    def __call__(
        self, mean: Float[Array, " q"], known: Float[Array, " q"], surprise: Float[Array, ""]
    ) -> Float[Array, " q"]:
        log_factor = known * jnp.interp(mean, self.levels, self.by_level) + self.by_surprise * surprise
        return jnp.exp(_MOST * jnp.tanh(log_factor / _MOST))


def known(variance: Float[Array, " q"], prior_variance: Float[Array, " q"]) -> Float[Array, " q"]:
    """How much of each point's standard deviation the known points explain: the square root of the variance's share."""
    return jnp.sqrt(jnp.maximum(1 - variance / prior_variance, 0.0))


def surprise(squares: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
    """Of points whose whitened residuals have this sum of squares: 0 as expected, below for calm, above for wild."""
    return jnp.log((_USUAL + squares) / (_USUAL + count))
