"""Forecasts judged by rolling origin: tasks held out, and no row of the future known, of any task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scoreprior._types import KeyLike
from scoreprior.diagnostics.splits import FEWEST_TASKS, HoldOut, random_fifth
from scoreprior.evaluation import METRICS
from scoreprior.tasks import TaskSet
from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.input_kinds import DateInput

if TYPE_CHECKING:
    import pandas

ORIGINS = 3
"""Most origins of each held-out task."""


def hold_out_forecasts(tasks: TaskSet, key: KeyLike, horizon: int, origins: int = ORIGINS) -> HoldOut:
    """A random fifth of the tasks held out, whose next rows are predicted at rolling origins.

    Where time is the calendar, the same for all tasks, the others are cut before the first row that is predicted: they
    must not tell what happens then. Where it is counted from each task's beginning, the future of a new task is the
    past of others, and they stay whole. Numbers are taken to count so.

    Args:
        tasks: at least five tasks whose rows run in time, at least two of them with more than `horizon` rows.
        key: which tasks are held out; the same key gives the same tasks.
        horizon: rows to predict.
        origins: most origins of each held-out task.

    Returns:
        `meta_train`, the other tasks, and `meta_test`, the pairs of `TaskSet.rolling_origin`.

    Example:
        ```python
        split = diagnostics.hold_out_forecasts(tasks, key=0, horizon=14)
        found = diagnostics.compare({"ridge": sp.learner("ridge")}, split, key=1)
        ```
    """
    usable = np.flatnonzero(tasks.sizes > horizon)
    if len(tasks) < FEWEST_TASKS or len(usable) < 2:
        raise TaskError(
            f"{len(tasks)} tasks, {len(usable)} of them with more than {horizon} rows, are too few to judge forecasts "
            f"of {horizon} rows; at least {FEWEST_TASKS} are needed, two of them so long."
        )
    held = random_fifth(len(tasks), usable, key)
    rest = tasks.take(np.setdiff1d(np.arange(len(tasks)), held))
    pairs = tasks.take(held).rolling_origin(horizon, origins)
    axis = _calendar_axis(tasks)
    if axis is None:
        return HoldOut(rest, pairs)
    first = np.array([task.x[0, axis] for task in pairs.target])
    runs = np.flatnonzero(_begins(np.array([task.name for task in pairs.target]), [len(c) for c in pairs.context]))
    cut = float(np.median(first[runs]))  # the earliest origin of a typical task: some tasks may have ended early
    known = [task.take(task.x[:, axis] < cut) for task in rest]
    meta_train = rest.take([at for at, task in enumerate(known) if len(task)]).map(
        lambda task: task.take(task.x[:, axis] < cut)
    )
    if len(meta_train) < 2 or meta_train.sizes.max() < 2:
        raise TaskError(f"Before the first row that is predicted there is too little to learn from; horizon {horizon}.")
    return HoldOut(meta_train, pairs.take(np.flatnonzero(first >= cut)))


def one_row_per_task(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Rows of `evaluate_pairs` on rolling origins of one method as one per task: its origins are not independent.

    RMSE is that of all predicted points of a task, the other metrics are means over them.
    """
    import pandas as pd  # here, since it takes a quarter of a second

    run = np.cumsum(_begins(rows["task"].to_numpy(), rows["n_context"].to_list()))
    found = []
    for position, (_, each) in enumerate(rows.groupby(run)):
        sizes, merged = each["n_target"].to_numpy(), each.iloc[-1].to_dict()
        merged |= {name: np.average(each[name], weights=sizes) for name in METRICS}
        merged["rmse"] = np.sqrt(np.average(each["rmse"] ** 2, weights=sizes))
        found.append(
            merged | {"position": position, "n_target": int(sizes.sum()), "pit": np.concatenate(each["pit"].to_list())}
        )
    return pd.DataFrame(found, columns=rows.columns)


def _begins(names: np.ndarray, known: list[int]) -> np.ndarray:
    """Where the pairs of another task begin: another name, or no more known rows than before."""
    later = np.diff(known) > 0
    return np.concatenate([[True], ~((names[1:] == names[:-1]) & later)])


def _calendar_axis(tasks: TaskSet) -> int | None:
    """The input that is calendar time, if rows run along dates that all tasks share."""
    encoding = tasks.encoding
    if encoding is None or encoding.leading is None:
        return None
    column = encoding.inputs[encoding.sources[encoding.leading]]
    return encoding.leading if isinstance(column, DateInput) and column.reference is not None else None
