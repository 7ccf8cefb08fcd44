"""From a table to tasks, with an account of what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scoreprior.cli._console import CallError, Talk, count
from scoreprior.tasks import TaskSet
from scoreprior.tasks.files import Table, TableError, read_table
from scoreprior.tasks.grouping import MOST_POINTS, Order, group_rows

ONLY_TASK = "all rows"


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what.

    Args:
        order: rows of a task are sorted by the first input ("input"), or taken as they stand in the file ("rows").
    """

    task: str
    inputs: tuple[str, ...]
    target: str
    order: Order = "input"

    def __post_init__(self) -> None:
        if not self.inputs or not all((self.task, self.target, *self.inputs)):
            raise CallError("Task, inputs and target each need the name of a column.")
        repeated = [name for name, number in Counter((self.task, *self.inputs, self.target)).items() if number > 1]
        if repeated:
            raise CallError(f"Column {repeated[0]!r} is used twice; task, inputs and target are different columns.")


def input_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(","))


@dataclass(frozen=True, eq=False)
class Reading:
    """A table as tasks.

    Args:
        tasks: those with at least one complete row; None if there is none.
        empty: names of the tasks without a complete row, in order of appearance.
        dropped: rows left out, by reason.
        thinned: tasks of which not all rows are used.
        whole: whether the table had no task column and was taken as one task.
    """

    tasks: TaskSet | None
    empty: tuple[str, ...]
    dropped: dict[str, int]
    thinned: int
    rows: int
    whole: bool


def read_tasks(
    path: Path, columns: Columns, *, one_task: bool = False, need_rows: bool = True
) -> tuple[Reading, Table]:
    """The table's tasks; with `one_task` a table without the task column is one task."""
    names = (*columns.inputs, columns.target)
    table = read_table(path, names, label=columns.task, need_label=not one_task, need_rows=need_rows)
    present = table.present()
    labels = table.labels if table.labels is not None else [ONLY_TASK] * len(table)
    nameless = np.array([label == "" for label in labels], bool)
    dropped = {f"without {columns.task}": int(nameless.sum())}
    for at, name in enumerate(names):
        dropped[f"without {name}"] = int((~present[:, at] & present[:, :at].all(1) & ~nameless).sum())
    grouping = group_rows(labels, table.numbers, order=columns.order)
    reading = Reading(
        TaskSet(grouping.tasks, input_names=columns.inputs, target_name=columns.target) if grouping.tasks else None,
        grouping.empty,
        {reason: number for reason, number in dropped.items() if number},
        grouping.thinned,
        len(table),
        table.labels is None,
    )
    return reading, table


def need_tasks(reading: Reading, path: Path) -> TaskSet:
    """The tasks, or an error if the table has no complete row."""
    if reading.tasks is None:
        reasons = ", ".join(f"{count(number, 'row')} {reason}" for reason, number in reading.dropped.items())
        raise TableError(f"Cannot use {str(path)!r}: no row is complete ({reasons}).")
    return reading.tasks


def tell(talk: Talk, reading: Reading, table: Table, columns: Columns) -> None:
    """Say what was understood of a table, and what was left out."""
    tasks = reading.tasks
    if tasks is None:
        talk.say(f"{table.path}: {count(reading.rows, 'row')}, none of them complete.")
    else:
        few, many = tasks.sizes.min(), tasks.sizes.max()
        sizes = f"{few}" if few == many else f"{few} to {many} (median {np.median(tasks.sizes):g})"
        kept = f"{count(reading.rows, 'row')}, {count(len(tasks), 'task')}"
        told = "one task" if reading.whole else f"by {columns.task!r}"
        talk.say(f"{table.path}: {kept} ({told}), {sizes} points each.")
        for at, name in enumerate(tasks.input_names):
            talk.say(f"  input  {name}: {tasks.x[:, at].min():.6g} to {tasks.x[:, at].max():.6g}")
        talk.say(f"  target {tasks.target_name}: {tasks.y.min():.6g} to {tasks.y.max():.6g}")
    for note in table.notes:
        talk.say(f"  {note}")
    if reading.dropped:
        reasons = ", ".join(f"{count(number, 'row')} {reason}" for reason, number in reading.dropped.items())
        talk.say(f"  left out: {reasons}.")
    if reading.thinned:
        talk.warn(
            f"{count(reading.thinned, 'task')} of {table.path} {'has' if reading.thinned == 1 else 'have'} more than "
            f"{MOST_POINTS} points; {MOST_POINTS} of each, evenly spread, are used."
        )


def named(names: Sequence[str], most: int = 3) -> str:
    """The first few names of a long list."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
