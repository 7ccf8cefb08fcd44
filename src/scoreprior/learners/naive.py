"""Rules a practitioner would try first: last value, context mean, newest lag, ridge.

Each rule is a point prediction from a task's context; its Gaussian width is the root mean squared error it makes on the
meta-training tasks when their first halves predict their second halves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._budget import check_share
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike
from scoreprior.learners._base import Prior
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.tasks.checks import TaskError

_NEAREST = 0.5  # in standard deviations of the target: an input that only follows its trend is no lag


class Rule(eqx.Module):
    """A point prediction from a context, in standardised units."""

    # Without a context point these rules know no more than the pooled mean and spread of y.
    needs_context: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, context: PaddedTasks, x: Float[Array, "q d"]) -> Float[Array, " q"]:
        """Predicted y at x."""


class NaivePrior(Prior):
    """A rule and the width of its error."""

    standardizer: Standardizer
    rule: Rule
    width: Float[Array, ""]

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PaddedTasks:
        return context

    def evaluate(self, state: PaddedTasks, x: Float[Array, "q d"]) -> Mixture:
        locs = self.rule(state, x)
        informed = state.mask.any() | (not self.rule.needs_context)
        locs = jnp.where(informed, locs, 0.0)
        return Mixture(locs[None], jnp.broadcast_to(jnp.where(informed, self.width, 1.0), (1, len(x))))


AnyRule = TypeVar("AnyRule", bound="_WithoutIterations")


class _WithoutIterations:
    def with_budget(self: AnyRule, share: float) -> AnyRule:
        """The rule itself: it iterates nothing."""
        check_share(share)
        return self


@short_repr
@dataclass(frozen=True)
class LastValue(_WithoutIterations):
    """Carry the last observation forward.

    With one input (time) that is the observation at the largest input not beyond the query, or the first one
    for earlier queries; with several inputs it is the last row given.
    """

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> NaivePrior:
        """Measure the rule's error on the meta-training tasks."""
        return _with_width(_LastValueRule(), Standardizer.fit(tasks), tasks)


class _LastValueRule(Rule):
    def __call__(self, context: PaddedTasks, x: Float[Array, "q d"]) -> Float[Array, " q"]:
        if x.shape[1] > 1:
            return jnp.broadcast_to(context.y[jnp.maximum(context.mask.sum() - 1, 0)], (len(x),))
        times = context.x[:, 0]
        seen = context.mask & (times <= x)  # (q, m)
        latest = jnp.argmax(jnp.where(seen, times, -jnp.inf), axis=1)
        first = jnp.argmin(jnp.where(context.mask, times, jnp.inf))
        return context.y[jnp.where(seen.any(1), latest, first)]


@short_repr
@dataclass(frozen=True)
class ContextMean(_WithoutIterations):
    """Predict the mean of the context's targets everywhere."""

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> NaivePrior:
        """Measure the rule's error on the meta-training tasks."""
        return _with_width(_ContextMeanRule(), Standardizer.fit(tasks), tasks)


class _ContextMeanRule(Rule):
    def __call__(self, context: PaddedTasks, x: Float[Array, "q d"]) -> Float[Array, " q"]:
        mean = jnp.sum(context.y, where=context.mask) / jnp.maximum(context.mask.sum(), 1)
        return jnp.broadcast_to(mean, (len(x),))


@short_repr
@dataclass(frozen=True)
class NewestLag(_WithoutIterations):
    """Predict the newest lag among the inputs, where inputs are earlier readings of the target.

    Args:
        column: which input is the newest lag; by default the one nearest to the target on the meta-training tasks.
    """

    column: int | None = None

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> NaivePrior:
        """Find the lag if need be and measure the rule's error; inputs that are no lags are an error."""
        standardizer = Standardizer.fit(tasks)
        if not standardizer.warp.is_identity:
            raise TaskError(f"newest-lag compares inputs with real targets; this one is {tasks.target.words}.")
        if standardizer.channels is not None:
            raise TaskError("newest-lag compares inputs with one target; there are several.")
        errors = np.sqrt(((tasks.x - tasks.y[:, None]) ** 2).mean(0))
        if self.column is not None and not -tasks.dim <= self.column < tasks.dim:
            raise TaskError(f"There is no input column {self.column}; the tasks have {tasks.dim}.")
        column = int(np.argmin(errors)) if self.column is None else self.column % tasks.dim
        if self.column is None and errors[column] > _NEAREST * tasks.y.std():
            raise TaskError(
                f"No input looks like an earlier reading of {tasks.target_name}: even the nearest, "
                f"{tasks.input_names[column]}, is more than half a standard deviation of {tasks.target_name} away from "
                "it. newest-lag needs lags as inputs; if one of them is a lag all the same, name its column."
            )
        rule = _NewestLagRule(
            column,
            jnp.float32(standardizer.x_std[column] / standardizer.y_std),
            jnp.float32((standardizer.x_mean[column] - standardizer.y_mean) / standardizer.y_std),
        )
        return _with_width(rule, standardizer, tasks)


