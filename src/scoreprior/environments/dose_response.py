"""Dose-response curves: sigmoids of the log dose with random slope, centre and upper level."""

from __future__ import annotations

import numpy as np

from scoreprior.environments._family import Family

LOG_DOSE = (-3.0, 3.0)
SLOPE = (2.0, 10.0)  # log-uniform; per decade of dose, so Hill coefficients of 0.9 to 4.3
CENTRE = (-2.5, 2.5)  # uniform
LEVEL_MEAN = (0.0, 1.0)  # (lower, upper) ~ N
LEVEL_STD = (0.02, 0.3)
NOISE_STD = 0.03

_CELLS = (np.linspace(np.log(SLOPE[0]), np.log(SLOPE[1]), 41), np.linspace(*CENTRE, 501))


def _levels(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """How much of (lower, upper) is at x (m,): (n, m, 2), given theta = (log slope, centre), (n, 2)."""
    rise = 1 / (1 + np.exp(-np.exp(theta[:, :1]) * (x - theta[:, 1:])))
    return np.stack([1 - rise, rise], axis=-1)


DOSE_RESPONSE = Family(
    name="dose-response",
    title="Dose-response curves",
    source="lower + (upper - lower) / (1 + exp(-slope (x - centre))), slope log-uniform from 2 to 10, centre uniform "
    "from -2.5 to 2.5, lower N(0, 0.02^2), upper N(1, 0.3^2)",
    units="x is the log10 of a dose, y a response in units of the mean full response",
    stream=104,
    basis=_levels,
    edges=lambda inputs: _CELLS,
    weight_mean=LEVEL_MEAN,
    weight_std=LEVEL_STD,
    x_range=LOG_DOSE,
    noise_std=NOISE_STD,
)
dose_response = DOSE_RESPONSE.environment
