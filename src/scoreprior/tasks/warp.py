"""`Warp`: a monotone map from the range of a target to the real line, and what a recorded value means under it.

A latent value u in (low - room, high + room) is what would be seen without rounding and without bounds; the map sends
it to z on the real line. What is recorded of u is a value that can occur: u itself, or a bound if u lies beyond it, or
with a recording step h the nearest multiple of h. So every recorded value stands for an interval of z, that of a bound
reaches to infinity, and the intervals fill the line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

_ROUND_OFF = 1e-9  # of a step: values that were divided by it


@dataclass(frozen=True)
class Warp(ABC):
    """The map itself (abstract), and the values that can occur.

    Args:
        low: the least value that can occur, or a bound that no value reaches.
        high: the largest one, possibly infinite.
        room: how far the map reaches beyond the bounds, so that values on them have a finite image.
        step: the recording step h, 0 for a continuous target.
        discrete: whether only multiples of the step occur. If not, only values within h/2 of a bound are taken for it.
    """

    low: float
    high: float
    room: float
    step: float
    discrete: bool

    @abstractmethod
    def forward(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """z at u, infinite at the ends of the map's range and beyond."""

    @abstractmethod
    def inverse(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """u at z."""

    @abstractmethod
    def log_slope(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """log dz/du, the Jacobian of a density."""

    @property
    def is_identity(self) -> bool:
        """Whether there is nothing to map back."""
        return False

    def clipped(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """u at z within the bounds, not rounded: a value of a function."""
        return np.clip(self.inverse(z), self.low, self.high)

    def recorded(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """What is recorded of z: a value that can occur."""
        u = self.inverse(z)
        if self.discrete:
            # The least value whose interval ends at u or above: a quantile is the least value that reaches its level.
            return np.clip(self.step * np.ceil(u / self.step - 0.5 - _ROUND_OFF), self.low, self.high)
        half = 0.5 * self.step
        return np.where(u <= self.low + half, self.low, np.where(u > self.high - half, self.high, u))

    def up_to(self, y: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The z below which everything is recorded as y or less."""
        u = self.step * (np.floor(y / self.step + _ROUND_OFF) + 0.5) if self.discrete else self._off_bounds(y)
        return np.where(y < self.low, -np.inf, np.where(y >= self.high, np.inf, self.forward(u)))

    def below(self, y: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The z below which everything is recorded as less than y."""
        u = self.step * (np.ceil(y / self.step - _ROUND_OFF) - 0.5) if self.discrete else self._off_bounds(y)
        return np.where(y <= self.low, -np.inf, np.where(y > self.high, np.inf, self.forward(u)))

    def interval(
        self, y: Float[np.ndarray, "*s"], step: float = 0.0
    ) -> tuple[Float[np.ndarray, "*s"], Float[np.ndarray, "*s"]]:
        """The interval of z that a recorded value y stands for; both ends are z at y where y is exact.

        `step` is a recording step that the data have and the map does not know of.
        """
        step = max(step, self.step)
        if step == 0:
            z = self.forward(y)
            return np.where(y <= self.low, -np.inf, z), np.where(y >= self.high, np.inf, z)
        low, high = y - 0.5 * step, y + 0.5 * step
        return (
            np.where(low <= self.low, -np.inf, self.forward(low)),
            np.where(high >= self.high, np.inf, self.forward(high)),
        )

    def _off_bounds(self, y: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        half = 0.5 * self.step
        return np.clip(y, self.low + half, self.high - half)


@dataclass(frozen=True)
class Identity(Warp):
    """No map: real targets."""

    low: float = -np.inf
    high: float = np.inf
    room: float = 0.0
    step: float = 0.0
    discrete: bool = False

    @property
    def is_identity(self) -> bool:
        """There is nothing to map back."""
        return True

    def forward(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """u itself."""
        return u

    def inverse(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """z itself."""
        return z

    def clipped(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """z itself."""
        return z

    def log_slope(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """Zero."""
        return np.zeros_like(u)


@dataclass(frozen=True)
class Log(Warp):
    """z = log(u - low + room): for targets without an upper bound."""

    def forward(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The logarithm, -inf where there is none."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(u - self.low + self.room, 0.0))

    def inverse(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The exponential."""
        with np.errstate(over="ignore"):
            return np.exp(z) - self.room + self.low

    def log_slope(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """-log(u - low + room)."""
        return -self.forward(u)


@dataclass(frozen=True)
class Logit(Warp):
    """z = logit of the place of u between low - room and high + room: for targets with two bounds."""

    @property
    def span(self) -> float:
        """From end to end."""
        return self.high - self.low + 2 * self.room

    def forward(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The logit."""
        return logit(np.clip((u - self.low + self.room) / self.span, 0.0, 1.0))

    def inverse(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The logistic function."""
        return self.low - self.room + self.span * expit(z)

    def log_slope(self, u: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """-log of p (1 - p) span, p the place of u."""
        place = (u - self.low + self.room) / self.span
        return -np.log(place) - np.log1p(-place) - np.log(self.span)
