"""Probabilities of intervals, against SciPy, high-precision arithmetic and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from scoreprior._interval import log_interval, mixture_interval_log_prob
from scoreprior.predictive import NoDistributionError, Predictive


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def predictive(rng) -> Predictive:
    return Predictive(rng.normal(size=(3, 4)), rng.uniform(0.2, 2.0, size=(3, 4)))


def exact(middle: float, width: float) -> float:
    """log [int phi / width] by Gauss-Legendre quadrature of the density relative to its largest value."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    log_density = stats.norm.logpdf(abs(middle) + width / 2 * nodes)
    return float(log_density.max() + np.log(np.sum(weights * np.exp(log_density - log_density.max())) / 2))


@pytest.mark.parametrize("width", [0.0, 1e-9, 1e-5, 1e-4, 2e-4, 1e-3, 0.018, 0.02, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("middle", [0.0, 0.3, -2.0, 10.0, -50.0, 300.0])
def test_it_is_accurate_for_all_widths_and_in_far_tails(middle, width):
    expected = exact(middle, width)
    assert log_interval(np.float64(middle), width) == pytest.approx(expected, rel=1e-9, abs=1e-8)
    single = log_interval(jnp.float32(middle), jnp.float32(width), jnp)
    assert float(single) == pytest.approx(expected, rel=2e-6, abs=3e-4)


def test_the_predictive_agrees_with_scipy(predictive, rng):
    low = rng.normal(size=(5, 4)) - 1
    high = low + rng.uniform(0.1, 3, size=(5, 4))
    components = stats.norm(predictive.locs[:, None], predictive.scales[:, None])
    expected = np.log(np.mean(components.cdf(high) - components.cdf(low), axis=0))
    np.testing.assert_allclose(predictive.log_prob_interval(low, high), expected, atol=1e-10)
    np.testing.assert_allclose(predictive.log_prob_interval(low[0], high[0]), expected[0], atol=1e-10)


def test_narrow_intervals_have_the_density_times_their_width(predictive, rng):
    y = rng.normal(size=4)
    for step in (1e-3, 1e-6):
        log_prob = predictive.log_prob_interval(y - step / 2, y + step / 2)
        np.testing.assert_allclose(log_prob, predictive.log_prob(y) + np.log(step), atol=10 * step**2 + 1e-8)


def test_the_intervals_of_a_grid_hold_all_probability(predictive):
    edges = np.arange(-30.25, 30, 0.5)[:, None]
    total = np.exp(predictive.log_prob_interval(edges, edges + 0.5)).sum(0)
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


def test_intervals_are_checked(predictive):
    with pytest.raises(ValueError, match="lower below the upper"):
        predictive.log_prob_interval(1.0, 1.0)
    with pytest.raises(ValueError, match="finite"):
        predictive.log_prob_interval(-np.inf, 1.0)
    with pytest.raises(NoDistributionError):
        Predictive(np.zeros(3), None).log_prob_interval(0.0, 1.0)


@pytest.mark.parametrize("half_width", [0.0, 1e-6, 0.05, 0.5])
def test_the_loss_of_mixtures_is_that_of_the_predictive(predictive, rng, half_width):
    y = rng.normal(size=(2, 4))
    found = mixture_interval_log_prob(
        jnp.asarray(y), jnp.asarray(predictive.locs), jnp.asarray(predictive.scales), jnp.float32(half_width)
    )
    width = np.float64(np.float32(half_width))
    expected = predictive.log_prob_interval(y - width, y + width) if half_width else predictive.log_prob(y)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("half_width", [0.0, 1e-6, 0.004, 0.1, 2.0])
@pytest.mark.parametrize("distance", [0.0, 1.5, 50.0, -50.0, 1000.0])
def test_its_gradients_are_right_and_finite_in_far_tails(half_width, distance):
    scales = jnp.array([[1.0], [1.3]])
    locs = jnp.array([[0.1], [0.0]])
    y = jnp.array([distance])

    def loss(locs, log_scales, half):
        return jnp.sum(mixture_interval_log_prob(y, locs, jnp.exp(log_scales), half))

    by_loc, by_scale = jax.jit(jax.grad(loss, (0, 1)))(locs, jnp.log(scales), jnp.float32(half_width))
    assert np.isfinite(by_loc).all()
    assert np.isfinite(by_scale).all()
    if abs(distance) > 100:  # single precision leaves a direction there, not four digits
        assert (np.asarray(by_loc) >= 0).all()
        return
    for which, gradient in ((0, by_loc), (1, by_scale)):
        for component in range(2):
            change = np.zeros((2, 1))
            change[component] = 1e-5
            ends = [
                _by_quadrature(distance, *(_moved(locs, jnp.log(scales), which, sign * change)), half_width)
                for sign in (-1, 1)
            ]
            expected = (ends[1] - ends[0]) / 2e-5
            assert float(gradient[component, 0]) == pytest.approx(expected, rel=3e-3, abs=3e-3)


def _moved(locs, log_scales, which, change):
    moved = [np.asarray(locs, np.float64), np.asarray(log_scales, np.float64)]
    moved[which] = moved[which] + change
    return moved


def _by_quadrature(y, locs, log_scales, half_width):
    scales = np.exp(log_scales)[:, 0]
    each = [exact((y - m) / s, 2 * half_width / s) - np.log(s) for m, s in zip(locs[:, 0], scales)]
    return np.logaddexp(*each)


def test_half_the_width_is_no_reason_for_a_gradient_without_a_number():
    gradient = jax.grad(lambda loc: mixture_interval_log_prob(jnp.zeros(1), loc, jnp.ones((1, 1)), 0.0).sum())
    np.testing.assert_array_equal(gradient(jnp.zeros((1, 1))), 0.0)


@pytest.mark.parametrize(("half_width", "sign"), [(np.inf, -1.0), (-np.inf, 1.0)])
def test_an_interval_with_one_end_is_a_tail_with_finite_gradients(predictive, rng, half_width, sign):
    y = rng.normal(size=len(predictive)) * 3
    found = mixture_interval_log_prob(
        jnp.asarray(y), jnp.asarray(predictive.locs), jnp.asarray(predictive.scales), jnp.float32(half_width)
    )
    np.testing.assert_allclose(found, predictive.log_tail(y, sign), rtol=2e-4, atol=1e-5)

    def loss(loc):
        return mixture_interval_log_prob(jnp.array([200.0]), loc, jnp.ones((1, 1)), half_width).sum()

    assert np.isfinite(jax.grad(loss)(jnp.zeros((1, 1)))).all()
