"""Prediction of later points from earlier ones and other tasks, against dense Gaussian conditioning."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.linalg import block_diag

import scoreprior as sp
from scoreprior import metrics
from scoreprior._linalg import JITTER
from scoreprior.gp import ProcessConfig, fit_process, predictive_tuning
from scoreprior.gp.model import PooledTasks, find_centres, leave_one_out, pieces, start, tail_scales
from scoreprior.gp.predictive_tuning import _predict, _student_t
from scoreprior.inference import ClosedForm
from scoreprior.learners.gaussian_process import PooledGP

CONFIG = ProcessConfig(centres=6)


def tasks(n: int, m: int, seed: int) -> sp.TaskSet:
    rng = np.random.default_rng(seed)
    xs = [rng.uniform(-2, 2, (m - i % 2, 1)) for i in range(n)]
    return sp.TaskSet.from_arrays(xs, [np.sin(x[:, 0]) + rng.normal() + 0.1 * rng.normal(size=len(x)) for x in xs])


def test_leaving_a_task_out_is_conditioning_on_the_others():
    padded = tasks(4, 5, 0).padded()
    with jax.enable_x64(True):
        pool = PooledTasks(padded, find_centres(padded, CONFIG.centres))
        parameters = start(jax.random.key(0), 1, CONFIG)
        mean, covariance = eqx.filter_jit(leave_one_out)(parameters, pool, CONFIG)
        blocks, features, _ = map(np.asarray, eqx.filter_jit(pieces)(parameters, pool, CONFIG))
    n, m = padded.mask.shape
    flat = features.reshape(n * m, -1)
    joint = block_diag(*blocks) + flat @ flat.T
    y = np.where(padded.mask, np.asarray(padded.y, np.float64), 0.0).ravel()
    for i in range(n):
        own = np.arange(n * m) // m == i
        gain = np.linalg.solve(joint[np.ix_(~own, ~own)], joint[np.ix_(~own, own)]).T
        np.testing.assert_allclose(mean[i], gain @ y[~own], atol=1e-7)
        expected = joint[np.ix_(own, own)] - gain @ joint[np.ix_(~own, own)]
        np.testing.assert_allclose(covariance[i], expected, atol=1e-7)


def test_later_points_given_earlier_ones():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(6, 9))
    covariance, mean, y = root @ root.T, rng.normal(size=6), rng.normal(size=6)
    seen = np.array([True, True, False, True, False, False])
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)]).T
    with jax.enable_x64(True):
        found, std, squares = jax.jit(_predict)(mean, covariance, y, seen)
    np.testing.assert_allclose(np.asarray(found)[~seen], mean[~seen] + gain @ (y - mean)[seen], rtol=1e-6)
    variance = np.diag(covariance[np.ix_(~seen, ~seen)] - gain @ covariance[np.ix_(seen, ~seen)])
    np.testing.assert_allclose(np.asarray(std)[~seen], np.sqrt(variance), rtol=1e-6)
    residual = (y - mean)[seen]
    # The masked matrix has ones for what is not seen; its jitter is that of single precision.
    jitter = JITTER * np.mean(np.where(seen, np.diag(covariance), 1.0))
    noisy = covariance[np.ix_(seen, seen)] + jitter * np.eye(seen.sum())
    np.testing.assert_allclose(squares, residual @ np.linalg.solve(noisy, residual), rtol=1e-6)


def test_student_t_density_is_scipys():
    y = np.linspace(-5, 5, 7)
    ours = _student_t(jnp.float32(0.5), jnp.float32(2.0), jnp.asarray(y, jnp.float32), jnp.float32(3.5))
    np.testing.assert_allclose(ours, stats.t(3.5, 0.5, 2.0).logpdf(y), rtol=1e-4)


@pytest.mark.parametrize("df", [2.0, 5.0, 30.0])
def test_the_tail_scales_together_make_a_student_t(df: float):
    scales = tail_scales({"tails": jnp.log(jnp.asarray(df - 1))})
    points = np.linspace(-4, 4, 81)
    mixture = stats.norm.cdf(points[:, None] / scales).mean(axis=1)
    # Eight quantiles: the distribution function is right to about half a step of the quantiles' grid, 1/16.
    assert np.abs(mixture - stats.t(df).cdf(points)).max() < 1 / 16 / 2


def test_without_tuning_the_predictive_is_gaussian():
    padded = tasks(4, 5, 0).padded()
    config = ProcessConfig(
        deviation=("linear",), mean="linear", centres=6, evidence_evaluations=3, tuning_evaluations=0, frequencies=0
    )
    process = fit_process(padded, config, jax.random.key(0))
    np.testing.assert_array_equal(process.tails, [1.0])


@pytest.mark.slow
def test_learned_tails_predict_better_where_noise_is_heavy_and_no_worse_where_it_is_not():
    rng = np.random.default_rng(0)
    gains = {}
    for name, noise in (("normal", rng.normal), ("heavy", lambda size: rng.standard_t(2, size))):
        xs = [rng.uniform(-2, 2, (12, 1)) for _ in range(140)]
        made = sp.TaskSet.from_arrays(xs, [x[:, 0] + rng.normal() + 0.5 * noise(size=12) for x in xs])
        prior = PooledGP(ProcessConfig()).fit(made.take(range(40)), 0)
        gaussian = replace(prior, inference=ClosedForm(replace(prior.inference.process, tails=jnp.ones(1))))
        unseen = made.take(range(40, 140)).context_target(0.5)
        nll = [
            np.array([metrics.nll(p, task.y) for p, task in zip(predictives, unseen.target)])
            for each in (gaussian, prior)
            for predictives in [each.condition_many(unseen.context, 1).predict([task.x for task in unseen.target])]
        ]
        gains[name] = np.minimum(nll[0] - nll[1], 1.0)  # one wild point must not decide
    standard_errors = {name: gain.std() / np.sqrt(len(gain)) for name, gain in gains.items()}
    assert gains["heavy"].mean() > 3 * standard_errors["heavy"]
    # Where nothing speaks for more than ten degrees of freedom they stay; those cost 0.009 nat per normal point
    # (the Kullback-Leibler divergence at equal scale, by quadrature).
    assert gains["normal"].mean() > -0.009 - 3 * standard_errors["normal"]


@pytest.mark.slow
@pytest.mark.data("physionet")
def test_patients_of_whom_nothing_is_known_are_predicted_too(monkeypatch):
    """Coma scales hardly change within a patient: a model of later given earlier points says little about the first."""
    environment = sp.environment("physionet-gcs")
    unseen = list(environment.meta_valid.target)
    nll = []
    for contexts in (predictive_tuning._CONTEXTS, {0.25: 1.0, 0.5: 1.0, 0.75: 1.0}):
        monkeypatch.setattr(predictive_tuning, "_CONTEXTS", contexts)
        jax.clear_caches()  # the contexts are constants of the compiled loss
        prior = sp.learner("hierarchical-gp").fit(environment.selection_train, 0).condition([], [], 1)
        nll.append(np.array([metrics.nll(prior.predict(task.x), task.y) for task in unseen]))
    gain = nll[1] - nll[0]
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))
