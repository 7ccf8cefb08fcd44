"""Forecasts in the commands: options of `fit`, what is said of them, and the rows that `predict` goes on with."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table as Grid

from scoreprior import diagnostics
from scoreprior.cli._console import CallError, Talk, count
from scoreprior.cli._tables import Columns, cycle_names, named
from scoreprior.tasks import InputEncoding, Task, TaskSet
from scoreprior.tasks.columns import Column, Instants, Numbers, Words
from scoreprior.tasks.encoding import Starts
from scoreprior.tasks.input_kinds import CategoryInput, DateInput


def time_options(cycle: str, horizon: int | None, time: str | None, columns: Columns) -> dict[str, Any]:
    """How `read_tasks` is to read time: with a horizon the axis is found and cycles are made, unless they are named."""
    if time is not None and horizon is None:
        raise CallError("--time names the input that forecasts run along; give --horizon, the rows to forecast, too.")
    if time is not None and time not in columns.inputs:
        raise CallError(f"--time {time} is none of the inputs; --inputs are {', '.join(columns.inputs)}.")
    if horizon is None:
        return {"cycles": () if cycle == "none" else cycle_names(cycle)}
    return {"cycles": () if cycle == "none" else cycle_names(cycle or "auto"), "time": time or True}


def tell_forecasts(talk: Talk, tasks: TaskSet, horizon: int) -> None:
    """Say along what rows run, and refuse what cannot be forecast."""
    assert tasks.encoding is not None
    axis, leading = tasks.encoding.time, tasks.encoding.leading
    assert axis is not None
    if any(np.any(np.diff(task.x[:, leading]) < 0) for task in tasks):
        raise CallError(
            f"Rows do not stand in the order of {axis.column!r}: leave out --order rows, and they are sorted by it."
        )
    if tasks.sizes.max() <= horizon:
        raise CallError(
            f"No task has more than {horizon} rows (the longest has {tasks.sizes.max()}), so no forecast of {horizon} "
            "can be judged or learned. Choose a shorter --horizon."
        )
    talk.say(f"  forecasts: the next {count(horizon, 'row')} of a task along {axis.column!r}.")
    if axis.varying:
        talk.say(f"  {named(axis.varying)} changes within tasks: predict needs it for the future, by --at.")


def with_caption(grid: Grid, horizon: int | None) -> Grid:
    """The table of held-out tasks with what was predicted of them."""
    if horizon is not None:
        grid.caption = f"the next {count(horizon, 'row')} from those before, at up to {diagnostics.ORIGINS} origins"
    return grid


def next_rows(encoding: InputEncoding, known: Task, starts: Starts | None, rows: int) -> tuple[Column, ...]:
    """The input columns of the next rows of a task: time goes on in its usual step, the rest stays as it was."""
    axis, leading, sources = encoding.time, encoding.leading, np.array(encoding.sources)
    assert axis is not None
    if axis.varying:
        raise CallError(
            f"What {axis.varying[0]!r} will be is not known, as it changes within tasks: give the rows to predict with "
            "--at QUERY.csv."
        )
    last = known.x[np.argmax(known.x[:, leading])]
    found: list[Column] = []
    for at, each in enumerate(encoding.inputs):
        own, start = last[sources == at], None if starts is None else starts[at].get(known.name)
        if isinstance(each, CategoryInput):
            word = each.categories[int(np.argmax(own))] if own.any() else "?"  # a category that was not in training
            found.append(Words((word,) * rows))
            continue
        value: Any = each.decode(own[:1], start).values[0] if isinstance(each, DateInput) else own[0]
        values = axis.ahead(value, rows) if each.name == axis.column else np.full(rows, value)
        found.append(Instants(values, each.zoned) if isinstance(each, DateInput) else Numbers(values))
    return tuple(found)
