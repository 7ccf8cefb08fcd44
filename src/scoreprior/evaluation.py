"""Evaluation of a method on unseen tasks: one tidy row per task, then one line per method."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import numpy as np

from scoreprior import metrics
from scoreprior._types import KeyLike, as_key
from scoreprior.environments import Environment
from scoreprior.learners._base import MetaLearner, Prior
from scoreprior.predictive import Predictive
from scoreprior.tasks import ContextTarget, TaskSet, resolution

if TYPE_CHECKING:
    import pandas

Part = Literal["test", "valid"]

METRICS = ("rmse", "nll", "log_score", "crps", "calibration_error", "coverage90", "width90", "sharpness")
"""The columns of `evaluate` that measure quality, in this order."""


def evaluate(
    method: MetaLearner | Prior,
    environment: Environment,
    key: KeyLike,
    *,
    tasks: Part = "test",
    progress: bool = False,
) -> pandas.DataFrame:
    """One row per task: environment, split, part, position, task, sizes, the METRICS, seconds and PITs.

    A meta-learner is fitted first: on `meta_train`, or with `tasks="valid"` on `selection_train`. A fitted
    prior is used as it is. Distributional metrics of a point predictor are NaN. `fit_seconds` and
    `condition_seconds` (conditioning on and predicting all tasks) are of the whole run, compilation included.
    Label the rows (`frame.assign(method=..., seed=...)`) and concatenate runs freely: nothing lives outside
    the columns.
    """
    return tabulate(predict_unseen(method, environment, key, tasks=tasks, progress=progress), environment, tasks)


def evaluate_pairs(
    method: MetaLearner | Prior,
    pairs: ContextTarget,
    key: KeyLike,
    *,
    meta_train: TaskSet | None = None,
    progress: bool = False,
) -> pandas.DataFrame:
    """The rows of `evaluate` for tasks of one's own: its columns but for environment, split and part.

    Args:
        method: a fitted prior, or a meta-learner to be fitted to `meta_train` first.
        pairs: the unseen tasks; their contexts are conditioned on, their targets predicted.
        key: randomness of the fit and of conditioning.
        meta_train: training tasks; a meta-learner needs them, a fitted prior does not. The recording step of the log
            score is theirs; without them, that of `pairs`.
        progress: whether the fit shows its progress.

    Returns:
        One row per task: position, task, sizes, the METRICS, seconds and PITs; `summarise` takes it.

    Example:
        ```python
        frame = sp.evaluate_pairs(prior, new_tasks.context_target(0.5), key=0)
        ```
    """
    known = np.concatenate([pairs.context.y, pairs.target.y]) if meta_train is None else meta_train.y
    predicted = predict_pairs(method, pairs, key, meta_train=meta_train, progress=progress)
    return rows_of(predicted, resolution(known))


def evaluate_oracle(environment: Environment, *, tasks: Part = "test") -> pandas.DataFrame:
    """The rows that the Bayes-optimal predictive gets, for environments that know their true process."""
    return tabulate(predict_by_oracle(environment, tasks=tasks), environment, tasks)


class Predicted(NamedTuple):
    """Unseen tasks, what was predicted of their targets, and the seconds that took."""

    pairs: ContextTarget
    predictives: Sequence[Predictive]
    seconds: dict[str, float]


def predict_unseen(
    method: MetaLearner | Prior, environment: Environment, key: KeyLike, *, tasks: Part, progress: bool = False
) -> Predicted:
    """Fit a meta-learner, and predict the targets of an environment's unseen tasks from their contexts."""
    pairs = _pairs(environment, tasks)
    meta_train = environment.selection_train if tasks == "valid" else environment.meta_train
    return predict_pairs(method, pairs, key, meta_train=meta_train, progress=progress)


def predict_pairs(
    method: MetaLearner | Prior,
    pairs: ContextTarget,
    key: KeyLike,
    *,
    meta_train: TaskSet | None = None,
    progress: bool = False,
) -> Predicted:
    """Fit a meta-learner to `meta_train`, and predict the targets of `pairs` from their contexts."""
    fit_key, condition_key = jax.random.split(as_key(key))
    started = perf_counter()
    if isinstance(method, Prior):
        prior, fit_seconds = method, np.nan
    elif not isinstance(method, MetaLearner):
        raise TypeError(f"A MetaLearner or a fitted Prior is needed, not a {type(method).__name__}.")
    elif meta_train is None:
        raise ValueError(f"{type(method).__name__} is not fitted: fit it first, or give tasks to fit it to.")
    else:
        prior = jax.block_until_ready(method.fit(meta_train, fit_key, progress=progress))
        fit_seconds = perf_counter() - started
    started = perf_counter()
    posteriors = prior.condition_many(pairs.context, condition_key)
    predictives = posteriors.predict([task.x for task in pairs.target], rows=pairs.target)
    return Predicted(pairs, predictives, _seconds(fit_seconds, started))


def predict_by_oracle(environment: Environment, *, tasks: Part) -> Predicted:
    """The Bayes-optimal predictives of unseen tasks."""
    if environment.oracle is None:
        raise ValueError(f"The true process of {environment.name} is not known, so it has no oracle.")
    pairs = _pairs(environment, tasks)
    started = perf_counter()
    predictives = [environment.oracle(context, target.x) for context, target in zip(pairs.context, pairs.target)]
    return Predicted(pairs, predictives, _seconds(np.nan, started))


