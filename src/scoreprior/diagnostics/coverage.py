"""`Coverage`: the share of points in the 90% interval, and what it says of the error bars.

Standard errors are over tasks, because the points of one task miss together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from scoreprior._types import KeyLike
from scoreprior.diagnostics.splits import FEWEST_TASKS
from scoreprior.evaluation import evaluate_pairs
from scoreprior.learners import Prior
from scoreprior.tasks import ContextTarget, Task, TaskSet

if TYPE_CHECKING:
    import pandas

Verdict: TypeAlias = Literal["no error bars", "too few tasks", "too narrow", "too wide", "unclear", "right"]
"""What the share of points in the 90% interval says of the error bars."""


class Coverage(NamedTuple):
    """Share of points in the 90% interval, its standard error over tasks, and how many tasks and points there were."""

    share: float
    standard_error: float
    tasks: int
    points: int

    @classmethod
    def of(cls, rows: pandas.DataFrame) -> Coverage:
        """Coverage of the predictions in the rows of `evaluate_pairs`."""
        sizes = rows["n_target"]
        share = float(np.average(rows["coverage90"], weights=sizes))
        return cls(share, standard_error(rows["coverage90"]), len(rows), int(sizes.sum()))

    @property
    def verdict(self) -> Verdict:
        """What it says of the error bars: `judge_coverage`."""
        return judge_coverage(*self)


def judge_coverage(coverage: float, error: float, tasks: int, points: int) -> Verdict:
    """What the share of points in the 90% interval says of the error bars; two standard errors are chance.

    Args:
        coverage: share of points in the 90% interval; NaN for a method without error bars.
        error: its standard error over tasks.
        tasks: number of tasks; fewer than five say nothing.
        points: number of points in all.

    Returns:
        "too narrow" or "too wide" where coverage is not 0.9 beyond chance; "right" where chance is at most a tenth,
        else "unclear"; or "no error bars", "too few tasks". "too wide" is the less certain of the two for a few tens of
        tasks: where whole tasks miss, the shares of tasks are skewed.

    Example:
        ```python
        sp.judge_coverage(0.78, error=0.03, tasks=40, points=400)  # "too narrow"
        ```
    """
    if not np.isfinite(coverage):
        return "no error bars"
    if tasks < FEWEST_TASKS or not np.isfinite(error):
        return "too few tasks"
    # With all tasks alike the spread over tasks is zero, yet the number of points still limits what can be said.
    chance = 2 * max(error, float(np.sqrt(0.09 / points)))
    if abs(coverage - 0.9) > chance:
        return "too narrow" if coverage < 0.9 else "too wide"
    return "unclear" if chance > 0.1 else "right"


def coverage_without_points(prior: Prior, tasks: TaskSet, key: KeyLike) -> Coverage:
    """Coverage of the prior's own 90% interval, before any point of a task is known.

    Args:
        prior: a fitted prior.
        tasks: tasks that it has not seen, all points of which are predicted.
        key: randomness of conditioning on nothing.

    Returns:
        The share of all points in the interval, with its standard error.

    Example:
        ```python
        coverage_without_points(prior, new_tasks, key=0).verdict
        ```
    """
    nothing = TaskSet([Task(np.zeros((0, tasks.dim)), np.zeros(0))] * len(tasks), allow_empty=True)
    return Coverage.of(evaluate_pairs(prior, ContextTarget(nothing, tasks), key))


def standard_error(values: pandas.Series) -> float:
    """Standard error of the mean of values (n,), std / sqrt(n); NaN of a single one."""
    return float(values.std(ddof=1, skipna=False) / np.sqrt(len(values)))
