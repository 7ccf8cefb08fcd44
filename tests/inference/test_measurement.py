"""Measurement distributions: the widened box, the jittered data, and their bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.inference.measurement import Box, DataDriven
from scoreprior.tasks import PaddedTasks, Task, TaskSet


def _tasks(rows=(3, 5), dim: int = 2, seed: int = 0) -> PaddedTasks:
    generator = np.random.default_rng(seed)
    # All inputs are above 5, so a padded zero that slipped in would show.
    return TaskSet([Task(generator.uniform(5, 9, (m, dim)) * [1, 10], np.zeros(m)) for m in rows]).padded(8)


def test_box_is_the_data_widened_by_a_fifth_on_each_side():
    tasks = _tasks()
    real = np.asarray(tasks.x)[np.asarray(tasks.mask)]
    low, high = real.min(0), real.max(0)
    box = Box.around(tasks)
    np.testing.assert_allclose(box.low, low - 0.2 * (high - low), rtol=1e-6)
    np.testing.assert_allclose(box.high, high + 0.2 * (high - low), rtol=1e-6)


def test_box_draws_are_uniform():
    box = Box(jnp.array([-1.0, 2.0]), jnp.array([1.0, 10.0]))
    draws = np.asarray(box.sample(jax.random.key(0), 20_000), np.float64)
    assert draws.shape == (20_000, 2)
    scaled = (draws - [-1, 2]) / [2, 8]
    assert scaled.min() >= 0
    assert scaled.max() <= 1
    for column in scaled.T:  # Kolmogorov-Smirnov at the 0.1% level
        grid = np.arange(1, len(column) + 1) / len(column)
        assert np.abs(np.sort(column) - grid).max() < 1.95 / np.sqrt(len(column))


def test_data_driven_draws_are_data_half_of_them_jittered():
    points = jnp.array([[0.0, 0.0], [10.0, 100.0], [20.0, 200.0]])
    nu = DataDriven(points, jnp.array([0.1, 1.0]))
    count = 6000
    draws = np.asarray(jax.jit(lambda key: nu.sample(key, count))(jax.random.key(1)), np.float64)
    nearest = np.argmin(np.abs(draws[:, :1] - np.asarray(points[:, 0])), axis=1)
    moves = draws - np.asarray(points)[nearest]
    jittered = (moves != 0).any(1)
    assert abs(jittered.mean() - 0.5) < 4 * 0.5 / np.sqrt(count)
    for which in range(3):
        assert abs((nearest == which).mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / count)
    spread = moves[jittered].std(0)
    np.testing.assert_allclose(spread, [0.1, 1.0], rtol=4 / np.sqrt(2 * jittered.sum()))
    # Whether a draw is jittered does not depend on its place in the set: padding takes draws by place.
    assert abs(jittered[::2].mean() - jittered[1::2].mean()) < 4 / np.sqrt(count)


def test_data_driven_from_tasks_is_scaled_and_capped():
    tasks = _tasks(rows=(8,) * 40)
    nu = DataDriven.around(tasks, 0, jitter=0.3, limit=100)
    real = np.asarray(tasks.x).reshape(-1, 2)
    np.testing.assert_allclose(nu.jitter, 0.3 * real.std(0), rtol=1e-5)
    kept = {tuple(row) for row in np.asarray(nu.points)}
    assert len(kept) == 100
    assert kept <= {tuple(row) for row in real}
    assert len(DataDriven.around(_tasks(), 0).points) == 8


def test_draws_are_determined_by_the_key():
    nu = DataDriven.around(_tasks(), 3)
    sample = jax.jit(lambda key: nu.sample(key, 5))
    first, again, other = (sample(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("make", [Box.around, lambda tasks: DataDriven.around(tasks, 0)])
def test_no_points_is_an_error(make):
    empty = PaddedTasks(jnp.zeros((2, 3, 1)), jnp.zeros((2, 3)), jnp.zeros((2, 3), bool))
    with pytest.raises(ValueError, match="at least one"):
        make(empty)
