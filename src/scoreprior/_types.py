"""Array aliases with named axes, and the two hinges of the package as Protocols.

Axes: n tasks, m points of a task, d input dimensions, k measurement points, q query points, L particles.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

KeyLike: TypeAlias = int | PRNGKeyArray | Array
"""An explicit source of randomness: an int (made into a key) or a JAX key. Never defaulted."""

Inputs: TypeAlias = Float[np.ndarray, "m d"]
Targets: TypeAlias = Float[np.ndarray, " m"]


@runtime_checkable
class Score(Protocol):
    """Hinge 1: s(f, x, noise) ~ grad_f log p(f^X + noise * eps), the score of a noised marginal at the set x.

    `noise` is a standard deviation, one for all points or one for each, in standardised units; a score that was learned
    at a single level takes no account of it.
    """

    def __call__(
        self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]
    ) -> Float[Array, " k"]: ...


def as_key(key: KeyLike) -> PRNGKeyArray:
    """A typed JAX key from an int, a typed key or a raw uint32 key."""
    if isinstance(key, bool) or key is None:
        raise TypeError(f"key must be an int or a JAX key, not {key!r}.")
    if isinstance(key, (int, np.integer)):
        return jax.random.key(int(key))
    if isinstance(key, jax.Array) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array) and key.dtype == np.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key)
    raise TypeError(f"key must be an int or a JAX key, not {type(key).__name__}.")


def as_generator(key: KeyLike) -> np.random.Generator:
    """A NumPy generator seeded by the key, for draws outside JAX: nothing to compile for a new shape."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).tolist())
