"""Gaussian-process interpolation against closed forms in double precision (numpy and scikit-learn)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from scoreprior.gp import ProcessConfig, kernels
from scoreprior.gp.process import GaussianProcess
from scoreprior.interpolators import GPInterpolator, MaternInterpolator, gp
from scoreprior.interpolators._base import folds, task_keys
from scoreprior.interpolators.gp import LENGTHSCALES, cross_validate
from scoreprior.tasks import PaddedTasks, Task, TaskSet

NOISE = 0.1


def awkward_tasks() -> TaskSet:
    """Ragged tasks: plain ones, three points, one point, constant targets, duplicated inputs."""
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1.5, 1.5, (size, 2)) for size in (12, 7, 3, 1, 9, 2)]
    inputs[5] = np.repeat(inputs[5], 4, axis=0)
    tasks = [Task(x, np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + NOISE * rng.standard_normal(len(x))) for x in inputs]
    tasks[4] = Task(tasks[4].x, np.full(9, 0.7))
    return TaskSet(tasks)


TASKS = awkward_tasks()
PADDED = TASKS.padded()
QUERY = np.random.default_rng(1).uniform(-2, 2, (5, 2)).astype(np.float32)
NEAR, FAR = TASKS[0].x[:1].astype(np.float32), np.full((1, 2), 40.0, np.float32)
# All draws share one set of 12 points: five, the same five again, one on a datum of task 0, one far away.
POINTS = jnp.asarray(np.concatenate([QUERY, QUERY, NEAR, FAR]))
COUNT = 5_000


@eqx.filter_jit
def _draws(fitted, x, keys):
    return jax.lax.map(lambda each: jax.vmap(fitted.draw)(fitted.states, x, each), keys)


def draws(fitted, x=POINTS, seed: int = 0, count: int = COUNT) -> np.ndarray:
    """(n, count, k) draws at x (k, d), or at each task's own x (n, k, d)."""
    x = jnp.broadcast_to(x, (len(TASKS), *x.shape[-2:]))
    keys = jax.random.split(jax.random.key(seed), (count, len(TASKS)))
    return np.asarray(_draws(fitted, x, keys), np.float64).swapaxes(0, 1)


def exact(task: Task, lengthscale: float, noise: float = NOISE) -> GaussianProcessRegressor:
    kernel = Matern(lengthscale, nu=2.5)
    return GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None).fit(task.x, task.y)


def assert_moments(sample: np.ndarray, mean: np.ndarray, cov: np.ndarray, jitter: float) -> None:
    """Sample mean and covariance within five standard errors and the jitter of single precision."""
    variance = np.diag(cov) + jitter
    assert np.all(np.abs(sample.mean(0) - mean) < 5 * np.sqrt(variance / len(sample)) + 5 * jitter)
    standard_error = np.sqrt((np.outer(variance, variance) + cov**2) / len(sample))
    assert np.all(np.abs(np.cov(sample.T) - cov) < 5 * standard_error + jitter)


@pytest.fixture(scope="module")
def paper():
    return MaternInterpolator().fit(PADDED, 3)


@pytest.fixture(scope="module")
def paper_draws(paper):
    return draws(paper)


def test_candidates_are_the_papers():
    np.testing.assert_allclose(LENGTHSCALES, np.logspace(-3, 1, 10))


@pytest.mark.parametrize("index", range(len(TASKS)))
def test_draws_have_the_closed_form_mean_and_covariance(paper, paper_draws, index):
    model = exact(TASKS[index], float(paper.process.kernel.lengthscale[0]))
    mean, cov = model.predict(QUERY.astype(np.float64), return_cov=True)
    # The floors of the sampler and of the factor are 1e-5 of the prior variance each.
    assert_moments(paper_draws[index, :, :5], mean, cov, jitter=3e-5)


def test_mean_only_is_the_posterior_mean_of_each_task_alone(paper_draws):
    fitted = MaternInterpolator(mean_only=True).fit(PADDED, 3)
    lengthscale = float(fitted.process.kernel.lengthscale[0])
    expected = [exact(task, lengthscale).predict(np.asarray(POINTS, np.float64)) for task in TASKS]
    means = draws(fitted, count=2)
    np.testing.assert_allclose(means[:, 0], expected, atol=2e-3)
    np.testing.assert_array_equal(means[:, 0], means[:, 1])
    assert np.abs(paper_draws[:, 0] - expected).max() > 0.1


