"""Change points: one step at an unknown place between two random levels, which no Gaussian process expresses."""

from __future__ import annotations

import numpy as np

from scoreprior.environments._family import Family
from scoreprior.environments._synthetic import X_RANGE

LEVEL_STD = 0.5  # both levels ~ N(0, .)
NOISE_STD = 0.05


def _sides(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Whether x (m,) is before or after the step: (n, m, 2), given its place theta (n, 1)."""
    after = (x >= theta).astype(float)
    return np.stack([1 - after, after], axis=-1)


def _between_points(inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Cells between the context points: on these the evidence is constant, so the integral is exact."""
    inside = inputs[(inputs > X_RANGE[0]) & (inputs < X_RANGE[1])]
    return (np.concatenate([X_RANGE[:1], np.sort(inside), X_RANGE[1:]]),)


CHANGE_POINT = Family(
    name="change-point",
    title="Change points",
    source="one step at a place uniform from -5 to 5 between two levels N(0, 0.5^2)",
    units="none",
    stream=106,
    basis=_sides,
    edges=_between_points,
    weight_mean=(0.0, 0.0),
    weight_std=(LEVEL_STD, LEVEL_STD),
    x_range=X_RANGE,
    noise_std=NOISE_STD,
)
change_point = CHANGE_POINT.environment
