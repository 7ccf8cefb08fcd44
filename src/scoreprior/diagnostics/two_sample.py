"""Whether two samples of functions come from one process: the energy distance between their values at some points."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def energy_distance(one: Float[np.ndarray, "n k"], other: Float[np.ndarray, "m k"]) -> float:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| of n and m draws of k values, without bias (Székely & Rizzo, 2013).

    It is zero for two samples of one distribution, on average: a single one may be below. Its distribution there is
    not normal, so a standard error comes from repetitions with new draws, not from within the samples.
    """
    if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[1]:
        raise ValueError(f"Two samples of values at the same points are needed, not of {one.shape} and {other.shape}.")
    if min(len(one), len(other)) < 2:
        raise ValueError("A sample needs two draws at least: its spread is part of the distance.")
    from scipy.spatial.distance import cdist, pdist  # here, since it takes a while to import

    return float(2 * cdist(one, other).mean() - pdist(one).mean() - pdist(other).mean())
