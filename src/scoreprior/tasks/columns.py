"""Columns of a table as they were written, before any encoding: numbers, instants or words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

Kind = Literal["number", "date", "category"]
"""What a column of inputs holds."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers (r,), NaN where missing."""

    values: Float[np.ndarray, " r"]

    def present(self) -> Bool[np.ndarray, " r"]:
        """Where a finite number is there."""
        return np.isfinite(self.values)

    def take(self, rows: Int[np.ndarray, " k"]) -> Numbers:
        """Only these rows."""
        return Numbers(self.values[rows])

    def cells(self) -> np.ndarray:
        """For a data frame: numbers, NaN where missing."""
        return np.where(self.present(), self.values, np.nan)


@dataclass(frozen=True, eq=False)
class Instants:
    """Points in time (r,) as datetime64[us], NaT where missing.

    Args:
        zoned: whether they were written with time zones, and so are in UTC here; otherwise they are as a clock showed.
    """

    values: np.ndarray
    zoned: bool = False

    def present(self) -> Bool[np.ndarray, " r"]:
        """Where a date is there."""
        return ~np.isnat(self.values)

    def take(self, rows: Int[np.ndarray, " k"]) -> Instants:
        """Only these rows."""
        return Instants(self.values[rows], self.zoned)

    def cells(self) -> np.ndarray:
        """For a data frame: datetime64[us], NaT where missing."""
        return self.values


@dataclass(frozen=True, eq=False)
class Words:
    """Texts (r,) without the space around them, empty where missing."""

    values: tuple[str, ...]

    def present(self) -> Bool[np.ndarray, " r"]:
        """Where a word is there."""
        return np.array([word != "" for word in self.values], bool)

    def take(self, rows: Int[np.ndarray, " k"]) -> Words:
        """Only these rows."""
        return Words(tuple(self.values[row] for row in rows))

    def cells(self) -> np.ndarray:
        """For a data frame: text, None where missing."""
        return np.array([word or None for word in self.values], object)


Column = Numbers | Instants | Words
