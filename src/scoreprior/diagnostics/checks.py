"""`Check`: error and calibration of a fitted prior on tasks with known answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scoreprior._types import KeyLike
from scoreprior.diagnostics.coverage import Coverage, Verdict, coverage_without_points
from scoreprior.diagnostics.forecasts import one_row_per_task, runs
from scoreprior.diagnostics.pit_moments import PitMoments
from scoreprior.diagnostics.splits import halves
from scoreprior.evaluation import evaluate_pairs, summarise
from scoreprior.learners import Prior, learner
from scoreprior.tasks import TaskSet

if TYPE_CHECKING:
    import pandas

TASK_RULES = ("last-value", "context-mean")
"""Rules whose error depends on nothing but the task itself, so that they need no training tasks."""


@dataclass(frozen=True, eq=False)
class Check:
    """Error and calibration of a prior on tasks with known answers.

    Args:
        rows: those of `evaluate_pairs`, one per task with two points or more.
        coverage_without_points: share of all points in the 90% interval of the prior alone.
        rules: RMSE of rules that need no training, by name; empty if there is one task only.
    """

    rows: pandas.DataFrame
    coverage_without_points: float
    rules: dict[str, float]

    @property
    def summary(self) -> pandas.Series:
        """The numbers by name: means over tasks; calibration and coverage over the points of all tasks.

        rmse, nll and coverage90 have standard errors (`_se`). `calibration_floor` is the calibration error of a perfect
        predictor. What needs a distribution is NaN for a point predictor.
        """
        line, pits = summarise(self.rows).iloc[0], np.concatenate(self.rows["pit"].to_list())
        numbers = {
            **line[["rmse", "rmse_se", "nll", "nll_se", "crps"]],
            "calibration_error": line["pooled_calibration_error"],
            "calibration_floor": line["pooled_calibration_floor"],
            "coverage50": np.mean(np.abs(pits - 0.5) <= 0.25) if np.isfinite(pits).all() else np.nan,
            "coverage90": self.coverage.share,
            "coverage90_se": self.coverage.standard_error,
            "coverage90_without_points": self.coverage_without_points,
            "width90": line["width90"],
        }
        import pandas as pd  # here, since it takes a quarter of a second

        return pd.Series(numbers, dtype=float)

    @property
    def coverage(self) -> Coverage:
        """Coverage of the 90% interval."""
        return Coverage.of(self.rows)

    def __repr__(self) -> str:
        found = self.coverage
        return f"Check(tasks={found.tasks}, points={found.points}, coverage90={found.share:.2f}, {found.verdict!r})"

    @property
    def moments(self) -> PitMoments | None:
        """Whether centre, width or shape of the predictions are wrong; None where too few tasks can tell."""
        return PitMoments.of(self.rows["pit"].to_list())

    @property
    def verdict(self) -> Verdict:
        """What the coverage says of the error bars."""
        return self.coverage.verdict


def check(prior: Prior, tasks: TaskSet, key: KeyLike, *, horizon: int | None = None) -> Check:
    """Condition a prior on the first half of every task, predict the second, compare with what was observed.

    With a horizon, the next rows are predicted at rolling origins instead (`TaskSet.rolling_origin`).

    Args:
        prior: a fitted prior.
        tasks: tasks with known answers that the prior has not seen; those with a single point are left out, except
            where no point is known.
        key: randomness of conditioning.
        horizon: rows to predict at each origin.

    Returns:
        A `Check`: `.summary`, `.coverage`, `.verdict`, `.coverage_without_points` and the RMSE of `.rules`.

    Example:
        ```python
        found = sp.check(prior, new_tasks, key=0)
        found.summary["rmse"], found.verdict
        ```
    """
    if not isinstance(prior, Prior):
        raise TypeError(f"A fitted Prior is needed, not a {type(prior).__name__}; fit it first.")
    pairs = halves(tasks) if horizon is None else tasks.rolling_origin(horizon)
    rows = evaluate_pairs(prior, pairs, key)
    if horizon is not None:
        rows = one_row_per_task(rows, runs(pairs))
    names = TASK_RULES if len(tasks) > 1 else ()  # no meta-learner fits to a single task, not even a rule
    frames = {name: evaluate_pairs(learner(name), pairs, key, meta_train=tasks) for name in names}
    if horizon is not None:
        frames = {name: one_row_per_task(frame, runs(pairs)) for name, frame in frames.items()}
    errors = {name: float(frame["rmse"].mean()) for name, frame in frames.items()}
    return Check(rows, coverage_without_points(prior, tasks, key).share, errors)
