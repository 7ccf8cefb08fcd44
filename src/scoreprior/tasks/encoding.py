"""`InputEncoding`: how the input columns of a table become the inputs x of tasks, frozen when a prior is fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from jaxtyping import Bool, Float

from scoreprior.tasks.checks import TaskError, listing
from scoreprior.tasks.columns import Column, Instants, Kind, Words
from scoreprior.tasks.dates import choose_unit
from scoreprior.tasks.input_kinds import (
    CategoryInput,
    Cycle,
    DateInput,
    Input,
    NumberInput,
    Since,
    check_categories,
    check_cycles,
    visible_cycles,
)
from scoreprior.tasks.time_axis import TimeAxis

_SHORT = 0.1
"""Where a typical task spans less of the table's time than this, tasks began at different times."""

Starts = tuple[Mapping[str, np.datetime64], ...]
"""For every input column, the first date of each task; empty where time is not counted from there."""


@dataclass(frozen=True)
class InputEncoding:
    """What each input column is, in the order of the columns.

    `TaskSet.from_frame` and `TaskSet.from_file` fit one to the training table; the prior keeps it, and new tables are
    read with it: `TaskSet.from_frame(new, ..., encoding=prior.encoding)`.

    Args:
        inputs: one `NumberInput`, `DateInput` or `CategoryInput` per column.
        time: the column along which rows run in time, for forecasts; None where that is not asked for.
        channels: whether the last input says which of several targets a row is of.
    """

    inputs: tuple[Input, ...]
    time: TimeAxis | None = None
    channels: bool = False

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> InputEncoding:
        """That of a table whose inputs are all numbers."""
        return cls(tuple(NumberInput(name) for name in names))

    @classmethod
    def fit(
        cls,
        names: Sequence[str],
        columns: Sequence[Column],
        labels: Sequence[str],
        used: Bool[np.ndarray, " r"],
        *,
        cycles: Sequence[str] = (),
        since: Since = "auto",
        time: str | bool = False,
    ) -> InputEncoding:
        """Kinds, categories, units and references of the columns, from the rows that are used, by their labels."""
        if since not in get_args(Since):
            raise TaskError(f'since must be "auto", "calendar" or "task", not {since!r}.')
        tasks = np.unique(np.asarray(labels, str), return_inverse=True)[1]
        wanted = None if cycles in ("auto", ("auto",), ["auto"]) else check_cycles(cycles)
        found = [_fit(name, column, tasks, used, wanted, since) for name, column in zip(names, columns)]
        if wanted and not any(isinstance(each, DateInput) for each in found):
            raise TaskError(f"There is no column of dates among {listing(names)}, so there are no cycles.")
        axis = TimeAxis.fit(names, columns, labels, used, None if time is True else time) if time else None
        return cls(tuple(found), axis)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.name for each in self.inputs)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kind of every column."""
        return tuple(each.kind for each in self.inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs x, d of them: a column may become several."""
        return tuple(label for each in self.inputs for label in each.labels)

    @property
    def sources(self) -> tuple[int, ...]:
        """For each of the inputs x, the position of its column."""
        return tuple(at for at, each in enumerate(self.inputs) for _ in each.labels)

    @property
    def counts_from_tasks(self) -> bool:
        """Whether time is counted from each task's first date in some column."""
        return any(isinstance(each, DateInput) and each.reference is None for each in self.inputs)

    @property
    def leading(self) -> int | None:
        """The one of the inputs x that rows are sorted by: time, or the first that is no category."""
        if self.time is not None:
            return self.sources.index(self.columns.index(self.time.column))
        return next((at for at, source in enumerate(self.sources) if self.kinds[source] != "category"), None)

    @property
    def indicators(self) -> Bool[np.ndarray, " d"]:
        """Which of the inputs x are 1 or 0 for a category."""
        return np.array([self.kinds[at] == "category" for at in self.sources], bool)

    def starts(self, columns: Sequence[Column], labels: Sequence[str]) -> Starts:
        """The first date of every task in each column where time is counted from there."""
        found: list[dict[str, np.datetime64]] = []
        for each, column in zip(self.inputs, columns):
            first: dict[str, np.datetime64] = {}
            if isinstance(each, DateInput) and each.reference is None and isinstance(column, Instants):
                for label, value in zip(labels, column.values):
                    if not np.isnat(value):
                        first[label] = min(first.get(label, value), value)
            found.append(first)
        return tuple(found)

    def encode(
        self, columns: Sequence[Column], labels: Sequence[str], starts: Starts | None = None
    ) -> Float[np.ndarray, "r d"]:
        """Inputs x (r, d) of the rows, NaN in what comes from a missing value.

        Categories that were not in training are 0 in all of their column's inputs. `starts` are the first dates of
        tasks that began in another table.
        """
        own = self.starts(columns, labels)
        starts = own if starts is None else tuple({**here, **given} for here, given in zip(own, starts))
        never, parts = np.datetime64("NaT", "us"), []
        for each, column, first in zip(self.inputs, columns, starts):
            begin = np.array([first.get(label, never) for label in labels], "datetime64[us]") if first else never
            parts.append(each.encode(column, begin))
        return np.concatenate(parts, axis=1)

    def warn_unknown(self, columns: Sequence[Column], stacklevel: int) -> None:
        """Name the categories that were not in training, once for each column."""
        for each, column in zip(self.inputs, columns):
            unknown = each.unknown(column) if isinstance(each, CategoryInput) else []
            if unknown:
                warnings.warn(
                    f"Column {each.name!r} has categories that were not in training: {listing(unknown)}. They are "
                    "taken as none of the known ones.",
                    stacklevel=stacklevel + 1,
                )

    def unseen(self, x: Float[np.ndarray, "q d"]) -> Bool[np.ndarray, " q"]:
        """Which rows of x have a category that was not in training."""
        sources, found = np.array(self.sources), np.zeros(len(x), bool)
        for at, kind in enumerate(self.kinds):
            if kind == "category":
                found |= (x[:, sources == at] == 0).all(axis=1)
        return found


