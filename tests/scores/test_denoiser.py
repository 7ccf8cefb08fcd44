"""The denoiser: its Gaussian part against dense conditioning, Tweedie's formula, symmetries, where it starts."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.gp import GaussianProcess, LinearMean, Matern
from scoreprior.scores.denoiser import Denoiser, DenoiserConfig, Points, gaussian_denoiser

NOISE = 0.3
KNOWN, NOISED, UNKNOWN = slice(0, 3), slice(3, 6), slice(6, 9)


def anchor() -> GaussianProcess:
    mean = LinearMean(jnp.asarray(0.3), jnp.asarray([0.5]))
    return GaussianProcess(mean, Matern(jnp.asarray(1.2), jnp.asarray([0.8]), 2.5), jnp.asarray(NOISE))


def points() -> Points:
    rng = np.random.default_rng(0)
    noise = np.array([0, 0, 0, 0.1, 0.5, 2.0, 0, 0, 0])
    there = np.arange(9) < 6
    values = np.where(there, rng.normal(size=9), 7.7)  # what stands at unknown points must not matter
    return Points(*map(jnp.asarray, (rng.uniform(-2, 2, (9, 1)), values, noise, there)))


def dense(process: GaussianProcess, at: Points) -> tuple[np.ndarray, np.ndarray]:
    """Conditional mean and standard deviation of y by NumPy."""
    x = np.asarray(at.x)
    covariance = np.asarray(process.kernel(at.x, at.x), np.float64) + NOISE**2 * np.eye(len(x))
    mean, there = np.asarray(process.mean(at.x), np.float64), np.asarray(at.there)
    gram = covariance[np.ix_(there, there)] + np.diag(np.asarray(at.noise)[there] ** 2)
    gain = np.linalg.solve(gram, covariance[there]).T
    variance = np.diag(covariance - gain @ covariance[there])
    return mean + gain @ (np.asarray(at.values)[there] - mean[there]), np.sqrt(np.maximum(variance, 0))


@pytest.mark.parametrize("observed", [None, 6, 8])
def test_the_gaussian_part_is_dense_conditioning(observed):
    with jax.enable_x64(True):
        process, at = anchor(), points()
        mean, std, prior_mean, prior_std = gaussian_denoiser(process, at, observed)
        expected_mean, expected_std = dense(process, at)
        # The factor has a jitter of 1e-6 of the mean variance, which a noise of 0.3 makes small.
        np.testing.assert_allclose(mean, expected_mean, atol=1e-4)
        np.testing.assert_allclose(std[NOISED], expected_std[NOISED], rtol=1e-3)
        np.testing.assert_allclose(std[UNKNOWN], expected_std[UNKNOWN], rtol=1e-3)
        np.testing.assert_allclose(mean[KNOWN], at.values[KNOWN], atol=1e-12)
        assert (np.asarray(std[KNOWN]) < 1e-3).all()
        np.testing.assert_allclose(prior_mean, process.mean(at.x))
        np.testing.assert_allclose(prior_std, np.sqrt(1.2**2 + NOISE**2), rtol=1e-6)


run = eqx.filter_jit(lambda made, at, observed=None: made(at, observed))
CONFIG = DenoiserConfig(embedding=16, blocks=2, heads=2, frequencies=4)


def denoiser(trained: bool, config: DenoiserConfig = CONFIG) -> Denoiser:
    """Untrained, or with a random last layer in the place of a trained one."""
    made = Denoiser(anchor(), 1, config, jax.random.key(0))
    if not trained:
        return made
    final = 0.3 * jax.random.normal(jax.random.key(1), made.encoder.final.shape)
    return eqx.tree_at(lambda d: d.encoder.final, made, final)


def single(at: Points) -> Points:
    return Points(*(jnp.asarray(leaf, jnp.float32) if leaf.dtype != bool else leaf for leaf in at))


@pytest.mark.parametrize("components", [1, 2, 8])
def test_an_untrained_network_leaves_the_anchors_mean_and_variance(components):
    made, at = denoiser(False, replace(CONFIG, components=components)), single(points())
    locs, scales, *_ = run(made, at)
    mean, std, *_ = gaussian_denoiser(made.anchor, at)
    np.testing.assert_allclose(locs.mean(0), mean, atol=1e-5)
    np.testing.assert_allclose(np.sqrt(locs.var(0) + (scales**2).mean(0)), std, rtol=1e-4)


def test_the_score_of_an_untrained_network_is_the_anchors():
    """(D - f) / noise^2 = -(C + noise^2 I)^-1 (f - m), with the observation noise in C."""
    made, at = denoiser(False), single(points())
    noise = jnp.linspace(0.3, 1.0, 9)
    found = eqx.filter_jit(made.score)(at.values, at.x, noise)
    expected = made.anchor.score(at.values, at.x, jnp.sqrt(noise**2 + NOISE**2))
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
    one = eqx.filter_jit(made.score)(at.values, at.x, jnp.float32(0.5))
    np.testing.assert_allclose(one, eqx.filter_jit(made.score)(at.values, at.x, jnp.full(9, 0.5)), rtol=1e-5)


def test_order_of_points_does_not_matter():
    made, at = denoiser(True), single(points())
    order = np.random.default_rng(1).permutation(9)
    locs, scales, *_ = run(made, at)
    other_locs, other_scales, *_ = run(made, Points(*(leaf[order] for leaf in at)))
    np.testing.assert_allclose(other_locs, locs[:, order], atol=1e-4)
    np.testing.assert_allclose(other_scales, scales[:, order], rtol=1e-3)


def test_a_prediction_does_not_depend_on_what_else_is_asked():
    made, at = denoiser(True), single(points())
    fewer = Points(*(leaf[:7] for leaf in at))
    moved = at._replace(x=at.x.at[8].set(30.0), values=at.values.at[8].set(-50.0))
    expected = run(made, at).locs[:, :7]
    for other in (run(made, moved), run(made, fewer), run(made, at, 6)):
        np.testing.assert_allclose(other.locs[:, :7], expected, atol=1e-4)


def test_known_points_are_returned():
    made, at = denoiser(True), single(points())
    np.testing.assert_allclose(run(made, at).locs[:, KNOWN], np.broadcast_to(at.values[KNOWN], (8, 3)), atol=1e-2)


@pytest.mark.parametrize("bad", [{"embedding": 10}, {"components": 0}, {"bandwidth": 0.0}])
def test_settings_that_cannot_work_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        DenoiserConfig(**bad)