def tabulate(predicted: Predicted, environment: Environment, part: Part) -> pandas.DataFrame:
    """The rows of `evaluate`."""
    frame = rows_of(predicted, environment.resolution)
    where: dict[str, str | int] = {"environment": environment.name, "split": environment.split, "part": part}
    for at, (name, value) in enumerate(where.items()):
        frame.insert(at, name, value)
    return frame


def rows_of(predicted: Predicted, step: float) -> pandas.DataFrame:
    """The rows of `evaluate_pairs`, of targets that were recorded in steps (0: continuous)."""
    import pandas as pd  # here and below, since it takes a quarter of a second

    pairs, rows, rng = predicted.pairs, [], np.random.default_rng(0)  # the same for all methods
    for position, (context, target, predictive) in enumerate(zip(pairs.context, pairs.target, predicted.predictives)):
        which = {"position": position, "task": target.name, "n_context": len(context), "n_target": len(target)}
        measured = measure(predictive, target.y, step)
        pits = np.full(len(target), np.nan)
        if not predictive.is_point:
            pits = metrics.pit(predictive, target.y, step, rng)
            measured["calibration_error"] = metrics.calibration_error(pits)
        # The PITs stay with their row: pooled calibration needs them, and they survive concatenation.
        rows.append(which | measured | predicted.seconds | {"pit": pits})
    return pd.DataFrame(rows)


def measure(predictive: Predictive, y: Any, step: float = 0.0) -> dict[str, float]:
    """The METRICS of one task at y (q,) recorded in steps (0: continuous); NaN where a point predictor has none."""
    if predictive.is_point:
        return dict.fromkeys(METRICS, np.nan) | {"rmse": metrics.rmse(predictive, y)}
    return {
        "rmse": metrics.rmse(predictive, y),
        "nll": metrics.nll(predictive, y),
        "log_score": metrics.log_score(predictive, y, step),
        "crps": metrics.crps(predictive, y),
        "calibration_error": metrics.calibration_error(metrics.pit(predictive, y, step)),
        "coverage90": metrics.coverage(predictive, y, 0.9),
        "width90": metrics.interval_width(predictive, 0.9),
        "sharpness": metrics.sharpness(predictive),
    }


def summarise(frame: pandas.DataFrame, by: str | Sequence[str] = ()) -> pandas.DataFrame:
    """One row per group of `by` (without it, one in all): means and standard errors over tasks.

    For each metric its mean over tasks and `<metric>_se`, std / sqrt(n). `calibration_floor` is what a
    perfectly calibrated predictor would get as `calibration_error`; `pooled_*` are over the points of all
    tasks.
    """
    import pandas as pd

    names = [by] if isinstance(by, str) else list(by)
    if not names:
        return pd.DataFrame([_summary(frame, "")])
    groups = [
        (values, _summary(rows, f" for {dict(zip(names, values))}"))
        for values, rows in frame.groupby(names, sort=False, dropna=False, observed=True)
    ]
    index = pd.MultiIndex.from_tuples([values for values, _ in groups], names=names)
    return pd.DataFrame([summary for _, summary in groups], index=index).reset_index()


def _summary(rows: pandas.DataFrame, where: str) -> dict[str, float]:
    labels = [name for name in ("environment", "split", "part") if name in rows]  # tasks of one's own have none
    mixed = [name for name in labels if rows[name].nunique(dropna=False) > 1]
    if mixed or rows["position"].duplicated().any():
        raise ValueError(
            f"Rows of different {mixed[0] if mixed else 'method or seed'}s are mixed{where}: their spread is "
            "not a standard error over tasks. Name the columns that tell them apart in `by`."
        )
    sizes = rows["n_target"].to_numpy()
    pits = np.concatenate(rows["pit"].to_list())
    summary: dict[str, float] = {"n_tasks": len(rows), "n_points": int(sizes.sum())}
    for name in METRICS:
        summary[name] = rows[name].mean(skipna=False)
        summary[f"{name}_se"] = rows[name].std(ddof=1, skipna=False) / np.sqrt(len(rows))
    return summary | {
        "calibration_floor": metrics.calibration_floor(sizes),
        "pooled_calibration_error": np.nan if np.isnan(pits).any() else metrics.calibration_error(pits),
        "pooled_calibration_floor": metrics.calibration_floor(sizes, pooled=True),
        "pooled_coverage90": float(np.average(rows["coverage90"], weights=sizes)),
        "fit_seconds": rows["fit_seconds"].iloc[0],
        "condition_seconds": rows["condition_seconds"].iloc[0],
    }


def _pairs(environment: Environment, tasks: str) -> ContextTarget:
    if tasks not in ("test", "valid"):
        raise ValueError(f'tasks must be "test" or "valid", not {tasks!r}.')
    return environment.meta_test if tasks == "test" else environment.meta_valid


def _seconds(fit: float, started: float) -> dict[str, float]:
    return {"fit_seconds": fit, "condition_seconds": perf_counter() - started}
