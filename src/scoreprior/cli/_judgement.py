"""How `fit` judges: by cross-validation over tasks, beside simple rules, with the choice of a method if asked for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scoreprior import diagnostics
from scoreprior.auto import CANDIDATES, Auto
from scoreprior.cli import _comparison
from scoreprior.cli._console import CallError, Talk
from scoreprior.cli._tables import Columns
from scoreprior.diagnostics import CrossValidation, TooFewTasksError
from scoreprior.learners import MetaLearner, learner
from scoreprior.learners.stack import Stack
from scoreprior.tasks import TaskSet

AUTO = "auto"
# People act on these predictions, so quick may not mean untrained: a twentieth, as `bench --quick` takes, only shows
# that everything runs. A quarter of all steps is still a fit, and a first look at a table in a fraction of the time.
QUICK_SHARE = 0.25
QUICK_NETWORK_FOLDS = 1
BUDGET_FOLDS = 2
QUICK = "--quick"
_WITHOUT_JUDGEMENT = "hierarchical-gp"


class Judgement(NamedTuple):
    """What was found.

    Args:
        name: of the method to fit to all tasks.
        method: the method itself.
        record: for the prior's file, None where tasks are too few.
        left_out: how surprising left-out tasks are, for the guard.
        reason: why this method, where it was chosen here.
        seconds: that a fit took.
    """

    name: str
    method: MetaLearner
    record: dict[str, Any] | None = None
    left_out: Float[np.ndarray, "s 2"] | None = None
    reason: str | None = None
    seconds: float | None = None


def choose(method: str, quick: bool) -> MetaLearner:
    """The method, with a quarter of all its iterations if quick."""
    try:
        chosen: Any = learner(method)
    except ValueError as error:
        raise CallError(str(error)) from error
    return chosen.with_budget(QUICK_SHARE) if quick else chosen


def judge(
    talk: Talk,
    tasks: TaskSet,
    columns: Columns,
    method: str,
    *,
    quick: bool,
    folds: int | None,
    horizon: int | None,
    seed: int,
) -> Judgement:
    """Judge a method beside simple rules, or choose one; with a horizon, by forecasts of so many rows."""
    # Rows in order of a lag would be in no order.
    rules = [rule for rule in diagnostics.RULES if columns.order != "input" or rule not in diagnostics.LAG_RULES]
    how = _How(quick, folds, horizon, seed)
    try:
        if method == AUTO:
            return _choose(talk, tasks, rules, how)
        return _judge(talk, tasks, columns, method, rules, how)
    except TooFewTasksError as error:
        talk.warn(_comparison.too_few_words(tasks) if horizon is None else str(error))
        name = _WITHOUT_JUDGEMENT if method == AUTO else method
        reason = f"{name} is taken without a comparison." if method == AUTO else None
        return Judgement(name, choose(name, quick), reason=reason)


class _How(NamedTuple):
    """How tasks are left out and predicted."""

    quick: bool
    folds: int | None
    horizon: int | None
    seed: int


def _judge(talk: Talk, tasks: TaskSet, columns: Columns, method: str, rules: list[str], how: _How) -> Judgement:
    chosen = choose(method, how.quick)
    if how.quick and how.folds is None and diagnostics.trains_networks(chosen):
        how = how._replace(folds=QUICK_NETWORK_FOLDS)
    rivals = {rule: choose(rule, how.quick) for rule in rules if rule != method}
    talk.say(f"Cross-validation over tasks: {method} and {len(rivals)} simple rules predict tasks left out ...")
    # Rules that cannot use what is known of rows are no rivals.
    plain = not any(task.weight != 1 or task.noise_is_known for task in tasks)
    optional = diagnostics.LAG_RULES if plain else tuple(rivals)
    found = _cross_validate(talk, {method: chosen, **rivals}, tasks, how, optional)
    if not plain and (gone := [rule for rule in rivals if rule not in found.predicted]):
        talk.say(f"Rules that cannot use {' or '.join(columns.extra)} are not compared with: {', '.join(gone)}.")
    _tell_budget(talk, found, chosen, tasks, how)
    return _finish(talk, found, chosen, how.seed)


def _choose(talk: Talk, tasks: TaskSet, rules: list[str], how: _How) -> Judgement:
    members = [choose(name, how.quick) for name in dict.fromkeys([*rules, *CANDIDATES])]
    # A first look is one at rules and processes: networks take longer than all of these together.
    some = tuple(each for each in members if not (how.quick and diagnostics.trains_networks(each)))
    auto = Auto(some, folds=how.folds, horizon=how.horizon)
    told = ", ".join(auto.methods_for(len(tasks)))
    talk.say(f"Cross-validation over tasks, to choose from {told} ...")
    choice = auto.choose(tasks, how.seed, progress=talk.progress)
    talk.say(f"Chosen: {choice.reason}")
    if not isinstance(choice.method, Stack):
        _tell_budget(talk, choice.validation, choice.method, tasks, how)
    found = _finish(talk, choice.validation, choice.method, how.seed, warn=False)
    return found._replace(name=choice.name, reason=choice.reason)


def _tell_budget(talk: Talk, found: CrossValidation, chosen: MetaLearner, tasks: TaskSet, how: _How) -> None:
    """Say where the full budget gains nothing over that of --quick; two folds tell, at half the price of one fit."""
    short = chosen.with_budget(QUICK_SHARE)
    if how.quick or short == chosen:
        return
    number = min(BUDGET_FOLDS, len(found.folds))
    other = _cross_validate(talk, {QUICK: short}, tasks, how._replace(folds=number))
    if text := _comparison.budget_words(found.comparison([]), other.comparison()):
        talk.say(text)


def _cross_validate(
    talk: Talk, methods: dict[str, MetaLearner], tasks: TaskSet, how: _How, optional: Collection[str] = ()
) -> CrossValidation:
    options: dict[str, Any] = {"folds": how.folds, "horizon": how.horizon, "optional": optional}
    return diagnostics.cross_validate(methods, tasks, how.seed, **options, progress=talk.progress)


def _finish(talk: Talk, found: CrossValidation, chosen: MetaLearner, seed: int, warn: bool = True) -> Judgement:
    """The record of a method with its guard, which is what people get; what it means is said."""
    method, left_out = found.method, None
    if not found.priors[method][0].is_point:
        with talk.stage("Comparing left-out tasks with those of training"):
            found, left_out = found.guarded(seed)
    compared = found.comparison()
    texts = _comparison.rule_words(compared) if warn else []
    for text in texts + _comparison.narrow_words(method, compared.coverage):
        talk.warn(text)
    seconds = found.predicted[method][0].seconds["fit_seconds"]
    return Judgement(method, chosen, _comparison.record(compared), left_out, seconds=seconds)
