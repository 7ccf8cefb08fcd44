"""Known noise, replicate counts and weights of tasks: against scikit-learn, and by what they must not change."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.gaussian_process.kernels import Matern as SklearnMatern

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ProcessConfig, ZeroMean
from scoreprior.gp.evidence import _loss
from scoreprior.gp.model import PooledTasks, leave_one_out, new_task_process, start
from scoreprior.inference import ClosedForm
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.tasks import PointNoise

RNG = np.random.default_rng(0)
STD, LENGTH, NOISE = 1.3, 0.7, 0.4
PROCESS = GaussianProcess(
    ZeroMean(), Matern(jnp.float32(STD), jnp.full(1, LENGTH, jnp.float32), 2.5), jnp.float32(NOISE)
)
X, Y, QUERY = RNG.uniform(-2, 2, (9, 1)), RNG.normal(size=9), np.linspace(-3, 3, 7)[:, None]
KNOWN = RNG.uniform(0, 1.5, 9)


def prior(scaler: sp.Standardizer | None = None) -> FunctionPrior:
    return FunctionPrior(scaler or sp.Standardizer(np.zeros(1), np.ones(1), 0.0, 1.0), ClosedForm(PROCESS))


def sklearn_process(variances) -> GaussianProcessRegressor:
    kernel = ConstantKernel(STD**2) * SklearnMatern(LENGTH, nu=2.5)
    return GaussianProcessRegressor(kernel, alpha=variances, optimizer=None)


def test_noise_is_that_of_scikit_learns_alpha():
    replicates = RNG.integers(1, 6, 9).astype(float)
    variances = NOISE**2 / replicates + KNOWN**2
    mean, std = sklearn_process(variances).fit(X, Y).predict(QUERY, return_std=True)
    found = prior().condition(X, Y, 0, noise=KNOWN, replicates=replicates).predict(QUERY)
    np.testing.assert_allclose(found.mean, mean, atol=2e-3)
    np.testing.assert_allclose(found.std, np.sqrt(std**2 + NOISE**2), atol=2e-3)
    noise = PointNoise(jnp.asarray(KNOWN**2), jnp.asarray(replicates))
    likelihood = PROCESS.log_likelihood(jnp.asarray(X), jnp.asarray(Y), jnp.ones(9, bool), noise)
    assert float(likelihood) == pytest.approx(sklearn_process(variances).fit(X, Y).log_marginal_likelihood(), abs=5e-3)


def test_noise_is_in_units_of_the_target():
    scaler = sp.Standardizer(np.zeros(1), np.ones(1), 50.0, 20.0)
    plain = prior().condition(X, Y, 0, noise=KNOWN).predict(QUERY)
    found = prior(scaler).condition(X, 50 + 20 * Y, 0, noise=20 * KNOWN).predict(QUERY)
    np.testing.assert_allclose(found.mean, 50 + 20 * plain.mean, rtol=1e-4)
    np.testing.assert_allclose(found.std, 20 * plain.std, rtol=1e-4)


def test_no_noise_is_no_column_and_the_mean_of_four_is_four_rows():
    plain = prior().condition(X, Y, 0).predict(QUERY)
    zeros = prior().condition(X, Y, 0, noise=np.zeros(9), replicates=np.ones(9)).predict(QUERY)
    np.testing.assert_allclose(zeros.mean, plain.mean, atol=1e-6)
    np.testing.assert_allclose(zeros.std, plain.std, atol=1e-6)
    counts = np.array([4, 1, 1, 2, 1, 1, 3, 1, 1])
    once = prior().condition(X, Y, 0, replicates=counts).predict(QUERY)
    each = prior().condition(np.repeat(X, counts, axis=0), np.repeat(Y, counts), 0).predict(QUERY)
    np.testing.assert_allclose(once.mean, each.mean, atol=2e-3)
    np.testing.assert_allclose(once.std, each.std, atol=2e-3)


def test_predictions_have_the_noise_of_the_rows_they_are_for():
    posteriors = prior().condition_many(sp.TaskSet([sp.Task(X, Y)]), 0)
    asked = sp.Task(QUERY, np.zeros(7), noise=np.full(7, 2.0), replicates=np.full(7, 4.0))
    plain, noisy = posteriors.predict([QUERY])[0], posteriors.predict([QUERY], rows=[asked])[0]
    np.testing.assert_allclose(noisy.mean, plain.mean)
    np.testing.assert_allclose(noisy.std**2, plain.std**2 - NOISE**2 + NOISE**2 / 4 + 4, rtol=1e-4)


def test_points_that_are_added_keep_the_noise_of_those_before():
    one = prior().condition(X[:5], Y[:5], 0, noise=KNOWN[:5]).update(X[5:], Y[5:], 0).predict(QUERY)
    noise = np.concatenate([KNOWN[:5], np.zeros(4)])
    np.testing.assert_allclose(one.mean, prior().condition(X, Y, 0, noise=noise).predict(QUERY).mean, atol=1e-5)


def tasks(number: int = 4) -> list[sp.Task]:
    rng = np.random.default_rng(1)
    return [
        sp.Task(rng.normal(size=(m, 1)), rng.normal(size=m), f"t{m}", noise=rng.uniform(0, 0.5, m))
        for m in range(3, 3 + number)
    ]


def pool(members: list[sp.Task], centres: np.ndarray) -> PooledTasks:
    return PooledTasks(sp.TaskSet(members).padded(dtype=np.float64), centres)


@pytest.mark.slow
def test_a_weight_of_two_is_the_task_given_twice():
    config, (first, *rest) = ProcessConfig().simple(), tasks()
    heavy = sp.Task(first.x, first.y, first.name, noise=first.noise, weight=2.0)
    centres = np.linspace(-2, 2, 3)[:, None]
    with jax.enable_x64(True):
        pools = [pool([first, first, *rest], centres), pool([heavy, *rest], centres)]
        settings = [start(jax.random.key(seed), 1, config) for seed in range(3)]
        twice, weighted = (np.array([float(_loss(each, one, config)) for each in settings]) for one in pools)
        np.testing.assert_allclose(np.diff(weighted), np.diff(twice), rtol=1e-8)  # but for a constant
        x = jnp.linspace(-3.0, 3.0, 5)[:, None]
        processes = [new_task_process(settings[0], one, config) for one in pools]
        np.testing.assert_allclose(processes[1].mean(x), processes[0].mean(x), rtol=1e-6)
        np.testing.assert_allclose(processes[1].kernel(x, x), processes[0].kernel(x, x), rtol=1e-6)


def test_a_task_without_noise_is_one_with_noise_zero_in_the_pool():
    config, centres = ProcessConfig().simple(), np.linspace(-2, 2, 3)[:, None]
    silent = [sp.Task(task.x, task.y, noise=np.zeros(len(task))) for task in tasks()]
    plain = [sp.Task(task.x, task.y) for task in tasks()]
    with jax.enable_x64(True):
        setting = start(jax.random.key(0), 1, config)
        one, other, noisy = (
            leave_one_out(setting, pool(each, centres), config)[1] for each in (silent, plain, tasks())
        )
    np.testing.assert_allclose(one, other)
    added = np.einsum("nmm->nm", noisy) - np.einsum("nmm->nm", other)
    for variances, task in zip(added, tasks()):
        assert (variances[: len(task)] >= 0.99 * task.noise**2).all()  # the shared mean is less certain, too


@pytest.mark.parametrize("method", ["last-value", "ridge", "mars-gp", "maml", "pacoh-gp"])
def test_methods_that_cannot_use_noise_or_weights_say_who_can(method):
    with pytest.raises(sp.TaskError, match="; pooled-gp, hierarchical-gp and vanilla-gp can"):
        sp.learner(method).fit(sp.TaskSet(tasks()), 0, progress=False)
    heavy = [sp.Task(task.x, task.y, weight=2.0) for task in tasks()]
    with pytest.raises(sp.TaskError, match="cannot use weights of tasks; pooled-gp and hierarchical-gp can"):
        sp.learner(method).fit(sp.TaskSet(heavy), 0, progress=False)


def test_vanilla_gp_uses_noise_but_learns_nothing_to_weigh():
    heavy = sp.TaskSet([sp.Task(task.x, task.y, weight=2.0) for task in tasks()])
    with pytest.raises(sp.TaskError, match="cannot use weights"):
        sp.learner("vanilla-gp").fit(heavy, 0)
    assert sp.learner("vanilla-gp").fit(sp.TaskSet(tasks()), 0).uses_noise


def test_a_prior_of_another_method_refuses_noise_in_new_tasks():
    plain = sp.TaskSet([sp.Task(task.x, task.y) for task in tasks()])
    learned = sp.learner("context-mean").fit(plain, 0)
    with pytest.raises(sp.TaskError, match="cannot use known noise"):
        learned.condition([[0.0]], [1.0], 0, noise=[0.1])


def test_known_noise_is_of_real_targets():
    positive = sp.TaskSet(tasks()).map(lambda t: replace_y(t, np.exp(t.y))).with_target(sp.Positive())
    with pytest.raises(sp.TaskError, match="Known noise is that of real targets"):
        sp.learner("pooled-gp").fit(positive, 0)


def replace_y(task: sp.Task, y: np.ndarray) -> sp.Task:
    return sp.Task(task.x, y, task.name, noise=task.noise)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"noise": [0.1, -0.1]}, "noise of t is -0.1 in row 1; it must be at least 0"),
        ({"noise": [0.1]}, "noise of t has shape"),
        ({"noise": [0.1, np.nan]}, "noise of t is nan in row 1"),
        ({"replicates": [1, 0]}, "replicates of t is 0 in row 1; it must be at least 1"),
        ({"weight": 0.0}, "weight of t is 0.0"),
    ],
)
def test_what_is_known_of_rows_is_checked(wrong, told):
    with pytest.raises(sp.TaskError, match=told):
        sp.Task([0.0, 1.0], [0.0, 1.0], "t", **wrong)


@pytest.mark.slow
def test_pooled_gp_learns_less_from_noisy_tasks_and_more_from_heavy_ones():
    rng = np.random.default_rng(2)
    level = np.repeat([0.0, 3.0], 10)
    members = [sp.Task(rng.normal(size=(6, 1)), value + 0.1 * rng.normal(size=6)) for value in level]
    heavy = [task if value else sp.Task(task.x, task.y, weight=5.0) for task, value in zip(members, level)]
    means = [
        sp.learner("pooled-gp").fit(sp.TaskSet(each), 0).condition([], [], 0).predict([[0.0]]).mean[0]
        for each in (members, heavy)
    ]
    assert means[1] < means[0] - 0.5
