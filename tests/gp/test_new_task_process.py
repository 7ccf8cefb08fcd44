"""The process of a new task is computed in double precision and used in single: it must mean the same there."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.gp.amplitude import inputs_with_room
from scoreprior.gp.evidence import minimise
from scoreprior.gp.fit import fit_process
from scoreprior.gp.kernels import Sum
from scoreprior.gp.model import LARGEST_LOG_STD, PooledTasks, centre_count, find_centres, new_task_process, start
from scoreprior.gp.process import GaussianProcess


def curved_tasks() -> sp.TaskSet:
    """Steps along one axis, as smooth shapes with long lengthscales only make them by cancelling each other."""
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(60, 3)) for _ in range(8)]
    return sp.TaskSet.from_arrays(xs, [np.tanh(4 * x[:, 0]) + 0.1 * rng.normal() for x in xs])


@eqx.filter_jit
def mean_and_variance(process: GaussianProcess, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return process.mean(x), process.kernel.diagonal(x)


def test_single_precision_adds_up_to_the_same_mean_and_variance():
    padded = curved_tasks().padded()
    config = ProcessConfig()
    with jax.enable_x64(True):
        pool = PooledTasks(padded, find_centres(padded, centre_count(config, 3)))
        parameters = start(jax.random.key(0), 3, config) | {
            "mean_std": jnp.log(40.0),
            "mean_length": jnp.log(jnp.array([1.7, 13.0, 6.4])),
            "noise": jnp.log(0.01),
        }
        exact = new_task_process(parameters, pool, config)
        x = np.random.default_rng(1).normal(size=(50, 3))
        mean, variance = map(np.asarray, mean_and_variance(exact, x))
        assert mean.dtype == np.float64
    single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), exact)
    single_mean, single_variance = mean_and_variance(single, x.astype(np.float32))
    assert single_mean.dtype == np.float32
    # Below the smallest noise that is ever learned (a hundredth), with a mean of size one.
    np.testing.assert_allclose(single_mean, mean, atol=0.01)
    np.testing.assert_allclose(single_variance, variance, rtol=0.01)


def test_the_mean_is_smooth_whatever_categories_add():
    rng = np.random.default_rng(0)
    xs = [np.column_stack([rng.normal(size=6), np.tile(np.eye(4)[i % 4], (6, 1))]) for i in range(5)]
    padded = sp.TaskSet.from_arrays(xs, [x[:, 0] for x in xs]).padded(dtype=np.float64)
    assert inputs_with_room(padded) == (0,)
    assert inputs_with_room(curved_tasks().padded()) == (0, 1, 2)
    config = ProcessConfig(
        ("matern52",), frequencies=0, centres=4, starts=1, evidence_evaluations=1, tuning_evaluations=0
    )
    mean = fit_process(padded, config, jax.random.key(0)).mean
    assert isinstance(mean.kernel, Sum)  # linear plus a smooth function


def test_a_climb_stays_below_the_largest_standard_deviations():
    with jax.enable_x64(True):
        parameters = start(jax.random.key(0), 2, ProcessConfig())

        def rewards_size(values):
            return -sum(jnp.sum(value) for value in values.values()), {n: -jnp.ones_like(v) for n, v in values.items()}

        found, _ = minimise(rewards_size, parameters, 50)
    assert float(found["mean_std"]) == float(found["mean_linear"]) == LARGEST_LOG_STD["mean_std"]
    assert float(found["noise"]) > LARGEST_LOG_STD["mean_std"]


def test_a_climb_compiles_nothing_but_its_objective():
    happened: list[str] = []

    def note(name: str, *_: Any, **__: Any) -> None:
        happened.append(name)

    with jax.enable_x64(True):
        # Shapes of no other test, which might have compiled the same for them.
        parameters = {name: np.asarray(value) for name, value in start(jax.random.key(0), 5, ProcessConfig()).items()}
        bowl = jax.jit(jax.value_and_grad(lambda p: sum(jnp.sum((value - 0.1) ** 2) for value in p.values())))
        bowl(parameters)
        jax.monitoring.register_event_duration_secs_listener(note)
        try:
            found, _ = minimise(bowl, parameters, 50, frozen=("noise",))
        finally:
            jax.monitoring.unregister_event_duration_listener(note)
    assert not [name for name in happened if "compile" in name]
    np.testing.assert_allclose(found["mean_length"], 0.1, atol=1e-4)
    assert float(found["noise"]) == float(parameters["noise"])


@pytest.mark.parametrize(
    ("mean", "dim", "expected"),
    [("auto", 1, 7), ("auto", 3, 21), ("auto", 4, 7), ("smooth", 4, 21), ("linear", 2, 7)],
)
def test_a_smooth_mean_has_centres_for_every_input(mean: Any, dim: int, expected: int):
    assert centre_count(ProcessConfig(mean=mean, centres=7), dim) == expected
