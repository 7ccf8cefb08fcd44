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


class PointNoise(NamedTuple):
    """What is known of the noise of each point: its variance is that of the process over `replicates`, plus `variance`.

    Padding has variance 0 and one replicate.
    """

    variance: Float[Array, "*n m"]
    replicates: Float[Array, "*n m"]


class PaddedTasks(NamedTuple):
    """A rectangular batch: x (n, m, d), y (n, m), mask (n, m) true where a point is real; padding is zero.

    `noise` is what is known of the noise of its points, and `weight` (n,) how much tasks count in learning; None where
    they are all alike.
    """

    x: Float[Array, "*n m d"]
    y: Float[Array, "*n m"]
    mask: Bool[Array, "*n m"]
    noise: PointNoise | None = None
    weight: Float[Array, "*n"] | None = None

    def without(self, rows: Int[np.ndarray, " b"]) -> PaddedTasks:
        """The same batch with no point of these tasks: its shape, and so what is compiled for it, stays."""
        mask = np.array(self.mask)
        mask[rows] = False
        return self._replace(mask=mask)  # type: ignore[arg-type]

    def at_most(self, points: int, key: PRNGKeyArray) -> PaddedTasks:
        """The same batch with at most so many points of each task, chosen at random and in their order."""
        kept = self.some_points(points, key)
        chosen = jax.tree.map(lambda leaf: points_at(leaf, kept), self._replace(weight=None))
        return chosen._replace(weight=self.weight)

    def take(self, rows: Any) -> PaddedTasks:
        """The same with only these entries of the first axis, of tasks or, in a single task, of points."""
        return jax.tree.map(lambda leaf: leaf[rows], self)

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
    arrays: Any = (x, y, mask, pad_noise(tasks, size, dtype))
    batch = PaddedTasks(*arrays)
    if any(task.weight != 1 for task in tasks):
        batch = batch._replace(weight=np.array([task.weight for task in tasks], dtype))  # type: ignore[arg-type]
    return batch if dtype == np.float64 else jax.tree.map(jnp.asarray, batch)


def pad_noise(tasks: Sequence[Task], size: int, dtype: type[np.floating]) -> PointNoise | None:
    """What is known of the noise of the tasks' points; None if nothing is."""
    if not any(task.noise_is_known for task in tasks):
        return None
    variance, replicates = np.zeros((len(tasks), size), dtype), np.ones((len(tasks), size), dtype)
    for i, task in enumerate(tasks):
        variance[i, : len(task)] = 0.0 if task.noise is None else task.noise**2
        replicates[i, : len(task)] = 1.0 if task.replicates is None else task.replicates
    return PointNoise(variance, replicates)  # type: ignore[arg-type]


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
