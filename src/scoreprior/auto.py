"""`Auto`: the method, or the stack of methods, that predicts left-out tasks best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scoreprior._budget import check_share
from scoreprior._settings import check_counts
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.diagnostics import CrossValidation, PairedDifference, cross_validate, trains_networks
from scoreprior.diagnostics.coverage import standard_error
from scoreprior.evaluation import predict_pairs
from scoreprior.learners import MetaLearner, Prior, learner
from scoreprior.learners._methods import method_of
from scoreprior.learners.stack import Stack, StackPrior
from scoreprior.stacking import stacking_weights
from scoreprior.tasks import TaskSet

CANDIDATES = ("last-value", "context-mean", "ridge", "pooled-gp", "hierarchical-gp", "mars-gp")
"""Methods to choose from, simplest first."""
STACK = "stack"
_GROUPS = 5
_LEAST_WEIGHT = 0.05  # members with less are left out: each has to be fitted and kept


class Choice(NamedTuple):
    """What was chosen: name, the method itself, why in a sentence, and the predictions of left-out tasks."""

    name: str
    method: MetaLearner
    reason: str
    validation: CrossValidation


@short_repr
@dataclass(frozen=True)
class Auto:
    """Chooses a method by cross-validation over tasks, then fits it to all of them.

    Every member predicts left-out tasks from their first halves (`cross_validate`). The best log score wins; a simpler
    method whose score is within one standard error of it, task by task, is preferred. A stack of several is chosen
    instead if, with weights from other tasks than those it is judged on, its score is better than the best member's by
    more than two standard errors. `choose` gives the choice and its reason, `fit` the prior.

    Args:
        members: methods or their names, simplest first; what does not suit the tasks is left out.
        networks_from: number of tasks from which methods that train networks take part.
        folds: from 1 to 5; by default 5, and 3 where networks are trained.
        horizon: choose by forecasts of so many rows, where rows run in time.
    """

    members: Sequence[MetaLearner | str] = CANDIDATES
    networks_from: int = 100
    folds: int | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        check_counts(self, "networks_from", "folds", "horizon")
        if isinstance(self.members, str) or not self.members:
            raise ValueError(f"Auto needs methods to choose from, not {self.members!r}.")
        members = tuple(learner(each) if isinstance(each, str) else each for each in self.members)
        for each in members:
            if isinstance(each, type) or not isinstance(each, MetaLearner):
                raise ValueError(f"A member is a method or the name of one, not {each!r}.")
        object.__setattr__(self, "members", members)

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> Prior:
        """Choose, and fit the chosen method to all tasks."""
        choose_key, fit_key = jax.random.split(as_key(key))
        return self.choose(tasks, choose_key, progress=progress).method.fit(tasks, fit_key, progress=progress)

    def choose(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> Choice:
        """The choice for these tasks, of which there are at least five."""
        methods = self.methods_for(len(tasks))
        options: dict[str, Any] = {"folds": self.folds, "horizon": self.horizon, "optional": list(methods)[1:]}
        return choose(cross_validate(methods, tasks, key, **options, progress=progress), methods)

    def with_budget(self, share: float) -> Auto:
        """Every member with this share of its budget."""
        check_share(share)
        return replace(self, members=tuple(each.with_budget(share) for each in self.members))  # type: ignore[union-attr]

    def methods_for(self, tasks: int) -> dict[str, MetaLearner]:
        """The members that take part where there are so many tasks, by name, simplest first."""
        found: dict[str, MetaLearner] = {}
        for each in self.members:
            assert not isinstance(each, str)  # names were looked up on construction
            if tasks >= self.networks_from or not trains_networks(each):
                found[method_of(each)] = each
        if not found:
            raise ValueError(f"All members train networks, which take part from {self.networks_from} tasks on.")
        return found


def choose(validation: CrossValidation, methods: Mapping[str, MetaLearner]) -> Choice:
    """The best of cross-validated methods, which are given simplest first, or a stack of them."""
    scores = _scores(validation)
    if not scores:
        raise ValueError("A method is chosen by its log score, and none of these predicts a distribution.")
    means = {name: float(each.mean()) for name, each in scores.items()}
    best = min(means, key=lambda name: means[name])
    unseen = f"{len(scores[best])} left-out tasks"
    stack, weights, stacked = _stack(validation, methods)
    if stack is not None:
        gain = difference(stacked, scores[best])
        if gain.mean < -2 * gain.standard_error:
            parts = " and ".join(f"{name} ({weight:.0%})" for name, weight in weights.items())
            reason = f"a stack of {parts} has a log score better than the best of them, {best}, by {_told(gain)}"
            return Choice(STACK, stack, f"{reason} on {unseen}.", _with_stack(validation, weights))
    for name in methods:
        if name == best:
            break
        if name in scores and (gap := difference(scores[name], scores[best])).mean <= gap.standard_error:
            reason = f"{name} is simpler than {best} and as good: its log score is worse by {_told(gap)} on {unseen}."
            return _chosen(validation, name, methods[name], reason)
    others = sorted((name for name in scores if name != best), key=lambda name: means[name])
    reason = f"{best} has the best log score of {len(scores)} methods on {unseen}"
    if others:
        reason += f"; the next, {others[0]}, is worse by {_told(difference(scores[others[0]], scores[best]))}"
    return _chosen(validation, best, methods[best], f"{reason}.")


def difference(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"]) -> PairedDifference:
    """Mean difference of two scores of the same tasks, and its standard error."""
    import pandas as pd  # here, since it takes a quarter of a second

    return PairedDifference(float((first - second).mean()), standard_error(pd.Series(first - second)))


def _told(gap: PairedDifference) -> str:
    return f"{abs(gap.mean):.2g} ± {gap.standard_error:.2g}"


def _chosen(validation: CrossValidation, name: str, method: MetaLearner, reason: str) -> Choice:
    return Choice(name, method, reason, replace(validation, method=name))


def _with_stack(validation: CrossValidation, weights: dict[str, float]) -> CrossValidation:
    """The stack beside its members, made of their priors of every fold."""
    shares, priors, predicted = jnp.asarray(list(weights.values()), jnp.float32), [], []
    for at, fold in enumerate(validation.folds):
        members = tuple(validation.priors[name][at] for name in weights)
        priors.append(StackPrior(members[0].standardizer, members, shares))
        answers = predict_pairs(priors[-1], fold.meta_test, at)
        seconds = sum(validation.predicted[name][at].seconds["fit_seconds"] for name in weights)
        predicted.append(answers._replace(seconds=answers.seconds | {"fit_seconds": seconds}))
    return replace(
        validation,
        method=STACK,
        priors={**validation.priors, STACK: priors},
        predicted={STACK: predicted, **validation.predicted},
    )


def _scores(validation: CrossValidation) -> dict[str, Float[np.ndarray, " n"]]:
    """Log scores of the left-out tasks by every method that has them, lower ones better."""
    found = {name: _log_probs(validation, name) for name in validation.predicted}
    return {name: np.array([-one.mean() for one in each]) for name, each in found.items() if each}


def _log_probs(validation: CrossValidation, name: str) -> list[Float[np.ndarray, " m"]]:
    """Log probabilities of every left-out task's points; none of a point predictor."""
    step = validation.step
    found: dict[int, list[np.ndarray]] = {}  # by task: several origins of one are not independent
    for fold, predicted in zip(validation.folds, validation.predicted[name]):
        for at, predictive, target in zip(fold.positions, predicted.predictives, predicted.pairs.target):
            if predictive.is_point:
                return []
            y = target.y
            each = predictive.log_prob_interval(y - step / 2, y + step / 2) if step else predictive.log_prob(y)
            found.setdefault(int(at), []).append(each)
    return [np.concatenate(each) for each in found.values()]


