"""A prior's functions of one task, compiled for many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from scoreprior._compilation import LEVEL_1
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks

if TYPE_CHECKING:
    from scoreprior.learners._base import Prior


def groups_by_size(sizes: Int[np.ndarray, " n"], least: int) -> list[Int[np.ndarray, " k"]]:
    """Positions of tasks to pad together: small ones apart from large ones, where at least so many are small.

    The smallest tasks have up to 8 points, the next ones up to 16, and so on; too few go with the next larger ones.
    """
    rest, groups, width = np.arange(len(sizes)), [], 8
    while width < sizes.max():
        small = sizes[rest] <= width
        if small.sum() >= least:
            groups.append(rest[small])
            rest = rest[~small]
        width *= 2
    return [*groups, rest]


def infer_in_chunks(prior: Prior, batch: PaddedTasks, keys: PRNGKeyArray, size: int) -> PyTree:
    """`infer_many` in chunks of one size, the last filled up with repeats: one shape compiles, whatever the number."""
    n = len(keys)
    if n <= size:
        return infer_many(prior, batch, keys)
    rows = np.minimum(np.arange(-(-n // size) * size), n - 1).reshape(-1, size)
    states = [infer_many(prior, PaddedTasks(*(leaf[chosen] for leaf in batch)), keys[chosen]) for chosen in rows]
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
def evaluate_many(prior: Prior, state: PyTree, x: Float[Array, "n q d"]) -> Mixture:
    """Predictives of a batch of tasks, in one compiled call."""
    return jax.vmap(prior.evaluate)(state, x)
