"""PITs as counts between the levels of the calibration error: all that calibration needs, in few bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int

from scoreprior.metrics import LEVELS

GRID = np.linspace(0.0, 1.0, LEVELS)
_LETTERS = "abcdefghijklmnopqrs"  # one per gap between two neighbouring levels


def encode(pits: Iterable[np.ndarray]) -> str:
    """One word per task: "a2c" says that two PITs lie in the first gap between levels and one in the third."""
    return " ".join(_word(each) for each in pits)


def _word(pits: np.ndarray) -> str:
    # The level itself belongs to the gap above it: the calibration error counts PITs strictly below a level.
    gaps = np.minimum(np.searchsorted(GRID, pits, side="right") - 1, LEVELS - 2)
    counts = np.bincount(gaps, minlength=LEVELS - 1)
    return "".join(f"{letter}{n if n > 1 else ''}" for letter, n in zip(_LETTERS, counts) if n)


def decode(text: str) -> Int[np.ndarray, "n gaps"]:
    """The counts of every task."""
    words = text.split()
    counts = np.zeros((len(words), LEVELS - 1), int)
    for row, word in zip(counts, words):
        for letter, n in re.findall(r"([a-s])(\d*)", word):
            row[_LETTERS.index(letter)] = int(n or 1)
    return counts


def share_below(counts: Int[np.ndarray, "*n gaps"]) -> Float[np.ndarray, "*n levels"]:
    """Share of the PITs below every level."""
    cumulated = np.cumsum(counts, axis=-1)
    below = np.concatenate([np.zeros((*cumulated.shape[:-1], 1)), cumulated], axis=-1)
    return below / cumulated[..., -1:]


def calibration_error(counts: Int[np.ndarray, "*n gaps"]) -> Float[np.ndarray, "*n"]:
    """`metrics.calibration_error` of the PITs that were counted."""
    return np.abs(share_below(counts) - GRID).mean(-1)


def pooled(counts: Sequence[np.ndarray] | np.ndarray) -> float:
    """The calibration error over the points of all tasks."""
    return float(calibration_error(np.sum(counts, axis=0)))
