"""Forecasts judged by rolling origin: tasks left out, and no row of the future known, of any task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from scoreprior._types import KeyLike
from scoreprior.diagnostics.splits import FEWEST_TASKS, FOLDS, Fold, TooFewTasksError, fold_rows
from scoreprior.evaluation import METRICS
from scoreprior.tasks import ContextTarget, TaskSet
from scoreprior.tasks.input_kinds import DateInput

if TYPE_CHECKING:
    import pandas

ORIGINS = 3
"""Most origins of each held-out task."""


def forecast_folds(
    tasks: TaskSet, key: KeyLike, horizon: int, number: int = FOLDS, origins: int = ORIGINS
) -> list[Fold]:
    """Folds of tasks, each left out of the others once, whose next rows are predicted at rolling origins.

    Where time is the calendar, the same for all tasks, the others are cut before the first row that is predicted: they
    must not tell what happens then. Where it is counted from each task's beginning, the future of a new task is the
    past of others, and they stay whole. Numbers are taken to count so.

    Args:
        tasks: at least five tasks whose rows run in time, at least two of them with more than `horizon` rows.
        key: which tasks are left out together; the same key gives the same folds.
        horizon: rows to predict.
        number: of folds, from 1 to 5.
        origins: most origins of each left-out task.

    Returns:
        Folds whose `meta_test` are the pairs of `TaskSet.rolling_origin`.

    Example:
        ```python
        fold = diagnostics.forecast_folds(tasks, key=0, horizon=14)[0]
        rows = sp.evaluate_pairs(sp.learner("ridge"), fold.meta_test, key=1, meta_train=fold.meta_train)
        ```
    """
    usable = np.flatnonzero(tasks.sizes > horizon)
    if len(tasks) < FEWEST_TASKS or len(usable) < 2:
        raise TooFewTasksError(
            f"{len(tasks)} tasks, {len(usable)} of them with more than {horizon} rows, are too few to judge forecasts "
            f"of {horizon} rows; at least {FEWEST_TASKS} are needed, two of them so long."
        )
    return [_fold(tasks, held, horizon, origins) for held in fold_rows(usable, key, number)]


def _fold(tasks: TaskSet, held: Int[np.ndarray, " h"], horizon: int, origins: int) -> Fold:
    rest = tasks.take(np.setdiff1d(np.arange(len(tasks)), held))
    pairs = tasks.take(held).rolling_origin(horizon, origins)
    owners, axis = held[runs(pairs)], _calendar_axis(tasks)
    if axis is None:
        return Fold(rest, pairs, owners)
    first = np.array([task.x[0, axis] for task in pairs.target])
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    cut = float(np.median(first[begins]))  # the earliest origin of a typical task: some tasks may have ended early
    known = [task.take(task.x[:, axis] < cut) for task in rest]
    meta_train = rest.take([at for at, task in enumerate(known) if len(task)]).map(
        lambda task: task.take(task.x[:, axis] < cut)
    )
    if len(meta_train) < 2 or meta_train.sizes.max() < 2:
        raise TooFewTasksError(
            f"Before the first row that is predicted there is too little to learn from; horizon {horizon}."
        )
    later = np.flatnonzero(first >= cut)
    return Fold(meta_train, pairs.take(later), owners[later])


def runs(pairs: ContextTarget) -> Int[np.ndarray, " p"]:
    """Which task, counted from 0, each pair of `TaskSet.rolling_origin` is of."""
    names = np.array([task.name for task in pairs.context])
    # Another name, or no more known rows than before: names need not be unique.
    begins = (names[1:] != names[:-1]) | (np.diff(pairs.context.sizes) <= 0)
    return np.concatenate([[0], np.cumsum(begins)])


def one_row_per_task(rows: pandas.DataFrame, owners: Int[np.ndarray, " p"]) -> pandas.DataFrame:
    """Rows of `evaluate_pairs` of one method as one for each of the owners: origins of a task are not independent.

    RMSE is that of all predicted points of a task, the other metrics are means over them.
    """
    import pandas as pd  # here, since it takes a quarter of a second

    found = []
    for owner, each in rows.groupby(owners):
        sizes, merged = each["n_target"].to_numpy(), each.iloc[-1].to_dict()
        merged |= {name: np.average(each[name], weights=sizes) for name in METRICS}
        merged["rmse"] = np.sqrt(np.average(each["rmse"] ** 2, weights=sizes))
        found.append(
            merged | {"position": owner, "n_target": int(sizes.sum()), "pit": np.concatenate(each["pit"].to_list())}
        )
    return pd.DataFrame(found, columns=rows.columns)


def _calendar_axis(tasks: TaskSet) -> int | None:
    """The input that is calendar time, if rows run along dates that all tasks share."""
    encoding = tasks.encoding
    if encoding is None or encoding.leading is None:
        return None
    column = encoding.inputs[encoding.sources[encoding.leading]]
    return encoding.leading if isinstance(column, DateInput) and column.reference is not None else None
