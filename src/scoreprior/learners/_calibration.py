"""Choose what inference uses by how well it predicts: meta-training tasks are split, their later points predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from scoreprior.learners._base import Prior
from scoreprior.learners.mars_prior import MARSPrior
from scoreprior.tasks import Task, TaskSet

Hyper = Literal["noise_std", "bandwidth", "temperature"]
_FACTORS: dict[str, tuple[float, ...]] = {
    "noise_std": (0.5, 0.7, 1.0, 1.4, 2.0),
    "bandwidth": (0.1, 0.3, 1.0, 3.0, 10.0),
    "temperature": (0.3, 1.0, 3.0),
}
_SHARES = (0.5, 0.25, 0.75)
_SPLITS = 20
_MOST_POINTS = 40


def learn_hyper(
    prior: MARSPrior, tasks: TaskSet, names: tuple[Hyper, ...], key: PRNGKeyArray
) -> tuple[MARSPrior, float]:
    """The prior with the named settings changed, one after the other, to what predicts best; and the NLL there.

    Candidates are factors of the present value; settings are arrays, so all candidates share one compiled inference.
    """
    best, hyper = float("inf"), prior.hyper
    for name in names:
        present, found = getattr(hyper, name), hyper
        for factor in _FACTORS[name]:
            candidate = replace(hyper, **{name: present * factor})
            value = float(np.mean(predictive_nll(eqx.tree_at(lambda p: p.hyper, prior, candidate), tasks, key)))
            if value < best:
                found, best = candidate, value
        hyper = found
    if not np.isfinite(best):
        raise FloatingPointError("No candidate gave finite predictions on the meta-training tasks.")
    return eqx.tree_at(lambda p: p.hyper, prior, hyper), best


def predictive_nll(prior: Prior, tasks: TaskSet, key: PRNGKeyArray) -> Float[np.ndarray, " s"]:
    """Mean negative log density of the later points of tasks given the earlier ones, one figure for each split.

    A task's first half, quarter or three quarters (in the order of its rows) is the context; long tasks are thinned,
    since inference with hundreds of points would cost more than all the rest. Up to 20 splits, which fill whole chunks
    by repeating: what is compiled here is what conditioning on many tasks will use.
    """
    pairs = [(_thin(task), share) for share in _SHARES for task in tasks if len(task) >= 2]
    if not pairs:
        raise ValueError("No meta-training task has two points: nothing can be predicted from its own context.")
    chunk = prior.chunk or 1
    count = min(_SPLITS, -(-len(pairs) // chunk) * chunk)
    contexts, targets = zip(*(_split(*pairs[i % len(pairs)]) for i in range(count)))
    predictives = prior.condition_many(TaskSet(contexts), key).predict([task.x for task in targets])
    return np.array([-np.mean(predictive.log_prob(task.y)) for predictive, task in zip(predictives, targets)])


def _thin(task: Task) -> Task:
    return task.take(np.unique(np.linspace(0, len(task) - 1, min(len(task), _MOST_POINTS)).round().astype(int)))


def _split(task: Task, share: float) -> tuple[Task, Task]:
    size = int(np.clip(round(share * len(task)), 1, len(task) - 1))
    return task.take(slice(size)), task.take(slice(size, None))
