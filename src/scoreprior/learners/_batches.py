"""A prior's functions of one task, compiled for many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._compilation import LEVEL_1
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, PointNoise

if TYPE_CHECKING:
    from scoreprior.learners._base import Prior


def infer_in_chunks(prior: Prior, batch: PaddedTasks, keys: PRNGKeyArray, size: int) -> PyTree:
    """`infer_many` in chunks of one size, the last filled up with repeats: one shape compiles, whatever the number."""
    n = len(keys)
    if n <= size:
        return infer_many(prior, batch, keys)
    rows = np.minimum(np.arange(-(-n // size) * size), n - 1).reshape(-1, size)
    states = [infer_many(prior, batch.take(chosen), keys[chosen]) for chosen in rows]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:n], *states)


@eqx.filter_jit(**LEVEL_1)
def infer_many(prior: Prior, batch: PaddedTasks, keys: PRNGKeyArray) -> PyTree:
    """Posterior states of a batch of tasks, in one compiled call."""
    return jax.vmap(prior.infer)(batch, keys)


@eqx.filter_jit
def draw_many(prior: Prior, state: PyTree, x: Float[Array, "q d"], keys: PRNGKeyArray) -> Float[Array, "n q"]:
    """Joint draws of one task, in one compiled call."""
    return jax.vmap(lambda key: prior.draw(state, x, key))(keys)


@eqx.filter_jit
def evaluate_many(prior: Prior, state: PyTree, x: Float[Array, "n q d"], noise: PointNoise | None = None) -> Mixture:
    """Predictives of a batch of tasks, in one compiled call."""
    return jax.vmap(prior.evaluate)(state, x, *(() if noise is None else (noise,)))
