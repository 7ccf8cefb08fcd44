"""`CrossValidation`: what several methods predict of tasks that their priors were fitted without, fold by fold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from time import perf_counter
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from scoreprior._progress import track
from scoreprior._types import KeyLike, as_key
from scoreprior.diagnostics.comparison import Comparison
from scoreprior.diagnostics.forecasts import forecast_folds, one_row_per_task
from scoreprior.diagnostics.splits import FOLDS, Fold, task_folds
from scoreprior.evaluation import Predicted, predict_pairs, rows_of
from scoreprior.learners import MetaLearner, Prior
from scoreprior.learners.guarded import Guarded, surprise_of
from scoreprior.tasks import TaskSet, resolution
from scoreprior.tasks.checks import TaskError
from scoreprior.training import TrainingConfig

NETWORK_FOLDS = 3
"""Folds where networks are trained: each fit takes many times longer than that of a process."""


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Methods on the same left-out tasks.

    Args:
        method: name of the one that is judged.
        folds: left-out tasks, and those that priors were fitted to.
        priors: of every method, that of each fold.
        predicted: of every method, what it predicted of the left-out tasks of each fold.
        step: in which the targets were recorded; 0 for continuous ones.
    """

    method: str
    folds: Sequence[Fold]
    priors: Mapping[str, Sequence[Prior]]
    predicted: Mapping[str, Sequence[Predicted]]
    step: float

    def __repr__(self) -> str:
        return f"CrossValidation({self.method!r} of {len(self.predicted)} methods, folds={len(self.folds)})"

    def comparison(self, names: Collection[str] | None = None) -> Comparison:
        """The judged method beside the others, or beside those that are named; `position` is that among all tasks."""
        import pandas as pd  # here, since it takes a quarter of a second

        frames = [
            one_row_per_task(rows_of(predicted, self.step).assign(method=name, fold=number), fold.positions)
            for name in self.predicted
            if names is None or name in names or name == self.method
            for number, (fold, predicted) in enumerate(zip(self.folds, self.predicted[name]))
        ]
        return Comparison(self.method, pd.concat(frames, ignore_index=True))

    def guarded(self, key: KeyLike) -> tuple[CrossValidation, Float[np.ndarray, "s 2"]]:
        """The same with the judged method guarded against unlike tasks, and how surprising left-out tasks are.

        What is surprising in a fold is told by the other folds, as a new task is judged by those of training.
        """
        guard, found, predicted = Guarded().guard, [], []
        pairs = list(zip(self.priors[self.method], self.folds))
        for prior, fold in pairs:
            found.append(surprise_of(guard(prior, fold.meta_train), fold.meta_test.whole, key))
        for number, (prior, fold) in enumerate(pairs):
            others = found[:number] + found[number + 1 :] or found
            answers = predict_pairs(guard(prior, fold.meta_train, np.concatenate(others)), fold.meta_test, key)
            predicted.append(answers._replace(seconds=self.predicted[self.method][number].seconds))
        return replace(self, predicted={**self.predicted, self.method: predicted}), np.concatenate(found)


def cross_validate(
    methods: Mapping[str, MetaLearner],
    tasks: TaskSet,
    key: KeyLike,
    *,
    folds: int | None = None,
    horizon: int | None = None,
    optional: Collection[str] = (),
    progress: bool = False,
) -> CrossValidation:
    """Predict every left-out task from its first half, by priors that were fitted to the other folds' tasks.

    Args:
        methods: by name; the first is judged.
        tasks: at least five related tasks.
        key: which tasks are left out together, and the randomness of every method.
        folds: from 1 to 5, each a fifth of the tasks; by default 5, and 3 where a method trains networks.
        horizon: predict so many next rows instead, at rolling origins (`diagnostics.forecast_folds`).
        optional: names of methods to leave out where the tasks do not suit them (`TaskError`).
        progress: whether to show what is being fitted, and the time left.

    Returns:
        A `CrossValidation`: `.comparison()` has the table, with standard errors over tasks.

    Example:
        ```python
        methods = {name: sp.learner(name) for name in ("ridge", "last-value")}
        sp.cross_validate(methods, tasks, key=0).comparison().table
        ```
    """
    if not methods:
        raise ValueError("There is no method to compare.")
    number = folds or (NETWORK_FOLDS if any(map(trains_networks, methods.values())) else FOLDS)
    made = task_folds(tasks, key, number) if horizon is None else forecast_folds(tasks, key, horizon, number)
    judged = next(iter(methods))
    keys = [jax.random.fold_in(as_key(key), at) for at in range(len(made))]  # the same for fewer folds
    priors: dict[str, list[Prior]] = {}
    predicted: dict[str, list[Predicted]] = {}
    with track(len(methods) * len(made), "Cross-validation", progress) as advance:
        for name, method in methods.items():
            for at, (fold, own) in enumerate(zip(made, keys)):
                advance(0, f"{name}, fold {at + 1} of {len(made)}")
                try:
                    prior, answers = _fit_and_predict(method, fold, own, progress)
                except TaskError:
                    if name not in optional or name == judged:
                        raise
                    priors.pop(name, None), predicted.pop(name, None)
                    advance(len(made) - at)
                    break
                priors.setdefault(name, []).append(prior)
                predicted.setdefault(name, []).append(answers)
                advance(1)
    return CrossValidation(judged, made, priors, predicted, resolution(tasks.y))


def _fit_and_predict(method: MetaLearner, fold: Fold, key: KeyLike, progress: bool) -> tuple[Prior, Predicted]:
    fit_key, condition_key = jax.random.split(as_key(key))
    started = perf_counter()
    prior = jax.block_until_ready(method.fit(fold.meta_train, fit_key, progress=progress))
    seconds = perf_counter() - started
    answers = predict_pairs(prior, fold.meta_test, condition_key)
    return prior, answers._replace(seconds=answers.seconds | {"fit_seconds": seconds})


def trains_networks(method: Any) -> bool:
    """Whether a method, or a member of it, has a `TrainingConfig` among its settings."""
    if isinstance(method, (tuple, list)):
        return any(map(trains_networks, method))
    if isinstance(method, TrainingConfig):
        return True
    return is_dataclass(method) and any(trains_networks(getattr(method, each.name)) for each in fields(method))
