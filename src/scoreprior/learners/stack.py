"""Stacking: a mixture of several methods, with weights learned from tasks that they have not seen."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from scoreprior._budget import check_share
from scoreprior._settings import check_choice
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.learners._base import MetaLearner, Prior
from scoreprior.learners._function_prior import notes_of
from scoreprior.learners._methods import learner, method_of
from scoreprior.learners._split_nll import split_tasks
from scoreprior.predictive import Mixture, NoDistributionError, Predictive, mix
from scoreprior.stacking import squared_error_weights, stacking_weights
from scoreprior.tasks import PaddedTasks, Standardizer, Task, TaskSet, resolution
from scoreprior.tasks.checks import TaskError

Criterion = Literal["log", "squared"]

_FEWEST_TASKS = 4  # with fewer, some fold would leave less than the two tasks that a method needs
_MOST_SPLITS = 100  # of each fold: conditioning may cost more than fitting


class StackPrior(Prior):
    """Priors of several methods that were fitted to the same tasks, and their weights.

    Args:
        members: their priors, each complete, so that it can be used alone.
        weights: (k,), which sum to one.
        notes: JSON with method, config, domain and weights, for the prior's file.
    """

    standardizer: Standardizer
    members: tuple[Prior, ...]
    weights: Float[Array, " k"]
    notes: str | None = None

    @property
    def chunk(self) -> int | None:  # type: ignore[override]
        """The smallest of the members'."""
        return min((each.chunk for each in self.members if each.chunk is not None), default=None)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> tuple[PyTree, ...]:
        keys = jax.random.split(key, len(self.members))
        return tuple(each.infer(context, own) for each, own in zip(self.members, keys))

    def evaluate(self, state: tuple[PyTree, ...], x: Float[Array, "q d"]) -> Mixture:
        return mix([each.evaluate(own, x) for each, own in zip(self.members, state)], self.weights)

    def draw(self, state: tuple[PyTree, ...], x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw of one of the members, by their weights."""
        which_key, draw_key = jax.random.split(key)
        draws = jnp.stack([each.draw(own, x, draw_key) for each, own in zip(self.members, state)])
        return draws[jax.random.categorical(which_key, jnp.log(self.weights))]

    def update(self, tasks: TaskSet) -> StackPrior:
        """All members given further tasks, with the weights as they are."""
        return replace(self, members=tuple(each.update(tasks) for each in self.members))

    def about(self) -> dict[str, Any]:
        return super().about() if self.notes is None else json.loads(self.notes)

    def bare(self) -> StackPrior:
        members = tuple(each.bare() for each in self.members)
        return eqx.tree_at(
            lambda p: (p.standardizer, p.members, p.notes),
            self,
            (None, members, None),
            is_leaf=lambda leaf: leaf is None,
        )


class _Splits(NamedTuple):
    """Splits of one fold's tasks into context and target, and the other tasks."""

    others: TaskSet
    rows: Int[np.ndarray, " s"]  # of each split, the task among all
    contexts: TaskSet
    targets: tuple[Task, ...]


class _Member(NamedTuple):
    """A method's name, its prior from all tasks, and what it predicted for every split of every fold."""

    name: str
    prior: Prior
    predictives: list[Predictive]


@short_repr
@dataclass(frozen=True)
class Stack:
    """Several methods, whose predictives are mixed by weights learned from left-out tasks.

    The tasks are divided into folds. Every method is fitted to all folds but one and predicts the later points of
    that one's tasks from their first half, quarter and three quarters; the weights are those that predict them best
    (`stacking_weights`, `squared_error_weights`: a weak prior keeps those of few tasks near equal ones). Then every
    method is fitted to all tasks: in all, folds + 1 fits of each. With fewer than four tasks, or without a task of two
    points, weights are equal.

    A method that refuses these tasks with a `TaskError`, as newest-lag does where there is no lag, is left out with a
    warning. A method that predicts a point is refused with weights="log"; with "squared" the stack predicts a point as
    well. There are joint function draws where all members have them, from each in proportion to its weight.

    Args:
        members: methods, or their names.
        weights: "log" for those of the mixture with the best log score, "squared" for those of the mean with the least
            squared error; or the weights themselves, one of each member, and no fold is made.
        folds: at least 2; at most as many are made as there are tasks.
    """

    members: Sequence[MetaLearner | str] = ("hierarchical-gp", "pooled-gp", "last-value")
    weights: Criterion | tuple[float, ...] = "log"
    folds: int = 3

    def __post_init__(self) -> None:
        if isinstance(self.weights, tuple):
            _check_weights(self.weights, len(self.members))
        else:
            check_choice("weights", self.weights, get_args(Criterion))
        if not (isinstance(self.folds, int) and self.folds >= 2):
            raise ValueError(f"folds must be at least 2, and a whole number, not {self.folds}.")
        if isinstance(self.members, str) or len(self.members) < 2:
            raise ValueError(f"A stack needs at least two members, not {self.members!r}.")
        members = tuple(learner(each) if isinstance(each, str) else each for each in self.members)
        for each in members:
            if isinstance(each, type) or not isinstance(each, MetaLearner):
                raise ValueError(f"A member is a method or the name of one, not {each!r}.")
        object.__setattr__(self, "members", members)

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> StackPrior:
        """Learn the weights from left-out tasks, and fit all members to all tasks."""
        standardizer = Standardizer.fit(tasks)
        order_key, *keys = jax.random.split(as_key(key), len(self.members) + 1)
        folds = [] if isinstance(self.weights, tuple) else self._folds(tasks, order_key)
        members, given = [], []
        for at, (method, name, own) in enumerate(zip(self._methods, self._names, keys)):
            try:
                members.append(self._fit_member(name, method, tasks, folds, own, progress))
                given.append(self.weights[at] if isinstance(self.weights, tuple) else np.nan)
            except TaskError as error:
                warnings.warn(f"{name} is left out of the stack: {error}", stacklevel=2)
        if not members:
            raise TaskError("No member of the stack can be fitted to these tasks; the warnings say why.")
        weights = np.array(given) / np.sum(given)
        if not isinstance(self.weights, tuple):
            weights = self._weights([each.predictives for each in members], folds, resolution(tasks.y))
        told = dict(zip((each.name for each in members), weights.tolist()))
        notes = json.loads(notes_of(self, tasks, {})) | {"weights": told}
        priors = tuple(each.prior for each in members)
        for each in members:
            _check_units(each.name, each.prior.standardizer, standardizer)
        return StackPrior(standardizer, priors, jnp.asarray(weights, jnp.float32), json.dumps(notes))

    def with_budget(self, share: float) -> Stack:
        """Every member with this share of its budget."""
        check_share(share)
        return replace(self, members=tuple(each.with_budget(share) for each in self._methods))

    @property
    def _methods(self) -> list[MetaLearner]:
        return [each for each in self.members if not isinstance(each, str)]  # names were looked up on construction

    @property
    def _names(self) -> list[str]:
        """Names of the members; the second of a name is told from the first."""
        names = [method_of(each) for each in self._methods]
        counts = [names[:at].count(name) for at, name in enumerate(names)]
        return [f"{name} ({count + 1})" if count else name for name, count in zip(names, counts)]

    def _folds(self, tasks: TaskSet, key: PRNGKeyArray) -> list[_Splits]:
        if len(tasks) < _FEWEST_TASKS:
            return []
        order = np.asarray(jax.random.permutation(key, len(tasks)))
        found = []
        for own in np.array_split(order, min(self.folds, len(tasks))):
            if max(len(tasks[row]) for row in own) >= 2:
                rows, contexts, targets = split_tasks(tasks.take(own), most=_MOST_SPLITS)
                others = tasks.take(np.setdiff1d(order, own))
                found.append(_Splits(others, own[rows], TaskSet(contexts), targets))
        return found

    def _fit_member(
        self, name: str, method: MetaLearner, tasks: TaskSet, folds: list[_Splits], key: PRNGKeyArray, progress: bool
    ) -> _Member:
        key, *keys = jax.random.split(key, len(folds) + 1)
        prior = method.fit(tasks, key, progress=progress)
        if self.weights != "squared" and prior.is_point:
            raise NoDistributionError(
                f'{name} predicts a point, which has no log score: leave it out, or stack with weights="squared".'
            )
        predictives = []
        for fold, own in zip(folds, keys):
            fit_key, condition_key = jax.random.split(own)
            fitted = method.fit(fold.others, fit_key, progress=False)
            posteriors = fitted.condition_many(fold.contexts, condition_key)
            predictives += posteriors.predict([target.x for target in fold.targets])
        return _Member(name, prior, predictives)

    def _weights(
        self, predictives: list[list[Predictive]], folds: list[_Splits], step: float
    ) -> Float[np.ndarray, " k"]:
        """By what was predicted of the folds; targets recorded in steps count by their rounding intervals."""
        if not folds:
            return np.full(len(predictives), 1 / len(predictives))
        rows = np.concatenate([fold.rows for fold in folds])
        ys = [target.y for fold in folds for target in fold.targets]
        point_weights = _by_task([np.full(len(y), 1 / len(y)) for y in ys], rows)
        if self.weights == "log":
            scores = [_by_task([_log_prob(one, y, step) for one, y in zip(each, ys)], rows) for each in predictives]
            return stacking_weights(np.stack(scores), point_weights)
        means = np.stack([_by_task([one.mean for one in each], rows) for each in predictives])
        return squared_error_weights(means, _by_task(ys, rows), point_weights)


def _log_prob(predictive: Predictive, y: Float[np.ndarray, " m"], step: float) -> Float[np.ndarray, " m"]:
    return predictive.log_prob_interval(y - step / 2, y + step / 2) if step else predictive.log_prob(y)


def _by_task(pieces: list[Float[np.ndarray, " m"]], rows: Int[np.ndarray, " s"]) -> Float[np.ndarray, "n m"]:
    """What belongs to the splits of each task, one after the other, filled up with zeros."""
    joined = [np.concatenate([pieces[at] for at in np.flatnonzero(rows == row)]) for row in np.unique(rows)]
    values = np.zeros((len(joined), max(map(len, joined))))
    for one, own in zip(values, joined):
        one[: len(own)] = own
    return values


def _check_weights(weights: tuple[float, ...], members: int) -> None:
    if len(weights) != members or not (min(weights) > 0 and abs(sum(weights) - 1) < 1e-3):
        raise ValueError(f"Weights of {members} members are so many positive numbers that sum to 1, not {weights}.")


def _check_units(name: str, found: Standardizer, expected: Standardizer) -> None:
    """Refuse a prior whose standardised units are not those of the other members."""
    same = (np.array_equal(getattr(found, f.name), getattr(expected, f.name)) for f in fields(expected))
    if not all(same):
        raise ValueError(f"{name} standardises tasks in its own way; members of a stack do so by Standardizer.fit.")
