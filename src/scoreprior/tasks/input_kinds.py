"""What an input column becomes: a number, time since a reference with calendar cycles, or one input per category.

An object of these classes is fitted to the training table and frozen: new tables are read in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float

from scoreprior.tasks.checks import TaskError, listing
from scoreprior.tasks.columns import Column, Instants, Kind, Numbers, Words
from scoreprior.tasks.dates import MICROSECONDS, Unit, date_texts

Cycle = Literal["day", "week", "year"]
Since = Literal["auto", "calendar", "task"]
"""From when time is counted: one date for all tasks, each task's first row, or as the table suggests."""
MOST_CATEGORIES = 50
"""More cannot be told apart from a few hundred tasks, and each is an input."""
_A_MONDAY = np.datetime64("2024-01-01", "us")


@dataclass(frozen=True)
class NumberInput:
    """A number, as it is."""

    name: str
    kind: ClassVar[Kind] = "number"

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the inputs that the column becomes."""
        return (self.name,)

    def encode(self, column: Column, starts: np.ndarray | np.datetime64) -> Float[np.ndarray, "r 1"]:
        """The numbers (r, 1); NaN where missing."""
        assert isinstance(column, Numbers)
        return np.where(column.present(), column.values, np.nan)[:, None]

    def words(self) -> str:
        """What the column is taken for, for people."""
        return "numbers"


@dataclass(frozen=True)
class CategoryInput:
    """One input per category, 1 in its rows and 0 elsewhere; a category that was not in training is 0 in all."""

    name: str
    categories: tuple[str, ...]
    kind: ClassVar[Kind] = "category"

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the inputs that the column becomes."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, column: Column, starts: np.ndarray | np.datetime64) -> Float[np.ndarray, "r k"]:
        """Zeros and ones (r, k); NaN where missing."""
        assert isinstance(column, Words)
        places = {word: at for at, word in enumerate(self.categories)}
        # A place beyond the last category stands for words that are none of them.
        found = np.eye(len(places) + 1)[[places.get(word, len(places)) for word in column.values]][:, :-1]
        return np.where(column.present()[:, None], found, np.nan)

    def unknown(self, column: Column) -> list[str]:
        """The categories of the column that were not in training, in order of appearance."""
        assert isinstance(column, Words)
        return list(dict.fromkeys(word for word in column.values if word and word not in self.categories))

    def words(self) -> str:
        """What the column is taken for, for people."""
        number = len(self.categories)
        return f"text, taken as {number} {'category' if number == 1 else 'categories'}: {', '.join(self.categories)}"


@dataclass(frozen=True)
class DateInput:
    """Time since a reference in a unit, then sine and cosine of the phase in each cycle.

    On seven points of a circle a Matern kernel can follow any profile of weekdays; seven indicators predict no better
    and are five more inputs.

    Args:
        unit: in which time is counted.
        reference: when counting begins, ISO 8601; None counts from each task's first row.
        zoned: whether dates have time zones; they are read in UTC then.
        whole_days: whether no date of training has a time of day.
        cycles: whose phases are inputs of their own.
    """

    name: str
    unit: Unit
    reference: str | None
    zoned: bool = False
    whole_days: bool = False
    cycles: tuple[Cycle, ...] = ()
    kind: ClassVar[Kind] = "date"

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the inputs that the column becomes."""
        phases = [f"{self.name}: {part} of {cycle}" for cycle in self.cycles for part in ("sine", "cosine")]
        return (self.name, *phases)

    def encode(self, column: Column, starts: np.ndarray | np.datetime64) -> Float[np.ndarray, "r k"]:
        """Elapsed time and cycles (r, k), NaN where missing; `starts` (r,) are the first dates of the rows' tasks."""
        assert isinstance(column, Instants)
        if column.zoned != self.zoned and column.present().any():
            has, had = ("have time zones", "have none") if column.zoned else ("have no time zone", "have one")
            raise TaskError(
                f"The dates of column {self.name!r} {has}, but those that the prior was learned from {had}."
            )
        there, values = column.present(), column.values
        since = starts if self.reference is None else np.datetime64(self.reference, "us")
        elapsed = (values - since) / np.timedelta64(MICROSECONDS[self.unit], "us")
        parts = [np.where(there, elapsed, np.nan)[:, None]]
        for cycle in self.cycles:
            angle = 2 * np.pi * np.where(there, _phase(values, cycle), np.nan)
            parts += [np.sin(angle)[:, None], np.cos(angle)[:, None]]
        return np.column_stack(parts)

    def decode(self, elapsed: Float[np.ndarray, " q"], start: np.datetime64 | None = None) -> Instants:
        """The instants of elapsed times; `start` is the task's first date, if counting begins there."""
        since = np.datetime64(self.reference, "us") if self.reference is not None else start
        if since is None:
            raise TaskError(f"Column {self.name!r} counts from each task's first date, and there is none.")
        there = np.isfinite(elapsed)
        steps = np.round(np.where(there, elapsed, 0) * MICROSECONDS[self.unit]).astype("timedelta64[us]")
        return Instants(np.where(there, since + steps, np.datetime64("NaT", "us")), self.zoned)

    def texts(self, elapsed: Sequence[float]) -> list[str]:
        """Elapsed times for people: as dates, or as time since the task began."""
        if self.reference is None:
            return [f"{value:.6g} {self.unit}" for value in elapsed]
        return date_texts(self.decode(np.asarray(elapsed, float)).values, self.zoned)

    def begin(self) -> str:
        """When counting begins, for people."""
        return self.reference or "each task's first date"

    def words(self) -> str:
        """What the column is taken for, for people."""
        zone = " in UTC" if self.zoned else ""
        alike = "" if self.reference is None else ", the same for all tasks"
        cycles = f", with the phase of the {' and the '.join(self.cycles)}" if self.cycles else ""
        return f"dates{zone}, taken as {self.unit} since {self.begin()}{alike}{cycles}"


