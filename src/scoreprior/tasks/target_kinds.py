"""Kinds of targets: what values can occur, and the map by which a method sees them as bell-shaped.

    TaskSet(tasks, target=Bounded(3, 15))

A kind says what is known of a target before any data; `warp` fits the map to training targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.resolution import resolution
from scoreprior.tasks.task import Task
from scoreprior.tasks.warp import Identity, Log, Logit, Warp

_ROOM = 0.1
_STEPS_OF_ROOM = 2.0
"""Bounded targets: room beyond the bounds is a tenth of the range, and at least two steps. Less would set values near a
bound far apart from each other, where noise is as large as elsewhere."""
_MOSTLY = 0.95
"""Share of bounded values on the grid above which they count as discrete: means of two scores may lie between."""


@dataclass(frozen=True)
class TargetKind(ABC):
    """What values a target can have."""

    name: ClassVar[str]

    @abstractmethod
    def warp(self, y: Float[np.ndarray, " n"]) -> Warp:
        """The map for these training targets."""

    @abstractmethod
    def allows(self, y: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Which of these values can occur."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What values can occur, to end a sentence with."""

    def check(self, tasks: Iterable[Task]) -> None:
        """Refuse values that cannot occur; the error names the task and the value."""
        for task in tasks:
            wrong = ~self.allows(task.y)
            if wrong.any():
                raise TaskError(
                    f"The target is {self.words}, but y of {task.name} is {task.y[wrong][0]:g} "
                    f"({int(wrong.sum())} such values in this task). Repair it or choose another kind of target."
                )


@dataclass(frozen=True)
class Real(TargetKind):
    """Any number: no map."""

    name: ClassVar[str] = "real"

    def warp(self, y: Float[np.ndarray, " n"]) -> Identity:
        """None."""
        return Identity()

    def allows(self, y: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """All of them."""
        return np.ones(np.shape(y), bool)

    @property
    def words(self) -> str:
        """Any number."""
        return "any number"


@dataclass(frozen=True)
class Positive(TargetKind):
    """Numbers above 0, whose logarithms are alike: concentrations, prices, durations."""

    name: ClassVar[str] = "positive"

    def warp(self, y: Float[np.ndarray, " n"]) -> Log:
        """The logarithm."""
        step = resolution(y)
        if step and _on_grid(y, step):
            return Log(low=step, high=inf, room=step, step=step, discrete=True)
        return Log(low=0.0, high=inf, room=0.0, step=0.0, discrete=False)

    def allows(self, y: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Those above 0."""
        return y > 0

    @property
    def words(self) -> str:
        """Above 0."""
        return "above 0"


@dataclass(frozen=True)
class Bounded(TargetKind):
    """Numbers from low to high, both included: scores, percentages.

    Args:
        low: the least value.
        high: the largest value.
    """

    low: float
    high: float
    name: ClassVar[str] = "bounded"

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise TaskError(f"Bounds are two finite numbers, the lower first, not {self.low} and {self.high}.")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    def warp(self, y: Float[np.ndarray, " n"]) -> Logit:
        """The logit, with room for values on the bounds."""
        step = resolution(y)
        ends = np.array([self.low, self.high])
        whole = step > 0 and _on_grid(ends, step) and _on_grid(y, step, _MOSTLY)
        room = max(_STEPS_OF_ROOM * step, _ROOM * (self.high - self.low))
        return Logit(self.low, self.high, room, step, whole)

    def allows(self, y: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Those from low to high."""
        return (y >= self.low) & (y <= self.high)

    @property
    def words(self) -> str:
        """The bounds."""
        return f"bounded by {self.low:g} and {self.high:g}"


@dataclass(frozen=True)
class BinaryRate(Bounded):
    """Shares of yes among yes and no, from 0 to 1: `Bounded(0, 1)` under a name."""

    low: float = field(default=0.0, init=False)
    high: float = field(default=1.0, init=False)
    name: ClassVar[str] = "binary-rate"

    @property
    def words(self) -> str:
        """The bounds."""
        return "a rate from 0 to 1"


@dataclass(frozen=True)
class Count(TargetKind):
    """Whole numbers from 0: how often something happened."""

    name: ClassVar[str] = "count"

    def warp(self, y: Float[np.ndarray, " n"]) -> Log:
        """The logarithm of the count and a half."""
        return Log(low=0.0, high=inf, room=0.5, step=1.0, discrete=True)

    def allows(self, y: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whole numbers from 0."""
        return (y >= 0) & (y == np.round(y))

    @property
    def words(self) -> str:
        """Whole numbers."""
        return "a count: a whole number, 0 or more"


def _on_grid(y: Float[np.ndarray, " n"], step: float, share: float = 1.0) -> bool:
    return bool(np.mean(np.abs(y - step * np.round(y / step)) <= 1e-6 * (step + np.abs(y))) >= share)
