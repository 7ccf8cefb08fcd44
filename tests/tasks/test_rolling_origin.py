"""Rolling origins by their definition: known rows are all before the origin, and none after it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scoreprior as sp


def walks(*sizes: int, seed: int = 0) -> sp.TaskSet:
    rng = np.random.default_rng(seed)
    tasks = [sp.Task(np.arange(m), np.cumsum(rng.normal(size=m)), f"t{i}") for i, m in enumerate(sizes)]
    return sp.TaskSet(tasks)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 8), st.integers(1, 4), st.integers(1, 3))
def test_no_row_of_the_future_is_known_and_no_row_before_is_left_out(sizes, horizon, origins, least):
    tasks = walks(*sizes)
    expected = [
        (task.name, len(task) - back * horizon)
        for task in tasks
        for back in range(origins, 0, -1)
        if len(task) - back * horizon >= least
    ]
    if not expected:
        with pytest.raises(sp.TaskError, match="Choose a shorter horizon"):
            tasks.rolling_origin(horizon, origins, least=least)
        return
    pairs = tasks.rolling_origin(horizon, origins, least=least)
    assert [(known.name, len(known)) for known in pairs.context] == expected
    for known, following in zip(pairs.context, pairs.target):
        whole = next(task for task in tasks if task.name == known.name)
        origin = len(known)
        np.testing.assert_array_equal(known.y, whole.y[:origin])
        np.testing.assert_array_equal(following.y, whole.y[origin : origin + horizon])
        np.testing.assert_array_equal(following.x[:, 0], np.arange(origin, origin + horizon))


def test_the_last_value_forecasts_as_by_hand():
    tasks = walks(12, 17, 9)
    rows = sp.evaluate_pairs(sp.learner("last-value"), tasks.rolling_origin(3, 2), key=0, meta_train=tasks)
    expected = []
    for task in tasks:
        for origin in (len(task) - 6, len(task) - 3):
            errors = task.y[origin : origin + 3] - task.y[origin - 1]
            expected.append(np.sqrt(np.mean(errors**2)))
    np.testing.assert_allclose(rows["rmse"], expected, rtol=1e-4)


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"horizon": 1.5}, {"horizon": 2, "origins": 0}])
def test_counts_that_mean_nothing_are_refused(wrong):
    with pytest.raises(sp.TaskError, match="must be a whole number of at least 1"):
        walks(9).rolling_origin(**wrong)
