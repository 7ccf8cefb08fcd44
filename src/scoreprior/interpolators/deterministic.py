"""A plain network per task: no epistemic uncertainty, the control of the interpolator comparison."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._types import KeyLike
from scoreprior.interpolators._base import FittedInterpolator, task_keys
from scoreprior.interpolators._regression import RegressionConfig, train
from scoreprior.networks import MLP
from scoreprior.tasks import PaddedTasks


@dataclass(frozen=True, kw_only=True)
class DeterministicInterpolator(RegressionConfig):
    """One network per task, trained without dropout ("Comparison of Interpolation Methods")."""

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedDeterministic:
        """Train a network on every task; takes seconds and shows no progress."""
        return FittedDeterministic(train(tasks, self, None, task_keys(key, len(tasks.mask))))


class FittedDeterministic(FittedInterpolator):
    """Networks, one per task."""

    states: MLP

    def draw(self, state: MLP, x: Float[Array, "k d"], key: PRNGKeyArray) -> Float[Array, " k"]:
        """f(x); the key is not used, every draw is the same."""
        return state(x)[:, 0]
