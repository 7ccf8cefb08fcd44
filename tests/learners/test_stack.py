"""A stack is the weighted mixture of its members, and its weights are those of predictions of left-out tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import scoreprior as sp
from scoreprior.learners.naive import ContextMean, LastValue, Ridge
from scoreprior.learners.stack import StackPrior

RULES = ("context-mean", "ridge", "last-value")


def walks(count: int, points: int = 12, seed: int = 0) -> sp.TaskSet:
    """Random walks in order of time: the last value is the best prediction."""
    rng = np.random.default_rng(seed)
    x = np.tile(np.arange(points, dtype=float)[:, None], (count, 1, 1))
    return sp.TaskSet.from_arrays(x, np.cumsum(rng.normal(size=(count, points)), axis=1))


def levels(count: int, points: int = 16, seed: int = 0) -> sp.TaskSet:
    """A level and much noise: the mean of the context is the best prediction."""
    rng = np.random.default_rng(seed)
    x = np.tile(np.arange(points, dtype=float)[:, None], (count, 1, 1))
    return sp.TaskSet.from_arrays(x, rng.normal(size=(count, 1)) + rng.normal(size=(count, points)))


def single_points(count: int) -> sp.TaskSet:
    """Tasks in which nothing is left to predict."""
    return sp.TaskSet([task.take(slice(at, at + 1)) for at, task in enumerate(walks(count))])


class Drawn(sp.Prior):
    """Draws at one height, a Gaussian around them."""

    standardizer: sp.Standardizer
    height: float

    def infer(self, context, key):
        return context.mask.sum()

    def evaluate(self, state, x):
        draws = jnp.full((4, len(x)), self.height)
        return sp.Mixture(draws, jnp.ones_like(draws), draws)


@dataclass(frozen=True)
class Drawing:
    """Fits nothing."""

    height: float = 0.0

    def fit(self, tasks, key, *, progress=True):
        return Drawn(sp.Standardizer.fit(tasks), self.height)

    def with_budget(self, share):
        return self


@dataclass(frozen=True)
class Point(Drawing):
    """Predicts a point."""

    def fit(self, tasks, key, *, progress=True):
        return PointPrior(sp.Standardizer.fit(tasks), self.height)


class PointPrior(Drawn):
    """Without a distribution."""

    def evaluate(self, state, x):
        return sp.Mixture(jnp.full((1, len(x)), self.height))


def weights_of(stack: sp.Stack, tasks: sp.TaskSet) -> dict[str, float]:
    return stack.fit(tasks, 0, progress=False).about()["weights"]


@pytest.mark.parametrize("weights", ["log", "squared"])
@pytest.mark.parametrize(("tasks", "best"), [(walks(40), "last-value"), (levels(40), "context-mean")])
def test_the_member_that_predicts_best_gets_the_weight(tasks, best, weights):
    found = weights_of(sp.Stack(RULES[::2], weights), tasks)
    assert found[best] > 0.7
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.slow
def test_the_stack_predicts_unseen_tasks_no_worse_than_its_best_member():
    """By no more than two standard errors over tasks, and what two weights learned from 40 tasks cost: 2 / (2 * 40)."""
    test = walks(100, seed=1)
    stack = sp.Stack(RULES).fit(walks(40), 0, progress=False)

    def nll(prior: sp.Prior) -> np.ndarray:
        return np.mean([sp.evaluate_pairs(prior, test.context_target(s), 1)["nll"] for s in (0.25, 0.5, 0.75)], axis=0)

    lost = nll(stack) - min(map(nll, stack.members), key=np.mean)
    assert lost.mean() < 2 * lost.std(ddof=1) / np.sqrt(len(lost)) + 1 / 40


def test_the_predictive_is_the_mixture_of_the_members(tmp_path):
    stack = sp.Stack(RULES).fit(walks(10), 0, progress=False)
    stack.save(tmp_path / "stack.prior")
    loaded = sp.load_prior(tmp_path / "stack.prior")
    assert isinstance(loaded, StackPrior)
    assert loaded.about() == stack.about()
    x, y = [[5.0], [7.0]], np.array([0.3, -2.0])
    one, *alone = (prior.condition([[0.0], [1.0]], [0.5, 1.5], 0).predict(x) for prior in (loaded, *loaded.members))
    weights = np.asarray(stack.weights, np.float64)
    expected = logsumexp([each.log_prob(y) for each in alone], axis=0, b=weights[:, None])
    np.testing.assert_allclose(one.log_prob(y), expected, rtol=1e-5)
    np.testing.assert_allclose(one.mean, weights @ [each.mean for each in alone], rtol=1e-5)


def test_tasks_that_predict_were_not_fitted_to(monkeypatch):
    seen, left_out = [], []
    fit, condition = LastValue.fit, sp.Prior.condition_many
    monkeypatch.setattr(LastValue, "fit", lambda self, tasks, *a, **k: seen.append(tasks) or fit(self, tasks, *a, **k))
    monkeypatch.setattr(
        sp.Prior, "condition_many", lambda self, tasks, key: left_out.append(tasks) or condition(self, tasks, key)
    )
    tasks = walks(10)
    sp.Stack(["last-value", "context-mean"], folds=5).fit(tasks, 0, progress=False)
    names = {task.name for task in tasks}
    assert [len(each) for each in seen] == [10, 8, 8, 8, 8, 8]
    for fitted, predicted in zip(seen[1:], left_out):  # those of the first member
        held = {task.name for task in predicted}
        assert held == names - {task.name for task in fitted}
        assert len(held) == 2


@pytest.mark.parametrize("tasks", [walks(3), single_points(8)])
def test_weights_are_equal_where_nothing_can_be_left_out(tasks):
    assert set(weights_of(sp.Stack(RULES), tasks).values()) == {1 / 3}


def test_a_member_that_refuses_the_tasks_is_left_out():
    stack = sp.Stack(["last-value", "newest-lag", "context-mean"])
    with pytest.warns(UserWarning, match="newest-lag is left out"):
        found = weights_of(stack, walks(8))
    assert set(found) == {"last-value", "context-mean"}
    refused = pytest.warns(UserWarning, match="left out")
    with refused, pytest.raises(sp.TaskError, match="No member"):
        sp.Stack(["newest-lag", "newest-lag"]).fit(walks(8), 0, progress=False)


def test_a_point_predictor_is_weighed_by_its_squared_error_alone():
    members = (Point(), LastValue())
    with pytest.raises(sp.NoDistributionError, match=r"Point predicts a point.*squared"):
        sp.Stack(members).fit(walks(8), 0, progress=False)
    prior = sp.Stack(members, "squared").fit(walks(8), 0, progress=False)
    assert prior.condition([[0.0]], [1.0], 0).predict([[1.0]]).is_point


def test_draws_come_from_members_in_proportion_where_all_have_them():
    tasks = walks(6)
    prior = sp.Stack([Drawing(0.0), Drawing(1.0)]).fit(tasks, 0, progress=False)
    prior = replace(prior, weights=jnp.array([0.25, 0.75]))
    draws = prior.standardizer.scale_y(prior.condition([], [], 0).predict([[1.0], [2.0]]).functions)
    np.testing.assert_allclose(draws, np.repeat([[0.0], [1.0]], [1, 3], axis=0) * np.ones(2), atol=1e-6)
    mixed = sp.Stack([Drawing(0.0), LastValue()]).fit(tasks, 0, progress=False)
    assert mixed.condition([], [], 0).predict([[1.0]]).draws is None


def test_a_member_in_other_units_is_refused():
    class Own(Drawing):
        def fit(self, tasks, key, *, progress=True):
            return Drawn(replace(sp.Standardizer.fit(tasks), y_std=1.0), 0.0)

    with pytest.raises(ValueError, match="Own standardises tasks in its own way"):
        sp.Stack([Own(), LastValue()]).fit(walks(6), 0, progress=False)


def test_members_are_methods_or_names():
    stack = sp.Stack([ContextMean(), "ridge", "last-value", "last-value"])
    assert stack.members == (ContextMean(), Ridge(), LastValue(), LastValue())
    assert list(weights_of(stack, walks(6))) == ["context-mean", "ridge", "last-value", "last-value (2)"]
    assert sp.learner("stack", **{"members.0": LastValue(), "members.1.average": True}).members[:2] == (
        LastValue(),
        replace(sp.learner("pooled-gp"), average=True),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"members": "ridge"}, "at least two members"),
        ({"members": ["ridge"]}, "at least two members"),
        ({"members": ["ridge", "no-such"]}, "no method"),
        ({"members": ["ridge", Ridge]}, "A member is a method"),
        ({"members": ["ridge", 3]}, "A member is a method"),
        ({"weights": "crps"}, "weights is one of log, squared"),
        ({"folds": 1}, "folds must be at least 2"),
    ],
)
def test_what_makes_no_sense_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        sp.Stack(**given)
