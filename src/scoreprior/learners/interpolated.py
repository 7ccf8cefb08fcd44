"""The interpolated process with its exact posterior: what a perfect score and perfect inference would reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from scoreprior._budget import check_share
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.interpolators import MaternInterpolator
from scoreprior.interpolators.exact_posterior import ExactMixture
from scoreprior.interpolators.mixture import LEVELS, TAUS, ProcessMixture, choose_bandwidths
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.space import Space
from scoreprior.tasks import Standardizer, TaskSet


@short_repr
@dataclass(frozen=True)
class InterpolatedMixture:
    """Equal mixture of the tasks' interpolating processes, noised by level^2 I + tau^2 R, conditioned in closed form.

    Args:
        interpolator: a Gaussian process for each task.
        level: candidates of the white noise on functions, standardised units.
        tau: candidates of the correlated noise.
    """

    space: ClassVar[Space] = {}

    interpolator: MaternInterpolator = field(default_factory=MaternInterpolator.cross_validated)
    level: tuple[float, ...] = LEVELS
    tau: tuple[float, ...] = TAUS

    def __post_init__(self) -> None:
        if not (self.level and self.tau and min(self.level) >= 0 and min(self.tau) >= 0):
            raise ValueError("level and tau are candidates, at least one each, and none negative.")

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> FunctionPrior:
        """Interpolate the tasks, and choose level and tau by the likelihood of left-out tasks."""
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded(dtype=np.float64)
        fitted = self.interpolator.fit(padded, as_key(key))
        candidates = (jnp.asarray(values, jnp.float32) for values in (self.level, self.tau))
        level, tau = choose_bandwidths(fitted, padded, *candidates)
        inference = ExactMixture(ProcessMixture(fitted, tau), fitted.noise_std, level)
        metrics = {"level": float(level), "tau": float(tau), "noise_std": float(fitted.noise_std)}
        return FunctionPrior(standardizer, inference, notes_of(self, tasks, metrics))

    def with_budget(self, share: float) -> InterpolatedMixture:
        """Itself: nothing iterates."""
        check_share(share)
        return self
