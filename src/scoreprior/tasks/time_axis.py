"""`TimeAxis`: the input column along which the rows of a task run in time, and how it goes on after the last row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from scoreprior.tasks.checks import TaskError, listing
from scoreprior.tasks.columns import Column, Instants, Numbers, Words

_SHARE = 0.9
"""Of the tasks with three rows or more, those whose rows must stand in the order of numbers that are time."""
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class TimeAxis:
    """How the rows of a task follow each other in time.

    Args:
        column: name of the input column that is time.
        step: the usual one between rows, as numbers are; of dates, in seconds.
        months: the usual step of dates that are all of one day of the month, 0 where they are not.
        month_ends: whether that is the last one.
        weekdays: of daily dates, those that occur, Monday 0; empty where all do.
        varying: other input columns that change within a task: nothing tells what they will be.
    """

    column: str
    step: float
    months: int = 0
    month_ends: bool = False
    weekdays: tuple[int, ...] = ()
    varying: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        names: Sequence[str],
        columns: Sequence[Column],
        labels: Sequence[str],
        used: Bool[np.ndarray, " r"],
        named: str | None,
    ) -> TimeAxis:
        """The named column, or the one found: the first of dates, else of numbers in whose order the rows stand."""
        tasks = np.unique(np.asarray(labels, str)[used], return_inverse=True)[1]
        chosen = [column.take(np.flatnonzero(used)) for column in columns]
        at = _find(names, chosen, tasks) if named is None else _named(names, chosen, named)
        column = chosen[at]
        assert not isinstance(column, Words)
        order = np.lexsort((column.values, tasks))
        steps = np.diff(column.values[order])[np.diff(tasks[order]) == 0]
        zero = np.zeros(1, steps.dtype)[0]
        if not (steps > zero).any():
            raise TaskError(f"No task has two rows at different {names[at]}, so time has no step.")
        varying = tuple(
            name for j, (name, each) in enumerate(zip(names, chosen)) if j != at and not _is_constant(each, tasks)
        )
        usual = np.median(steps[steps > zero].astype(float))
        if isinstance(column, Instants):
            return cls(names[at], usual / 1e6, *_calendar(column.values, tasks, usual), varying)
        return cls(names[at], float(usual), varying=varying)

    def ahead(self, last: float | np.datetime64, rows: int) -> np.ndarray:
        """The next times (rows,) after the last one: numbers, or datetime64[us]."""
        if not isinstance(last, np.datetime64):
            return last + self.step * np.arange(1, rows + 1)
        if self.months:
            month = last.astype("datetime64[M]")
            following = month + self.months * np.arange(1, rows + 1)
            ends = (following + 1).astype("datetime64[D]") - _DAY
            same_day = following.astype("datetime64[D]") + (last.astype("datetime64[D]") - month)
            # A day that a short month does not have is that month's last.
            return (ends if self.month_ends else np.minimum(same_day, ends)).astype("datetime64[us]")
        if self.weekdays:
            after = last + _DAY * np.arange(1, 7 * rows + 1)
            return after[np.isin(_weekday(after), self.weekdays)][:rows]
        return last + np.timedelta64(round(self.step * 1e6), "us") * np.arange(1, rows + 1)

    def longest(self, rows: int) -> float:
        """The longest time that so many steps take, as numbers are; of dates, in seconds."""
        if self.months:
            return 31 * 86_400.0 * self.months * rows
        if self.weekdays:
            return 86_400.0 * 7 * -(-rows // len(self.weekdays))
        return self.step * rows


def _named(names: Sequence[str], columns: Sequence[Column], named: str) -> int:
    if named not in names:
        raise TaskError(f"The column of time, {named!r}, must be one of the inputs: {listing(names)}.")
    at = list(names).index(named)
    if isinstance(columns[at], Words):
        raise TaskError(f"Column {named!r} holds words, which are no time; name a column of dates or numbers.")
    return at


def _find(names: Sequence[str], columns: Sequence[Column], tasks: np.ndarray) -> int:
    """Dates are time in any order of rows; numbers are if rows stand in their order."""
    for at, column in enumerate(columns):
        if isinstance(column, Instants) and not _is_constant(column, tasks):
            return at
    for at, column in enumerate(columns):
        if isinstance(column, Numbers) and _rises(column.values, tasks):
            return at
    raise TaskError(
        f"None of the inputs {listing(names)} is a date, or a number that rises from row to row of a task, so it is "
        "not known which of them is time. Name it, if rows run in time at all."
    )


def _rises(values: np.ndarray, tasks: np.ndarray) -> bool:
    several = np.flatnonzero(np.bincount(tasks) >= 3)
    rows = [values[tasks == task] for task in several]
    return bool(rows) and bool(np.mean([np.all(np.diff(each) > 0) for each in rows]) >= _SHARE)


def _is_constant(column: Column, tasks: np.ndarray) -> bool:
    values = np.unique(np.asarray(column.values), return_inverse=True)[1]
    return len(set(zip(tasks.tolist(), values.tolist()))) == len(set(tasks.tolist()))


def _calendar(values: np.ndarray, tasks: np.ndarray, usual: float) -> tuple[int, bool, tuple[int, ...]]:
    """Months between rows, if that is their step, and whether at their ends; weekdays of daily rows, if not all."""
    days = values.astype("datetime64[D]")
    if not (values == days).all():
        return 0, False, ()
    months = values.astype("datetime64[M]")
    day = (days - months.astype("datetime64[D]")).astype(int)
    ends = (months + 1).astype("datetime64[D]") - _DAY == days
    if usual >= 28 * 86_400e6 and (len(set(day)) == 1 or ends.all()):
        order = np.lexsort((values, tasks))
        steps = np.diff(months[order].astype(int))[np.diff(tasks[order]) == 0]
        return max(1, round(float(np.median(steps)))), len(set(day)) > 1, ()
    weekdays = tuple(sorted(set(_weekday(values).tolist())))
    return 0, False, weekdays if usual == 86_400e6 and len(weekdays) < 7 else ()


def _weekday(values: np.ndarray) -> np.ndarray:
    return (values.astype("datetime64[D]").astype(int) + 3) % 7  # 1970 began on a Thursday
