"""A simple process is averaged in only where later points of the tasks are so predicted better."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import scoreprior as sp
from scoreprior.gp import ProcessAverage, ProcessConfig, fit, fit_average
from scoreprior.gp.predictive_tuning import LeftOutPredictions
from scoreprior.gp.significance import is_significant
from scoreprior.learners.gaussian_process import PooledGP
from scoreprior.tasks import Standardizer

CONFIG = ProcessConfig(
    deviation=("linear",),
    mean="linear",
    frequencies=0,
    centres=6,
    starts=1,
    evidence_evaluations=30,
    tuning_evaluations=15,
    scale_calibration=False,
)


def offsets(count: int, points: int = 8) -> sp.TaskSet:
    """Levels of their own and noise: nothing that an affine deviation does not explain."""
    rng = np.random.default_rng(0)
    xs = [np.sort(rng.uniform(-2, 2, (points, 1)), axis=0) for _ in range(count)]
    return sp.TaskSet.from_arrays(xs, [rng.normal() + 0.3 * rng.normal(size=points) for _ in xs])


def bends(count: int, points: int = 16) -> sp.TaskSet:
    """Smooth functions, which an affine deviation takes for noise."""
    rng = np.random.default_rng(1)
    xs = [np.sort(rng.uniform(-2, 2, (points, 1)), axis=0) for _ in range(count)]
    ys = [np.sin(2 * x[:, 0] + rng.uniform(0, 6)) + 0.05 * rng.normal(size=points) for x in xs]
    return sp.TaskSet.from_arrays(xs, ys)


def processes(tasks: sp.TaskSet, config: ProcessConfig = CONFIG) -> ProcessAverage:
    return fit_average(Standardizer.fit(tasks).apply(tasks).padded(dtype=np.float64), config, jax.random.key(0))


@pytest.mark.slow
def test_it_is_there_where_the_first_process_is_too_simple_and_not_where_it_is_right():
    both, alone = processes(bends(12)), processes(offsets(12, points=16))
    assert both.simple is not None
    assert 0.5 < both.weight < 1  # the simple one is much better, and twelve tasks say so
    assert alone.simple is None


@pytest.mark.parametrize(("count", "config"), [(9, CONFIG), (12, replace(CONFIG, tuning_evaluations=0))])
def test_it_is_not_fitted_with_few_tasks_or_without_tuning(count, config, monkeypatch):
    fitted = []
    before = fit._fit
    monkeypatch.setattr(fit, "_fit", lambda tasks, config, *rest: fitted.append(config) or before(tasks, config, *rest))
    assert processes(bends(count, points=6), replace(config, evidence_evaluations=2)).simple is None
    assert len(fitted) == 1


def test_the_simple_process_is_that_of_the_pooled_gp():
    assert PooledGP().process == PooledGP.hierarchical().process.simple()
    assert PooledGP().process.simple() == PooledGP().process


def test_significant_is_two_standard_errors():
    gain = np.array([1.0, 2.0, 3.0, 4.0])  # mean 2.5, standard error 0.645
    assert is_significant(gain - 1.2)
    assert not is_significant(gain - 1.22)
    assert not is_significant(-gain)


def test_left_out_predictions_have_the_density_of_the_mixture():
    rng = np.random.default_rng(2)
    mean, std = rng.normal(size=(2, 3, 4)), rng.uniform(0.5, 1, (2, 3, 4))
    y, tails = rng.normal(size=(3, 4)), np.array([0.5, 2.0])
    predictions = LeftOutPredictions(mean, std, np.zeros((2, 3)), np.ones((2, 3, 4), bool))
    expected = np.log(np.mean([norm(mean, tail * std).pdf(y) for tail in tails], axis=0))
    np.testing.assert_allclose(predictions.log_prob(jnp.asarray(y), jnp.asarray(tails), None), expected, rtol=1e-5)


def test_point_weights_are_what_points_count_in_the_loss_of_their_task():
    rng = np.random.default_rng(3)
    later = rng.uniform(size=(4, 3, 6)) < 0.7
    predictions = LeftOutPredictions(np.zeros((4, 3, 6)), np.ones((4, 3, 6)), np.zeros((4, 3)), later)
    log_prob = rng.normal(size=(4, 3, 6))
    expected = predictions.losses(jnp.asarray(log_prob))
    np.testing.assert_allclose(-np.sum(predictions.point_weights * log_prob, axis=(0, 2)), expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.data("berkeley")
def test_sensors_are_predicted_better_with_the_average():
    """Seen on the validation tasks of five splits of Berkeley (docs/experiment-log.md)."""
    env = sp.environment("berkeley")
    alone, both = (
        sp.evaluate(PooledGP(ProcessConfig(), average=average), env, 0, tasks="valid") for average in (False, True)
    )
    assert both["nll"].mean() < alone["nll"].mean()
    assert both["rmse"].mean() < alone["rmse"].mean()
