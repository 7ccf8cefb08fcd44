"""Rows of a table into tasks: the one way for data frames, for files and for the command line.

Which rows of a task come first matters to the methods: contexts are first halves, later points are predicted from
earlier ones, and the last value is the last row's.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from scoreprior.tasks.checks import TaskError, listing
from scoreprior.tasks.columns import Column
from scoreprior.tasks.encoding import InputEncoding, encode_table
from scoreprior.tasks.task import Task

Order = Literal["input", "rows"]
"""Rows of a task sorted by the first input (ties as given), or as given."""
Missing = Literal["error", "drop"]
"""What to do with rows that lack their task, an input or the target."""
MOST_POINTS = 200
"""Points of a task that are used unless asked otherwise; the cost of a task grows with their cube."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """The tasks of a table, and what of the table is not in them.

    Args:
        tasks: those with at least one complete row, in order of first appearance.
        empty: names of the tasks without a complete row, in order of first appearance.
        thinned: number of tasks of which not all complete rows are used.
    """

    tasks: tuple[Task, ...]
    empty: tuple[str, ...]
    thinned: int


def group_rows(
    labels: Sequence[str],
    numbers: Float[np.ndarray, "r c"],
    *,
    order: Order = "input",
    most_points: int | None = MOST_POINTS,
    leading: int | None = 0,
    recent: bool = False,
    extra: Mapping[str, Float[np.ndarray, " r"]] = MappingProxyType({}),
) -> Grouping:
    """Tasks from one label and one row of numbers (d inputs, then the target) per point.

    Rows with an empty label or a number that is not finite are left out. Of a task with more than `most_points` other
    rows, as many as that are used: evenly spread over the ordered rows, the first and the last among them, or the last
    ones if `recent`, which keeps the step between them. `leading` is the input that rows are sorted by; None is none
    that has an order. `extra` is what else is known of rows, by its name: "noise", "replicates", "weight".
    """
    check_choices(order=order, most_points=most_points)
    complete = np.isfinite(np.column_stack([numbers, *extra.values()])).all(axis=1)
    members: dict[str, list[int]] = {label: [] for label in labels if label}
    for row, label in enumerate(labels):
        if label and complete[row]:
            members[label].append(row)
    leading = None if order == "rows" else leading
    tasks = []
    for label, rows in members.items():
        if rows:
            chosen = np.array(rows)[_chosen(numbers[rows], leading, most_points, recent)]
            known = {name: values[chosen] for name, values in extra.items()}
            if "weight" in known:
                known["weight"] = _task_weight(label, known["weight"])
            tasks.append(Task(numbers[chosen, :-1], numbers[chosen, -1], label, **known))
    thinned = sum(most_points is not None and len(rows) > most_points for rows in members.values())
    return Grouping(tuple(tasks), tuple(label for label, rows in members.items() if not rows), thinned)


def _chosen(numbers: np.ndarray, leading: int | None, most_points: int | None, recent: bool) -> Int[np.ndarray, " k"]:
    """Which rows of a task are used, in their order."""
    order = np.arange(len(numbers)) if leading is None else np.argsort(numbers[:, leading], kind="stable")
    if most_points is None or len(order) <= most_points:
        return order
    even = np.linspace(0, len(order) - 1, most_points).round().astype(int)
    return order[-most_points:] if recent else order[even]


def _task_weight(label: str, weights: np.ndarray) -> Any:
    if (weights != weights[0]).any():
        raise TaskError(
            f"The weights of task {label!r} run from {weights.min():g} to {weights.max():g}: a task has one. For rows "
            "that are means of several measurements give replicate counts instead."
        )
    return weights[0]


def tasks_from_columns(
    labels: Sequence[str],
    inputs: Sequence[Column],
    target: Float[np.ndarray, " r"],
    names: Sequence[str],
    rows: Int[np.ndarray, " r"],
    /,
    *,
    missing: Missing,
    order: Order,
    most_points: int | None,
    extra: Mapping[str, Float[np.ndarray, " r"]],
    **reading: Any,
) -> tuple[tuple[Task, ...], InputEncoding]:
    """`group_rows` for Python's users: an error at what is missing unless it is to be dropped, warnings at the rest.

    `names` are those of the task, inputs and target; `rows` are the numbers by which an error calls the rows; `reading`
    is as of `encode_table`.
    """
    encoding, numbers = encode_table(names[1:-1], labels, inputs, target, **reading)
    names = (names[0], *(names[1 + at] for at in encoding.sources), names[-1])
    unlabelled = sum(not label for label in labels)
    if missing == "error":
        named = (*names, *extra)
        _check_complete(labels, np.column_stack([numbers, *extra.values()]), named, rows)
    in_time = encoding.time is not None
    grouping = group_rows(
        labels, numbers, order=order, most_points=most_points, leading=encoding.leading, recent=in_time, extra=extra
    )
    # The warnings are of the line that called TaskSet.from_frame or from_file.
    if unlabelled:
        warnings.warn(f"{unlabelled} rows are without {names[0]!r} and were left out.", stacklevel=4)
    if grouping.empty:
        gone = f"{len(grouping.empty)} tasks have no complete row and were left out: {listing(grouping.empty)}."
        warnings.warn(gone, stacklevel=4)
    if not grouping.tasks:
        raise TaskError("No task has a row with all inputs and the target present; nothing is left to learn from.")
    if grouping.thinned:
        warnings.warn(
            f"{grouping.thinned} of {len(grouping.tasks)} tasks have more than {most_points} points, of which "
            f"{most_points} each, {'the last' if in_time else 'evenly spread'}, are used; pass most_points=None to use "
            "them all.",
            stacklevel=4,
        )
    return grouping.tasks, encoding


def check_choices(*, order: Any = "input", most_points: Any = None, missing: Any = "error") -> None:
    """Refuse settings that mean nothing, before any work."""
    if missing not in get_args(Missing):
        raise TaskError(f'missing must be "error" or "drop", not {missing!r}.')
    if order not in get_args(Order):
        raise TaskError(f'order must be "input" (sorted by the first input) or "rows" (as given), not {order!r}.')
    if most_points is not None and (not isinstance(most_points, (int, np.integer)) or most_points < 2):
        raise TaskError(f"most_points must be a whole number of at least 2, or None for all, not {most_points!r}.")


def _check_complete(labels: Sequence[str], numbers: np.ndarray, names: Sequence[str], rows: np.ndarray) -> None:
    unlabelled = [row for row, label in zip(rows, labels) if not label]
    if unlabelled:
        raise TaskError(
            f"Column {names[0]!r} is missing in row {unlabelled[0]} ({len(unlabelled)} such rows): which task is it? "
            'Repair them or pass missing="drop".'
        )
    bad = ~np.isfinite(numbers)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise TaskError(
            f"Column {names[1 + column]!r} is {numbers[row, column]} in row {rows[row]} "
            f"(task {labels[row]!r}); {int(bad.any(1).sum())} rows are incomplete. "
            'Repair them or pass missing="drop".'
        )
