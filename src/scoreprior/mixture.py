"""`Mixture`: what methods answer with inside, in standardised units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Mixture(NamedTuple):
    """A predictive in standardised units, in the fields of `Predictive`."""

    locs: Float[Array, "L q"]
    scales: Float[Array, "L q"] | None = None
    draws: Float[Array, "S q"] | None = None
    weights: Float[Array, " L"] | None = None
    function_scales: Float[Array, "L q"] | None = None

    @property
    def mean(self) -> Float[Array, " q"]:
        """Mixture mean."""
        return jnp.mean(self.locs, axis=0) if self.weights is None else self.weights @ self.locs

    def average_with(self, other: Mixture, weight: Float[Array, ""] | float = 0.5) -> Mixture:
        """The other one with this weight; draws are shifted to the mean of both, and keep their shapes."""
        both = mix([self, other], jnp.stack([1.0 - jnp.asarray(weight), jnp.asarray(weight)]))
        shift = weight * (other.mean - self.mean)
        return both._replace(draws=None if self.draws is None else self.draws + shift)


def mix(parts: Sequence[Mixture], weights: Float[Array, " n"]) -> Mixture:
    """sum_i weights[i] parts[i]; a point if any part is one, with draws if all parts have them.

    There are as many draws as the part with most has; each part gives its share of them, a short one repeats its own.
    """
    shares = [
        share * (jnp.full(len(part.locs), 1 / len(part.locs)) if part.weights is None else part.weights)
        for part, share in zip(parts, weights)
    ]
    draws = [part.draws for part in parts if part.draws is not None]
    return Mixture(
        jnp.concatenate([part.locs for part in parts]),
        _joined([part.scales for part in parts]),
        _proportional(draws, weights) if len(draws) == len(parts) else None,
        jnp.concatenate(shares),
        _joined([part.function_scales for part in parts]),
    )


def _joined(scales: Sequence[Float[Array, "_ q"] | None]) -> Float[Array, "L q"] | None:
    there = [each for each in scales if each is not None]
    return jnp.concatenate(there) if len(there) == len(scales) else None


def _proportional(draws: Sequence[Float[Array, "_ q"]], weights: Float[Array, " n"]) -> Float[Array, "S q"]:
    sizes = np.array([len(each) for each in draws])
    slots = (jnp.arange(sizes.max()) + 0.5) / sizes.max()
    part = jnp.searchsorted(jnp.cumsum(weights)[:-1], slots)
    rank = jnp.arange(sizes.max()) - jnp.searchsorted(part, part)  # among the slots of the same part
    starts = np.cumsum(sizes) - sizes
    return jnp.concatenate(draws)[jnp.asarray(starts)[part] + rank % jnp.asarray(sizes)[part]]