Input = NumberInput | CategoryInput | DateInput


def _phase(values: np.ndarray, cycle: Cycle) -> Float[np.ndarray, " r"]:
    """Where in its day, week (from Monday) or year an instant lies, from 0 to 1."""
    if cycle == "week":
        return ((values - _A_MONDAY) / np.timedelta64(7, "D")) % 1.0
    period: Literal["D", "Y"] = "D" if cycle == "day" else "Y"
    begin = values.astype(f"datetime64[{period}]")
    first, last = begin.astype(values.dtype), (begin + 1).astype(values.dtype)
    return (values - first) / (last - first)


def check_categories(name: str, categories: Sequence[str], rows: int, tasks: int, constant: bool) -> None:
    """Refuse categories that are names of tasks or rows rather than something that rows or tasks share."""
    number = len(categories)
    advice = "Leave the column out, merge rare categories, or turn it into numbers."
    if number > MOST_CATEGORIES:
        raise TaskError(
            f"Column {name!r} holds text with {number} different values ({listing(categories)}), more than the "
            f"{MOST_CATEGORIES} that are taken as categories. {advice}"
        )
    if number > 1 and number == rows:
        raise TaskError(f"Column {name!r} holds another text in each of {rows} rows: rows share no category. {advice}")
    if number > 1 and constant and number == tasks:
        raise TaskError(
            f"Column {name!r} holds another text for each of {tasks} tasks: tasks share no category. Leave it out; "
            "the task column tells tasks apart."
        )


def check_cycles(cycles: Sequence[str]) -> tuple[Cycle, ...]:
    """The cycles, each known and named once; a text is one of them."""
    cycles = (cycles,) if isinstance(cycles, str) else cycles
    for cycle in cycles:
        if cycle not in get_args(Cycle):
            raise TaskError(f"There is no cycle {cycle!r}; the cycles are day, week and year.")
    if len(set(cycles)) < len(cycles):
        raise TaskError(f"A cycle is named twice in {', '.join(cycles)}.")
    return tuple(cycles)  # type: ignore[arg-type]


def visible_cycles(values: np.ndarray, tasks: np.ndarray, steps: np.ndarray) -> tuple[Cycle, ...]:
    """Cycles with three rows or more in each, twice in a typical task, or of the year twice in the table.

    Args:
        values: instants of all rows, datetime64[us].
        tasks: numbers of the rows' tasks.
        steps: between neighbouring rows of tasks, in microseconds.
    """
    if not len(steps):
        return ()
    day, step, times = MICROSECONDS["days"], float(np.median(steps)), values.astype(np.int64)
    typical = float(np.median([np.ptp(times[tasks == task]) for task in np.unique(tasks)]))
    found: list[Cycle] = []
    for cycle, length, span in (("day", 1, typical), ("week", 7, typical), ("year", 365.25, float(np.ptp(times)))):
        # The last row of two full cycles is one step before their end.
        if 3 * step <= length * day and span + step >= 2 * length * day:
            found.append(cycle)  # type: ignore[arg-type]
    return tuple(found)
