"""Gaussian processes against scikit-learn and against the parameters that made the data."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.gp.kernels import (
    Basis,
    BasisMean,
    Linear,
    LinearMean,
    Matern,
    SpectralComponent,
    Sum,
    ZeroMean,
    squared_distances,
)
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference import ClosedForm
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.learners.gaussian_process import PooledGP, VanillaGP
from scoreprior.tasks import Standardizer
from scoreprior.tasks.padding import groups_by_size

KERNELS = {
    0.5: sk.Matern(nu=0.5, length_scale=[0.7, 2.0]),
    1.5: sk.Matern(nu=1.5, length_scale=[0.7, 2.0]),
    2.5: sk.Matern(nu=2.5, length_scale=[0.7, 2.0]),
    np.inf: sk.RBF(length_scale=[0.7, 2.0]),
}


@pytest.mark.parametrize("order", KERNELS)
def test_matern_equals_scikit_learn(order: float):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    ours = eqx.filter_jit(Matern(jnp.float32(1.0), jnp.array([0.7, 2.0]), order))
    # A floor under the square root keeps gradients finite; it costs 1e-5 at distance zero.
    np.testing.assert_allclose(ours(x.astype(np.float32), z.astype(np.float32)), KERNELS[order](x, z), atol=2e-5)


def test_derivatives_of_squared_distances_are_those_of_the_differences():
    """First and second ones in both arguments, at a point that is in both too, in single precision."""
    rng = np.random.default_rng(0)
    x, z = (jnp.asarray(50 * rng.normal(size=(n, 2)), jnp.float32) for n in (4, 3))
    z, weights = z.at[1].set(x[2]), jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)

    def plain(x, z):
        return jnp.sum((x[:, None] - z[None]) ** 2, axis=-1)

    for derivative in (jax.grad, jax.hessian):
        mine, expected = (
            jax.jit(derivative(lambda x, z, f=f: jnp.sum(weights * jnp.sin(f(x, z) / 1e4)), argnums=(0, 1)))(x, z)
            for f in (squared_distances, plain)
        )
        for ours, other in zip(jax.tree.leaves(mine), jax.tree.leaves(expected)):
            np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def test_every_kernel_is_positive_semidefinite_with_the_right_diagonal():
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.normal(size=(12, 2)), jnp.float32)
    one, lengths = jnp.float32(0.8), jnp.array([0.5, 1.5])
    smooth = Matern(one, lengths, 2.5)
    parts = (
        smooth,
        Linear(one, lengths),
        SpectralComponent(one, lengths, jnp.array([2.0, -1.0])),
        Basis(smooth, x[:3], jnp.asarray(rng.normal(size=(3, 2)), jnp.float32)),
    )
    kernels = (*parts, Sum(parts))
    for gram, diagonal in eqx.filter_jit(lambda kernels: [(each(x, x), each.diagonal(x)) for each in kernels])(kernels):
        gram = np.asarray(gram, np.float64)
        np.testing.assert_allclose(diagonal, np.diag(gram), rtol=1e-4)
        assert np.linalg.eigvalsh(gram).min() > -1e-4 * np.trace(gram)


def test_conditioning_equals_scikit_learn():
    rng = np.random.default_rng(2)
    x, y, query = rng.normal(size=(7, 2)), rng.normal(size=7), rng.normal(size=(5, 2))
    theirs = GaussianProcessRegressor(KERNELS[2.5], alpha=0.3**2, optimizer=None).fit(x, y)
    mean, covariance = theirs.predict(query, return_cov=True)
    process = GaussianProcess(ZeroMean(), Matern(jnp.float32(1.0), jnp.array([0.7, 2.0]), 2.5), jnp.float32(0.3))
    padded_x, padded_y = np.zeros((10, 2), np.float32), np.full(10, 9.0, np.float32)
    padded_x[:7], padded_y[:7] = x, y

    @jax.jit
    def ours(x, y, mask, query):
        state = process.condition(x, y, mask)
        variance = process.predict_marginals(state, query)[1]
        return *process.predict(state, query), variance, process.log_likelihood(x, y, mask)

    found = ours(padded_x, padded_y, np.arange(10) < 7, query.astype(np.float32))
    for value, expected in zip(found, (mean, covariance, np.diag(covariance))):
        np.testing.assert_allclose(value, expected, atol=1e-3)
    np.testing.assert_allclose(found[-1], theirs.log_marginal_likelihood_value_, rtol=1e-3)


def test_score_is_the_gradient_of_the_log_density():
    rng = np.random.default_rng(3)
    x, f = rng.normal(size=(6, 1)), rng.normal(size=6)
    process = GaussianProcess(
        LinearMean(jnp.float32(0.5), jnp.array([2.0])),
        Matern(jnp.float32(1.3), jnp.array([0.7]), 1.5),
        jnp.float32(0.1),
    )
    gram = 1.3**2 * sk.Matern(nu=1.5, length_scale=0.7)(x) + 0.2**2 * np.eye(6)
    expected = -np.linalg.solve(gram, f - 0.5 - 2 * x[:, 0])
    ours = eqx.filter_jit(process.score)(f.astype(np.float32), x.astype(np.float32), jnp.float32(0.2))
    np.testing.assert_allclose(ours, expected, rtol=5e-3, atol=5e-3)


def test_draws_have_the_posterior_mean_and_covariance():
    rng = np.random.default_rng(4)
    process = GaussianProcess(ZeroMean(), Matern(jnp.float32(1.0), jnp.array([1.0]), 2.5), jnp.float32(0.1))
    x = rng.normal(size=(4, 1)).astype(np.float32)
    y, query = rng.normal(size=4).astype(np.float32), np.linspace(-2, 2, 3, dtype=np.float32)[:, None]
    n = 20_000

    @jax.jit
    def draws_and_moments(key):
        state = process.condition(x, y, jnp.ones(4, bool))
        draws = jax.vmap(lambda one: process.sample(state, query, one))(jax.random.split(key, n))
        return draws, *process.predict(state, query)

    draws, mean, covariance = map(np.asarray, draws_and_moments(jax.random.key(0)))
    standard_error = np.sqrt(np.diag(covariance) / n)
    assert (np.abs(draws.mean(0) - mean) < 4 * standard_error + 1e-4).all()
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) * 2 / n)
    assert (np.abs(np.cov(draws.T) - covariance) < 4 * spread + 1e-4).all()


LIKELIEST = {"process.tuning_evaluations": 0}
"""Hyper-parameters at their maximum likelihood, as these tests are about it."""


def matern_tasks(n: int, m: int, seed: int) -> sp.TaskSet:
    """Tasks from a GP with mean 3 + 2x, std 1.5, lengthscale 0.8 and noise 0.3."""
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for _ in range(n):
        x = rng.uniform(-3, 3, (m, 1))
        gram = 1.5**2 * sk.Matern(nu=2.5, length_scale=0.8)(x) + 0.3**2 * np.eye(m)
        xs.append(x)
        ys.append(3 + 2 * x[:, 0] + np.linalg.cholesky(gram) @ rng.normal(size=m))
    return sp.TaskSet.from_arrays(xs, ys)


@pytest.mark.slow
def test_pooled_gp_recovers_the_parameters_that_made_the_tasks():
    tasks = matern_tasks(40, 15, 0)
    prior = sp.learner("pooled-gp", **LIKELIEST).fit(tasks, 0)
    scaler, process = prior.standardizer, prior.inference.process
    smooth = process.kernel.parts[0]
    # 600 points: log-parameters have standard errors of a few per cent; allow four of them.
    np.testing.assert_allclose(smooth.lengthscale * scaler.x_std, 0.8, rtol=0.2)
    np.testing.assert_allclose(smooth.std * scaler.y_std, 1.5, rtol=0.2)
    np.testing.assert_allclose(process.noise_std * scaler.y_std, 0.3, rtol=0.2)
    query = np.array([[-2.0], [0.0], [2.0]])
    mean = scaler.unscale_y(np.asarray(process.mean(scaler.scale_x(query).astype(np.float32))))
    np.testing.assert_allclose(mean, 3 + 2 * query[:, 0], atol=4 * 1.5 / np.sqrt(40))


@pytest.mark.slow
def test_pooled_gp_is_nearly_as_good_as_the_process_that_made_the_tasks():
    prior = sp.learner("pooled-gp", **LIKELIEST).fit(matern_tasks(40, 15, 0), 0)
    test = matern_tasks(60, 40, 1).context_target(6)
    ours, truth = [], []
    predictives = prior.condition_many(test.context, 0).predict([task.x for task in test.target])
    for predictive, context, target in zip(predictives, test.context, test.target):
        kernel = 1.5**2 * sk.Matern(nu=2.5, length_scale=0.8)
        exact = GaussianProcessRegressor(kernel, alpha=0.3**2, optimizer=None)
        exact.fit(context.x, context.y - 3 - 2 * context.x[:, 0])
        mean, std = exact.predict(target.x, return_std=True)
        truth.append(sp.Predictive(mean + 3 + 2 * target.x[:, 0], np.sqrt(std**2 + 0.3**2)).log_prob(target.y).mean())
        ours.append(predictive.log_prob(target.y).mean())
    gap = np.array(truth) - np.array(ours)
    assert gap.mean() < 0.05 + 2 * gap.std() / np.sqrt(len(gap))


@pytest.mark.slow
def test_hierarchical_gp_learns_a_shared_curve_that_the_pooled_gp_cannot():
    env = sp.environment("sinusoid")
    test = env.meta_test.take(range(30))
    errors = {}
    plain = {"process.tuning_evaluations": 0, "process.frequencies": 0}  # the shared mean alone makes the difference
    for name in ("pooled-gp", "hierarchical-gp"):
        prior = sp.learner(name, **plain).fit(env.meta_train, 0)
        predictives = prior.condition_many(test.context, 0).predict([task.x for task in test.target])
        errors[name] = np.array([np.sqrt(np.mean((p.mean - t.y) ** 2)) for p, t in zip(predictives, test.target)])
    gain = errors["pooled-gp"] - errors["hierarchical-gp"]
    assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))


@pytest.mark.slow
def test_many_tasks_are_fitted_on_a_subset_and_used_in_full():
    tasks = matern_tasks(60, 6, 2)
    config = ProcessConfig(deviation=("matern52",), evidence_tasks=20, centres=16, tuning_evaluations=0, frequencies=0)
    process = PooledGP(config).fit(tasks, 0).inference.process
    assert isinstance(process.mean, BasisMean)
    fewer = PooledGP(config).fit(tasks[:20], 0).inference.process
    # More tasks know the shared mean better.
    x = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
    assert process.kernel.parts[-1].diagonal(x).mean() < fewer.kernel.parts[-1].diagonal(x).mean()


@pytest.mark.slow
def test_long_tasks_are_fitted_on_some_of_their_points():
    plain = {"deviation": ("matern52",), "centres": 8, "tuning_evaluations": 0, "frequencies": 0, "starts": 2}
    tasks = matern_tasks(6, 40, 3)
    few, all_points, longer = (
        PooledGP(ProcessConfig(**plain, most_points=most)).fit(tasks, 0).inference.process for most in (20, 40, 41)
    )
    # The standard error of the logarithm of a standard deviation from n points is 1 / sqrt(2 n), here n = 6 * 20.
    difference = np.log(few.noise_std / all_points.noise_std)
    assert 0 < abs(difference) < 4 / np.sqrt(2 * 6 * 20)
    np.testing.assert_array_equal(longer.noise_std, all_points.noise_std)


class InChunks(ClosedForm):
    chunk = 1


def test_many_tasks_are_inferred_with_others_of_their_size():
    rng = np.random.default_rng(4)
    sizes = np.array([3, 30, 8, 12, *[5] * 9, 20, 9, *[16] * 12])
    contexts = sp.TaskSet([sp.Task(rng.uniform(-2, 2, size), rng.normal(size=size)) for size in sizes])
    assert [sizes[rows].tolist() for rows in groups_by_size(sizes, 10)] == [
        [3, 8, *[5] * 9],
        [12, 9, *[16] * 12],
        [30, 20],  # two are not worth a group of their own
    ]
    assert [len(rows) for rows in groups_by_size(sizes, 12)] == [25, 2]  # eleven small ones are too few by now
    assert len(groups_by_size(sizes, 100)) == len(groups_by_size(np.array([0]), 1)) == 1
    process = GaussianProcess(ZeroMean(), Matern(jnp.float32(1.0), jnp.ones(1), 2.5), jnp.float32(0.1))
    scaler = Standardizer.fit(contexts)
    together, apart = (FunctionPrior(scaler, kind(process)) for kind in (ClosedForm, InChunks))
    queries = [np.linspace(-3, 3, 2 + i % 4) for i in range(len(sizes))]
    whole, parts = together.condition_many(contexts, 0), apart.condition_many(contexts, 0)
    assert [len(each.groups) for each in (whole, parts)] == [1, 3]
    assert len(parts) == len(sizes)
    for i, (one, other) in enumerate(zip(whole.predict(queries), parts.predict(queries))):
        np.testing.assert_allclose(other.mean, one.mean, atol=1e-4)
        np.testing.assert_allclose(other.std, one.std, rtol=1e-3)
        if i in (0, 1):
            np.testing.assert_allclose(parts[i - len(sizes)].predict(queries[i]).mean, one.mean, atol=1e-4)


def test_vanilla_gp_finds_the_marginal_likelihood_of_scikit_learn():
    rng = np.random.default_rng(5)
    x = rng.uniform(-2, 2, (12, 1))
    train = sp.TaskSet.from_arrays([x, x], [np.sin(2 * x[:, 0]), np.sin(2 * x[:, 0]) + 1])
    prior = sp.learner("vanilla-gp", steps=1000).fit(train, 0)
    scaler = prior.standardizer
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=12)
    kernel = sk.ConstantKernel(1.0, (1e-4, 1e4)) * sk.RBF(1.0, (1e-2, 1e2)) + sk.WhiteKernel(0.09, (1e-4, 1e2))
    theirs = GaussianProcessRegressor(kernel, n_restarts_optimizer=5, random_state=0)
    theirs.fit(scaler.scale_x(x), scaler.scale_y(y))
    query = np.linspace(-2, 2, 9)[:, None]
    mean, std = theirs.predict(scaler.scale_x(query), return_std=True)
    ours = prior.condition(x, y, 0).predict(query)
    np.testing.assert_allclose(ours.mean, scaler.unscale_y(mean), atol=0.02)
    np.testing.assert_allclose(ours.std, std * scaler.y_std, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("order", [0.5, 2.5])
def test_the_pooled_process_is_as_rough_as_the_tasks(order: float):
    rng = np.random.default_rng(0)
    xs = [np.sort(rng.uniform(-3, 3, (12, 1)), axis=0) for _ in range(20)]
    kernel = sk.Matern(length_scale=1.0, nu=order)
    ys = [rng.multivariate_normal(np.zeros(12), kernel(x) + 1e-4 * np.eye(12)) for x in xs]
    prior = sp.learner("pooled-gp", **LIKELIEST).fit(sp.TaskSet.from_arrays(xs, ys), 0)
    assert prior.inference.process.kernel.parts[0].order == order


@pytest.mark.parametrize("bad", [{"steps": 0}, {"learning_rate": 0.0}])
def test_settings_of_the_vanilla_gp_that_cannot_work_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        VanillaGP(**bad)