def kinds_of(encoding: InputEncoding | None) -> tuple[Kind, ...] | None:
    """Kinds of the columns, if they are known."""
    return None if encoding is None else encoding.kinds


def encode_table(
    names: Sequence[str],
    labels: Sequence[str],
    inputs: Sequence[Column],
    target: Float[np.ndarray, " r"],
    *,
    encoding: InputEncoding | None,
    cycles: Sequence[str] = (),
    since: Since = "auto",
    time: str | bool = False,
) -> tuple[InputEncoding, Float[np.ndarray, "r c"]]:
    """The encoding of a table's rows, fitted to the complete ones if none is given; and the rows, encoded, target last.

    This is the one way of data frames, of files and of the command line.
    """
    if encoding is None:
        used = np.array([label != "" for label in labels], bool) & np.isfinite(target)
        for column in inputs:
            used &= column.present()
        encoding = InputEncoding.fit(names, inputs, labels, used, cycles=cycles, since=since, time=time)
    elif len(encoding.inputs) != len(names):
        raise TaskError(f"The encoding has {len(encoding.inputs)} input columns, but {len(names)} are named.")
    elif cycles or since != "auto" or time:
        raise TaskError("An encoding says how dates are read: give it, or cycles, since and time, but not both.")
    else:
        encoding.warn_unknown(inputs, stacklevel=5)  # of the line that called TaskSet.from_frame
    return encoding, np.column_stack([encoding.encode(inputs, labels), target])


def _fit(
    name: str, column: Column, tasks: np.ndarray, used: np.ndarray, cycles: tuple[Cycle, ...] | None, since: Since
) -> Input:
    used = used if used.any() else column.present()
    tasks = np.unique(tasks[used], return_inverse=True)[1]
    if isinstance(column, Words):
        words = np.asarray(column.values, object)[used].astype(str)
        categories, numbers = np.unique(words, return_inverse=True)
        constant = len(set(zip(tasks, numbers))) == len(set(tasks))
        check_categories(name, categories.tolist(), len(words), len(set(tasks)), constant)
        return CategoryInput(name, tuple(categories.tolist()))
    if not isinstance(column, Instants):
        return NumberInput(name)
    values = column.values[used]
    whole_days = bool((values == values.astype("datetime64[D]")).all())
    if cycles is not None and "day" in cycles and whole_days:
        raise TaskError(f"The dates of column {name!r} have no time of day, so there is no cycle of days.")
    order = np.lexsort((values, tasks))
    steps = np.diff(values[order].astype(np.int64))[np.diff(tasks[order]) == 0]
    unit = choose_unit(steps[steps > 0])
    if cycles is None:
        cycles = visible_cycles(values, tasks, steps[steps > 0])
    reference = None
    if not len(values) or (since == "calendar" or (since == "auto" and not _began_apart(values, tasks))):
        reference = str(values.min().astype("datetime64[D]")) if len(values) else "1970-01-01"
    return DateInput(name, unit, reference, column.zoned, whole_days, cycles)


def _began_apart(values: np.ndarray, tasks: np.ndarray) -> bool:
    """Whether tasks are short against the time in which all of them lie, so that what they share is their own time."""
    times = values.astype(np.int64)
    first, last = np.full(tasks.max() + 1, times.max()), np.full(tasks.max() + 1, times.min())
    np.minimum.at(first, tasks, times)
    np.maximum.at(last, tasks, times)
    typical = np.median(last - first)  # 0 where the date is one of the task itself, such as that of its birth
    return bool(0 < typical < _SHORT * np.ptp(times))
