"""`ContextTarget`: tasks cut in two, what is known of them and what is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

from scoreprior.tasks.checks import TaskError

if TYPE_CHECKING:
    from scoreprior.tasks.task_set import TaskSet  # which imports this module


@dataclass(frozen=True, eq=False)
class ContextTarget:
    """Tasks cut in two: condition on `context[i]`, predict `target[i]`."""

    context: TaskSet
    target: TaskSet

    def __post_init__(self) -> None:
        if len(self.context) != len(self.target):
            raise TaskError(f"{len(self.context)} contexts do not pair with {len(self.target)} targets.")

    def __len__(self) -> int:
        return len(self.context)

    def take(self, indices: Iterable[SupportsIndex]) -> ContextTarget:
        """Only these tasks, in this order."""
        chosen = list(indices)
        return ContextTarget(self.context.take(chosen), self.target.take(chosen))

    @property
    def whole(self) -> TaskSet:
        """The tasks before they were cut: the points of the context, then those of the target."""
        pairs = zip(self.context, self.target)
        return self.context._with(one.joined(other) for one, other in pairs)
