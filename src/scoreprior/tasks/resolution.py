"""The step in which targets were recorded, found from their values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_SHARE = 0.8
"""Of the values that must lie on the grid: means of several recorded values lie between."""
_COARSE = 0.01
"""Steps of at least so many standard deviations matter, whether or not values are repeated."""
_MOST = 2000
"""Values among which repetitions are counted: among very many even finely printed ones repeat."""
_MANTISSAS = (5, 2, 1)
_ROUND_OFF = 4 * float(np.finfo(np.float32).eps)


def resolution(y: Any) -> float:
    """The recording step h of targets y (n,): the coarsest of 1, 2, 5 times a power of ten that fits them; 0 if none.

    At least 80% of the values other than the most frequent one are multiples of h, and h is at least a hundredth of the
    standard deviation or half of the values occur more than once; otherwise the targets count as continuous.
    """
    values = np.asarray(y, np.float64).ravel()
    if not np.isfinite(values).all():
        raise ValueError("The resolution of targets needs finite ones.")
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 2:
        return 0.0
    # Zeros are multiples of everything: without this rain, mostly none, would have a grid.
    others = values[values != distinct[np.argmax(counts)]]
    sizes, spread = np.abs(others), values.std()
    for step in _steps(spread, np.ptp(values), sizes.max()):
        error = np.abs(sizes - step * np.round(sizes / step))
        if np.mean(error <= 1e-6 * step + _ROUND_OFF * sizes) >= _SHARE:
            return step if step >= _COARSE * spread or _repeated(values) >= 0.5 else 0.0
    return 0.0


def _steps(spread: float, coarsest: float, largest: float) -> list[float]:
    """Candidates, coarsest first; where round-off is not small against a step, chance would put values on its grid."""
    finest = max(1e-5 * spread, 40 * _ROUND_OFF * largest)
    powers = range(math.floor(math.log10(coarsest)), math.floor(math.log10(finest)) - 1, -1)
    steps = [float(f"{mantissa}e{power}") for power in powers for mantissa in _MANTISSAS]
    return [step for step in steps if finest <= step <= coarsest * (1 + 1e-6)]


def _repeated(values: np.ndarray) -> float:
    """Share of values that occur more than once, among a limited number of them."""
    some = values[np.linspace(0, len(values) - 1, min(len(values), _MOST)).astype(int)]
    _, where, counts = np.unique(some, return_inverse=True, return_counts=True)
    return float(np.mean(counts[where] > 1))
