"""Berkeley-Sensor: rows made of a series we can read off, and the figures of the real one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from scoreprior.environments import _store, berkeley, environment
from scoreprior.tasks import ContextTarget


def clockwork() -> np.ndarray:
    """Readings (7205, 46) that say when and where they were taken: minute + sensor / 100."""
    return np.arange(7205.0)[:, None] + np.arange(46) / 100


@pytest.fixture
def fake_dir(tmp_path, monkeypatch):
    readings = clockwork()
    readings[berkeley.OUTLIER] = -1e6
    savemat(tmp_path / "berkeley_data.mat", {"berkeley_data": {"data": readings, "usedDays": [1, 5, 6, 7, 8]}})
    source = _store.Source(
        "berkeley_data.mat", "", (_store.checksum(tmp_path / "berkeley_data.mat"),), "", ("berkeley",)
    )
    monkeypatch.setattr(_store, "SOURCES", {"berkeley": source})
    return tmp_path


def newest_lag_rmse(tasks: ContextTarget) -> float:
    newest = berkeley.INPUT_NAMES.index("lag1")
    return float(np.mean([np.sqrt(np.mean((t.y - t.x[:, newest]) ** 2)) for t in tasks.target]))


def test_lagged_rows_hold_the_ten_readings_before_the_target_and_its_clock():
    x, y = berkeley.lagged(clockwork())
    assert x.shape == (46, 576, 11)
    assert y.shape == (46, 576)
    minute = 1441 + 10 + 10 * np.arange(576)  # the first day is gone, and ten readings more are needed as lags
    np.testing.assert_allclose(y[3], minute + 0.03)
    for column, name in enumerate(berkeley.INPUT_NAMES[:-1]):
        np.testing.assert_allclose(x[3, :, column], minute - int(name.removeprefix("lag")) + 0.03)
    np.testing.assert_allclose(x[:, :, -1], np.tile((minute % 1441) / 1440, (46, 1)))


def test_input_names_run_from_the_oldest_lag_to_the_newest():
    assert berkeley.INPUT_NAMES[0] == "lag10"
    assert berkeley.INPUT_NAMES[-2:] == ("lag1", "time_of_day")
    assert len(berkeley.INPUT_NAMES) == 11


def test_the_outlier_is_replaced_by_the_mean_of_its_neighbours(fake_dir):
    # In the clockwork series that mean is the true value, so no row may differ from it.
    x, y = berkeley.lagged(clockwork())
    for i, task in enumerate(berkeley._sensor_tasks(fake_dir)):
        np.testing.assert_allclose(task.x, x[i])
        np.testing.assert_allclose(task.y, y[i])


def sensors(tasks) -> list[int]:
    return [int(task.name.removeprefix("sensor ")) for task in tasks]


@pytest.mark.parametrize("split", [0, 1, 2])
def test_partial_sizes_and_separation(fake_dir, split):
    env = berkeley.berkeley(split, fake_dir)
    assert env.meta_train.sizes.tolist() == [30] * 10
    for later in (env.meta_valid, env.meta_test):
        assert later.context.sizes.tolist() == [30] * 10
        assert later.target.sizes.tolist() == [288] * 10
        assert sensors(later.context) == sensors(later.target)
    assert len({*sensors(env.meta_train), *sensors(env.meta_valid.target), *sensors(env.meta_test.target)}) == 30
    first_target = min(task.y.min() for task in env.meta_test.target)
    for task in env.meta_train:
        assert len(np.unique(task.y)) == 30  # without replacement
        assert (np.diff(task.y) > 0).all()
        assert task.y.max() + 1 < first_target
    for context, target in zip(env.meta_test.context, env.meta_test.target):
        np.testing.assert_allclose(np.diff(np.concatenate([context.y, target.y])), 10.0)  # consecutive rows
    assert env.meta_train.input_names == berkeley.INPUT_NAMES
    assert env.selection_train is env.meta_train


def test_full_sizes_and_selection(fake_dir):
    env = berkeley.berkeley_full(0, fake_dir)
    assert env.meta_train.sizes.tolist() == [288] * 36
    assert env.selection_train.sizes.tolist() == [288] * 28
    assert env.meta_valid.target.sizes.tolist() == [288] * 8
    held_out = set(sensors(env.meta_valid.target))
    assert set(sensors(env.selection_train)) | held_out == set(sensors(env.meta_train)) == set(range(36))
    assert not set(sensors(env.selection_train)) & held_out
    assert sensors(env.meta_test.target) == list(range(36, 46))


def test_a_split_is_reproducible_and_splits_differ(fake_dir):
    one, again, other = (berkeley.berkeley(split, fake_dir) for split in (1, 1, 2))
    np.testing.assert_array_equal(one.meta_train.y, again.meta_train.y)
    assert sensors(one.meta_train) != sensors(other.meta_train)
    assert sensors(one.meta_test.target) != sensors(other.meta_test.target)


def test_a_missing_file_is_a_data_error(tmp_path):
    with pytest.raises(_store.DataError, match="scoreprior data fetch berkeley"):
        berkeley.berkeley(0, tmp_path)


@pytest.mark.data("berkeley")
@pytest.mark.parametrize("name", ["berkeley", "berkeley-full"])
def test_the_newest_lag_alone_reaches_the_figure_measured_before(name):
    env = environment(name)
    assert 0.051 <= newest_lag_rmse(env.meta_test) <= 0.056
    assert newest_lag_rmse(env.meta_valid) < 0.1
    assert "Berkeley" in str(env.card)


@pytest.mark.data("berkeley")
def test_no_temperature_is_an_outlier():
    env = environment("berkeley-full")
    for tasks in (env.meta_train, env.meta_test.target, env.meta_valid.target):
        assert tasks.x[:, :-1].min() > 14
        assert tasks.x[:, :-1].max() < 38
