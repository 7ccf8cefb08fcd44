"""Cells of a text table as numbers: what is a number, what is missing, and what to say of everything else."""

from __future__ import annotations

import re
from array import array

import numpy as np

from scoreprior.tasks.dates import looks_like_a_date

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", ".", "?", "missing"}
"""Texts, in lower case, that stand for a missing value."""

_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


class CellError(ValueError):
    """A column whose cells are no numbers; the message names the row and says what to do."""


class NumberColumn:
    """Numbers read from text one by one; missing ones are NaN. What is wrong is told at the end, with its extent."""

    def __init__(self, name: str):
        self.name = name
        self.values = array("d")
        self.commas: list[tuple[int, int, str]] = []
        self.point: tuple[int, str] | None = None
        self.wrong: tuple[int, str] | None = None
        self.count = 0

    def append(self, text: str, row: int) -> None:
        """The next cell, of this row of the file."""
        cell = text.strip().replace("\u2212", "-")
        try:
            if "_" in cell:  # Python reads 1_000 as a number; nobody else does
                raise ValueError
            self.values.append(float(cell))
            if self.point is None and "." in cell:
                self.point = (row, cell)
            return
        except ValueError:
            pass
        if cell.lower() not in MISSING:
            if _COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell):
                self.commas.append((len(self.values), row, cell))
            else:
                self.wrong = self.wrong or (row, cell)
                self.count += 1
        self.values.append(float("nan"))

    @property
    def numbers(self) -> int:
        """How many cells are numbers so far."""
        return int(np.isfinite(np.array(self.values)).sum()) + len(self.commas)

    def finish(self) -> tuple[np.ndarray, bool]:
        """All numbers, and whether they were written with decimal commas."""
        if self.wrong is not None:
            raise CellError(self._not_numbers(*self.wrong))
        values = np.array(self.values, np.float64)
        if not self.commas:
            return values, False
        _, row, cell = self.commas[0]
        if self.point is not None:
            raise CellError(
                f"column {self.name!r} mixes decimal commas and points: {cell!r} in row {row}, "
                f"{self.point[1]!r} in row {self.point[0]}. Write all numbers with points."
            )
        if all(_THOUSANDS.fullmatch(text) for _, _, text in self.commas):
            raise CellError(
                f"column {self.name!r} holds {cell!r} in row {row}, which may be thousands or a decimal comma. "
                "Write numbers without thousands separators and with decimal points."
            )
        for position, row, text in self.commas:
            if not _COMMA.fullmatch(text):
                raise CellError(f"column {self.name!r} is not numeric: row {row} holds {text!r}.")
            values[position] = float(text.replace(",", "."))
        return values, True

    def _not_numbers(self, row: int, cell: str) -> str:
        shown = cell if len(cell) <= 40 else f"{cell[:37]}..."
        if looks_like_a_date(cell):
            return dates_message(self.name, f"{shown!r} in row {row}")
        if self.numbers > self.count:
            return (
                f"column {self.name!r} holds {shown!r} in row {row}, which is no number "
                f"({self.count} such {'cell' if self.count == 1 else 'cells'}). Repair the cell or leave it blank."
            )
        return (
            f"column {self.name!r} holds text ({shown!r} in row {row}), not numbers. "
            "Choose another column or turn it into numbers."
        )


def dates_message(name: str, example: str) -> str:
    """What to say of a column of dates."""
    return (
        f"column {name!r} holds dates or times ({example}), not numbers. Add a column of elapsed time, "
        "for example hours since the task began, and use that."
    )
