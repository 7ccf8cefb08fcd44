"""From a table to tasks, with an account of what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scoreprior.cli._console import CallError, Talk, count
from scoreprior.tasks import InputEncoding, TaskError, TaskSet
from scoreprior.tasks.encoding import Starts, encode_table, kinds_of
from scoreprior.tasks.extra_columns import check_extra, extra_columns
from scoreprior.tasks.files import Table, TableError, read_table
from scoreprior.tasks.grouping import MOST_POINTS, Order, group_rows
from scoreprior.tasks.input_kinds import CategoryInput, DateInput, Since, check_cycles

ONLY_TASK = "all rows"
EXTRA_WORDS = {
    "noise": "the known standard deviation of a target, beside the noise that is learned",
    "replicates": "how many measurements a target is the mean of",
    "weight": "how much a task counts in learning",
}


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what.

    Args:
        order: rows of a task are sorted by the first input ("input"), or taken as they stand in the file ("rows").
        noise: known standard deviation of a row's target.
        replicates: how many measurements a row is the mean of.
        weight: how much a row's task counts in learning.
    """

    task: str
    inputs: tuple[str, ...]
    target: str
    order: Order = "input"
    noise: str | None = None
    replicates: str | None = None
    weight: str | None = None

    def __post_init__(self) -> None:
        if not self.inputs or not all((self.task, self.target, *self.inputs)):
            raise CallError("Task, inputs and target each need the name of a column.")
        named = (self.task, *self.inputs, self.target, *self.extra.values())
        repeated = [name for name, number in Counter(named).items() if number > 1]
        if repeated:
            raise CallError(f"Column {repeated[0]!r} is used twice; task, inputs and target are different columns.")

    @property
    def extra(self) -> dict[str, str]:
        """Columns that say something of rows beside inputs and target."""
        return extra_columns(self.noise, self.replicates, self.weight)


def input_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(","))


def cycle_names(text: str) -> tuple[str, ...]:
    """The cycles in a comma-separated list, possibly none."""
    try:
        return (text,) if text == "auto" else check_cycles(input_names(text)) if text else ()
    except TaskError as error:
        raise CallError(str(error)) from error


@dataclass(frozen=True, eq=False)
class Reading:
    """A table as tasks.

    Args:
        tasks: those with at least one complete row; None if there is none.
        starts: the first dates of tasks, where time is counted from there.
        empty: names of the tasks without a complete row, in order of appearance.
        dropped: rows left out, by reason.
        thinned: tasks of which not all rows are used.
        whole: whether the table had no task column and was taken as one task.
    """

    tasks: TaskSet | None
    starts: Starts
    empty: tuple[str, ...]
    dropped: dict[str, int]
    thinned: int
    rows: int
    whole: bool


def read_tasks(
    path: Path,
    columns: Columns,
    *,
    encoding: InputEncoding | None = None,
    cycles: Sequence[str] = (),
    since: Since = "auto",
    time: str | bool = False,
    one_task: bool = False,
    need_rows: bool = True,
) -> tuple[Reading, Table]:
    """The table's tasks; with `one_task` a table without the task column is one task.

    Inputs are read as `encoding` says; without one it is found out what they are.
    """
    table = read_table(
        path,
        (columns.target, *columns.extra.values()),
        inputs=columns.inputs,
        kinds=kinds_of(encoding),
        label=columns.task,
        need_label=not one_task,
        need_rows=need_rows,
    )
    present = np.column_stack([*(column.present() for column in table.inputs), table.present()])
    extra = check_extra(dict(zip(columns.extra, table.numbers[:, 1:].T)), columns.extra, table.rows)
    labels = table.labels if table.labels is not None else [ONLY_TASK] * len(table)
    nameless = np.array([label == "" for label in labels], bool)
    dropped = {f"without {columns.task}": int(nameless.sum())}
    for at, name in enumerate((*columns.inputs, columns.target, *columns.extra.values())):
        dropped[f"without {name}"] = int((~present[:, at] & present[:, :at].all(1) & ~nameless).sum())
    encoding, numbers = encode_table(
        columns.inputs,
        labels,
        table.inputs,
        table.numbers[:, 0],
        encoding=encoding,
        cycles=cycles,
        since=since,
        time=time,
    )
    in_time = encoding.time is not None
    grouping = group_rows(labels, numbers, order=columns.order, leading=encoding.leading, recent=in_time, extra=extra)
    tasks = None
    if grouping.tasks:
        tasks = TaskSet(grouping.tasks, input_names=encoding.names, target_name=columns.target, encoding=encoding)
    reading = Reading(
        tasks,
        encoding.starts(table.inputs, labels),
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
        for name, words in zip(columns.inputs, input_words(tasks)):
            talk.say(f"  input  {name}: {words}")
        talk.say(f"  target {tasks.target_name}: {tasks.y.min():.6g} to {tasks.y.max():.6g}")
        for what, name in columns.extra.items():
            talk.say(f"  {name}: {EXTRA_WORDS[what]}")
    for note in table.notes:
        talk.say(f"  {note}")
    if reading.dropped:
        reasons = ", ".join(f"{count(number, 'row')} {reason}" for reason, number in reading.dropped.items())
        talk.say(f"  left out: {reasons}.")
    if reading.thinned:
        talk.warn(
            f"{count(reading.thinned, 'task')} of {table.path} {'has' if reading.thinned == 1 else 'have'} more than "
            f"{MOST_POINTS} points; {_used_points(tasks)} are used."
        )


def _used_points(tasks: TaskSet | None) -> str:
    in_time = tasks is not None and tasks.encoding is not None and tasks.encoding.time is not None
    return f"the last {MOST_POINTS} of each" if in_time else f"{MOST_POINTS} of each, evenly spread,"


def input_words(tasks: TaskSet) -> list[str]:
    """What each input column was taken for, and its range."""
    assert tasks.encoding is not None
    found, sources = [], np.array(tasks.encoding.sources)
    for at, each in enumerate(tasks.encoding.inputs):
        x = tasks.x[:, sources == at]
        if isinstance(each, CategoryInput):
            constant = all((task.x[:, sources == at] == task.x[:1, sources == at]).all() for task in tasks)
            within = ", constant within tasks" if constant and tasks.sizes.max() > 1 else ""
            found.append(each.words() + within)
        elif isinstance(each, DateInput):
            low, high = each.texts([x[:, 0].min(), x[:, 0].max()])
            found.append(f"{low} to {high} ({each.words()})")
        else:
            found.append(f"{x.min():.6g} to {x.max():.6g}")
    return found


def named(names: Sequence[str], most: int = 3) -> str:
    """The first few names of a long list."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
