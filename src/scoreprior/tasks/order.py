"""Whether the rows of tasks follow an input, as those of a time series do."""

from __future__ import annotations

import numpy as np

from scoreprior.tasks.task_set import TaskSet

_SHARE = 0.9


def runs_in_order(tasks: TaskSet) -> bool:
    """Whether some input never decreases from row to row, in nine of ten tasks of at least three points."""
    several = [task for task in tasks if len(task) >= 3]  # two points are in order half of the time
    if not several:
        return False
    rising = np.array([np.all(np.diff(task.x, axis=0) >= 0, axis=0) & (np.ptp(task.x, axis=0) > 0) for task in several])
    return bool(np.max(rising.mean(0)) >= _SHARE)
