"""The exact score and posterior of the interpolated process, against finite differences and brute force."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from scoreprior.interpolators import MaternInterpolator
from scoreprior.interpolators.mixture import ProcessMixture, choose_bandwidths, correlation
from scoreprior.tasks import Task, TaskSet

NOISE, LEVEL, TAU = 0.3, 0.2, 0.25


def tasks(count: int, seed: int, size: int = 6) -> TaskSet:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        x = rng.uniform(-2, 2, (size, 1))
        made.append(Task(x, rng.normal() + np.sin(2 * x[:, 0] + rng.normal()) + NOISE * rng.normal(size=size)))
    return TaskSet(made)


@pytest.fixture(scope="module")
def mixture() -> ProcessMixture:
    fitted = MaternInterpolator(noise_std=NOISE, lengthscales=(0.8,)).fit(tasks(4, 0).padded(), 0)
    return ProcessMixture(fitted, jnp.float32(TAU))


def components(mixture: ProcessMixture, x: np.ndarray, white: float) -> list[multivariate_normal]:
    """The density's Gaussians by SciPy."""
    inputs = jnp.asarray(x, jnp.float32)
    added = white**2 * np.eye(len(x)) + TAU**2 * np.asarray(correlation(mixture.fitted, inputs), float)
    found = []
    for i in range(4):
        state = jax.tree.map(lambda leaf, i=i: leaf[i], mixture.fitted.states)
        mean, cov = (np.asarray(part, float) for part in mixture.fitted.process.predict(state, inputs))
        found.append(multivariate_normal(mean, cov + added, allow_singular=True))
    return found


def test_the_density_is_the_mixture_of_the_tasks_posteriors(mixture):
    x = np.linspace(-2, 2, 5)[:, None]
    f = np.array([0.3, -0.5, 0.4, 1.2, 0.0])
    expected = logsumexp([each.logpdf(f) for each in components(mixture, x, LEVEL)]) - np.log(4)
    log_prob = eqx.filter_jit(mixture.log_prob)
    ours = log_prob(jnp.asarray(f, jnp.float32), jnp.asarray(x, jnp.float32), jnp.float32(LEVEL))
    assert float(ours) == pytest.approx(expected, abs=5e-3)


def test_the_score_is_the_slope_of_the_log_density(mixture):
    x = np.linspace(-2, 2, 5)[:, None]
    f = np.array([0.3, -0.5, 0.4, 1.2, 0.0])
    parts = components(mixture, x, LEVEL)
    step = 1e-4
    slopes = [
        (
            logsumexp([each.logpdf(f + step * unit) for each in parts])
            - logsumexp([each.logpdf(f - step * unit) for each in parts])
        )
        / (2 * step)
        for unit in np.eye(5)
    ]
    ours = eqx.filter_jit(mixture)(jnp.asarray(f, jnp.float32), jnp.asarray(x, jnp.float32), jnp.float32(LEVEL))
    np.testing.assert_allclose(ours, slopes, rtol=5e-3, atol=5e-3)


def test_the_posterior_is_that_of_a_grid(mixture):
    """One query: p(y | context) = p(y, context) / p(context), the joint density over a grid of y."""
    new = tasks(1, 7, size=3)[0]
    query = np.array([[0.4]])
    noise = np.sqrt(NOISE**2 + LEVEL**2)
    joint = components(mixture, np.concatenate([new.x, query]), noise)
    grid = np.linspace(-6, 6, 2001)
    points = np.column_stack([np.tile(new.y, (len(grid), 1)), grid])
    density = sum(each.pdf(points) for each in joint)
    density /= np.trapezoid(density, grid)
    mean = np.trapezoid(grid * density, grid)
    variance = np.trapezoid((grid - mean) ** 2 * density, grid)

    padded = TaskSet([new]).padded(size=5)
    task = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], padded)
    log_weights, means, variances = eqx.filter_jit(mixture.condition)(
        task, jnp.asarray(query, jnp.float32), jnp.float32(NOISE), jnp.float32(LEVEL)
    )
    weights = np.asarray(jax.nn.softmax(log_weights))
    ours = weights @ np.asarray(means)[:, 0]
    assert ours == pytest.approx(mean, abs=2e-3)
    second = weights @ (np.asarray(variances)[:, 0] + np.asarray(means)[:, 0] ** 2)
    assert second - ours**2 == pytest.approx(variance, rel=1e-2)


def test_the_bandwidths_are_those_of_the_likelihood_of_left_out_tasks():
    some = tasks(5, 3).padded()
    fitted = MaternInterpolator(noise_std=NOISE, lengthscales=(0.8,)).fit(some, 0)
    levels, taus = (0.05, 0.4), (0.0, 0.3, 1.0)
    log_prob = eqx.filter_jit(lambda mixture, *point: mixture.log_prob(*point))
    table = {}
    for level in levels:
        for tau in taus:
            total = []
            for j in range(5):
                others = [i for i in range(5) if i != j]
                states = jax.tree.map(lambda leaf, others=others: leaf[np.array(others)], fitted.states)
                rest = ProcessMixture(type(fitted)(states, fitted.process, False), jnp.float32(tau))
                noise = jnp.float32(np.sqrt(level**2 + NOISE**2))
                y, x = jnp.asarray(some.y[j], jnp.float32), jnp.asarray(some.x[j], jnp.float32)
                total.append(float(log_prob(rest, y, x, noise)))
            table[level, tau] = np.mean(total)
    best = max(table, key=table.get)
    ours = choose_bandwidths(fitted, some, jnp.asarray(levels, jnp.float32), jnp.asarray(taus, jnp.float32))
    assert tuple(round(float(each), 5) for each in ours) == best
