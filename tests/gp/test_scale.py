"""Factors on predictives' scales, against NumPy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.gp.scale import ScaleCalibration, explained_fraction, surprise

LEVELS, BY_LEVEL = np.array([-1.0, 0.0, 2.0]), np.array([0.4, -0.2, 0.1])
CALIBRATION = ScaleCalibration(jnp.asarray(LEVELS), jnp.asarray(BY_LEVEL), jnp.asarray(0.5))


def test_small_factors_are_interpolated_between_levels_and_constant_beyond():
    mean = np.array([-50.0, -1.0, -0.5, 1.0, 2.0, 50.0])
    log_factor = np.array([0.4, 0.4, 0.1, -0.05, 0.1, 0.1]) + 0.5 * 0.2
    found = np.log(CALIBRATION(jnp.asarray(mean), jnp.ones(6), jnp.asarray(0.2)))
    # tanh(z) = z - z^3/3 + ...: at 0.5/1.6 that is 3% less.
    np.testing.assert_allclose(found, log_factor, rtol=0.035)
    np.testing.assert_allclose(found, 1.6 * np.tanh(log_factor / 1.6), rtol=1e-5)


@pytest.mark.parametrize("surprising", [-1e4, 1e4])
def test_no_factor_exceeds_five(surprising: float):
    factor = float(CALIBRATION(jnp.zeros(1), jnp.ones(1), jnp.asarray(surprising))[0])
    assert max(factor, 1 / factor) == pytest.approx(np.exp(1.6), rel=1e-4)


def test_nothing_seen_and_what_was_expected_are_no_surprise():
    assert float(surprise(jnp.asarray(0.0), jnp.asarray(0))) == 0
    assert float(surprise(jnp.asarray(7.0), jnp.asarray(7))) == 0
    assert float(surprise(jnp.asarray(40.0), jnp.asarray(10))) == pytest.approx(np.log(2.5), rel=1e-6)
    assert float(surprise(jnp.asarray(0.0), jnp.asarray(10))) == pytest.approx(-np.log(2), rel=1e-6)


def test_the_level_counts_by_the_explained_fraction():
    share = explained_fraction(jnp.array([4.0, 3.0, 0.0]), jnp.array([4.0, 4.0, 4.0]))
    np.testing.assert_allclose(share, [0, 0.5, 1], atol=1e-3)
    factor = CALIBRATION(jnp.full(3, -1.0), share, jnp.asarray(0.0))
    np.testing.assert_allclose(np.log(factor), 1.6 * np.tanh(np.array([0, 0.2, 0.4]) / 1.6), atol=1e-3)
