"""Where `scoreprior predict` is asked to predict: the rows of a table, or a grid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from scoreprior.cli._console import CallError, Talk, count
from scoreprior.cli._forecasts import next_rows
from scoreprior.cli._notes import Notes, line
from scoreprior.cli._tables import ONLY_TASK, Columns
from scoreprior.learners import Prior
from scoreprior.tasks import InputEncoding, Task
from scoreprior.tasks.columns import Column, Instants, Numbers, Words
from scoreprior.tasks.dates import date_texts
from scoreprior.tasks.encoding import Starts
from scoreprior.tasks.files import TableError, read_table
from scoreprior.tasks.input_kinds import CategoryInput, DateInput

if TYPE_CHECKING:
    import pandas as pd

GRID = 200
"""Points of the grid that is predicted without --at: enough to see a daily cycle in a week of readings."""


@dataclass(frozen=True, eq=False)
class Query:
    """Where one task is asked for.

    Args:
        inputs: the columns as they were given, of q rows.
        x: inputs (q, d), NaN where the table had a gap.
        rows: the rows of the answer, (q,).
    """

    task: str
    inputs: tuple[Column, ...]
    x: Float[np.ndarray, "q d"]
    rows: Int[np.ndarray, " q"]


@dataclass(frozen=True, eq=False)
class Known:
    """The table of known points.

    Args:
        tasks: known points of every task of the table, possibly none.
        starts: the first dates of tasks, where time is counted from there.
        whole: whether the table is one task.
    """

    tasks: dict[str, Task]
    starts: Starts | None
    whole: bool


def find_queries(
    talk: Talk, prior: Prior, notes: Notes, columns: Columns, encoding: InputEncoding, known: Known, at: Path | None
) -> list[Query]:
    """One query per task: the rows of `at` (all of them for every task, if they name none), or a grid."""
    names = list(known.tasks) or [ONLY_TASK]
    if at is None and notes.horizon is not None and encoding.time is not None:
        return _for_all(_forecasts(talk, encoding, known, notes.horizon), encoding, known)
    if at is None:
        return _for_all([(name, _grid(prior, notes, encoding, known.starts, name)) for name in names], encoding, known)
    table = read_table(at, (), inputs=columns.inputs, kinds=encoding.kinds, label=columns.task, need_label=False)
    for note in table.notes:
        talk.say(f"{at}: {note}")
    encoding.warn_unknown(table.inputs, stacklevel=1)
    labels = table.labels if table.labels is not None else ["?"] * len(table)
    nameless = np.array([label == "" for label in labels], bool)
    complete = np.all([column.present() for column in table.inputs], axis=0) & ~nameless
    if not complete.all():
        gaps = count(int((~complete).sum()), "row")
        talk.warn(f"{gaps} of {at} without an input or its task: the predictions there are left blank.")
    if table.labels is None:
        return _for_all([(name, table.inputs) for name in names], encoding, known)
    if known.whole and known.tasks:
        raise TableError(
            f"{str(at)!r} names tasks in column {columns.task!r}, but the table of known points has no such column: "
            "which known points belong to which task? Add the column there, or remove it here."
        )
    x = np.where(nameless[:, None], np.nan, encoding.encode(table.inputs, labels, known.starts))
    members: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    return [
        Query(name, tuple(column.take(np.array(rows)) for column in table.inputs), x[rows], np.array(rows))
        for name, rows in members.items()
    ]


def _forecasts(talk: Talk, encoding: InputEncoding, known: Known, horizon: int) -> list[tuple[str, tuple[Column, ...]]]:
    """The next rows of every task with a known one."""
    found = [(name, next_rows(encoding, t, known.starts, horizon)) for name, t in known.tasks.items() if len(t)]
    if not found:
        raise CallError("A forecast goes on from known rows: give a table of them, or the rows to predict with --at.")
    if len(found) < len(known.tasks):
        talk.warn(
            f"{count(len(known.tasks) - len(found), 'task')} without a known row: there is nothing to go on from."
        )
    return found


def _for_all(asked: list[tuple[str, tuple[Column, ...]]], encoding: InputEncoding, known: Known) -> list[Query]:
    found, at = [], 0
    for name, inputs in asked:
        x = encoding.encode(inputs, [name] * len(inputs[0].present()), known.starts)
        found.append(Query(name, inputs, x, np.arange(len(x)) + at))
        at += len(x)
    return found


def _grid(
    prior: Prior, notes: Notes, encoding: InputEncoding, starts: Starts | None, name: str
) -> tuple[Numbers | Instants | Words]:
    if len(encoding.inputs) > 1:
        raise CallError(f"This prior has {len(encoding.inputs)} inputs: give the rows to predict with --at QUERY.csv.")
    only, places = encoding.inputs[0], line(prior, notes, GRID)[:, 0]
    if isinstance(only, CategoryInput):
        return (Words(only.categories),)
    if not isinstance(only, DateInput):
        return (Numbers(places),)
    start = None if starts is None else starts[0].get(name)
    if only.reference is None and start is None:
        raise CallError(
            f"Column {only.name!r} counts from each task's first date, and there is none of {name!r}: give the rows to "
            "predict with --at QUERY.csv."
        )
    found = only.decode(places, start).values
    if only.whole_days:
        found = np.unique(found.astype("datetime64[D]")).astype("datetime64[us]")
    return (Instants(found, only.zoned),)


def with_zones(frame: pd.DataFrame, columns: Columns, encoding: InputEncoding) -> pd.DataFrame:
    """The frame with the zone of its dates, where they have one: UTC."""
    zoned = [n for n, each in zip(columns.inputs, encoding.inputs) if isinstance(each, DateInput) and each.zoned]
    return frame.assign(**{name: frame[name].dt.tz_localize("UTC") for name in zoned})


def with_text(frame: pd.DataFrame, columns: Columns, encoding: InputEncoding) -> pd.DataFrame:
    """The frame with its dates as ISO 8601."""
    import pandas as pd  # here, since it takes a quarter of a second

    frame = frame.copy()
    for name, each in zip(columns.inputs, encoding.inputs):
        if isinstance(each, DateInput):
            texts = date_texts(frame[name].to_numpy("datetime64[us]"), each.zoned)
            frame[name] = pd.Series([text or None for text in texts], index=frame.index, dtype=object)
    return frame
