"""The reference trajectory of the Argus axis: a third-order S-curve, sampled every millisecond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

SPEED, ACCELERATION, JERK = 0.1, 10.0, 1000.0  # m/s, m/s^2, m/s^3
GRID = 1e-3
_MOVING = 1e-9  # mm


def phases(step: float) -> tuple[Float[np.ndarray, " 7"], Float[np.ndarray, " 7"]]:
    """Durations (s) and jerks (m/s^3) of the seven phases of a move by `step` metres within the limits."""
    rise = min((step / (2 * JERK)) ** (1 / 3), (SPEED / JERK) ** 0.5, ACCELERATION / JERK)
    peak = min(ACCELERATION, JERK * rise)
    ramp = 1.5 * peak * rise
    # Rounding can leave the root of a move without a constant acceleration just below zero.
    root = (-ramp + np.sqrt(max(ramp**2 - 2 * peak * (peak * rise**2 - step / 2), 0.0))) / peak
    hold = max(min((SPEED - peak * rise) / peak, root), 0.0)
    speed = min(SPEED, JERK * rise**2 + JERK * rise * hold)
    cruise = max((step - 2 * (peak * rise**2 + peak * hold**2 / 2 + 1.5 * peak * rise * hold)) / speed, 0.0)
    durations = np.array([rise, hold, rise, cruise, rise, hold, rise])
    return durations, JERK * np.array([1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0])


def s_curve(step: float, time: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """Position (m) at these times (s) of a move by `step` metres that starts at 0; it rests before and after."""
    durations, jerks = phases(step)
    position = speed = acceleration = begin = 0.0
    value = np.zeros_like(time)
    for duration, jerk in zip(durations, jerks):
        t = np.clip(time - begin, 0.0, duration)
        reached = position + speed * t + acceleration * t**2 / 2 + jerk * t**3 / 6
        value = np.where(time > begin, reached, value)
        position += speed * duration + acceleration * duration**2 / 2 + jerk * duration**3 / 6
        speed += acceleration * duration + jerk * duration**2 / 2
        acceleration += jerk * duration
        begin += duration
    return value


@dataclass(frozen=True, eq=False)
class Reference:
    """A move by `step` metres as the controller gets it: positions (mm) on the 1 ms grid, the last one the step itself.

    `last_moving` counts from 1, as the published cost does: the last row that is neither the start nor the end.
    """

    step: float

    @property
    def table(self) -> Float[np.ndarray, " rows"]:
        """Positions in mm, 1 ms apart."""
        rows = int(np.ceil(phases(self.step)[0].sum() / GRID - 1e-9))
        return 1e3 * np.append(s_curve(self.step, GRID * np.arange(rows)), self.step)

    @property
    def _moving(self) -> np.ndarray:
        table = self.table
        return np.flatnonzero((np.abs(table - table[0]) > _MOVING) & (table < table[-1] - _MOVING))

    @property
    def last_moving(self) -> int:
        """Number of the last moving row, counted from 1."""
        return int(self._moving[-1]) + 1

    @property
    def duration(self) -> float:
        """T_move in seconds: from the first moving row to the row after the last one."""
        return GRID * float(self._moving[-1] + 1 - self._moving[0])

    def at(self, time: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
        """Position in mm at these times (s): straight lines between the rows, then the last one."""
        table = self.table
        return np.interp(time, GRID * np.arange(len(table)), table)
