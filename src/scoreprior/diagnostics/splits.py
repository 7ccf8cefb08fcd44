"""`HoldOut` and `Fold`: tasks left out of the others, their first halves known and their second halves predicted."""

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
FOLDS = 5
"""Folds of a cross-validation, at most: every fit sees four fifths of the tasks."""


class TooFewTasksError(TaskError):
    """There are not enough tasks to leave some out."""


class HoldOut(NamedTuple):
    """Tasks to fit a method to, and the held-out ones, cut into known and predicted halves."""

    meta_train: TaskSet
    meta_test: ContextTarget


class Fold(NamedTuple):
    """A `HoldOut` that is one of several, and of each left-out pair the position of its task among all."""

    meta_train: TaskSet
    meta_test: ContextTarget
    positions: Int[np.ndarray, " n"]


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
    usable = _enough(tasks)
    number = min(max(2, round(len(tasks) / 5)), MOST_HELD_OUT, len(usable))
    held = _shuffled(usable, key)[:number]
    return HoldOut(*_without(tasks, held)[:2])


def task_folds(tasks: TaskSet, key: KeyLike, number: int = FOLDS) -> list[Fold]:
    """Folds of tasks, each left out of all others once: what a cross-validation goes through.

    All folds have the same number of tasks, at most 200, so that no fit compiles again; the few tasks that remain are
    in every `meta_train`. Where fewer folds leave out 200 tasks, there are no more of them.

    Args:
        tasks: at least five tasks, at least two of them with two points.
        key: which tasks are left out together; the same key gives the same folds.
        number: of folds, from 1 to 5; each leaves out a fifth of the tasks with two points.

    Returns:
        The folds, no task in two of them.
    """
    return [_without(tasks, rows) for rows in fold_rows(_enough(tasks), key, number)]


def _enough(tasks: TaskSet) -> Int[np.ndarray, " n"]:
    """Positions of the tasks that can be left out."""
    usable = _with_two_points(tasks)
    if len(tasks) < FEWEST_TASKS or len(usable) < 2:
        raise TooFewTasksError(
            f"{len(tasks)} tasks, {len(usable)} of them with two points, are too few to hold some out; at least "
            f"{FEWEST_TASKS} are needed, two of them with two points."
        )
    return usable


def fold_rows(usable: Int[np.ndarray, " u"], key: KeyLike, number: int) -> Int[np.ndarray, "f n"]:
    """Positions of the tasks of each fold, all folds of the same size."""
    if number not in range(1, FOLDS + 1):
        raise ValueError(f"There are 1 to {FOLDS} folds, not {number}.")
    size = min(max(1, len(usable) // FOLDS), MOST_HELD_OUT)
    number = min(number, -(-MOST_HELD_OUT // size), len(usable) // size)
    return np.sort(_shuffled(usable, key)[: number * size].reshape(number, size), axis=1)


def _shuffled(rows: Int[np.ndarray, " n"], key: KeyLike) -> Int[np.ndarray, " n"]:
    # The key's words, lowest first, seed NumPy as the int that the key was made of would.
    words = np.ravel(jax.random.key_data(as_key(key)))[::-1].tolist()
    return np.random.default_rng(words).permutation(rows)


def _without(tasks: TaskSet, rows: Int[np.ndarray, " n"]) -> Fold:
    held = np.sort(rows)
    return Fold(tasks.take(np.setdiff1d(np.arange(len(tasks)), held)), halves(tasks.take(held)), held)


def _with_two_points(tasks: TaskSet) -> np.ndarray:
    """Positions of the tasks with one point to know and one to predict."""
    if not isinstance(tasks, TaskSet):
        raise TaskError(f"A TaskSet is needed, not a {type(tasks).__name__}; see TaskSet.from_frame.")
    return np.flatnonzero(tasks.sizes >= 2)
