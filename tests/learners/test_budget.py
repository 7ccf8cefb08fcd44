"""A share of a method's budget: all that iterates is cut, nothing else, and in full nothing changes."""

from __future__ import annotations

import pytest

from scoreprior.bench.budget import flat, reduced
from scoreprior.learners import learner, methods

METHODS = list(methods())
# What a method iterates, by the last part of the setting's name. Not `inner_steps`: that says what a method is.
ITERATED = ("steps", "target_steps", "epochs", "warm_start", "evidence_evaluations", "tuning_evaluations")


@pytest.mark.parametrize("name", METHODS)
def test_every_count_of_iterations_is_cut_and_nothing_else(name):
    whole = learner(name)
    before, after = dict(flat(whole)), dict(flat(whole.with_budget(0.1)))
    assert before.keys() == after.keys()
    for setting, value in before.items():
        last = setting.rpartition(".")[2]
        if last in ITERATED:
            assert after[setting] == max(20, round(0.1 * value))
        elif last in ("most_tasks", "evidence_tasks") and "evidence_evaluations" in "".join(before):  # of a process
            assert after[setting] == max(40, round(0.1 * value))
        elif last != "chunk":  # of which `TrainingConfig` has its own test
            assert after[setting] == value


@pytest.mark.parametrize("name", METHODS)
def test_the_whole_budget_is_the_method_itself(name):
    assert learner(name).with_budget(1.0) == learner(name)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_what_is_no_share_is_refused(name, share):
    with pytest.raises(ValueError, match="share of the budget is above 0 and at most 1"):
        learner(name).with_budget(share)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("share", [0.05, 0.25])
def test_a_cut_said_as_settings_is_the_same_method(name, share):
    assert learner(name, **reduced(name, {}, share)) == learner(name).with_budget(share)
