"""Inference with a denoiser: where its network says nothing, the exact Gaussian posterior is known."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.gp import GaussianProcess, LinearMean, Matern
from scoreprior.inference import Box, ClosedForm, denoised
from scoreprior.inference.denoised import Denoised
from scoreprior.inference.denoised_particles import ParticleConfig, PosteriorScore, particles_along
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.scores.denoiser import Denoiser, DenoiserConfig, DenoiserEnsemble, Points
from scoreprior.tasks import PaddedTasks

NOISE = 0.1
CONFIG = DenoiserConfig(embedding=8, blocks=1, heads=2, frequencies=4)
CONTEXT = PaddedTasks(jnp.array([[-1.5], [0.0], [0.4]]), jnp.array([0.5, -0.3, 0.2]), jnp.ones(3, bool))
NOTHING = PaddedTasks(jnp.zeros((1, 1)), jnp.zeros(1), jnp.zeros(1, bool))
X = jnp.array([[-2.0], [-0.9], [-0.8], [0.9], [1.0], [2.5]])


def anchor() -> GaussianProcess:
    mean = LinearMean(jnp.asarray(0.3), jnp.asarray([0.5]))
    return GaussianProcess(mean, Matern(jnp.asarray(1.0), jnp.asarray([1.2]), 2.5), jnp.asarray(NOISE))


def ensemble(members: int = 1, trained: bool = False) -> DenoiserEnsemble:
    made = [Denoiser(anchor(), 1, CONFIG, key) for key in jax.random.split(jax.random.key(0), members)]
    if trained:
        keys = jax.random.split(jax.random.key(1), members)
        finals = [0.3 * jax.random.normal(key, made[0].encoder.final.shape) for key in keys]
        made = [eqx.tree_at(lambda d: d.encoder.final, each, final) for each, final in zip(made, finals)]
    return DenoiserEnsemble.of(made)


def exact(context: PaddedTasks) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of y at X given the context, by NumPy."""
    known, process = np.asarray(context.mask), anchor()
    x = jnp.concatenate([context.x[known], X])
    n = int(known.sum())
    covariance = np.asarray(process.kernel(x, x), np.float64) + NOISE**2 * np.eye(len(x))
    mean = np.asarray(process.mean(x), np.float64)
    gain = np.linalg.solve(covariance[:n, :n], covariance[:n, n:]).T
    residual = np.asarray(context.y)[known] - mean[:n]
    return mean[n:] + gain @ residual, covariance[n:, n:] - gain @ covariance[:n, n:]


@pytest.mark.parametrize("context", [CONTEXT, NOTHING], ids=["posterior", "prior"])
def test_draws_of_an_untrained_network_are_exact(context, monkeypatch):
    """Point after point, each given those before: with the anchor's conditionals, that is the anchor's joint law."""
    monkeypatch.setattr(denoised, "_STAGE", 4)  # two sizes of the arrays
    inference, n = Denoised(ensemble()), 4000
    keys = jax.random.split(jax.random.key(2), n)
    draws = np.asarray(eqx.filter_jit(jax.vmap(lambda key: inference.draw(context, X, key)))(keys), np.float64)
    mean, covariance = exact(context)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    # Standard errors of white draws: sqrt(1 / n) of a mean, sqrt(2 / n) of a variance; 0.01 for single precision.
    assert (np.abs(white.mean(axis=1)) < 4 / np.sqrt(n) + 0.01).all()
    np.testing.assert_allclose(np.cov(white), np.eye(len(X)), atol=4 * np.sqrt(2 / n) + 0.01)


def test_prior_draws_are_draws_given_nothing():
    inference, key = Denoised(ensemble(2, trained=True)), jax.random.key(0)
    given_nothing, prior = eqx.filter_jit(lambda: (inference.draw(NOTHING, X, key), inference.sample(X, key)))()
    np.testing.assert_allclose(prior, given_nothing, atol=1e-5)


def test_an_ensemble_is_the_mixture_of_its_members():
    both, points = ensemble(2, trained=True), Points(X, jnp.zeros(6), jnp.full(6, 0.3), jnp.arange(6) < 4)
    found = eqx.filter_jit(both)(points)
    for number in range(2):
        member = jax.tree.map(lambda leaf, number=number: leaf[number], both.members)
        np.testing.assert_allclose(
            found.locs[8 * number : 8 * number + 8], eqx.filter_jit(member)(points).locs, atol=1e-5
        )
    assert found.locs.shape == (16, 6)


def test_the_posterior_score_of_an_untrained_network_is_the_gaussian_posteriors():
    mean, covariance = exact(CONTEXT)
    f, level = jnp.asarray(np.random.default_rng(0).normal(size=6), jnp.float32), 0.4
    found = eqx.filter_jit(PosteriorScore(ensemble(), CONTEXT))(f, X, jnp.float32(level))
    expected = -np.linalg.solve(covariance + level**2 * np.eye(6), np.asarray(f) - mean)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.slow
def test_fsvgd_along_the_score_of_an_untrained_network_finds_the_gaussian_posterior():
    process = anchor()
    box = Box(jnp.array([-3.0]), jnp.array([3.0]))
    config = ParticleConfig(fsvgd=FSVGDConfig(steps=500, learning_rate=3e-3, bandwidth=10.0, measurement_points=12))
    inference = particles_along(ensemble(), box, box, config)
    state = eqx.filter_jit(inference.infer)(CONTEXT, jax.random.key(1))
    grid = jnp.linspace(-2.5, 2.5, 30)[:, None]
    ours = eqx.filter_jit(inference.predict)(state, grid)
    closed = ClosedForm(process)
    truth = closed.predict(closed.infer(CONTEXT, jax.random.key(0)), grid)
    mean, std = np.asarray(truth.locs)[0], np.asarray(truth.scales)[0]
    # Ten particles: their mean has a standard error of a third of the posterior's spread.
    assert np.sqrt(np.mean(((np.asarray(ours.locs).mean(0) - mean) / std) ** 2)) < 0.5
    spread = np.sqrt(np.asarray(ours.locs).var(0) + (np.asarray(ours.scales) ** 2).mean(0))
    assert 0.7 < spread.mean() / std.mean() < 1.3
    assert eqx.filter_jit(inference.draw)(state, grid, jax.random.key(2)).shape == (30,)


@pytest.mark.parametrize("bad", [{"levels": (0.1, 1.0)}, {"smoothing": 1.0}, {"warm_start": 0}])
def test_settings_that_cannot_work_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        ParticleConfig(**bad)