def test_cross_validation_equals_a_loop_over_scikit_learn():
    keys = task_keys(11, len(TASKS))
    scores = cross_validate(PADDED, jnp.asarray(LENGTHSCALES, jnp.float32), jnp.float32(NOISE), keys)
    held = np.asarray(jax.jit(jax.vmap(folds))(PADDED.mask, keys))
    for lengthscale, score in zip(LENGTHSCALES, np.asarray(scores)):
        total = sum(heldout_log_density(*pair, lengthscale) for pair in zip(TASKS, held))
        # The single-precision jitter of 1e-5 is a thousandth of the noise variance.
        assert score == pytest.approx(total / len(TASKS), rel=2e-3, abs=2e-2)


def heldout_log_density(task: Task, held: np.ndarray, lengthscale: float, noise: float = NOISE) -> float:
    total = 0.0
    for fold in held[:, : len(task)]:
        if not fold.any():
            continue
        x = task.x[fold]
        mean, cov = np.zeros(len(x)), Matern(lengthscale, nu=2.5)(x)
        if not fold.all():
            mean, cov = exact(task.take(~fold), lengthscale, noise).predict(x, return_cov=True)
        total += multivariate_normal(mean, cov + noise**2 * np.eye(len(x))).logpdf(task.y[fold])
    return total


@pytest.mark.parametrize("true", [6, 7])
def test_cross_validation_finds_the_lengthscale_of_a_known_process(true):
    rng = np.random.default_rng(true)
    tasks = []
    for _ in range(30):
        x = rng.uniform(-2, 2, (12, 1))
        cov = Matern(LENGTHSCALES[true], nu=2.5)(x) + NOISE**2 * np.eye(12)
        tasks.append(Task(x, np.linalg.cholesky(cov) @ rng.standard_normal(12)))
    fitted = MaternInterpolator().fit(TaskSet(tasks).padded(), 0)
    chosen = np.argmin(np.abs(np.array(LENGTHSCALES) - float(fitted.process.kernel.lengthscale[0])))
    assert abs(chosen - true) <= 1


def test_noise_and_standard_deviation_maximise_the_same_likelihood():
    """The closed form of the standard deviation is the best of a fine grid of scikit-learn processes."""
    keys = task_keys(11, len(TASKS))
    ratio, lengthscale = 0.3, 0.8
    std, _, noise = gp.best_kernel(PADDED, jnp.float32([lengthscale]), jnp.float32([ratio]), keys)
    assert float(noise) == pytest.approx(ratio * float(std), rel=1e-5)
    held = np.asarray(jax.jit(jax.vmap(folds))(PADDED.mask, keys))

    def likelihood(std: float) -> float:
        scaled = [(Task(task.x, task.y / std), fold) for task, fold in zip(TASKS, held)]
        points = sum(len(task) for task in TASKS)
        return sum(heldout_log_density(*pair, lengthscale, ratio) for pair in scaled) - points * np.log(std)

    grid = float(std) * np.array([0.8, 0.9, 0.97, 1.0, 1.03, 1.1, 1.25])
    assert grid[np.argmax([likelihood(each) for each in grid])] == pytest.approx(float(std))


def test_the_kernel_of_a_known_process_is_found():
    rng = np.random.default_rng(5)
    tasks = []
    for _ in range(40):
        x = rng.uniform(-2, 2, (12, 1))
        cov = 9.0 * Matern(1.0, nu=2.5)(x) + 0.3**2 * np.eye(12)
        tasks.append(Task(x, np.linalg.cholesky(cov) @ rng.standard_normal(12)))
    fitted = MaternInterpolator.cross_validated().fit(TaskSet(tasks).padded(), 0)
    assert 2.0 < float(fitted.process.kernel.std) < 4.5
    assert 0.5 < float(fitted.process.kernel.lengthscale[0]) < 2.0
    assert 0.2 < float(fitted.noise_std) < 0.45


