"""`PaddedTasks`: tasks of different sizes as one rectangular batch with a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.task import Task


class PaddedTasks(NamedTuple):
    """A rectangular batch: x (n, m, d), y (n, m), mask (n, m) true where a point is real; padding is zero."""

    x: Float[Array, "*n m d"]
    y: Float[Array, "*n m"]
    mask: Bool[Array, "*n m"]

    def without(self, rows: Int[np.ndarray, " b"]) -> PaddedTasks:
        """The same batch with no point of these tasks: its shape, and so what is compiled for it, stays."""
        mask = np.array(self.mask)
        mask[rows] = False
        return self._replace(mask=mask)  # type: ignore[arg-type]

    def at_most(self, points: int, key: PRNGKeyArray) -> PaddedTasks:
        """The same batch with at most so many points of each task, chosen at random and in their order."""
        kept = self.some_points(points, key)
        return PaddedTasks(*(points_at(leaf, kept) for leaf in self))

    def some_points(self, points: int, key: PRNGKeyArray) -> Int[Array, "n k"] | None:
        """Which points `at_most` chooses: positions in each task, or None for all."""
        if self.x.shape[1] <= points:
            return None
        # Random points, not evenly spaced ones: some are neighbours, which tell noise from roughness.
        lots = jnp.where(self.mask, jax.random.uniform(key, self.mask.shape), 2.0)
        return jnp.sort(jnp.argsort(lots, axis=1)[:, :points], axis=1)


def pad(tasks: Sequence[Task], size: int | None, dtype: type[np.floating]) -> PaddedTasks:
    """One batch of the tasks, padded to `size` points or to the largest."""
    largest = max(1, *map(len, tasks))
    size = largest if size is None else size
    if size < largest:
        raise TaskError(f"Tasks of up to {largest} points do not fit a batch of size {size}.")
    x = np.zeros((len(tasks), size, tasks[0].dim), dtype)
    y = np.zeros((len(tasks), size), dtype)
    mask = np.zeros((len(tasks), size), bool)
    for i, task in enumerate(tasks):
        x[i, : len(task)], y[i, : len(task)], mask[i, : len(task)] = task.x, task.y, True
    if dtype == np.float64:
        return PaddedTasks(x, y, mask)  # type: ignore[arg-type]
    return PaddedTasks(jnp.asarray(x), jnp.asarray(y), jnp.asarray(mask))


def points_at(leaf: Any, kept: Int[Array, "n k"] | None) -> Any:
    """What belongs to the chosen points of each task, of an array with a value for every point."""
    if kept is None:
        return leaf
    if isinstance(leaf, np.ndarray):  # JAX would drop double precision
        return leaf[np.arange(len(leaf))[:, None], np.asarray(kept)]
    return jax.vmap(lambda row, chosen: row[chosen])(leaf, kept)


def bucket(size: int) -> int:
    """The padded size for `size` points: 4, 6, 8, 12, 16, 24, ...: few shapes to compile, little padding."""
    power = 4
    while power < size:
        if power * 3 // 2 >= size:
            return power * 3 // 2
        power *= 2
    return power
