"""Scores of functions with correlated noise: the loss finds a Gaussian's score, and the tails point inwards."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.gp.kernels import Matern
from scoreprior.scores import spectral
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.scores.noised import NoisedScore, Tails

KERNEL = Matern(jnp.ones(()), jnp.ones(1), 2.5)
LEVEL, TAU = jnp.float32(0.2), jnp.float32(0.3)
CONFIG = NetworkConfig(embedding=8, heads=2, key_size=4, frequencies=3, multiplier=2.0)


def network(seed: int, scale: float = 1.0, conditional: bool = False) -> ScoreNetwork:
    made = ScoreNetwork(1, CONFIG, jax.random.key(seed), noise_conditional=conditional, lengthscale=0.5)
    return jax.tree.map(lambda leaf: scale * leaf, made)


class Linear(eqx.Module):
    """matrix @ f in the place of a network."""

    matrix: jax.Array
    noise_conditional: bool = eqx.field(static=True, default=False)

    def __call__(self, f, x, noise=None, there=None):
        return self.matrix @ f


@pytest.mark.parametrize("form", ["denoiser", "score"])
def test_the_loss_is_least_at_the_gaussians_score(form):
    """For f ~ N(0, K) the minimiser is -(K + Sigma)^-1 f; any other linear map has a larger loss."""
    x = jnp.linspace(-1, 1, 4)[:, None]
    correlation = KERNEL(x, x)
    sigma = LEVEL**2 * jnp.eye(4) + TAU**2 * correlation
    precise = jnp.linalg.inv(correlation + sigma)
    best = -sigma @ precise / jnp.sqrt(LEVEL**2 + TAU**2) if form == "denoiser" else -precise
    f = jax.random.normal(jax.random.key(0), (200_000, 4)) @ jnp.linalg.cholesky(correlation).T

    def loss(matrix):
        score = NoisedScore(Linear(matrix), KERNEL, LEVEL, TAU, None, form)
        return score.loss(f, x, jnp.ones(4, bool), jax.random.key(1), 1.0)

    value, slope = jax.jit(jax.value_and_grad(loss))(best)
    # By Monte Carlo the gradient is not zero, but small against that at zero.
    assert jnp.abs(slope).max() < 0.03 * jnp.abs(jax.jit(jax.grad(loss))(0.0 * best)).max()
    assert value < jax.jit(loss)(0.8 * best)
    np.testing.assert_allclose(
        NoisedScore(Linear(best), KERNEL, LEVEL, TAU, None, form)(f[0], x, LEVEL), -precise @ f[0], rtol=2e-2, atol=2e-2
    )


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_the_score_points_inwards_far_away_for_any_weights(scale):
    tails = Tails(jnp.float32(0.3), jnp.float32(1.2))
    x = jnp.linspace(-2, 2, 6)[:, None]
    many = eqx.filter_jit(lambda score, f: jax.vmap(lambda each: score(each, x, LEVEL))(f))
    for seed in range(3):
        score = NoisedScore(network(seed, scale), KERNEL, LEVEL, TAU, tails, "denoiser")
        directions = jax.random.normal(jax.random.key(seed), (6, 6))
        near = jnp.abs(many(score, directions)).max()
        f = 1e3 * (1 + near) * directions
        assert jnp.all(jnp.sum(many(score, f) * directions, axis=1) < 0)


def test_beyond_the_tails_the_pull_is_a_gaussians():
    tails = Tails(jnp.float32(0.0), jnp.float32(1.5))
    x = jnp.linspace(-2, 2, 6)[:, None]
    score = NoisedScore(Linear(jnp.zeros((6, 6))), KERNEL, LEVEL, TAU, tails, "denoiser")
    beyond = jnp.arange(1.0, 7.0)
    wide = (tails.spread**2 + TAU**2) * KERNEL(x, x) + LEVEL**2 * jnp.eye(6)
    np.testing.assert_allclose(score(4.5 + beyond, x, LEVEL), -jnp.linalg.solve(wide, beyond), rtol=1e-2, atol=1e-3)
    np.testing.assert_array_equal(score(jnp.full(6, 4.4), x, LEVEL), 0.0)


def test_points_that_are_not_there_change_nothing():
    score = NoisedScore(network(0), KERNEL, LEVEL, TAU, Tails(jnp.float32(0.0), jnp.float32(1.0)), "denoiser")
    x = jnp.linspace(-1, 1, 6)[:, None]
    f = jax.random.normal(jax.random.key(2), (3, 6))
    there = jnp.arange(6) < 4
    loss = jax.jit(lambda f, x: score.loss(f, x, there, jax.random.key(3), 1.0))
    moved = loss(jnp.where(there, f, 77.0), jnp.where(there[:, None], x, -5.0))
    assert loss(f, x) == pytest.approx(float(moved), rel=1e-5)
    r = score.network(f[0], x, None, there)[:4]
    np.testing.assert_allclose(r, score.network(f[0, :4], x[:4]), rtol=1e-4, atol=1e-5)


def test_a_conditional_score_scales_its_noise():
    x = jnp.linspace(-1, 1, 4)[:, None]
    score = NoisedScore(Linear(-jnp.eye(4), True), KERNEL, LEVEL, TAU, None, "denoiser")
    f = jnp.arange(4.0)
    # r = -noise_std f at every factor, so s = -noise_std Sigma^-1 f / factor.
    np.testing.assert_allclose(score(f, x, 3 * LEVEL), score(f, x, LEVEL) / 3, rtol=1e-3, atol=1e-4)


def test_only_the_network_is_trained_and_its_frequencies_are_not():
    score = NoisedScore(network(0), KERNEL, LEVEL, TAU, Tails(LEVEL, TAU), "denoiser")
    chosen = spectral.only_networks(score)
    assert chosen.network.embed_values.weight
    assert not any((chosen.network.frequencies, chosen.network.multiplier, chosen.level, chosen.tails.spread))
    assert not jax.tree.leaves(eqx.filter(replace(chosen, network=None), bool))


def test_frequencies_follow_the_lengthscale():
    fine, coarse = (ScoreNetwork(2, CONFIG, jax.random.key(0), lengthscale=each).frequencies for each in (0.1, 1.0))
    np.testing.assert_allclose(fine, 10 * coarse, rtol=1e-5)
    # cos and sin of w . x have the covariance cos(w . (x - z)), on average the kernel.
    many = ScoreNetwork(1, replace(CONFIG, frequencies=20_000), jax.random.key(1), lengthscale=0.5).frequencies
    gap = jnp.linspace(0, 1, 5)
    kernel = Matern(jnp.ones(()), jnp.full(1, 0.5), 2.5)(jnp.zeros((1, 1)), gap[:, None])[0]
    np.testing.assert_allclose(jnp.mean(jnp.cos(gap[:, None] * many), axis=1), kernel, atol=5 / np.sqrt(20_000))
