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
    of a calm one. The factor's logarithm is linear between the `levels` and constant beyond them.
    """

    levels: Float[Array, " k"]
    by_level: Float[Array, " k"]
    by_surprise: Float[Array, ""]

    def __call__(self, mean: Float[Array, " q"], surprise: Float[Array, ""]) -> Float[Array, " q"]:
        log_factor = jnp.interp(mean, self.levels, self.by_level) + self.by_surprise * surprise
        return jnp.exp(_MOST * jnp.tanh(log_factor / _MOST))


def surprise(squares: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
    """Of points whose whitened residuals have this sum of squares: 0 as expected, below for calm, above for wild."""
    return jnp.log((_USUAL + squares) / (_USUAL + count))
