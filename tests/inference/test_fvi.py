"""Functional VI: its score estimates on Gaussians, and a posterior known in closed form."""

from dataclasses import fields, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from scoreprior.gp.kernels import Linear as LinearKernel
from scoreprior.gp.kernels import ZeroMean
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference import fsvgd, fvi
from scoreprior.inference.fvi import FVIConfig, gaussian_score, spectral_score
from scoreprior.inference.measurement import Box
from scoreprior.scores.exact import GaussianProcessScore
from scoreprior.tasks import PaddedTasks

BOX = Box(jnp.array([-1.0]), jnp.array([1.0]))
QUERY = jnp.linspace(-1, 1, 5)[:, None]
KERNEL = LinearKernel(jnp.asarray(1.0), jnp.asarray([1.5]))


class Line(eqx.Module):
    """offset + slope x."""

    offset: Array
    slope: Array

    def __call__(self, x):
        return self.offset + self.slope * x[:, 0]


def _context() -> PaddedTasks:
    # Inputs balanced around 0: offset and slope are then independent a posteriori, as the mean field has them.
    x = jnp.array([-0.8, -0.3, 0.3, 0.8, jnp.nan])[:, None]
    return PaddedTasks(x, jnp.array([-0.2, 0.4, 0.5, 1.4, jnp.nan]), jnp.arange(5) < 4)


def _run(config, seed=1, number=400):
    particles = Line(jnp.zeros(number), jnp.zeros(number))
    score = GaussianProcessScore(ZeroMean(), KERNEL)

    @jax.jit
    def run(hyper, key):
        drawn = fvi.run(score, BOX, config, hyper, _context(), particles, key)
        return fsvgd.functions(drawn, QUERY)

    return np.asarray(run(config.hyper(0.3), jax.random.key(seed)), np.float64)


@pytest.mark.parametrize("entropy", ["gaussian", pytest.param("spectral", marks=pytest.mark.slow)])
def test_close_to_the_exact_posterior(entropy):
    config = FVIConfig(entropy=entropy, steps=400, learning_rate=0.05, function_noise=0.05, measurement_points=4)
    f = _run(config)
    process = GaussianProcess(ZeroMean(), KERNEL, jnp.asarray(0.3))
    context = _context()._replace(x=jnp.nan_to_num(_context().x), y=jnp.nan_to_num(_context().y))
    mean, variance = jax.jit(lambda c: process.predict_marginals(process.condition(*c), QUERY))(context)
    std = np.sqrt(np.asarray(variance, np.float64))
    # Four standard errors of 400 draws' mean, and a tenth of a posterior deviation for the optimiser.
    assert (np.abs(f.mean(0) - mean) < (4 / np.sqrt(400) + 0.1) * std).all()
    # The score of q is underestimated from few draws, which narrows q.
    assert (f.std(0) < 1.25 * std).all()
    assert (f.std(0) > (0.6 if entropy == "gaussian" else 0.4) * std).all()


def test_gaussian_score_is_exact_with_many_draws():
    factor = jnp.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-0.3, 0.2, 0.7]])
    draws = 2.0 + jax.random.normal(jax.random.key(0), (20_000, 3)) @ factor.T
    noise = 0.3
    points = draws[:50]
    expected = -np.linalg.solve(np.asarray(factor @ factor.T) + noise**2 * np.eye(3), np.asarray(points - 2.0).T).T
    got = np.asarray(jax.jit(gaussian_score)(points, draws, noise))
    # Standard errors of a covariance from 20000 draws are below 1%; its inverse amplifies by the condition number.
    np.testing.assert_allclose(got, expected, rtol=0.05, atol=0.08)


def test_gaussian_score_with_fewer_draws_than_points_is_finite_and_points_inwards():
    draws = jax.random.normal(jax.random.key(1), (8, 20))
    score = jax.jit(gaussian_score)(draws, draws, 0.0)
    assert bool(jnp.isfinite(score).all())
    assert (jnp.sum(score * (draws - draws.mean(0)), axis=1) < 0).all()


def test_spectral_score_moves_turns_and_scales_with_its_draws():
    """s(c R f + t) = R s(f) / c: the median bandwidth makes the estimator free of units."""
    draws = jax.random.normal(jax.random.key(2), (15, 2)) * jnp.array([1.0, 0.5])
    turn = jnp.array([[0.6, -0.8], [0.8, 0.6]])
    estimate = jax.jit(spectral_score)
    moved = estimate(4.0 * draws @ turn.T + jnp.array([3.0, -1.0]))
    np.testing.assert_allclose(moved, estimate(draws) @ turn.T / 4.0, rtol=1e-2, atol=2e-3)


def test_spectral_score_against_its_eigenfunctions():
    """Shi et al.'s definition written out: sum_j beta_j psi_j with psi_j by the Nystrom formula."""
    draws = np.random.default_rng(0).normal(size=(12, 2))
    count = len(draws)
    gaps = draws[:, None] - draws[None]
    squared = (gaps**2).sum(-1)
    bandwidth = np.median(squared)
    gram = np.exp(-squared / (2 * bandwidth))
    values, vectors = np.linalg.eigh(gram)
    order = np.argsort(values)[::-1]
    leading = int(np.searchsorted(np.cumsum(values[order]) / values.sum(), 0.99)) + 1
    expected = np.zeros_like(draws)
    for j in order[:leading]:
        # gradient of psi_j at draw m: sqrt(M) / lambda_j sum_n u_jn grad_m k(f_m, f_n)
        gradient = -np.einsum("n,mn,mnd->md", vectors[:, j], gram, gaps) / bandwidth
        beta = -(np.sqrt(count) / values[j] * gradient).mean(0)
        expected += np.sqrt(count) * vectors[:, j : j + 1] * beta
    np.testing.assert_allclose(jax.jit(spectral_score)(draws), expected, rtol=2e-3, atol=2e-3)


def test_draws_of_q_have_its_moments():
    q = fvi.init(Line(jnp.array(2.0), jnp.array(-1.0)), jnp.asarray(0.3)).q
    drawn = jax.jit(lambda key: q.sample(key, 5000))(jax.random.key(3))
    for leaf, mean in ((drawn.offset, 2.0), (drawn.slope, -1.0)):
        assert abs(float(leaf.mean()) - mean) < 4 * 0.3 / np.sqrt(5000)
        assert float(leaf.std()) == pytest.approx(0.3, rel=4 / np.sqrt(2 * 5000))


def test_hyper_parameters_do_not_retrace():
    traces = []
    config = FVIConfig(steps=2, samples=4)
    score = GaussianProcessScore(ZeroMean(), KERNEL)

    @eqx.filter_jit
    def run(hyper, key):
        traces.append(1)
        particles = Line(jnp.zeros(3), jnp.zeros(3))
        return fvi.run(score, BOX, config, hyper, _context(), particles, key).slope

    base = config.hyper(0.1)
    results = [run(base, jax.random.key(0))]
    for name in (field.name for field in fields(base)):
        results.append(run(replace(base, **{name: jnp.asarray(0.5, jnp.float32)}), jax.random.key(0)))
    assert len(traces) == 1
    assert len({np.asarray(result).tobytes() for result in results}) == len(results)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="entropy"):
        FVIConfig(entropy="exact")
    with pytest.raises(ValueError, match="samples"):
        FVIConfig(samples=1)
    for bad in ({"steps": 0}, {"function_noise": 0.0}, {"final_rate": 2.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            FVIConfig(**bad)
