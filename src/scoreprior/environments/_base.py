"""What an environment is: disjoint sets of tasks, a card, and the truth where it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from scoreprior.predictive import Predictive
from scoreprior.tasks import ContextTarget, Task, TaskSet, resolution

Oracle: TypeAlias = Callable[[Task, Any], Predictive]
"""The Bayes-optimal predictive of y: oracle(context, x) -> Predictive; the context may be empty."""


def check_tasks(tasks: Any) -> int:
    """A number of meta-training tasks: a whole number of at least 1."""
    if isinstance(tasks, bool) or not isinstance(tasks, (int, np.integer)) or tasks < 1:
        raise ValueError(f"tasks is the number of meta-training tasks, a whole number of at least 1, not {tasks!r}.")
    return int(tasks)


@dataclass(frozen=True)
class Card:
    """Where data come from, in one paragraph: source, licence, sizes, units, recording step of the targets (or 0)."""

    title: str
    source: str
    licence: str
    sizes: str
    units: str
    notes: str = ""
    resolution: float = 0.0

    def __str__(self) -> str:
        parts = f"{self.title}. Source: {self.source}. Licence: {self.licence}. {self.sizes} Units: {self.units}."
        steps = f"Targets are recorded in steps of {self.resolution:g}." if self.resolution else ""
        return " ".join(filter(None, (parts, self.notes, steps)))


@dataclass(frozen=True, eq=False)
class Environment:
    """A family of related tasks, cut into meta-training, meta-validation and meta-testing tasks.

    `selection_train` is what to fit on while choosing hyper-parameters by `meta_valid`. It is `meta_train` itself
    unless the data have no tasks to spare; then `meta_valid` is held out of `meta_train` for the selection only.
    `resolution` is the recording step of the targets, found from `meta_train`, and said on the card; 0 if continuous.
    """

    name: str
    meta_train: TaskSet
    meta_valid: ContextTarget
    meta_test: ContextTarget
    card: Card
    split: int
    oracle: Oracle | None = None
    selection_train: TaskSet = field(default=None)  # type: ignore[assignment]
    resolution: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolution", resolution(self.meta_train.y))
        if self.resolution:
            object.__setattr__(self, "card", replace(self.card, resolution=self.resolution))
        if self.selection_train is None:
            object.__setattr__(self, "selection_train", self.meta_train)

    def __repr__(self) -> str:
        sizes = f"train={len(self.meta_train)}, valid={len(self.meta_valid)}, test={len(self.meta_test)}"
        return f"Environment({self.name!r}, split={self.split}, {sizes}, d={self.meta_train.dim})"
