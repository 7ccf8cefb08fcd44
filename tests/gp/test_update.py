"""A process given further tasks is that of all tasks with the same hyper-parameters."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.gp.model import LEAST_LOG_STD, PooledTasks, new_task_process, parameters_of, start
from scoreprior.gp.update import given_further
from scoreprior.inference.average import Average
from scoreprior.inference.closed_form import ClosedForm
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.tasks import PaddedTasks, PointNoise

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
    return tasks.take(chosen)


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


def test_what_is_known_of_noise_and_weights_counts(tasks):
    """A task of weight two is that task twice; a row of four replicates has a quarter of the noise variance."""
    x = np.linspace(-2, 2, 9, dtype=np.float32)[:, None]
    first, other = process_of(rows(tasks, slice(2))), rows(tasks, slice(2, 3))
    twice = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf]), other)
    np.testing.assert_allclose(
        given_further(first, other._replace(weight=np.array([2.0]))).mean(x),
        given_further(first, twice).mean(x),
        atol=1e-5,
    )
    quarter = replace(first, noise_std=first.noise_std / 2)
    known = PointNoise(variance=np.zeros_like(other.y), replicates=np.full_like(other.y, 4.0))
    np.testing.assert_allclose(
        given_further(first, other._replace(noise=known)).mean(x), given_further(quarter, other).mean(x), atol=1e-5
    )


def test_tasks_without_a_point_change_nothing(tasks):
    before = process_of(tasks)
    after = given_further(before, tasks.without(np.arange(6)))
    x = np.linspace(-2, 2, 9, dtype=np.float32)[:, None]
    np.testing.assert_allclose(after.mean(x), before.mean(x), atol=1e-5)
    np.testing.assert_allclose(after.kernel(x, x), before.kernel(x, x), atol=1e-5)


def test_hyper_parameters_are_found_in_the_process(tasks):
    found = parameters_of(process_of(tasks))
    with jax.enable_x64(True):
        expected = start(jax.random.key(0), 1, CONFIG)
    assert set(found) == set(expected)
    for name, value in expected.items():  # single precision, and a noise with a floor of 0.003
        np.testing.assert_allclose(found[name], value, atol=1e-3, err_msg=name)
    assert found["spectral_std"] == LEAST_LOG_STD


def test_a_prior_is_updated_as_its_processes_are(tasks):
    sets = sp.TaskSet.from_arrays([[[0.0], [1.0]], [[0.5], [2.0]]], [[3.0, 1.0], [2.0, 5.0]])
    process, simple = process_of(tasks), process_of(rows(tasks, slice(2)))
    scaler = sp.Standardizer.fit(sets)
    prior = FunctionPrior(scaler, Average(ClosedForm(process), ClosedForm(simple), 0.3))
    updated = prior.update(sets).inference
    padded = scaler.apply(sets).padded(dtype=np.float64)
    for member, before in ((updated.first, process), (updated.second, simple)):
        np.testing.assert_allclose(member.process.mean.weights, given_further(before, padded).mean.weights, rtol=1e-5)
    assert updated.weight == 0.3
    with pytest.raises(sp.TaskError, match="2 input columns"):
        prior.update(sp.TaskSet.from_arrays([[[0.0, 1.0]]], [[1.0]]))
    with pytest.raises(TypeError, match="fit it again to all tasks"):
        sp.learner("last-value").fit(sets, 0).update(sets)


@pytest.mark.slow
def test_a_fit_goes_on_from_a_prior_of_the_same_parts_only(tasks):
    made = sp.TaskSet.from_arrays(
        list(np.linspace(-1, 1, 60).reshape(12, 5, 1)), list(np.ones((12, 5)) * [1, 2, 0, 1, 2])
    )
    few = {"process.evidence_evaluations": 3, "process.tuning_evaluations": 3, "process.starts": 1}
    method = sp.learner("pooled-gp", **few)
    first = method.fit(made.take(range(10)), 0)
    again = method.fit(made, 0, init=first)
    kept = [type(part) for part in first.inference.process.kernel.parts]
    assert [type(part) for part in again.inference.process.kernel.parts] == kept
    assert again.inference.process.kernel.parts[0].order == first.inference.process.kernel.parts[0].order
    with pytest.raises(ValueError, match="other parts"):
        sp.learner("hierarchical-gp", **few).fit(made, 0, init=first)
    with pytest.raises(ValueError, match="closed form"):
        method.fit(made, 0, init=sp.learner("last-value").fit(made, 0))
