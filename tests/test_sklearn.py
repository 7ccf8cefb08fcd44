"""The scikit-learn adapter: scikit-learn's own estimator checks, and that it says what the prior says."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import scoreprior as sp
from scoreprior.sklearn import MetaRegressor


@cache
def prior_of(dim: int) -> sp.Prior:
    """A prior learned from noisy planes over `dim` inputs."""
    rng = np.random.default_rng(dim)
    xs = [rng.normal(size=(12, dim)) for _ in range(4)]
    ys = [x @ rng.normal(1, 0.5, dim) + 0.1 * rng.normal(size=12) for x in xs]
    return sp.learner("ridge", strengths=(1.0,)).fit(sp.TaskSet.from_arrays(xs, ys), 0, progress=False)


class AnyNumberOfFeatures(MetaRegressor):
    """scikit-learn's checks vary the number of features: this conditions the prior that was learned with as many."""

    def fit(self, X, y):
        given, shape = self.prior, X.shape if hasattr(X, "shape") else np.asarray(X).shape
        self.prior = prior_of(max(1, shape[1]) if len(shape) == 2 else 1)
        try:
            return super().fit(X, y)
        finally:
            self.prior = given

    def __repr__(self):
        return "AnyNumberOfFeatures()"


@pytest.mark.slow
@parametrize_with_checks([AnyNumberOfFeatures(prior_of(2))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(m: int = 10, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, 2))
    return x, x @ [1.2, 0.8] + 0.1 * rng.normal(size=m)


def test_says_what_the_prior_says():
    prior, (x, y) = prior_of(2), data()
    regressor = MetaRegressor(prior).fit(x[:6], y[:6])
    expected = prior.condition(x[:6], y[:6], 0).predict(x[6:])
    mean, std = regressor.predict(x[6:], return_std=True)
    np.testing.assert_array_equal(mean, expected.mean)
    np.testing.assert_array_equal(std, expected.std)
    np.testing.assert_array_equal(regressor.predict(x[6:]), mean)
    np.testing.assert_array_equal(regressor.predict_distribution(x[6:]).log_prob(y[6:]), expected.log_prob(y[6:]))


def test_cross_validation_scores_what_a_loop_would():
    prior, (x, y) = prior_of(2), data(12)
    folds = KFold(3)
    scores = cross_val_score(MetaRegressor(prior), x, y, cv=folds, scoring="neg_mean_squared_error")
    for score, (train, test) in zip(scores, folds.split(x)):
        predicted = prior.condition(x[train], y[train], 0).predict(x[test]).mean
        assert score == pytest.approx(-np.mean((y[test] - predicted) ** 2), rel=1e-6)


def test_clones_and_pickles_are_equal_but_not_fitted():
    x, y = data()
    regressor = MetaRegressor(prior_of(2), random_state=7).fit(x, y)
    for copy in (clone(regressor), pickle.loads(pickle.dumps(clone(regressor)))):
        assert copy.get_params()["random_state"] == 7
        with pytest.raises(NotFittedError):
            copy.predict(x)
        np.testing.assert_array_equal(copy.fit(x, y).predict(x), regressor.predict(x))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(regressor)).predict(x), regressor.predict(x))


def test_wrong_arguments_are_named():
    x, y = data()
    with pytest.raises(ValueError, match="X has 3 features, but the prior was learned with 2"):
        MetaRegressor(prior_of(2)).fit(np.ones((4, 3)), np.ones(4))
    with pytest.raises(ValueError, match="X has 3 features"):
        MetaRegressor(prior_of(2)).fit(x, y).predict(np.ones((4, 3)))
    with pytest.raises(TypeError, match="fitted prior, not a Ridge"):
        MetaRegressor(sp.learner("ridge")).fit(x, y)


def test_a_frame_with_dates_and_words_is_encoded_as_in_training():
    dates = pd.date_range("2024-01-01", periods=6).to_list()
    table = pd.DataFrame({"t": np.repeat(["a", "b", "c"], 6), "date": dates * 3, "town": ["n"] * 6 + ["s"] * 12})
    table["y"] = np.arange(18) % 6 + 10.0 * (table["town"] == "n")
    tasks = sp.TaskSet.from_frame(table, task="t", inputs=["date", "town"], target="y")
    prior = sp.learner("ridge").fit(tasks, 0)
    new = table[["town", "date"]][:4]
    regressor = MetaRegressor(prior).fit(new, table["y"][:4])
    expected = prior.condition(prior.encode(new), table["y"][:4], 0).predict([[5.0, 0.0, 1.0]])
    asked = pd.DataFrame({"date": ["2024-01-06"], "town": ["s"]})
    np.testing.assert_allclose(regressor.predict(asked), expected.mean, rtol=1e-5)
    apart = sp.TaskSet.from_frame(table, task="t", inputs="date", target="y", since="task")
    with pytest.raises(ValueError, match=r"first date: use prior.encode\(frame, start"):
        MetaRegressor(sp.learner("ridge").fit(apart, 0)).fit(new, table["y"][:4])


def test_only_this_module_needs_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None  # what an import finds where scikit-learn is not installed
import scoreprior
try:
    import scoreprior.sklearn
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'scikit-learn>=1.6'" in done.stdout
