"""Which points of a task are its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.task import Task


def context_masks(
    tasks: Sequence[Task], context: Any, generator: np.random.Generator | None
) -> list[Bool[np.ndarray, " m"]]:
    """`context_mask` of every task; both parts have at least one point."""
    masks = []
    for task in tasks:
        chosen = context_mask(task, context, generator)
        if chosen.all() or not chosen.any():
            raise TaskError(
                f"{task.name} with {len(task)} points cannot give {int(chosen.sum())} to the context and "
                "still have both parts non-empty; use a smaller context or leave the task out."
            )
        masks.append(chosen)
    return masks


def context_mask(task: Task, context: Any, generator: np.random.Generator | None) -> Bool[np.ndarray, " m"]:
    """A mask (m,) of the context points: a number of points, a fraction of the task, or as a function of it says.

    A number or a fraction takes the first points, or random ones with a generator.
    """
    if callable(context):
        mask = np.asarray(context(task))
        if mask.shape != (len(task),) or mask.dtype != bool:
            raise TaskError(
                f"The context function gave {mask.dtype} {mask.shape} for {task.name}; expected bool ({len(task)},)."
            )
        return mask
    if isinstance(context, float):
        if not 0 < context < 1:
            raise TaskError(f"A context fraction lies strictly between 0 and 1, not {context}.")
        count = min(max(round(context * len(task)), 1), len(task) - 1)
    else:
        count = int(context)
        if count < 1:
            raise TaskError(f"A context needs at least one point, not {count}.")
    order = np.arange(len(task)) if generator is None else generator.permutation(len(task))
    mask = np.zeros(len(task), bool)
    mask[order[:count]] = True
    return mask
