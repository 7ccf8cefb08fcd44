"""What Python prints of an object: one short line with the essentials."""

from __future__ import annotations

import numpy as np
import pytest

import scoreprior as sp
from scoreprior.diagnostics import cross_validate

MOST = 200


@pytest.fixture(scope="module")
def tasks() -> sp.TaskSet:
    rng = np.random.default_rng(0)
    return sp.TaskSet.from_arrays([np.arange(6.0)] * 10, list(rng.normal(size=(10, 6))))


@pytest.mark.parametrize("name", sp.methods())
def test_a_method_names_what_is_not_as_usual(name):
    method = sp.learner(name)
    assert len(repr(method)) <= MOST
    assert repr(method).startswith(type(method).__name__)
    assert "\n" not in repr(method)


def test_settings_that_differ_are_shown():
    assert repr(sp.learner("vanilla-gp", steps=7)) == "VanillaGP(steps=7)"
    assert repr(sp.Stack(folds=4)) == "Stack(folds=4)"
    assert repr(sp.Auto(networks_from=7)) == "Auto(networks_from=7)"
    assert repr(sp.learner("mars-gp")) == "DenoisedMARS()"


def test_priors_posteriors_and_what_they_give_are_short(tasks):
    prior = sp.learner("ridge").fit(tasks, 0)
    guarded = sp.Guarded("ridge").guard(prior, tasks)
    comparison = cross_validate({"ridge": sp.learner("ridge"), "last-value": sp.learner("last-value")}, tasks, 0)
    for thing, essential in (
        (tasks, "n=10"),
        (tasks[0], "m=6"),
        (tasks.context_target(0.5), "m=3..3"),
        (prior, "NaivePrior(d=1"),
        (guarded, "GuardedPrior(d=1"),
        (prior.condition([1.0, 2.0], [2.0, 3.0], 0), "2 known points"),
        (prior.condition_many(tasks, 0), "n=10"),
        (prior.condition([1.0], [2.0], 0).predict([[1.0], [2.0]]), "q=2"),
        (comparison, "folds=5"),
        (comparison.comparison(), "tasks=10"),
        (sp.check(prior, tasks, 0), "tasks=10"),
        (sp.Guarded("ridge"), "Ridge"),
    ):
        text = repr(thing)
        assert essential in text
        assert len(text) <= MOST
        assert "\n" not in text
