"""Columns of a table, read and checked, with several targets as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from scoreprior.tasks.channels import CHANNEL, one_row_per_cell
from scoreprior.tasks.checks import TaskError, column_names
from scoreprior.tasks.columns import Column
from scoreprior.tasks.encoding import InputEncoding, kinds_of
from scoreprior.tasks.extra_columns import check_extra
from scoreprior.tasks.frames import FrameColumns

Read = Callable[..., tuple[FrameColumns, np.ndarray, list[np.ndarray]]]
"""`columns_from_frame` or `columns_from_file` of a table."""


class TableColumns(NamedTuple):
    """What tasks are made of, in the order of the arguments of `tasks_from_columns`; extra numbers; channels or not."""

    labels: Sequence[str]
    inputs: Sequence[Column]
    target: Float[np.ndarray, " r"]
    names: tuple[str, ...]
    rows: Int[np.ndarray, " r"]
    extra: Mapping[str, Float[np.ndarray, " r"]]
    channels: bool


def read_columns(
    read: Read,
    task: str,
    inputs: str | Sequence[str],
    target: str | Sequence[str],
    extra: Mapping[str, str],
    encoding: InputEncoding | None,
) -> TableColumns:
    """The columns of these names; of several targets one row for each cell that is there."""
    # Columns of a table without a header are numbered.
    targets = tuple(map(str, target)) if isinstance(target, (list, tuple)) else (str(target),)
    if not targets or len(set(targets)) < len(targets):
        raise TaskError(f"Several targets are different columns, not {', '.join(targets) or 'none'}.")
    names, kinds = column_names(task, inputs, targets[0]), kinds_of(encoding)
    channels = len(targets) > 1 or (encoding is not None and encoding.channels)
    if channels and (CHANNEL in names[1:-1] or set(targets) & set(names[:-1])):
        raise TaskError(
            f"Of several targets, none may be the task or an input, and no input may be called {CHANNEL!r}."
        )
    if channels and kinds is not None:
        kinds = kinds[:-1]
    found, rows, values = read(names, kinds, (*targets[1:], *extra.values()))
    others, known = values[: len(targets) - 1], values[len(targets) - 1 :]
    checked = check_extra(dict(zip(extra, known)), extra, rows)
    if not channels:
        return TableColumns(found.labels, found.inputs, found.target, names, rows, checked, False)
    cells = dict(zip(targets, (found.target, *others)))
    labels, columns, y, rows, checked = one_row_per_cell(found.labels, found.inputs, cells, rows, checked)
    named = (*names[:-1], CHANNEL, ", ".join(targets))
    return TableColumns(labels, columns, y, named, rows, checked, True)
