"""`Task`: one small regression dataset, checked on its way in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprior._types import Inputs, Targets
from scoreprior.tasks.checks import TaskError, check_finite, numeric, per_row


@dataclass(frozen=True, eq=False)
class Task:
    """One regression dataset D_i = (X_i, y_i): inputs x (m, d) or (m,), targets y (m,), in original units.

    Args:
        noise: known standard deviation (m,) of the targets' own noise, beside what a method finds; None for none.
        replicates: how many measurements (m,) each target is the mean of; None for one.
        weight: how much the task counts in learning, against 1 for others.
    """

    x: Inputs
    y: Targets
    name: str = "task"
    noise: Targets | None = None
    replicates: Targets | None = None
    weight: float = 1.0

    def __init__(
        self, x: Any, y: Any, name: str = "task", *, noise: Any = None, replicates: Any = None, weight: float = 1.0
    ):
        inputs = numeric(x, f"x of {name}")
        targets = numeric(y, f"y of {name}")
        if inputs.ndim == 1:
            inputs = inputs[:, None]
        if inputs.ndim != 2 or inputs.shape[1] == 0:
            raise TaskError(f"x of {name} has shape {np.shape(x)}; it must be (m, d) or (m,).")
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = targets[:, 0]
        if targets.ndim != 1:
            raise TaskError(f"y of {name} has shape {np.shape(y)}; it must be (m,): one target per row.")
        if len(inputs) != len(targets):
            raise TaskError(f"{name} has {len(inputs)} rows in x but {len(targets)} in y; they must agree.")
        check_finite(inputs, f"x of {name}")
        check_finite(targets, f"y of {name}")
        known = {
            "noise": per_row(noise, len(targets), f"noise of {name}", least=0.0),
            "replicates": per_row(replicates, len(targets), f"replicates of {name}", least=1.0),
        }
        if not 0 < weight < np.inf:
            raise TaskError(f"weight of {name} is {weight}; it must be a number above 0.")
        for array in (inputs, targets, *known.values()):
            if array is not None:
                array.setflags(write=False)
        object.__setattr__(self, "x", inputs)
        object.__setattr__(self, "y", targets)
        object.__setattr__(self, "name", str(name))
        object.__setattr__(self, "noise", known["noise"])
        object.__setattr__(self, "replicates", known["replicates"])
        object.__setattr__(self, "weight", float(weight))

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        """Number of input dimensions d."""
        return self.x.shape[1]

    def take(self, rows: Any) -> Task:
        """The task with only these rows (an index array, a slice or a boolean mask)."""
        known = {name: None if values is None else values[rows] for name, values in self.known.items()}
        return Task(self.x[rows], self.y[rows], self.name, **known, weight=self.weight)

    @property
    def known(self) -> dict[str, Targets | None]:
        """What is known of the noise of its rows, as arguments of `Task`."""
        return {"noise": self.noise, "replicates": self.replicates}

    @property
    def noise_is_known(self) -> bool:
        """Whether something is known of the noise of its rows."""
        return self.noise is not None or self.replicates is not None

    @property
    def counted_once(self) -> Task:
        """The task with weight 1."""
        return self if self.weight == 1 else Task(self.x, self.y, self.name, **self.known)  # type: ignore[arg-type]

    def joined(self, other: Task) -> Task:
        """The task with the rows of the other after its own."""
        known: dict[str, Any] = {}
        for name, usual in (("noise", 0.0), ("replicates", 1.0)):
            both = (self, other)
            parts = [np.full(len(each), usual) if each.known[name] is None else each.known[name] for each in both]
            told = self.known[name] is not None or other.known[name] is not None
            known[name] = np.concatenate(parts) if told else None  # type: ignore[arg-type]
        x, y = np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y])
        return Task(x, y, self.name, **known, weight=self.weight)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, m={len(self)}, d={self.dim})"
