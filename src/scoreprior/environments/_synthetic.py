"""What the simulated environments share: the seeds, the three parts, and one-dimensional inverse CDFs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from scoreprior.environments._base import check_tasks
from scoreprior.tasks import ContextTarget, Task, TaskSet
from scoreprior.tasks.checks import TaskError

Draw: TypeAlias = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""One random task of m points: draw(rng, m) -> x (m,), y (m,)."""

X_RANGE = (-5.0, 5.0)


class Parts(NamedTuple):
    """Meta-training, meta-validation and meta-testing tasks."""

    train: TaskSet
    valid: ContextTarget
    test: ContextTarget


def simulate(
    draw: Draw,
    stream: int,
    split: int,
    *,
    tasks: int,
    points: int,
    n_valid: int,
    n_test: int,
    n_target: int,
    n_context: int | None = None,
) -> Parts:
    """`tasks` training tasks of `points` points; valid and test tasks of `n_context` (default: as many) known
    and `n_target` target points; all independent.

    Task i of part p (0 train, 1 valid, 2 test) is drawn by `default_rng([stream, split, p, i])`, so it does
    not change with the number of tasks in its own part or in the others.
    """

    known = points if n_context is None else n_context

    def part_of(part: int, label: str, n: int, m: int) -> TaskSet:
        drawn = [draw(np.random.default_rng([stream, split, part, i]), m) for i in range(n)]
        members = [Task(x, y, f"{label} {i}") for i, (x, y) in enumerate(drawn)]
        return TaskSet(members, input_names=("x",), target_name="y")

    def cut(part: int, label: str, n: int) -> ContextTarget:
        return part_of(part, label, n, known + n_target).context_target(known)

    return Parts(part_of(0, "train", check_tasks(tasks), points), cut(1, "valid", n_valid), cut(2, "test", n_test))


def describe(parts: Parts) -> str:
    """The sizes of the parts, for a card."""
    context, target = parts.test.context.sizes[0], parts.test.target.sizes[0]
    return (
        f"{len(parts.train)} training tasks of {parts.train.sizes[0]} points; {len(parts.valid)} validation "
        f"and {len(parts.test)} test tasks with {context} context and {target} target points."
    )


def check_context(context: Task) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """x (m,) and y (m,) of a context with one input, possibly with no point."""
    if context.dim != 1:
        raise TaskError(f"{context.name} has {context.dim} input columns; this environment has one.")
    return context.x[:, 0], context.y


def quantiles(
    edges: Float[np.ndarray, " edges"],
    log_density: Float[np.ndarray, "... cells"],
    levels: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Quantiles (n,) of densities that are constant on cells: one density, or one row per level."""
    mass = np.exp(log_density - log_density.max(-1, keepdims=True))
    cdf = np.cumsum(mass, axis=-1) / mass.sum(-1, keepdims=True)
    rows = np.broadcast_to(cdf, (len(levels), cdf.shape[-1]))
    # The cell that holds a level, then the place in the cell by its share of the cell's mass.
    cell = np.minimum((rows < levels[:, None]).sum(-1), cdf.shape[-1] - 1)
    above = np.take_along_axis(rows, cell[:, None], -1)[:, 0]
    below = np.where(cell > 0, np.take_along_axis(rows, np.maximum(cell - 1, 0)[:, None], -1)[:, 0], 0.0)
    share = np.clip((levels - below) / np.maximum(above - below, np.finfo(float).tiny), 0.0, 1.0)
    return edges[cell] + share * (edges[cell + 1] - edges[cell])


def equal_mass_means(
    values: Float[np.ndarray, " cells"], log_weights: Float[np.ndarray, " cells"], n: int
) -> Float[np.ndarray, " n"]:
    """Means (n,) of n parts of equal mass of a weighted, increasing sample; they keep its overall mean."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mass = np.concatenate([[0.0], np.cumsum(weights)])
    moment = np.concatenate([[0.0], np.cumsum(weights * values)])
    return n * np.diff(np.interp(np.linspace(0.0, mass[-1], n + 1), mass, moment))
