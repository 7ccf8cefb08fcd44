"""Neural diffusion processes: what is learned, what the loss sees, files, settings."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.learners.neural_diffusion_process import NeuralDiffusionProcess, _Loss
from scoreprior.scores.bidimensional import NoisePredictorConfig
from scoreprior.scores.diffusion import Diffusion
from scoreprior.tasks import PaddedTasks
from scoreprior.training import TrainingConfig

SMALL = NeuralDiffusionProcess(
    network=NoisePredictorConfig(width=16, blocks=2, heads=2),
    diffusion_steps=20,
    repeats=2,
    samples=8,
    training=TrainingConfig(steps=40, chunk=20, patience=2),
)


def levels(n: int, seed: int, m: int = 8) -> sp.TaskSet:
    """Constants N(0, 1), noise 0.3."""
    rng = np.random.default_rng(seed)
    return sp.TaskSet.from_arrays(
        rng.uniform(-1, 1, (n, m, 2)), rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, m))
    )


@pytest.fixture(scope="module")
def prior() -> sp.Prior:
    return SMALL.fit(levels(20, 0), 0, progress=False)


def test_samples_are_joint_draws_and_files_keep_them(prior, tmp_path):
    assert prior.about()["method"] == "ndp"
    x = np.random.default_rng(1).uniform(-1, 1, (10, 2))
    before = prior.condition(x[:2], [0.5, 0.6], 0).predict(x)
    prior.save(tmp_path / "a.prior")
    after = sp.load_prior(tmp_path / "a.prior").condition(x[:2], [0.5, 0.6], 0).predict(x)
    np.testing.assert_array_equal(before.locs, after.locs)
    np.testing.assert_array_equal(before.functions, after.functions)
    other = prior.condition(x[:2], [0.5, 0.6], 1).predict(x)
    assert before.functions.shape == (8, 10)
    assert (before.functions != other.functions).all()
    np.testing.assert_allclose(before.mean, before.functions.mean(0), rtol=1e-4, atol=1e-5)


def test_the_prior_draws_functions_in_original_units(prior):
    draws = prior.sample(np.zeros((3, 2)), key=0, n=5)
    assert draws.shape == (5, 3)
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(draws, prior.sample(np.zeros((3, 2)), key=0, n=5))


def test_the_loss_of_a_predictor_of_nothing_is_the_mean_absolute_normal():
    """E|eps| = sqrt(2 / pi), whatever the tasks; padding holds no noise to predict."""
    tasks = PaddedTasks(jnp.zeros((40, 6, 1)), jnp.zeros((40, 6)), jnp.arange(6) < jnp.arange(40)[:, None] % 6 + 1)
    loss = _Loss(tasks, Diffusion.cosine(20), 4000)
    value = loss(lambda y, x, t, mask: jnp.where(mask, 0.0, jnp.nan), jax.random.key(0))[0]
    # A task of few points has the larger variance, at most 1 - 2 / pi of one point.
    assert abs(value - np.sqrt(2 / np.pi)) < 4 * np.sqrt((1 - 2 / np.pi) / 4000)


def test_the_loss_shows_the_noised_values_at_all_steps():
    """A predictor that solves for the noise, given y_0 = 2, has no loss."""
    diffusion = Diffusion.cosine(20)
    tasks = PaddedTasks(jnp.zeros((3, 5, 1)), jnp.full((3, 5), 2.0), jnp.ones((3, 5), bool))

    def solve(values, x, t, mask):
        signal = diffusion.alpha_bars[t]
        return (values - jnp.sqrt(signal) * 2.0) / jnp.sqrt(1 - signal)

    assert _Loss(tasks, diffusion, 200)(solve, jax.random.key(0))[0] < 1e-3


@pytest.mark.slow
def test_levels_are_learned_and_followed():
    """Constants N(0, 1) with noise 0.3: prior draws and the posterior of 4 points, against the closed form."""
    method = replace(SMALL, samples=64, repeats=4, training=TrainingConfig(steps=3000, schedule="cosine", patience=8))
    tasks = levels(500, 0)
    prior = method.fit(tasks, 0, progress=False)
    x = np.random.default_rng(1).uniform(-1, 1, (6, 2))
    draws = prior.sample(x, key=0, n=500)
    # The tasks' own levels have a variance with relative error sqrt(2 / 500) = 6%, and so have the draws.
    assert abs(draws.mean(1).var() / (1 + 0.3**2 / 6) - 1) < 0.3
    assert abs(draws.std(1, ddof=1).mean() - 0.3) < 0.1
    known = np.array([0.9, 1.2, 1.1, 0.8])
    predictive = prior.condition(x[:4], known, 0).predict(x[4:])
    variance = 1 / (1 + 4 / 0.3**2)
    expected, std = variance * 4 / 0.3**2 * known.mean(), np.sqrt(variance + 0.3**2)
    # A network of 2 blocks and 20 steps: within half a standard deviation.
    np.testing.assert_allclose(predictive.mean, expected, atol=0.5 * std)
    np.testing.assert_allclose(predictive.std, std, rtol=0.5)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"diffusion_steps": 0}, "diffusion_steps"),
        ({"repeats": 0}, "repeats"),
        ({"samples": 1}, "two samples"),
        ({"tasks_per_step": 0}, "tasks_per_step"),
        ({"smoothing": 0.0}, "smoothing"),
        ({"smoothing": 1.5}, "smoothing"),
        ({"held_out": 1.0}, "held_out"),
    ],
)
def test_settings_are_checked(settings, named):
    with pytest.raises(ValueError, match=named):
        NeuralDiffusionProcess(**settings)
