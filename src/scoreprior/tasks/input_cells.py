"""Cells of an input column of a text table: numbers, dates or words, told apart by what most cells are."""

from __future__ import annotations

import numpy as np

from scoreprior.tasks.cells import MISSING, NumberColumn
from scoreprior.tasks.columns import Column, Instants, Kind, Numbers, Words
from scoreprior.tasks.dates import instants, looks_like_a_date

MISSING_WORDS = MISSING - {"none", "nil", "missing"}
"""Texts that stand for a missing value among words, where `none` may be a treatment."""
_BOOLEANS = {"true": 1.0, "false": 0.0}


def kind_of(numbers: int, dates: int, words: int) -> Kind:
    """What a column with so many cells of each kind is meant to be: a few words do not make numbers categories."""
    if numbers > dates + words or numbers + dates + words == 0:
        return "number"
    return "date" if dates >= words else "category"


class InputCells:
    """Cells read from text one by one; what the column is, unless that is known, is told at the end."""

    def __init__(self, name: str, kind: Kind | None = None):
        self.name = name
        self.kind = kind
        self._numbers = NumberColumn(name)
        self._texts: list[str] = []
        self._rows: list[int] = []
        self._same: dict[str, str] = {}  # one object per text, however many rows it has

    def append(self, text: str, row: int) -> None:
        """The next cell, of this row of the file."""
        cell = text.strip()
        self._texts.append(self._same.setdefault(cell, cell))
        self._rows.append(row)
        self._numbers.append(cell, row)

    def finish(self) -> tuple[Column, bool]:
        """The column, and whether its numbers were written with decimal commas."""
        kind = self.kind or self._kind()
        if kind == "date":
            cells = [None if text.lower() in MISSING else text for text in self._texts]
            return Instants(*instants(self.name, cells, self._rows)), False
        if kind == "category":
            return Words(tuple("" if text.lower() in MISSING_WORDS else text for text in self._texts)), False
        if self._same and {text.lower() for text in self._same} - MISSING <= _BOOLEANS.keys():
            return Numbers(np.array([_BOOLEANS.get(text.lower(), np.nan) for text in self._texts])), False
        values, commas = self._numbers.finish()
        return Numbers(values), commas

    def _kind(self) -> Kind:
        if not self._numbers.count or {text.lower() for text in self._same} - MISSING <= _BOOLEANS.keys():
            return "number"
        dated = {text for text in self._same if looks_like_a_date(text)}
        dates = sum(text in dated for text in self._texts)
        return kind_of(self._numbers.numbers, dates, self._numbers.count - dates)
