"""What an inference is: one task's points in, a posterior state, predictives and prior draws out."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks


class NeedsAllTasksError(TypeError):
    """A prior was to learn from further tasks alone, and its method has no formula for that."""


class Inference(eqx.Module):
    """How a task's few points become predictions; everything concerns ONE task in standardised units.

    A method builds one when it is fitted, and `FunctionPrior` does the rest.
    """

    chunk: ClassVar[int | None] = None
    """Tasks inferred at once; None is all of them. A batch whose working set leaves the cache is slow."""
    uses_noise: ClassVar[bool] = False
    """Whether it uses what is known of the noise of points; then `predict` takes that of the queries, too."""
    draws_observations: ClassVar[bool] = False
    """Whether `sample` draws observations y, with their noise; otherwise functions f without it."""

    @abstractmethod
    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PyTree:
        """The posterior state given a padded task: x (m, d), y (m,), mask (m,), possibly with no real point."""

    @abstractmethod
    def predict(self, state: PyTree, x: Float[Array, "q d"]) -> Mixture:
        """The predictive at x given a posterior state."""

    @abstractmethod
    def draw(self, state: PyTree, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw from the posterior, at x."""

    @abstractmethod
    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw from the prior, at x."""

    def update(self, tasks: PaddedTasks) -> Inference:
        """The inference given further tasks (n, m) beside those that it was learned from, where there is a formula."""
        raise NeedsAllTasksError(
            f"{self.describe().capitalize()} cannot learn from further tasks alone: fit it again to all tasks."
        )

    @abstractmethod
    def describe(self) -> str:
        """What it is, in a few words for people."""
