"""Gaussian-process interpolation against closed forms in double precision (numpy and scikit-learn)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from scoreprior.interpolators import GPInterpolator
from scoreprior.interpolators._base import folds, task_keys
from scoreprior.interpolators.gp import LENGTHSCALES, cross_validate
from scoreprior.pooling import PoolingConfig
from scoreprior.tasks import PaddedTasks, Task, TaskSet

NOISE = 0.1
SMALL_POOL = PoolingConfig(centres=6)


def awkward_tasks() -> TaskSet:
    """Ragged tasks: plain ones, three points, one point, constant targets, duplicated inputs."""
    rng = np.random.default_rng(0)
    tasks = []
    for size in (12, 7, 3, 1, 9, 8):
        x = rng.uniform(-1.5, 1.5, (size, 2))
        tasks.append(Task(x, np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.standard_normal(size)))
    tasks[4] = Task(tasks[4].x, np.full(9, 0.7))
    tasks[5] = Task(np.repeat(tasks[5].x[:2], 4, axis=0), tasks[5].y)
    return TaskSet(tasks)


TASKS = awkward_tasks()
PADDED = TASKS.padded()
QUERY = jnp.asarray(np.random.default_rng(1).uniform(-2, 2, (5, 2)), jnp.float32)


def draws(fitted, index: int, x, count: int) -> np.ndarray:
    state = jax.tree.map(lambda leaf: leaf[index], fitted.states)
    keys = jax.random.split(jax.random.key(7), count)
    return np.asarray(jax.jit(jax.vmap(lambda key: fitted.draw(state, x, key)))(keys), np.float64)


def all_tasks(fitted, x=QUERY, seed: int = 0) -> np.ndarray:
    keys = jax.random.split(jax.random.key(seed), len(jax.tree.leaves(fitted.states)[0]))
    return np.asarray(jax.jit(jax.vmap(fitted.draw, in_axes=(0, None, 0)))(fitted.states, x, keys))


def exact(task: Task, lengthscale: float) -> GaussianProcessRegressor:
    return GaussianProcessRegressor(Matern(lengthscale, nu=2.5), alpha=NOISE**2, optimizer=None).fit(
        task.x, task.y
    )


@pytest.fixture(scope="module")
def paper():
    return GPInterpolator(mode="paper").fit(PADDED, 3)


def test_candidates_are_the_papers():
    np.testing.assert_allclose(LENGTHSCALES, np.logspace(-3, 1, 10))


@pytest.mark.parametrize("index", [0, 2, 3, 5])
def test_draws_have_the_closed_form_mean_and_covariance(paper, index):
    count = 20_000
    model = exact(TASKS[index], float(paper.process.kernel.lengthscale[0]))
    mean, cov = model.predict(np.asarray(QUERY, np.float64), return_cov=True)
    sample = draws(paper, index, QUERY, count)
    variance = np.diag(cov)
    jitter = 3e-5  # the sampler's floor and the factor's, relative to a unit prior variance
    assert np.all(np.abs(sample.mean(0) - mean) < 5 * np.sqrt(variance / count) + 1e-4)
    standard_error = np.sqrt((np.outer(variance, variance) + cov**2) / count)
    assert np.all(np.abs(np.cov(sample.T) - cov) < 5 * standard_error + jitter)


def test_mean_only_is_the_posterior_mean(paper):
    fitted = GPInterpolator(mode="paper", mean_only=True).fit(PADDED, 3)
    lengthscale = float(fitted.process.kernel.lengthscale[0])
    expected = [exact(task, lengthscale).predict(np.asarray(QUERY, np.float64)) for task in TASKS]
    np.testing.assert_allclose(all_tasks(fitted, seed=0), expected, atol=2e-3)
    np.testing.assert_array_equal(all_tasks(fitted, seed=0), all_tasks(fitted, seed=1))
    assert np.abs(all_tasks(paper) - expected).max() > 0.1


def test_cross_validation_equals_a_loop_over_scikit_learn():
    keys = task_keys(11, len(TASKS))
    scores = cross_validate(PADDED, jnp.asarray(LENGTHSCALES, jnp.float32), jnp.float32(NOISE), keys)
    for lengthscale, score in zip(LENGTHSCALES, np.asarray(scores)):
        total = 0.0
        for task, mask, key in zip(TASKS, PADDED.mask, keys):
            for fold in np.asarray(folds(mask, key))[:, : len(task)]:
                if not fold.any():
                    continue
                held, cov = task.x[fold], Matern(lengthscale, nu=2.5)(task.x[fold])
                mean = np.zeros(len(held))
                if not fold.all():
                    mean, cov = exact(task.take(~fold), lengthscale).predict(held, return_cov=True)
                total += multivariate_normal(mean, cov + NOISE**2 * np.eye(len(held))).logpdf(task.y[fold])
        # The single-precision jitter of 1e-5 is a thousandth of the noise variance.
        assert score == pytest.approx(total / len(TASKS), rel=2e-3, abs=2e-2)


@pytest.mark.parametrize("true", [6, 7])
def test_cross_validation_finds_the_lengthscale_of_a_known_process(true):
    rng = np.random.default_rng(true)
    tasks = []
    for _ in range(30):
        x = rng.uniform(-2, 2, (12, 1))
        cov = Matern(LENGTHSCALES[true], nu=2.5)(x) + NOISE**2 * np.eye(12)
        tasks.append(Task(x, np.linalg.cholesky(cov) @ rng.standard_normal(12)))
    fitted = GPInterpolator(mode="paper").fit(TaskSet(tasks).padded(), 0)
    chosen = np.argmin(np.abs(np.array(LENGTHSCALES) - float(fitted.process.kernel.lengthscale[0])))
    assert abs(chosen - true) <= 1


@pytest.mark.parametrize("size", [1, 3, 4, 10])
def test_folds_cover_every_real_point_once(size):
    mask = jnp.arange(12) < size
    held = np.asarray(folds(mask, jax.random.key(size)))
    np.testing.assert_array_equal(held.sum(0), mask)
    assert held.sum(1).max() - held.sum(1).min() <= 1
    assert np.any(held != np.asarray(folds(mask, jax.random.key(100 + size))))


def test_the_padded_size_does_not_matter(paper):
    fitted = GPInterpolator(mode="paper").fit(TASKS.padded(20), 3)
    np.testing.assert_array_equal(fitted.process.kernel.lengthscale, paper.process.kernel.lengthscale)
    np.testing.assert_allclose(all_tasks(fitted), all_tasks(paper), atol=2e-3)


def test_a_ragged_batch_equals_tasks_fitted_alone(paper):
    lengthscale = (float(paper.process.kernel.lengthscale[0]),)
    keys = jax.random.split(jax.random.key(0), len(TASKS))
    for index, together in enumerate(all_tasks(paper)):
        alone = GPInterpolator(mode="paper", lengthscales=lengthscale).fit(
            TaskSet([TASKS[index]]).padded(), 9
        )
        state = jax.tree.map(lambda leaf: leaf[0], alone.states)
        np.testing.assert_allclose(alone.draw(state, QUERY, keys[index]), together, atol=2e-3)


def test_what_the_padding_holds_does_not_matter(paper):
    dirty = PaddedTasks(
        jnp.where(PADDED.mask[..., None], PADDED.x, 37.0), jnp.where(PADDED.mask, PADDED.y, -5.0), PADDED.mask
    )
    np.testing.assert_array_equal(all_tasks(GPInterpolator(mode="paper").fit(dirty, 3)), all_tasks(paper))


def test_a_draw_is_a_function_and_keys_decide_it(paper):
    twice = jnp.concatenate([QUERY, QUERY])
    # Equal inputs differ by the sampler's jitter alone: below 0.5% of the prior's standard deviation.
    values = all_tasks(paper, twice)
    assert np.abs(values[:, :5] - values[:, 5:]).max() < 5 * np.sqrt(2) * 5e-3
    np.testing.assert_array_equal(all_tasks(paper, seed=4), all_tasks(paper, seed=4))
    assert np.abs(all_tasks(paper, seed=4) - all_tasks(paper, seed=5)).max() > 0.1


def test_uncertainty_grows_away_from_the_data(paper):
    near, far = jnp.asarray(TASKS[0].x[:1], jnp.float32), jnp.full((1, 2), 40.0)
    near_std, far_std = (draws(paper, 0, x, 2000).std() for x in (near, far))
    assert near_std < 1.2 * NOISE
    assert far_std == pytest.approx(1.0, abs=5 / np.sqrt(2 * 2000))


@pytest.fixture(scope="module")
def pooled():
    return GPInterpolator(mode="pooled", pooling=SMALL_POOL).fit(PADDED, 3)


def test_pooled_draws_have_the_moments_of_the_pooled_posterior(pooled):
    count = 20_000
    state = jax.tree.map(lambda leaf: leaf[0], pooled.states)
    mean, cov = (np.asarray(part, np.float64) for part in pooled.process.predict(state, QUERY))
    sample = draws(pooled, 0, QUERY, count)
    variance = np.diag(cov)
    jitter = 3e-5 * float(jnp.mean(pooled.process.kernel.diagonal(QUERY)))
    assert np.all(np.abs(sample.mean(0) - mean) < 5 * np.sqrt((variance + jitter) / count))
    standard_error = np.sqrt((np.outer(variance, variance) + cov**2) / count)
    assert np.all(np.abs(np.cov(sample.T) - cov) < 5 * standard_error + jitter)


@pytest.mark.parametrize("mode", ["paper", "pooled"])
def test_fits_the_training_points_of_awkward_tasks(mode, request):
    fitted = request.getfixturevalue(mode)
    for index, task in enumerate(TASKS):
        values = draws(fitted, index, jnp.asarray(task.x, jnp.float32), 200)
        assert np.isfinite(values).all()
        if index != 5:  # duplicated inputs with different targets cannot be interpolated
            assert np.sqrt(np.mean((values.mean(0) - task.y) ** 2)) < 0.25


def test_unknown_modes_are_refused():
    with pytest.raises(ValueError, match="pooled"):
        GPInterpolator(mode="exact")