def _stack(
    validation: CrossValidation, methods: Mapping[str, MetaLearner]
) -> tuple[Stack | None, dict[str, float], Float[np.ndarray, " n"]]:
    """A stack with its weights, and its log scores of tasks that had no say in them; None where one method is left."""
    found = {name: each for name in methods if name in validation.predicted and (each := _log_probs(validation, name))}
    while len(found) > 1:
        weights = dict(zip(found, _weights(list(found.values()))))
        kept = {name: each for name, each in found.items() if weights[name] >= _LEAST_WEIGHT}
        if len(kept) == len(found):
            stack = Stack(tuple(methods[name] for name in found), tuple(weights.values()))
            return stack, weights, _cross_fitted(list(found.values()))
        found = kept
    return None, {}, np.zeros(0)


def _cross_fitted(log_probs: list[list[Float[np.ndarray, " m"]]]) -> Float[np.ndarray, " n"]:
    """Log scores of each task under the weights that the tasks of the other groups give."""
    n = len(log_probs[0])
    scores = np.zeros(n)
    for group in np.array_split(np.arange(n), min(_GROUPS, n)):
        rest = np.setdiff1d(np.arange(n), group)
        logs = np.log(_weights([[each[row] for row in rest] for each in log_probs]))
        for row in group:
            joint = np.logaddexp.reduce([log + each[row] for log, each in zip(logs, log_probs)], axis=0)
            scores[row] = -joint.mean()
    return scores


def _weights(log_probs: list[list[Float[np.ndarray, " m"]]]) -> Float[np.ndarray, " k"]:
    longest = max(map(len, log_probs[0]))
    values = np.zeros((len(log_probs), len(log_probs[0]), longest))
    counts: Any = np.zeros(values.shape[1:])
    for member, each in zip(values, log_probs):
        for row, one in enumerate(each):
            member[row, : len(one)], counts[row, : len(one)] = one, 1.0
    return stacking_weights(values, counts)
