"""How well a prior predicts tasks from their own first points: the mean negative log density of their later ones."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from scoreprior.learners._base import Prior
from scoreprior.metrics import log_score
from scoreprior.tasks import Task, TaskSet

_SHARES = (0.5, 0.25, 0.75)
_SPLITS, _MANY_SPLITS = 20, 600
_MOST_POINTS = 40


def split_tasks(
    tasks: TaskSet, chunk: int = 1, most: int = _SPLITS
) -> tuple[Int[np.ndarray, " s"], tuple[Task, ...], tuple[Task, ...]]:
    """The task of each of s splits, its context and its target: see `split_nll`; at most so many, in whole chunks."""
    pairs = [(row, share) for share in _SHARES for row, task in enumerate(tasks) if len(task) >= 2]
    if not pairs:
        raise ValueError("No meta-training task has two points: nothing can be predicted from its own context.")
    count = min(most, -(-len(pairs) // chunk) * chunk)
    rows, shares = zip(*(pairs[i % len(pairs)] for i in range(count)))
    contexts, targets = zip(*(_split(_thin(tasks[row]), share) for row, share in zip(rows, shares)))
    return np.array(rows), contexts, targets


def split_nll(
    prior: Prior, tasks: TaskSet, key: PRNGKeyArray, resolution: float = 0.0, most: int = _SPLITS
) -> tuple[Float[np.ndarray, " s"], Int[np.ndarray, " s"]]:
    """Mean negative log density of the later points given the earlier ones for s splits, and the task of each split.

    With a resolution, the recording step of the targets, it is the log score of the rounding interval.

    A task's first half, quarter or three quarters (in the order of its rows) is the context; long tasks are thinned,
    since inference with hundreds of points would cost more than all the rest. At most so many splits, which fill whole
    chunks by repeating: what is compiled here is what conditioning on many tasks will use.
    """
    rows, contexts, targets = split_tasks(tasks, prior.chunk or 1, most)
    predictives = prior.condition_many(TaskSet(contexts), key).predict([task.x for task in targets])
    losses = [log_score(predictive, task.y, resolution) for predictive, task in zip(predictives, targets)]
    return np.array(losses), rows


def task_nll(prior: Prior, tasks: TaskSet, key: PRNGKeyArray, resolution: float = 0.0) -> Float[np.ndarray, " n"]:
    """`split_nll` averaged over the splits of each of the n tasks that have one; for inference that is cheap."""
    losses, rows = split_nll(prior, tasks, key, resolution, _MANY_SPLITS)
    return np.array([losses[rows == row].mean() for row in np.unique(rows)])


def _thin(task: Task) -> Task:
    return task.take(np.unique(np.linspace(0, len(task) - 1, min(len(task), _MOST_POINTS)).round().astype(int)))


def _split(task: Task, share: float) -> tuple[Task, Task]:
    size = int(np.clip(round(share * len(task)), 1, len(task) - 1))
    return task.take(slice(size)), task.take(slice(size, None))
