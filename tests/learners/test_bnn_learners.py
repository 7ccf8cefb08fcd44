"""BNNs with chosen priors: Bayesian linear regression, exact process posteriors, and what they take from the tasks."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import Matern

import scoreprior as sp
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.inference.fvi import FVIConfig
from scoreprior.inference.svgd import SVGDConfig
from scoreprior.learners import _batches
from scoreprior.learners.bnn import VanillaBNN, weight_posterior
from scoreprior.learners.functional_bnn import FunctionalBNN, FunctionalVI, GPPriorConfig, learn_zero_mean
from scoreprior.tasks import PaddedTasks

# Nearly all of the time is compilation; the default suite keeps the conformance of cheaper methods.
pytestmark = pytest.mark.slow

SMALL = BNNConfig(hidden=(16,))
QUICK = {
    "vanilla-bnn": VanillaBNN(SMALL, SVGDConfig(steps=5, particles=3), noise_std=0.1),
    "fbnn-gp": FunctionalBNN(bnn=SMALL, inference=FSVGDConfig(steps=5, particles=3, measurement_points=4)),
    "fbnn-gp-vi": FunctionalVI(bnn=SMALL, inference=FVIConfig(steps=5, particles=3, measurement_points=4)),
}


class Line(eqx.Module):
    """theta . (1, x), a particle whose posterior is in closed form."""

    theta: Array

    def __call__(self, x):
        return self.theta[0] + self.theta[1] * x[:, 0]


def gp_tasks(n: int, m: int, seed: int, noise: float = 0.1) -> sp.TaskSet:
    """Draws of a zero-mean Matern-5/2 process with lengthscale 1 and standard deviation 1 on [-2, 2]."""
    rng = np.random.default_rng(seed)
    xs = [rng.uniform(-2, 2, (m, 1)) for _ in range(n)]
    roots = [np.linalg.cholesky(Matern(1.0, nu=2.5)(x) + noise**2 * np.eye(m)) for x in xs]
    return sp.TaskSet.from_arrays(xs, [root @ rng.normal(size=m) for root in roots])


def test_linear_weights_have_the_posterior_of_bayesian_linear_regression():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 6)
    y = 0.5 - 1.2 * x + 0.5 * rng.normal(size=6)
    features = np.stack([np.ones(6), x], axis=1)
    covariance = np.linalg.inv(np.eye(2) / 0.8**2 + features.T @ features / 0.5**2)
    context = PaddedTasks(
        jnp.pad(jnp.asarray(x, jnp.float32), (0, 2), constant_values=jnp.nan)[:, None],
        jnp.pad(jnp.asarray(y, jnp.float32), (0, 2), constant_values=jnp.nan),
        jnp.arange(8) < 6,
    )
    config = SVGDConfig(100, 800, learning_rate=0.03, bandwidth=0.1, prior_std=0.8, final_rate=0.01)
    run = jax.jit(lambda key: weight_posterior(Line(jnp.zeros(2)), context, config, config.hyper(0.5), key).theta)
    theta = np.asarray(run(jax.random.key(0)), np.float64)
    # SVGD is deterministic at its fixed point: the mean is exact there, the spread of 100 particles within a tenth.
    np.testing.assert_allclose(theta.mean(0), covariance @ features.T @ y / 0.5**2, atol=0.02)
    np.testing.assert_allclose(np.cov(theta.T, bias=True), covariance, atol=0.2 * np.diag(covariance).min())


def test_without_a_point_weights_are_draws_of_the_prior():
    context = PaddedTasks(jnp.zeros((4, 1)), jnp.zeros(4), jnp.zeros(4, bool))
    config = SVGDConfig(4000, 1, prior_std=0.7)
    theta = np.asarray(
        weight_posterior(Line(jnp.zeros(2)), context, config, config.hyper(0.1), jax.random.key(1)).theta
    )
    error = 0.7 / np.sqrt(4000)
    assert (np.abs(theta.mean(0)) < 4 * error).all()
    assert (np.abs(theta.std(0) - 0.7) < 4 * error / np.sqrt(2)).all()


def test_the_noise_is_chosen_on_the_meta_training_tasks():
    rng = np.random.default_rng(2)
    learner = VanillaBNN(SMALL, SVGDConfig(steps=200, learning_rate=0.02, prior_std=0.5), noises=(0.02, 0.5))
    chosen = []
    for noise in (0.01, 0.5):
        xs = [rng.uniform(-1, 1, (16, 1)) for _ in range(4)]
        # Standardised units differ little from these: x has a spread of 0.6 and y of about 1.
        ys = [1.6 * x[:, 0] + noise * rng.normal(size=16) for x in xs]
        prior = learner.fit(sp.TaskSet.from_arrays(xs, ys), 0, progress=False)
        chosen.append(float(prior.hyper.noise_std))
    np.testing.assert_allclose(chosen, [0.02, 0.5], rtol=1e-6)


def test_the_process_has_the_largest_marginal_likelihood():
    tasks = gp_tasks(16, 8, 3)

    def loss(parameters: np.ndarray) -> float:
        std, length, noise = np.exp(parameters)
        grams = [std**2 * Matern(length, nu=2.5)(task.x) + noise**2 * np.eye(len(task)) for task in tasks]
        return -sum(multivariate_normal(cov=gram).logpdf(task.y) for gram, task in zip(grams, tasks)) / len(tasks.y)

    process = learn_zero_mean(tasks, GPPriorConfig(), 0)
    found = np.log([float(process.kernel.std), float(process.kernel.lengthscale[0]), float(process.noise_std)])
    best = minimize(loss, found, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7})
    assert loss(found) - best.fun < 1e-4
    np.testing.assert_allclose(found, best.x, atol=0.03)
    assert float(jnp.abs(process.mean(jnp.ones((3, 1)))).max()) == 0


@pytest.mark.parametrize("name", ["fbnn-gp", "fbnn-gp-vi"])
def test_the_prior_score_is_the_exact_process_score(name):
    learner = QUICK[name]
    prior = learner.fit(gp_tasks(4, 6, 4), 0, progress=False)
    level = learner.inference.function_noise if name == "fbnn-gp-vi" else learner.level
    rng = np.random.default_rng(5)
    x, f = np.linspace(-2, 2, 7)[:, None], rng.normal(size=7)
    kernel = prior.score.kernel
    gram = float(kernel.std) ** 2 * Matern(float(kernel.lengthscale[0]), nu=2.5)(x) + level**2 * np.eye(7)
    # Ours adds the jitter of its Cholesky factor, which single precision needs.
    gram = gram + 1e-5 * np.mean(np.diag(gram)) * np.eye(7)
    expected = -np.linalg.solve(gram, f)
    got = prior.score(jnp.asarray(f, jnp.float32), jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-3 * np.abs(expected).max())


@pytest.fixture(scope="module")
def functional() -> sp.Prior:
    inference = FSVGDConfig(particles=20, steps=500, learning_rate=1e-2, measurement_points=12)
    learner = FunctionalBNN(bnn=BNNConfig(hidden=(32, 32)), inference=inference)
    return learner.fit(gp_tasks(16, 8, 6), 0, progress=False)


def test_fsvgd_follows_the_exact_process_posterior(functional):
    tasks, x = gp_tasks(4, 6, 7), np.linspace(-1.8, 1.8, 15)[:, None]
    process = GaussianProcess(functional.score.mean, functional.score.kernel, functional.hyper.noise_std)
    functions = functional.condition_many(tasks, 0).predict([x] * 4)
    batch = functional.standardizer.apply(tasks).padded()
    query = jnp.asarray(functional.standardizer.scale_x(x), jnp.float32)
    mean, variance = jax.vmap(lambda *task: process.predict_marginals(process.condition(*task), query))(*batch)
    mean, std = np.asarray(mean), np.sqrt(np.asarray(variance))
    scaler = functional.standardizer
    gaps = np.stack([scaler.scale_y(p.mean) for p in functions]) - mean
    spread = np.stack([p.functions.std(0) for p in functions]) / scaler.y_std
    # In units of the exact posterior's deviation; 20 independent draws would have a mean that is off by 1 / sqrt(20).
    assert np.sqrt(np.sum(gaps**2) / np.sum(std**2)) < 2 / np.sqrt(20)
    assert 0.5 < np.mean(spread) / np.mean(std) < 1.5


def test_the_posterior_tightens_with_more_context(functional):
    task, x = gp_tasks(1, 6, 8)[0], np.linspace(-1.8, 1.8, 15)[:, None]
    contexts = sp.TaskSet([task.take(slice(size)) for size in (0, 2, 4, 6)], allow_empty=True)
    widths = [p.std.mean() for p in functional.condition_many(contexts, 1).predict([x] * 4)]
    assert (np.diff(widths) < 0).all()


@pytest.mark.slow
def test_variational_inference_moves_from_the_prior_to_the_data():
    inference = FVIConfig(steps=200, learning_rate=2e-2, samples=8, particles=10, measurement_points=6)
    prior = FunctionalVI(bnn=SMALL, inference=inference).fit(gp_tasks(16, 8, 9), 0, progress=False)
    tasks = gp_tasks(40, 6, 10)
    predictives = prior.condition_many(tasks, 0).predict([task.x for task in tasks])
    error = np.sqrt(np.mean([(p.mean - task.y) ** 2 for p, task in zip(predictives, tasks)]))
    # The process's standard deviation is 1, which is what predicting its mean would cost; its noise is 0.1.
    assert error < 0.35


@pytest.mark.parametrize("name", QUICK)
def test_a_new_rate_compiles_nothing(name):
    learner, tasks = QUICK[name], gp_tasks(4, 6, 11)
    learner.fit(tasks, 0, progress=False).condition_many(tasks, 0)
    before = _batches.infer_many._cached._cache_size()
    other = replace(learner, inference=replace(learner.inference, learning_rate=0.123), noise_std=0.2)
    first, second = (one.fit(tasks, 0, progress=False).condition_many(tasks, 0) for one in (learner, other))
    assert _batches.infer_many._cached._cache_size() == before
    assert (first.predict([[0.0]] * 4)[0].mean != second.predict([[0.0]] * 4)[0].mean).all()


def test_the_noise_of_tasks_that_cannot_be_split_is_a_tenth():
    single = sp.TaskSet([sp.Task([[float(i)]], [float(i % 2)]) for i in range(3)])
    assert float(VanillaBNN(SMALL).fit(single, 0, progress=False).hyper.noise_std) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("config", "bad"),
    [
        (VanillaBNN, {"noises": ()}),
        (VanillaBNN, {"noise_std": 0.0}),
        (FunctionalBNN, {"level": 0.0}),
        (FunctionalVI, {"noise_std": -1.0}),
        (GPPriorConfig, {"order": 2.0}),
        (GPPriorConfig, {"most_points": 0}),
        (SVGDConfig, {"steps": 0}),
        (SVGDConfig, {"prior_std": 0.0}),
        (SVGDConfig, {"final_rate": -0.1}),
    ],
)
def test_settings_that_cannot_work_are_refused(config, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        config(**bad)
