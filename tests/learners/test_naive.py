"""Naive rules against what they say by hand, and against their published figures on real data."""

from __future__ import annotations

import numpy as np
import pytest

import scoreprior as sp


def tasks(n: int = 5, m: int = 6, seed: int = 0) -> sp.TaskSet:
    rng = np.random.default_rng(seed)
    xs = [np.sort(rng.uniform(0, 10, m)) for _ in range(n)]
    return sp.TaskSet.from_arrays(xs, [rng.normal(size=m) + 3 for _ in range(n)])


def predict(name: str, x: list, y: list, query: list, train: sp.TaskSet | None = None) -> sp.Predictive:
    return sp.learner(name).fit(train or tasks(), 0).condition(x, y, 0).predict(query)


def test_last_value_carries_the_newest_earlier_observation():
    predictive = predict("last-value", [3.0, 1.0, 2.0], [30.0, 10.0, 20.0], [0.0, 1.0, 1.5, 2.0, 99.0])
    np.testing.assert_allclose(predictive.mean, [10, 10, 10, 20, 30], rtol=1e-5)


def test_last_value_with_several_inputs_is_the_last_row():
    rng = np.random.default_rng(1)
    train = sp.TaskSet.from_arrays([rng.normal(size=(4, 2)) for _ in range(3)], [rng.normal(size=4) for _ in range(3)])
    predictive = predict("last-value", rng.normal(size=(3, 2)), [1.0, 2.0, 7.0], rng.normal(size=(2, 2)), train)
    np.testing.assert_allclose(predictive.mean, [7, 7], rtol=1e-5)


def test_context_mean():
    np.testing.assert_allclose(predict("context-mean", [1, 2, 3], [1.0, 2.0, 6.0], [5.0]).mean, [3.0], rtol=1e-5)


def test_width_is_the_error_of_first_halves_on_second_halves():
    train = tasks(n=8, m=6)
    residuals = np.concatenate([task.y[3:] - task.y[:3].mean() for task in train])
    predictive = predict("context-mean", [1, 2], [0.0, 1.0], [5.0], train)
    np.testing.assert_allclose(predictive.std, np.sqrt(np.mean(residuals**2)), rtol=1e-4)


def test_without_a_context_point_the_pooled_mean_and_spread_remain():
    train = tasks()
    predictive = sp.learner("last-value").fit(train, 0).condition([], [], 0).predict([1.0])
    np.testing.assert_allclose(predictive.mean, train.y.mean(), rtol=1e-5)
    np.testing.assert_allclose(predictive.std, train.y.std(), rtol=1e-5)


def test_ridge_is_the_penalised_least_squares_solution():
    from scoreprior.learners.naive import Ridge

    rng = np.random.default_rng(2)
    xs = [rng.normal(size=(12, 3)) for _ in range(6)]
    ys = [x @ np.array([1.0, -2.0, 0.5]) + 4 + rng.normal() + 0.1 * rng.normal(size=12) for x in xs]
    train = sp.TaskSet.from_arrays(xs, ys)
    prior = Ridge(strengths=(3.0,)).fit(train, 0)
    scaler = prior.standardizer
    design = np.column_stack([np.ones(len(train.y)), scaler.scale_x(train.x)])
    pooled = np.linalg.solve(design.T @ design + 1e-3 * np.eye(4), design.T @ scaler.scale_y(train.y))
    x, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    rows = np.column_stack([np.ones(5), scaler.scale_x(x)])
    # min |y - A w|^2 + 3 |w - w0|^2 as one stacked least-squares problem.
    stacked = np.vstack([rows, np.sqrt(3.0) * np.eye(4)])
    weights = np.linalg.lstsq(stacked, np.concatenate([scaler.scale_y(y), np.sqrt(3.0) * pooled]), rcond=None)[0]
    expected = scaler.unscale_y(rows @ weights)
    np.testing.assert_allclose(prior.condition(x, y, 0).predict(x).mean, expected, rtol=1e-4)


def test_newest_lag_finds_the_lag_and_refuses_other_inputs():
    rng = np.random.default_rng(3)
    series = [np.cumsum(rng.normal(size=20)) + 50 for _ in range(4)]
    train = sp.TaskSet.from_arrays(
        [np.column_stack([s[:-2], s[1:-1], np.arange(len(s) - 2)]) for s in series], [s[2:] for s in series]
    )
    x = train[0].x
    np.testing.assert_allclose(predict("newest-lag", x[:3], train[0].y[:3], x, train).mean, x[:, 1], rtol=1e-4)
    with pytest.raises(sp.TaskError, match="needs lags"):
        sp.learner("newest-lag").fit(tasks(), 0)
    # This input follows the target's trend, and is nearer to it than its mean is, but no earlier reading.
    with pytest.raises(sp.TaskError, match="half a standard deviation"):
        sp.learner("newest-lag").fit(sp.environment("student-t-sinusoid").meta_train, 0)
    with pytest.raises(sp.TaskError, match="column 7"):
        sp.learner("newest-lag", column=7).fit(train, 0)


@pytest.mark.parametrize("name", sp.environments())
def test_every_rule_runs_on_every_environment(name: str, request: pytest.FixtureRequest):
    try:
        env = sp.environment(name)
    except sp.DataError as error:
        pytest.skip(str(error))
    rules = ["last-value", "context-mean", "ridge"] + ["newest-lag"] * name.startswith("berkeley")
    for rule in rules:
        frame = sp.evaluate(sp.learner(rule), env, 0)
        assert len(frame) == len(env.meta_test)
        assert np.isfinite(frame[["rmse", "nll", "crps"]]).all(axis=None)


@pytest.mark.data("berkeley")
def test_newest_lag_on_berkeley_is_as_known():
    """0.051 to 0.056: better than every figure of the paper's Table 1."""
    frame = sp.evaluate(sp.learner("newest-lag"), sp.environment("berkeley"), 0)
    assert 0.051 <= frame.rmse.mean() <= 0.056


@pytest.mark.data("physionet")
@pytest.mark.parametrize(("name", "low", "high"), [("physionet-gcs", 1.17, 1.25), ("physionet-hct", 2.43, 2.50)])
def test_last_value_on_physionet_is_as_known(name: str, low: float, high: float):
    """The known figures were measured on a few hundred patients: the first 300 of the test set, rounded."""
    env = sp.environment(name)
    frame = sp.evaluate(sp.learner("last-value"), env, 0)
    assert low <= round(frame.rmse[:300].mean(), 2) <= high
