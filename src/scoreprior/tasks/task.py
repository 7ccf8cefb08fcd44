"""`Task`: one small regression dataset, checked on its way in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprior._types import Inputs, Targets
from scoreprior.tasks.checks import TaskError, check_finite, numeric


@dataclass(frozen=True, eq=False)
class Task:
    """One regression dataset D_i = (X_i, y_i): inputs x (m, d) or (m,), targets y (m,), in original units."""

    x: Inputs
    y: Targets
    name: str = "task"

    def __init__(self, x: Any, y: Any, name: str = "task"):
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
        for array in (inputs, targets):
            array.setflags(write=False)
        object.__setattr__(self, "x", inputs)
        object.__setattr__(self, "y", targets)
        object.__setattr__(self, "name", str(name))

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        """Number of input dimensions d."""
        return self.x.shape[1]

    def take(self, rows: Any) -> Task:
        """The task with only these rows (an index array, a slice or a boolean mask)."""
        return Task(self.x[rows], self.y[rows], self.name)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, m={len(self)}, d={self.dim})"
