"""`Standardizer`: the frozen map to standardised units, the door on the way in."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scoreprior.tasks.channels import ChannelScales
from scoreprior.tasks.checks import TaskError, listing
from scoreprior.tasks.encoding import InputEncoding
from scoreprior.tasks.target_kinds import Real, TargetKind
from scoreprior.tasks.task import Task
from scoreprior.tasks.task_set import TaskSet
from scoreprior.tasks.warp import Identity, Warp

_INDICATOR_STD = 0.5
"""The standard deviation of an input that is 1 in half of the rows and 0 in the others."""


NOISE_METHODS = "pooled-gp, hierarchical-gp and vanilla-gp"
WEIGHT_METHODS = "pooled-gp and hierarchical-gp"
"""Methods that use what is known of rows and tasks, in words."""


@dataclass(frozen=True, eq=False)
class Standardizer:
    """The map to zero mean and unit variance of the pooled meta-training points, frozen.

    Targets of a kind that is not real go through the monotone map of their kind first; `y_mean` and `y_std` are of what
    comes out of it.
    """

    x_mean: Float[np.ndarray, " d"]
    x_std: Float[np.ndarray, " d"]
    y_mean: float
    y_std: float
    kind: TargetKind = Real()  # noqa: RUF009 (frozen)
    warp: Warp = Identity()  # noqa: RUF009 (frozen)
    encoding: InputEncoding | None = None  # of the columns that x came from, where they are known
    channels: ChannelScales | None = None  # of several targets, each scaled on its own before all else

    @classmethod
    def fit(cls, tasks: TaskSet) -> Standardizer:
        """Fit on meta-training tasks; every meta-learner enters here, so this checks there is enough."""
        if not isinstance(tasks, TaskSet):
            raise TaskError(f"A TaskSet is needed, not a {type(tasks).__name__}; see TaskSet.from_frame.")
        if len(tasks) < 2:
            raise TaskError(
                f"Meta-learning needs at least two tasks, but there is only one ({tasks[0].name}). If the "
                "table holds several, check the column that says which task a row belongs to."
            )
        empty = [task.name for task in tasks if len(task) == 0]
        if empty:
            raise TaskError(f"{listing(empty)} has no points; meta-training tasks need at least one row.")
        x, y = tasks.x, tasks.y
        indicators = np.zeros(tasks.dim, bool) if tasks.encoding is None else tasks.encoding.indicators
        absent = indicators & ~x.any(axis=0)  # a category of tasks that are held out here
        constant = [
            name for name, out, column in zip(tasks.input_names, absent, x.T) if _is_constant(column) and not out
        ]
        if constant:
            warnings.warn(
                f"Input {listing(constant)} is constant over all tasks and carries no information.",
                stacklevel=3,
            )
        if _is_constant(y):
            warnings.warn(f"Target {tasks.target_name} is constant ({y[0]:g}) over all tasks.", stacklevel=3)
        channels = None
        if tasks.encoding is not None and tasks.encoding.channels:
            if not isinstance(tasks.target, Real):
                raise TaskError(f"Several targets are real ones; these are {tasks.target.words}.")
            last = len(tasks.encoding.inputs) - 1
            inputs = tuple(at for at, source in enumerate(tasks.encoding.sources) if source == last)
            channels = ChannelScales.fit(inputs, x, y)
            mean, std = channels.of(x)
            y = (y - mean) / std
        warp = tasks.target.warp(y)
        z = warp.forward(y)
        x_std = np.array([_spread(column) for column in x.T])
        x_std[indicators] = _INDICATOR_STD  # all categories equally far apart, the rare ones too
        return cls(x.mean(0), x_std, float(z.mean()), _spread(z), tasks.target, warp, tasks.encoding, channels)

    def scale_x(self, x: Float[np.ndarray, "*m d"]) -> Float[np.ndarray, "*m d"]:
        """Inputs to standardised units."""
        return (x - self.x_mean) / self.x_std

    def scale_y(self, y: Float[np.ndarray, "*m"]) -> Float[np.ndarray, "*m"]:
        """Targets to standardised units."""
        return (self.warp.forward(y) - self.y_mean) / self.y_std

    def target_scales(self, x: Float[np.ndarray, "q d"]) -> tuple[Any, Any]:
        """Mean and standard deviation of the targets at x: two numbers, or of several targets two (q,)."""
        if self.channels is None:
            return self.y_mean, self.y_std
        mean, std = self.channels.of(x)
        return mean + std * self.y_mean, std * self.y_std

    def unscale_y(
        self, y: Float[np.ndarray, "*m"], x: Float[np.ndarray, "q d"] | None = None
    ) -> Float[np.ndarray, "*m"]:
        """Function values back to original units, within the bounds of the target; x tells which of several it is."""
        mean, std = (self.y_mean, self.y_std) if x is None else self.target_scales(x)
        return self.warp.clipped(y * std + mean)

    def rounding_interval(
        self, y: Float[np.ndarray, "*m"], step: float, x: Float[np.ndarray, "m d"] | None = None
    ) -> tuple[Float[np.ndarray, "*m"], Float[np.ndarray, "*m"]]:
        """What targets recorded in steps (0: exact) stand for in standardised units: middles and half widths.

        An interval without a lower or an upper end has the half width -inf or inf, and its only end for a middle.
        Several targets, which x tells apart, have no step in common: they count as exact.
        """
        if self.channels is not None and x is not None:
            mean, std = self.target_scales(x)
            return (y - mean) / std, np.zeros_like(y)
        low, high = ((end - self.y_mean) / self.y_std for end in self.warp.interval(y, step))
        below, above = np.isinf(low), np.isinf(high)
        with np.errstate(invalid="ignore"):
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
        return (
            np.where(below, high, np.where(above, low, middle)),
            np.where(below, -np.inf, np.where(above, np.inf, half)),
        )

    def intervals(
        self, scaled: Float[np.ndarray, "*m"], step: float
    ) -> tuple[Float[np.ndarray, "*m"], Float[np.ndarray, "*m"]]:
        """`rounding_interval` of targets in standardised units."""
        return self.rounding_interval(self.warp.inverse(scaled * self.y_std + self.y_mean), step)

    def apply(self, tasks: TaskSet, *, noise: bool = False, weights: bool = False) -> TaskSet:
        """Tasks in standardised units, for a method that uses known noise or weights of tasks, or none of it.

        Nothing that is known of tasks is ignored: what the method cannot use is a `TaskError`.
        """
        self.kind.check(tasks)
        if any(task.noise_is_known for task in tasks):
            if not noise:
                raise TaskError(f"This method cannot use known noise or replicate counts; {NOISE_METHODS} can.")
            if not self.warp.is_identity:
                raise TaskError(f"Known noise is that of real targets; {tasks.target_name} is {self.kind.words}.")
        if not weights and any(task.weight != 1 for task in tasks):
            raise TaskError(f"This method cannot use weights of tasks; {WEIGHT_METHODS} can.")
        return tasks.with_target(Real()).map(self.scale_task)

    def scale_task(self, task: Task) -> Task:
        """One task in standardised units, its known noise too."""
        mean, std = self.target_scales(task.x)
        noise = None if task.noise is None else task.noise / std
        y = self.scale_y(task.y) if self.channels is None else (task.y - mean) / std
        return Task(
            self.scale_x(task.x),
            y,
            task.name,
            noise=noise,
            replicates=task.replicates,
            weight=task.weight,
        )


def _is_constant(column: np.ndarray) -> bool:
    # Round-off of the mean makes the std of a constant column tiny, not zero.
    return bool(np.ptp(column) <= 1e-12 * max(1e-300, np.abs(column).max()))


def _spread(column: np.ndarray) -> float:
    # A constant column is only centred: dividing by its std would blow up on the first new value.
    return 1.0 if _is_constant(column) else float(column.std())
