"""`HoldOut`: tasks held out of the others, their first halves known and their second halves predicted."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from scoreprior._types import KeyLike, as_key
from scoreprior.tasks import ContextTarget, TaskSet
from scoreprior.tasks.checks import TaskError

FEWEST_TASKS = 5
MOST_HELD_OUT = 200


class HoldOut(NamedTuple):
    """Tasks to fit a method to, and the held-out ones, cut into known and predicted halves."""

    meta_train: TaskSet
    meta_test: ContextTarget


def halves(tasks: TaskSet) -> ContextTarget:
    """First half of the points known, second half predicted, of every task with two points or more."""
    usable = _with_two_points(tasks)
    if not len(usable):
        raise TaskError("No task has two points: one to know and one to predict.")
    return tasks.take(usable).context_target(0.5)


def hold_out(tasks: TaskSet, key: KeyLike) -> HoldOut:
    """A random fifth of the tasks (2 to 200 of them, with two points or more each) held out of the others.

    Args:
        tasks: at least five tasks, at least two of them with two points.
        key: which tasks are held out; the same key gives the same tasks.

    Returns:
        `meta_train`, the other tasks, and `meta_test`, the held-out ones in halves.

    Example:
        ```python
        meta_train, meta_test = sp.hold_out(tasks, key=0)
        frame = sp.evaluate_pairs(sp.learner("ridge"), meta_test, key=0, meta_train=meta_train)
        ```
    """
    usable = _with_two_points(tasks)
    if len(tasks) < FEWEST_TASKS or len(usable) < 2:
        raise TaskError(
            f"{len(tasks)} tasks, {len(usable)} of them with two points, are too few to hold some out; at least "
            f"{FEWEST_TASKS} are needed, two of them with two points."
        )
    held = random_fifth(len(tasks), usable, key)
    rest = np.setdiff1d(np.arange(len(tasks)), held)
    return HoldOut(tasks.take(rest), halves(tasks.take(held)))


def random_fifth(tasks: int, usable: Int[np.ndarray, " u"], key: KeyLike) -> Int[np.ndarray, " h"]:
    """Positions, in order, of a random fifth of so many tasks (2 to 200), among those that can be predicted."""
    number = min(max(2, round(tasks / 5)), MOST_HELD_OUT, len(usable))
    # The key's words, lowest first, seed NumPy as the int that the key was made of would.
    words = np.ravel(jax.random.key_data(as_key(key)))[::-1].tolist()
    return np.sort(np.random.default_rng(words).permutation(usable)[:number])


def _with_two_points(tasks: TaskSet) -> np.ndarray:
    """Positions of the tasks with one point to know and one to predict."""
    if not isinstance(tasks, TaskSet):
        raise TaskError(f"A TaskSet is needed, not a {type(tasks).__name__}; see TaskSet.from_frame.")
    return np.flatnonzero(tasks.sizes >= 2)
