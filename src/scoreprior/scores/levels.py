"""Noise levels: how much noise the score of the moment is of, from the first step of an inference to the last."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class NoiseLevels(eqx.Module):
    """From `coarse` down to `fine`, geometrically, there at two thirds; without a coarse level, `fine` throughout."""

    fine: Float[Array, ""]
    coarse: Float[Array, ""] | None = None

    def __call__(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """The level at `progress` in [0, 1]."""
        if self.coarse is None:
            return self.fine
        done = jnp.minimum(1.5 * progress, 1.0)
        return self.coarse ** (1 - done) * self.fine**done