class _NewestLagRule(Rule):
    needs_context: ClassVar[bool] = False
    column: int = eqx.field(static=True)
    # The input is in units of the target, so it leaves its own standardised units for the target's.
    scale: Float[Array, ""]
    shift: Float[Array, ""]

    def __call__(self, context: PaddedTasks, x: Float[Array, "q d"]) -> Float[Array, " q"]:
        return x[:, self.column] * self.scale + self.shift


@short_repr
@dataclass(frozen=True)
class Ridge(_WithoutIterations):
    """Linear regression on the context, shrunk towards the regression on all meta-training tasks.

    Args:
        strengths: candidates for the penalty; the one with the least error on the meta-training tasks is kept.
    """

    strengths: Sequence[float] = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)

    def __post_init__(self) -> None:
        if not self.strengths or not min(self.strengths) > 0:
            raise ValueError(f"strengths needs at least one candidate, all of them positive, not {self.strengths}.")

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> NaivePrior:
        """Fit the pooled weights and choose the strength of the pull towards them."""
        standardizer = Standardizer.fit(tasks)
        scaled = standardizer.apply(tasks)
        design = np.column_stack([np.ones(len(scaled.y)), scaled.x])
        gram = design.T @ design + 1e-3 * np.eye(design.shape[1])
        pooled = jnp.asarray(np.linalg.solve(gram, design.T @ scaled.y), jnp.float32)
        candidates = [
            _with_width(_RidgeRule(pooled, jnp.float32(strength)), standardizer, tasks) for strength in self.strengths
        ]
        return min(candidates, key=lambda prior: float(prior.width))


class _RidgeRule(Rule):
    needs_context: ClassVar[bool] = False
    pooled: Float[Array, " d+1"]
    strength: Float[Array, ""]

    def __call__(self, context: PaddedTasks, x: Float[Array, "q d"]) -> Float[Array, " q"]:
        """w = w0 + (A^T A + strength I)^-1 A^T (y - A w0) with A = [1, x]."""
        design = jnp.where(context.mask[:, None], _affine(context.x), 0.0)
        residual = jnp.where(context.mask, context.y - design @ self.pooled, 0.0)
        gram = design.T @ design + self.strength * jnp.eye(design.shape[1])
        return _affine(x) @ (self.pooled + jnp.linalg.solve(gram, design.T @ residual))


def _affine(x: Float[Array, "m d"]) -> Float[Array, "m d+1"]:
    return jnp.concatenate([jnp.ones((len(x), 1)), x], axis=1)


def _with_width(rule: Rule, standardizer: Standardizer, tasks: TaskSet) -> NaivePrior:
    splittable = [i for i, task in enumerate(tasks) if len(task) >= 2]
    if not splittable:
        return NaivePrior(standardizer, rule, jnp.float32(1.0))
    halves = standardizer.apply(tasks.take(splittable)).context_target(0.5)
    target = halves.target.padded()
    residual = _predict_all(rule, halves.context.padded(), target.x) - target.y
    mean_square = jnp.sum(residual**2, where=target.mask) / target.mask.sum()
    # A rule that is never wrong on a few tasks still needs a width to be a distribution.
    return NaivePrior(standardizer, rule, jnp.maximum(jnp.sqrt(mean_square), 1e-3))


@eqx.filter_jit
def _predict_all(rule: Rule, context: PaddedTasks, x: Float[Array, "n q d"]) -> Float[Array, "n q"]:
    return jax.vmap(rule)(context, x)
