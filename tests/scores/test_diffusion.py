"""The forward process against its closed form, and the schedule."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.scores.diffusion import Diffusion


@pytest.mark.parametrize("steps", [2, 50, 250])
def test_the_schedule_is_the_cosine_where_no_step_is_too_large(steps):
    diffusion = Diffusion.cosine(steps)
    signal = np.asarray(diffusion.alpha_bars, np.float64)
    betas = 1 - signal[1:] / signal[:-1]
    cosine = np.cos((np.arange(steps + 1) / steps + 0.008) / 1.008 * np.pi / 2) ** 2
    assert diffusion.steps == steps
    assert signal[0] == 1
    assert ((betas > 0) & (betas < 0.5 + 1e-5)).all()
    free = np.concatenate([[True], np.cumprod(betas < 0.49).astype(bool)])
    np.testing.assert_allclose(signal[free], (cosine / cosine[0])[free], rtol=1e-5)


def test_hardly_any_signal_is_left():
    assert Diffusion.cosine(50).alpha_bars[-1] < 2e-3


def test_the_marginal_is_that_of_all_steps():
    """Mean and variance of y_t carried through q(y_t | y_{t-1}) are sqrt(abar_t) y_0 and 1 - abar_t."""
    diffusion = Diffusion.cosine(20)
    y, zero, one = jnp.asarray([1.5, -0.3]), jnp.zeros(2), jnp.ones(2)
    mean, variance = y, 0.0
    for t in range(1, 21):
        shrunk = diffusion.forward(one, t, zero)[0]
        variance = float(shrunk**2 * variance + diffusion.forward(zero, t, one)[0] ** 2)
        mean = diffusion.forward(mean, t, zero)
        np.testing.assert_allclose(diffusion.noised(y, t, zero), mean, rtol=1e-4)
        np.testing.assert_allclose(diffusion.noised(zero, t, one)[0] ** 2, variance, rtol=1e-4)
        np.testing.assert_allclose(variance, 1 - diffusion.alpha_bars[t], rtol=1e-4)


def test_steps_drawn_one_by_one_have_the_marginal():
    diffusion, n, t = Diffusion.cosine(20), 4000, 8
    y = jnp.full(n, 0.7)
    for step in range(1, t + 1):
        y = diffusion.forward(y, step, jax.random.normal(jax.random.key(step), (n,)))
    signal = float(diffusion.alpha_bars[t])
    assert abs(y.mean() - np.sqrt(signal) * 0.7) < 4 * np.sqrt((1 - signal) / n)
    assert abs(y.var() / (1 - signal) - 1) < 4 * np.sqrt(2 / n)


def test_a_reverse_step_with_the_true_noise_is_the_posterior_mean_of_a_known_start():
    """With y_0 known, E[y_{t-1} | y_t, y_0] weighs y_0 and y_t (Ho et al., 2020, eq. 7); the last step returns y_0."""
    diffusion, y = Diffusion.cosine(20), jnp.asarray([0.4, -1.0])
    noise, other = jnp.asarray([0.3, 1.2]), jnp.asarray([5.0, 5.0])
    for t in (1, 7, 20):
        now, before, beta = (float(v) for v in (*diffusion.alpha_bars[jnp.asarray([t, t - 1])], diffusion.beta(t)))
        there = diffusion.noised(y, t, noise)
        expected = (np.sqrt(before) * beta * y + np.sqrt(1 - beta) * (1 - before) * there) / (1 - now)
        np.testing.assert_allclose(diffusion.reverse(there, noise, t, jnp.zeros(2)), expected, rtol=1e-3, atol=1e-4)
        moved = diffusion.reverse(there, noise, t, other) - diffusion.reverse(there, noise, t, jnp.zeros(2))
        np.testing.assert_allclose(moved, 0 if t == 1 else 5 * np.sqrt(beta), rtol=1e-4, atol=1e-6)
