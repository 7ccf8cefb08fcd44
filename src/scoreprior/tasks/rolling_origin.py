"""Rolling origins: the next rows of a task predicted from all rows before them, at several places of the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.context_target import ContextTarget

if TYPE_CHECKING:
    from scoreprior.tasks.task_set import TaskSet  # which imports this module


def rolling_origin(tasks: TaskSet, horizon: int, origins: int, least: int) -> ContextTarget:
    """Pairs of known and next rows: of a task with m rows, origins are m - h, m - 2 h, ... where `least` are known."""
    for name, value in (("horizon", horizon), ("origins", origins), ("least", least)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise TaskError(f"{name} must be a whole number of at least 1, not {value!r}.")
    places = [
        (at, len(task) - back * horizon)
        for at, task in enumerate(tasks)
        for back in range(origins, 0, -1)
        if len(task) - back * horizon >= least
    ]
    if not places:
        raise TaskError(
            f"No task has {horizon + least} rows, {least} to know and the next {horizon} to predict: the longest has "
            f"{int(tasks.sizes.max())}. Choose a shorter horizon."
        )
    whole = tasks.take(at for at, _ in places)
    known = [task.take(slice(origin)) for task, (_, origin) in zip(whole, places)]
    following = [task.take(slice(origin, origin + horizon)) for task, (_, origin) in zip(whole, places)]
    return ContextTarget(whole._with(known), whole._with(following))
