"""Dates and times: ISO 8601 text in and out, and the unit in which time is counted.

Times with zones are converted to UTC. Inside, an instant is a datetime64[us]: finer steps than that are cut off.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple

import numpy as np

Unit = Literal["days", "hours", "minutes", "seconds"]

MICROSECONDS: dict[Unit, int] = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
}
"""Length of each unit, the longest first."""

_LIKE_A_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{4}-\d{2}|\d{1,2}:\d{2}(:\d{2}.*)?"
    r"|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}.*"
)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}.*)?")
_MONTH = re.compile(r"\d{4}-\d{2}")


class DateError(ValueError):
    """Dates that cannot be read; the message names the row, the value and what to do."""


class Moment(NamedTuple):
    """One instant in microseconds since 1970, and whether it was written with a time zone."""

    microseconds: int
    zoned: bool


def looks_like_a_date(text: str) -> bool:
    """Whether a text is meant as a date or a time, readable or not."""
    return _LIKE_A_DATE.fullmatch(text) is not None


def moment(value: Any) -> Moment | None:
    """An ISO 8601 text, or a date or datetime of Python or pandas, as an instant; None if it is nothing of the kind."""
    if isinstance(value, str):
        value = _parse(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    zoned = value.utcoffset() is not None
    since = value.replace(tzinfo=value.tzinfo if zoned else UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return Moment((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, zoned)


def _parse(text: str) -> datetime | None:
    text = re.sub(r" ?(UTC|GMT)$", "+00:00", text)
    if _MONTH.fullmatch(text):
        text += "-01"
    if not _ISO.fullmatch(text):  # Python also takes 20240301, which is a number here
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def instants(name: str, values: Sequence[Any], rows: Sequence[int]) -> tuple[np.ndarray, bool]:
    """Values (None where missing) as datetime64[us] (r,), NaT where missing, and whether they have time zones."""
    found = np.full(len(values), np.iinfo(np.int64).min)  # NumPy's NaT
    first: tuple[int, Any, bool] | None = None
    for at, (value, row) in enumerate(zip(values, rows)):
        if value is None:
            continue
        read = moment(value)
        if read is None:
            raise DateError(
                f"column {name!r} holds dates, but {_shown(value)} in row {row} cannot be read as one. Write dates as "
                "2024-03-01 or 2024-03-01 14:30, with a time zone if need be: 2024-03-01 14:30+02:00."
            )
        first = first or (row, value, read.zoned)
        if read.zoned != first[2]:
            without, with_zone = ((row, value), first) if first[2] else (first, (row, value))
            raise DateError(
                f"column {name!r} has dates with and without time zones: {_shown(without[1])} in row {without[0]}, "
                f"{_shown(with_zone[1])} in row {with_zone[0]}. Give all of them one, or none."
            )
        found[at] = read.microseconds
    return found.astype("datetime64[us]"), first is not None and first[2]


def _shown(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def choose_unit(steps: np.ndarray) -> Unit:
    """The longest unit that the typical one of these steps (s,), in microseconds, is not shorter than; days if none."""
    if not len(steps):
        return "days"
    typical = np.median(steps)
    return next((unit for unit, length in MICROSECONDS.items() if typical >= length), "seconds")


def date_texts(values: np.ndarray, zoned: bool) -> list[str]:
    """Instants as ISO 8601, no longer than they need to be all alike; empty where missing."""
    there = values[~np.isnat(values)]
    precision: Any = next((each for each in ("D", "s") if (there == there.astype(f"datetime64[{each}]")).all()), "us")
    if zoned and precision == "D":
        precision = "s"
    texts = np.datetime_as_string(values, unit=precision)
    return ["" if missing else f"{text}{'Z' if zoned else ''}" for text, missing in zip(texts, np.isnat(values))]
