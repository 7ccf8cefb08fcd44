"""The spectrum search, against dense Gaussian likelihoods and cosines that are known."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

import scoreprior as sp
from scoreprior import metrics
from scoreprior.gp import ProcessConfig, evidence
from scoreprior.gp.fit import fit_process
from scoreprior.gp.kernels import SpectralComponent
from scoreprior.gp.model import PooledTasks, find_centres, leave_one_out, start
from scoreprior.gp.spectrum import _AMPLITUDES, _gains, frequencies
from scoreprior.learners.gaussian_process import PooledGP

CONFIG = ProcessConfig(centres=6)
QUICK = ProcessConfig(
    deviation=("linear", "matern12"), centres=8, starts=2, evidence_evaluations=60, tuning_evaluations=0
)


def daily_cycles(n: int, m: int, seed: int) -> tuple[sp.TaskSet, float]:
    """A week of tanks, whose levels drift and follow the day, each with a phase of its own; and the noise."""
    rng = np.random.default_rng(seed)
    hours = [np.sort(rng.uniform(0, 168, m)) for _ in range(n)]
    drift = [200 + rng.normal(0, 40) + rng.normal(0, 0.3) * each for each in hours]
    cycle = [rng.uniform(20, 40) * np.sin(2 * np.pi * each / 24 + rng.uniform(0, 6.3)) for each in hours]
    noise = 4.0
    ys = [a + b + noise * rng.normal(size=m) for a, b in zip(drift, cycle)]
    return sp.TaskSet.from_arrays([each[:, None] for each in hours], ys), noise


def test_gains_are_those_of_the_likelihood_with_an_undamped_cosine():
    rng = np.random.default_rng(0)
    xs = [rng.uniform(-2, 2, (size, 2)) for size in (6, 4, 5)]
    made = sp.TaskSet.from_arrays(xs, [np.sin(3 * x[:, 0]) + rng.normal(size=len(x)) for x in xs])
    padded, tried = made.padded(), np.array([[3.0, 0.0], [0.0, 1.5]])
    with jax.enable_x64(True):
        pool = PooledTasks(padded, find_centres(padded, CONFIG.centres))
        parameters = start(jax.random.key(0), 2, CONFIG)
        means, covariances = map(np.asarray, jax.jit(leave_one_out, static_argnums=2)(parameters, pool, CONFIG))
        found = np.asarray(_gains(parameters, pool, CONFIG, tried))
        expected = np.zeros_like(found)
        for (row, amplitude), (column, frequency) in ((a, f) for a in enumerate(_AMPLITUDES) for f in enumerate(tried)):
            cosine = SpectralComponent(amplitude, np.full(2, 1e6), frequency)
            for x, y, mean, covariance in zip(xs, [task.y for task in made], means, covariances):
                m = len(x)
                with_cosine, without = (
                    stats.multivariate_normal(mean[:m], covariance[:m, :m] + extra).logpdf(y)
                    for extra in (np.asarray(cosine(x, x)), 0.0)
                )
                expected[row, column] += with_cosine - without
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(expected).max() > 0.1


def test_frequencies_end_where_evenly_spaced_points_cannot_tell_them_apart():
    """Half a period between neighbours is the fastest one that is not taken for a slower one (Nyquist)."""
    x = np.arange(21.0)[:, None] * np.array([0.5, 0.0])  # ten units long; the second input never changes
    padded = sp.TaskSet.from_arrays([x, x[:5]], [x[:, 0], x[:5, 0]]).padded()
    found = frequencies(padded)
    assert (found[:, 1] == 0).all()
    assert np.diff(found[:, 0]).max() * 10 < np.pi  # a peak's width is 2 pi over the length
    assert found[0, 0] * 10 < np.pi
    fastest = np.pi / 0.5
    assert fastest - np.diff(found[:2, 0])[0] < found[-1, 0] <= fastest


def test_there_is_no_frequency_to_try_where_no_task_has_two_places():
    padded = sp.TaskSet.from_arrays([[[0.0]], [[1.0], [1.0]]], [[1.0], [2.0, 3.0]]).padded()
    assert frequencies(padded).shape == (0, 1)


def test_a_daily_cycle_within_a_week_is_found_and_forecast():
    made, noise = daily_cycles(n=12, m=60, seed=0)
    train, unseen = made.take(range(7)), made.take(range(7, 12))
    prior = PooledGP(QUICK).fit(train, 0)
    component = prior.inference.process.kernel.parts[-2]
    per_hour = np.abs(component.frequency) / prior.standardizer.x_std
    # A cycle of at least 20 with 60 points of noise 4 over a week: the frequency's standard error from one task is
    # sqrt(24 / 60) * (4 / 20) / 168 = 0.0008 per hour (Cramer-Rao), 0.3% of a daily one; three of it.
    np.testing.assert_allclose(per_hour, 2 * np.pi / 24, rtol=0.01)
    # The last day and a half from what was before; a process that has lost the cycle is off by 14 to 28.
    errors = [
        metrics.rmse(prior.condition(task.x[:46], task.y[:46], 1).predict(task.x[46:]), task.y[46:]) for task in unseen
    ]
    assert np.mean(errors) < 1.5 * noise


def test_noise_has_no_component():
    """Hundreds of frequencies are tried, and some explain noise by chance: that is part of its cost."""
    rng = np.random.default_rng(1)
    xs = [np.sort(rng.uniform(0, 1, (40, 1)), axis=0) for _ in range(6)]
    made = sp.TaskSet.from_arrays(xs, [rng.normal() + 0.3 * rng.normal(size=40) for _ in xs])
    padded = sp.Standardizer.fit(made).apply(made).padded()
    assert fit_process(padded, QUICK, jax.random.key(0)).kernel.parts[-2].std < 0.01


def test_a_cycle_of_one_task_is_no_component(monkeypatch):
    """Its evidence exceeds the cost of a component, for the noise of tasks differs, but other tasks do not have it."""
    rng = np.random.default_rng(0)
    xs = [np.sort(rng.uniform(0, 1, (12, 1)), axis=0) for _ in range(12)]
    ys = [size * rng.normal(size=12) for size in np.exp(0.7 * rng.normal(size=12))]
    ys[0] = 3 * np.sin(40 * xs[0][:, 0]) + 0.3 * rng.normal(size=12)
    made = sp.TaskSet.from_arrays(xs, ys)
    padded = sp.Standardizer.fit(made).apply(made).padded(dtype=np.float64)
    assert fit_process(padded, QUICK, jax.random.key(0)).kernel.parts[-2].std < 0.01
    monkeypatch.setattr(evidence, "is_significant", lambda gain: True)
    assert fit_process(padded, QUICK, jax.random.key(0)).kernel.parts[-2].std > 0.1


@pytest.mark.slow
def test_a_cosine_of_unknown_frequency_is_found():
    rng = np.random.default_rng(0)
    xs = [rng.uniform(-5, 5, (10, 1)) for _ in range(20)]
    ys = [np.sin(2.3 * x[:, 0] + rng.uniform(0, 6.3)) + 0.1 * rng.normal(size=10) for x in xs]
    made = sp.TaskSet.from_arrays(xs, ys)
    scaler = sp.Standardizer.fit(made)
    padded = scaler.apply(made).padded()
    found = fit_process(padded, ProcessConfig(tuning_evaluations=0), jax.random.key(0)).kernel.parts[-2]
    # 200 points over a range of 10: a phase error of 0.1 / sqrt(200) at its ends moves the frequency by less than 1%.
    np.testing.assert_allclose(np.abs(found.frequency) / scaler.x_std, 2.3, rtol=0.02)
    assert found.std > 0.5
    unsearched = ProcessConfig(tuning_evaluations=0, frequencies=0)
    assert fit_process(padded, unsearched, jax.random.key(0)).kernel.parts[-2].std < 0.01
