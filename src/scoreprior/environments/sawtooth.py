"""Sawtooth waves of random frequency and phase: a straight rise from -1 to 1, then a jump back."""

from __future__ import annotations

import numpy as np

from scoreprior.environments._family import Family
from scoreprior.environments._synthetic import X_RANGE

FREQUENCY = (0.1, 0.3)  # uniform: one to three periods in the range of x
PHASE = (0.0, 1.0)  # uniform
NOISE_STD = 0.1

_CELLS = (np.linspace(*FREQUENCY, 401), np.linspace(*PHASE, 257))


def _wave(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The wave of amplitude 1 at x (m,): (n, m, 1), given theta = (frequency, phase), (n, 2)."""
    turns = theta[:, :1] * x + theta[:, 1:]
    return (2 * (turns - np.floor(turns)) - 1)[..., None]


SAWTOOTH = Family(
    name="sawtooth",
    title="Sawtooth waves",
    source="2 ((frequency x + phase) mod 1) - 1, frequency uniform from 0.1 to 0.3, phase uniform from 0 to 1",
    units="none",
    stream=105,
    basis=_wave,
    edges=lambda inputs: _CELLS,
    weight_mean=(1.0,),
    weight_std=(0.0,),
    x_range=X_RANGE,
    noise_std=NOISE_STD,
)
sawtooth = SAWTOOTH.environment
