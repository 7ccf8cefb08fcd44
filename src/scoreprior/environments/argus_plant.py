"""The mechanics of the Argus axis: a mass on a motor with dead time, a lag and five resonances, one sample at a time.

With q = s / (2 pi),   G(s) = exp(-s tau) K / q^2 / (s / 10000 + 1) prod_i N_i(q) / D_i(q)   in mm per unit of command.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.linalg import expm

PERIOD = 5e-5
GAIN = 5.6234e5 * (2 * np.pi) ** 2  # mm/s^2 per unit of command
DEAD_TIME = 0.002 / (2 * np.pi)
LAG = 10_000.0  # rad/s, not Hz
ZEROS = ((390.0, 0.10), (475.0, 0.03), (690.0, 0.03), (870.0, 0.03), (1050.0, 0.03))
POLES = ((400.0, 0.10), (500.0, 0.05), (800.0, 0.06), (900.0, 0.04), (1100.0, 0.06))
"""Frequency of the peak in Hz and damping ratio of the five antiresonances and resonances."""
STATES = 3 + 2 * len(POLES)

Interpolation: TypeAlias = Literal["linear", "held"]
Solver: TypeAlias = Literal["ode3", "exact"]

_DELAY = DEAD_TIME / PERIOD  # 6.37 samples
OLDEST = int(np.ceil(_DELAY))  # a period depends on the commands 7, 6 and 5 samples before
SETTING_IN = OLDEST  # from this sample on every period is like the others


class Plant(NamedTuple):
    """x[k+1] = transition x[k] + drive[min(k, 7)] (u[k-7], u[k-6], u[k-5]),   position p[k] = x[k][-1].

    The dead time passes nothing on before it is over: the first periods have drives of their own.
    """

    transition: Float[np.ndarray, "13 13"]
    drive: Float[np.ndarray, "8 13 3"]


def continuous() -> tuple[Float[np.ndarray, "13 13"], Float[np.ndarray, " 13"]]:
    """dx/dt = A x + b u without the dead time: the lag, the resonances in series, then speed and position."""
    a, b = np.zeros((STATES, STATES)), np.zeros(STATES)
    a[0, 0], b[0] = -LAG, LAG
    output = np.eye(STATES)[0]  # the row that gives a section's output from the states
    for i, (zero, pole) in enumerate(zip(ZEROS, POLES)):
        (wn, zn), (wd, zd) = _angular(*zero), _angular(*pole)
        first, second = 1 + 2 * i, 2 + 2 * i
        # w = 1 / D(s) of the input, scaled so that both states have its unit: x1 = w, x2 = (dw/dt) / wd.
        a[first, second] = wd
        a[second] += wd * output
        a[second, first] -= wd
        a[second, second] -= 2 * zd * wd
        # N(s) w = w + 2 zn / wn dw/dt + d2w/dt2 / wn^2
        output = (wd / wn) ** 2 * (a[second] / wd)
        output[first] += 1
        output[second] += 2 * zn * wd / wn
    a[-2] = GAIN * output
    a[-1, -2] = 1.0
    return a, b


def sampled(solver: Solver = "ode3", interpolation: Interpolation = "linear") -> Plant:
    """The plant over one period of 50 us, with the delayed command interpolated between samples or held.

    `ode3` is the fixed-step rule of Bogacki and Shampine, as in the published model; `exact` solves the equation.
    """
    a, b = continuous()
    build = _ode3 if solver == "ode3" else _exact
    drives = [build(a, b, sample, interpolation) for sample in range(SETTING_IN + 1)]
    step = PERIOD * a
    ode3 = np.eye(STATES) + step + step @ step / 2 + step @ step @ step / 6
    return Plant(ode3 if solver == "ode3" else expm(step), np.stack(drives))


def _angular(peak: float, damping: float) -> tuple[float, float]:
    return 2 * np.pi * peak / np.sqrt(1 - 2 * damping**2), damping


def _delayed(sample: int, fraction: float, interpolation: Interpolation) -> Float[np.ndarray, " 3"]:
    """Weights of u[k-7], u[k-6], u[k-5] in the delayed command, `fraction` of a period after sample k."""
    weights = np.zeros(3)
    if sample + fraction <= _DELAY:  # the dead time is not over
        return weights
    place = OLDEST - _DELAY + fraction  # samples after k - 7
    left = min(int(place), 1)
    right = place - left if interpolation == "linear" else 0.0
    weights[left], weights[left + 1] = 1 - right, right
    return weights


def _ode3(a: np.ndarray, b: np.ndarray, sample: int, interpolation: Interpolation) -> Float[np.ndarray, "13 3"]:
    step, eye = PERIOD * a, np.eye(STATES)
    stages = np.column_stack(
        [(2 / 9 * eye + step / 6 + step @ step / 6) @ b, (eye / 3 + step / 3) @ b, 4 / 9 * b],
    )
    return PERIOD * stages @ np.stack([_delayed(sample, c, interpolation) for c in (0.0, 0.5, 0.75)])


def _exact(a: np.ndarray, b: np.ndarray, sample: int, interpolation: Interpolation) -> Float[np.ndarray, "13 3"]:
    """The delayed command is a straight line until it passes a sample, and another one after it."""
    kink = _DELAY % 1
    drive = np.zeros((STATES, 3))
    for begin, end in ((0.0, kink), (kink, 1.0)):
        # Just inside the piece: the command may jump at its ends.
        inside = begin + np.array([0.25, 0.75]) * (end - begin)
        near, far = (_delayed(sample, fraction, interpolation) for fraction in inside)
        slope = (far - near) / (inside[1] - inside[0]) / PERIOD
        level = near - slope * (inside[0] - begin) * PERIOD
        # d/dt (x, u, du/dt) = (A x + b u, du/dt, 0), with u one of three: columns after x.
        block = np.zeros((STATES + 2, STATES + 2))
        block[:STATES, :STATES], block[:STATES, STATES], block[STATES, STATES + 1] = a, b, 1.0
        over = expm(block * (end - begin) * PERIOD)[:STATES, STATES:]
        drive = expm(a * (end - begin) * PERIOD) @ drive + np.outer(over[:, 0], level) + np.outer(over[:, 1], slope)
    return drive
