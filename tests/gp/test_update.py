"""A process given further tasks is that of all tasks with the same hyper-parameters."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.gp.model import PooledTasks, new_task_process, start
from scoreprior.gp.update import given_further
from scoreprior.tasks import PaddedTasks

CONFIG = ProcessConfig(deviation=("linear", "matern52"), centres=6)


@pytest.fixture(scope="module")
def tasks() -> PaddedTasks:
    rng = np.random.default_rng(0)
    xs = [rng.uniform(-2, 2, (size, 1)) for size in (5, 8, 3, 8, 6, 7)]
    return sp.TaskSet.from_arrays(xs, [np.sin(x[:, 0]) + rng.normal() for x in xs]).padded(8, dtype=np.float64)


def process_of(tasks: PaddedTasks):
    with jax.enable_x64(True):
        parameters = start(jax.random.key(0), 1, CONFIG)
        process = new_task_process(parameters, PooledTasks(tasks, np.linspace(-2, 2, 6)[:, None]), CONFIG)
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), process)


def rows(tasks: PaddedTasks, chosen: slice) -> PaddedTasks:
    return PaddedTasks(*(leaf[chosen] for leaf in tasks))


def test_it_is_the_process_of_all_tasks_in_one_step_or_two(tasks):
    x = np.linspace(-2, 2, 9, dtype=np.float32)[:, None]
    expected = process_of(tasks)
    once = given_further(process_of(rows(tasks, slice(2))), rows(tasks, slice(2, 6)))
    twice = given_further(
        given_further(process_of(rows(tasks, slice(2))), rows(tasks, slice(2, 4))), rows(tasks, slice(4, 6))
    )
    first = process_of(rows(tasks, slice(2)))
    assert np.abs(first.mean(x) - expected.mean(x)).max() > 0.1  # the further tasks say something
    for updated in (once, twice):
        np.testing.assert_allclose(updated.mean(x), expected.mean(x), atol=2e-4)
        np.testing.assert_allclose(updated.kernel(x, x), expected.kernel(x, x), atol=2e-4)
        assert updated.noise_std == expected.noise_std


def test_tasks_without_a_point_change_nothing(tasks):
    before = process_of(tasks)
    after = given_further(before, tasks.without(np.arange(6)))
    x = np.linspace(-2, 2, 9, dtype=np.float32)[:, None]
    np.testing.assert_allclose(after.mean(x), before.mean(x), atol=1e-5)
    np.testing.assert_allclose(after.kernel(x, x), before.kernel(x, x), atol=1e-5)
