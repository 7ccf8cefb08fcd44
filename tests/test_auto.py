"""`Auto`: chosen by log scores that were made, so that the right choice is known."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.diagnostics import trains_networks
from scoreprior.learners import Prior
from scoreprior.predictive import Mixture
from scoreprior.tasks import Standardizer


class NormalPrior(Prior):
    """N(loc, scale^2) everywhere, whatever is known."""

    standardizer: Standardizer
    loc: float
    scale: float

    def infer(self, context, key):
        return jnp.float32(self.loc)

    def evaluate(self, state, x):
        locs = jnp.full((1, len(x)), state)
        return Mixture(locs, jnp.full_like(locs, self.scale))


@dataclass(frozen=True)
class First:
    """Learns nothing."""

    loc: float = 0.0
    scale: float = 1.0

    def fit(self, tasks, key, *, progress=True):
        scaler = Standardizer.fit(tasks)
        return NormalPrior(scaler, (self.loc - scaler.y_mean) / scaler.y_std, self.scale / scaler.y_std)

    def with_budget(self, share):
        return self


class Second(First):
    """The same by another name."""


class Third(First):
    """And another."""


def tasks_of(draw, n: int = 40) -> sp.TaskSet:
    rng = np.random.default_rng(0)
    return sp.TaskSet.from_arrays([np.arange(10.0)] * n, [draw(rng, i) for i in range(n)])


def noise(rng, i):
    return rng.normal(size=10)


def test_the_best_log_score_wins_and_the_reason_says_by_how_much():
    choice = sp.Auto((First(2.0), Second(0.0), Third(-1.0))).choose(tasks_of(noise), 0, progress=False)
    assert (choice.name, choice.validation.method) == ("Second", "Second")
    start = "Second has the best log score of 3 methods on 40 left-out tasks; the next, Third, is worse by "
    assert choice.reason.startswith(start)
    # E[log score] of N(a, 1) exceeds that of the truth by a^2 / 2; 200 points are predicted.
    assert float(choice.reason.removeprefix(start).split()[0]) == pytest.approx(0.5, abs=4 / np.sqrt(200))


def test_a_simpler_method_within_one_standard_error_is_preferred():
    choice = sp.Auto((First(0.01), Second(0.0))).choose(tasks_of(noise), 0, progress=False)
    assert choice.name == "First"
    assert "First is simpler than Second and as good" in choice.reason or "First has the best" in choice.reason
    turned = sp.Auto((First(1.0), Second(0.02), Third(0.0))).choose(tasks_of(noise), 0, progress=False)
    assert turned.name == "Second"


def test_methods_that_are_right_on_different_tasks_are_stacked():
    """Half of the tasks lie at 0, half at 6: a mixture of both has the better score, by log 2 less of a miss of 18."""
    apart = tasks_of(lambda rng, i: rng.normal(size=10) + 6 * (i % 2))
    choice = sp.Auto((First(0.0), Second(6.0))).choose(apart, 0, progress=False)
    assert (choice.name, type(choice.method)) == ("stack", sp.Stack)
    assert choice.method.weights == pytest.approx((0.5, 0.5), abs=0.05)
    assert choice.reason.startswith("a stack of First (50%) and Second (50%)")
    prior = choice.method.fit(apart, 0)
    np.testing.assert_allclose(prior.weights, choice.method.weights, rtol=1e-6)
    assert set(choice.validation.comparison().table.index) == {"stack", "First", "Second"}
    mean = prior.condition([], [], 0).predict([[0.0]]).mean
    assert mean == pytest.approx(6 * choice.method.weights[1], rel=1e-4)


def test_auto_is_a_method_like_any_other():
    auto = sp.Auto((First(3.0), Second(0.0)))
    assert isinstance(auto, sp.MetaLearner)
    prior = auto.with_budget(0.5).fit(tasks_of(noise, 12), 0, progress=False)
    assert prior.condition([], [], 0).predict([[0.0]]).mean == pytest.approx(0.0, abs=1e-5)


def test_networks_take_part_where_there_are_many_tasks():
    auto = sp.Auto(("ridge", "mars-gp"))
    assert list(auto.methods_for(99)) == ["ridge"]
    assert list(auto.methods_for(100)) == ["ridge", "mars-gp"]
    assert [trains_networks(sp.learner(name)) for name in ("mars-gp", "stack", "pooled-gp", "np")] == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("members", "words"), [((), "methods to choose from"), ("ridge", "methods to choose"), ((3,), "name of one")]
)
def test_nonsense_is_refused(members, words):
    with pytest.raises(ValueError, match=words):
        sp.Auto(members)


@pytest.mark.parametrize("weights", [(0.5, 0.6), (1.0,), (1.5, -0.5)])
def test_weights_of_a_stack_are_shares(weights):
    with pytest.raises(ValueError, match="sum to 1"):
        sp.Stack(("ridge", "last-value"), weights)