def test_folds_cover_every_real_point_once_whatever_the_padding():
    sizes = np.array([1, 3, 4, 10])
    keys = task_keys(0, len(sizes))
    cut = jax.jit(jax.vmap(folds))
    held = np.asarray(cut(jnp.arange(12) < sizes[:, None], keys))
    np.testing.assert_array_equal(held.sum(1), np.arange(12) < sizes[:, None])
    assert np.all(held.sum(2).max(1) - held.sum(2).min(1) <= 1)
    np.testing.assert_array_equal(cut(jnp.arange(20) < sizes[:, None], keys)[..., :12], held)
    assert np.any(held != np.asarray(cut(jnp.arange(12) < sizes[:, None], task_keys(1, len(sizes)))))


def test_what_the_padding_holds_does_not_matter(paper, paper_draws):
    dirty = PaddedTasks(
        jnp.where(PADDED.mask[..., None], PADDED.x, 37.0), jnp.where(PADDED.mask, PADDED.y, -5.0), PADDED.mask
    )
    fitted = MaternInterpolator().fit(dirty, 3)
    np.testing.assert_array_equal(fitted.process.kernel.lengthscale, paper.process.kernel.lengthscale)
    np.testing.assert_array_equal(draws(fitted), paper_draws)


def test_a_draw_is_a_function_and_keys_decide_it(paper, paper_draws):
    # Equal inputs differ by the sampler's jitter alone, whose variance is 2e-5 at either of them.
    gap = paper_draws[..., :5] - paper_draws[..., 5:10]
    assert gap.std() < np.sqrt(2 * 3e-5)
    np.testing.assert_array_equal(draws(paper), paper_draws)
    assert np.abs(draws(paper, seed=5) - paper_draws).max() > 0.1


def test_uncertainty_grows_away_from_the_data(paper_draws):
    near, far = paper_draws[0, :, 10].std(), paper_draws[0, :, 11].std()
    assert near < 1.05 * NOISE
    assert far == pytest.approx(1.0, abs=5 / np.sqrt(2 * COUNT))


def residuals(fitted) -> np.ndarray:
    """Root mean squared difference of each task's mean draw from the best function through its targets."""
    means = draws(fitted, PADDED.x).mean(1)
    errors = []
    for task, mean in zip(TASKS, means):
        same = (task.x[:, None] == task.x[None]).all(-1)
        best = same @ task.y / same.sum(1)  # no function does better where inputs are repeated
        errors.append(np.sqrt(np.mean((mean[: len(task)] - best) ** 2)))
    return np.array(errors)


def test_draws_pass_near_the_training_points(paper):
    # Residuals of a posterior mean have covariance noise^4 C^-1 <= noise^2 I under the model.
    assert np.all(residuals(paper) < 2 * NOISE)


@pytest.mark.parametrize("index", [0, 3])
def test_the_pooled_interpolator_conditions_the_learned_process(monkeypatch, index):
    kernel = kernels.Matern(jnp.float32(0.8), jnp.float32([0.7, 1.5]), 1.5)
    mean = kernels.LinearMean(jnp.float32(0.3), jnp.float32([1.0, -0.5]))
    asked = []

    def learn(*arguments):
        asked.append(arguments)
        return GaussianProcess(mean, kernel, jnp.float32(NOISE))

    monkeypatch.setattr(gp, "fit_process", learn)
    config = ProcessConfig(centres=5)
    fitted = GPInterpolator(process=config).fit(PADDED, 3)
    assert asked[0][:2] == (PADDED, config)
    task, query = TASKS[index], QUERY.astype(np.float64)
    slope = np.array([1.0, -0.5])
    model = GaussianProcessRegressor(ConstantKernel(0.64) * Matern([0.7, 1.5], nu=1.5), alpha=NOISE**2, optimizer=None)
    deviation, cov = model.fit(task.x, task.y - 0.3 - task.x @ slope).predict(query, return_cov=True)
    assert_moments(draws(fitted)[index, :, :5], 0.3 + query @ slope + deviation, cov, jitter=3e-5)


@pytest.mark.slow
def test_the_learned_process_fits_awkward_tasks():
    fitted = GPInterpolator().fit(PADDED, 3)
    assert np.isfinite(draws(fitted)).all()
    assert float(fitted.process.noise_std) < 3 * NOISE
    assert np.all(residuals(fitted) < 2 * float(fitted.process.noise_std))


@pytest.mark.parametrize(("field", "value"), [("noise_std", 0.0), ("lengthscales", ()), ("lengthscales", (0.0,))])
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        MaternInterpolator(**{field: value})
