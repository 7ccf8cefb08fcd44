"""Process environments and their oracle against scikit-learn, closed forms and brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from tinygp.kernels import ExpSquared

from scoreprior.environments import environment
from scoreprior.environments.processes import ProcessOracle, gp_sinusoid, sinusoidal_mean, student_t_sinusoid
from scoreprior.predictive import Predictive
from scoreprior.scores.exact import GaussianProcessScore, StudentTProcessScore
from scoreprior.tasks import Task

EMPTY = Task(np.zeros((0, 1)), np.zeros(0))
NAMES = {"gp-sinusoid": gp_sinusoid, "student-t-sinusoid": student_t_sinusoid}
both = pytest.mark.parametrize("name", NAMES)


def _mean(x):
    return 2 * x + 5 * np.sin(2 * x)


def _gram(x1, x2):
    return np.exp(-0.5 * (x1[:, None] - x2[None]) ** 2)


def _predict(oracle, env):
    return [oracle(c, t.x) for c, t in zip(env.meta_test.context, env.meta_test.target)]


def _nll(predictives, env):
    return np.array([-p.log_prob(t.y).mean() for p, t in zip(predictives, env.meta_test.target)])


@both
def test_sizes_determinism_and_disjointness(name):
    env, again, other = environment(name), environment(name, split=0), environment(name, split=1)
    assert (env.name, env.split) == (name, 0)
    assert list(env.meta_train.sizes) == [8] * 20
    assert list(env.meta_test.context.sizes) == [8] * 100
    assert list(env.meta_test.target.sizes) == [100] * 100
    assert len(env.meta_valid) == 50
    np.testing.assert_array_equal(again.meta_test.target.y, env.meta_test.target.y)
    assert not np.isin(other.meta_train.y, env.meta_train.y).any()
    parts = [env.meta_train, env.meta_valid.context, env.meta_valid.target]
    parts += [env.meta_test.context, env.meta_test.target]
    values = np.concatenate([part.x[:, 0] for part in parts])
    assert len(np.unique(values)) == len(values)
    assert np.abs(values).max() <= 5
    small = NAMES[name](tasks=3, n_test=2)
    np.testing.assert_array_equal(small.meta_train[2].y, env.meta_train[2].y)


@both
def test_pairs_of_points_have_the_stated_covariance(name):
    env = NAMES[name](tasks=4000, points=2, n_valid=1, n_test=1)
    x, y = env.meta_train.x.reshape(-1, 2), env.meta_train.y.reshape(-1, 2)
    residual = y - _mean(x)
    square_gap = residual**2 - 1.01
    cross_gap = residual.prod(1) - np.exp(-0.5 * (x[:, 0] - x[:, 1]) ** 2)
    for gap in (residual, square_gap, cross_gap):
        assert (np.abs(gap.mean(0)) < 4 * gap.std(0) / np.sqrt(len(gap))).all()


def test_student_t_tasks_have_student_t_marginals():
    env = student_t_sinusoid(tasks=3000, points=1, n_valid=1, n_test=1, noise_std=1e-3)
    residual = env.meta_train.y - _mean(env.meta_train.x[:, 0])
    assert stats.kstest(residual / np.sqrt(3 / 5), stats.t(5).cdf).pvalue > 0.05
    assert stats.kstest(residual, stats.norm.cdf).pvalue < 1e-3


def test_gaussian_oracle_is_scikit_learns():
    env = gp_sinusoid()
    context, query = env.meta_test.context[0], np.linspace(-6, 6, 40)
    model = GaussianProcessRegressor(RBF(1.0), alpha=0.1**2, optimizer=None)
    model.fit(context.x, context.y - _mean(context.x[:, 0]))
    mean, std = model.predict(query[:, None], return_std=True)
    predictive = env.oracle(context, query)
    np.testing.assert_allclose(predictive.mean, mean + _mean(query), atol=1e-9)
    np.testing.assert_allclose(predictive.std, np.sqrt(std**2 + 0.1**2), rtol=1e-9)
    prior = env.oracle(EMPTY, query)
    np.testing.assert_allclose(prior.mean, _mean(query))
    np.testing.assert_allclose(prior.std, np.sqrt(1.01))


def test_student_t_oracle_with_little_noise_is_the_closed_form():
    """Without noise the predictive is Student-t with df + m degrees of freedom (Shah et al., 2014)."""
    df, x = 5.0, np.array([-2.0, 0.0, 1.5])
    y = _mean(x) + np.array([1.0, -2.5, 0.5])
    query = np.array([-3.0, -1.0, 0.7, 4.0])
    solve = np.linalg.solve(_gram(x, x), y - _mean(x))
    cross = _gram(x, query)
    loc = _mean(query) + cross.T @ solve
    delta = (y - _mean(x)) @ solve
    variance = (df - 2 + delta) / (df + 1) * (1 - (cross * np.linalg.solve(_gram(x, x), cross)).sum(0))
    exact = stats.t(df + 3, loc, np.sqrt(variance * (df + 1) / (df + 3)))
    predictive = ProcessOracle(1e-3, df)(Task(x, y), query)
    np.testing.assert_allclose(predictive.mean, loc, atol=1e-4)
    np.testing.assert_allclose(predictive.std, np.sqrt(variance), rtol=1e-4)
    for level in (0.001, 0.05, 0.4, 0.75, 0.99):
        np.testing.assert_allclose(predictive.cdf(exact.ppf(level)), level, atol=2e-4)


def test_student_t_oracle_without_data_is_student_t():
    predictive, exact = ProcessOracle(1e-3, 5.0)(EMPTY, np.array([0.3])), stats.t(5, 0, np.sqrt(3 / 5))
    np.testing.assert_allclose(predictive.std, np.sqrt(1 + 1e-6), rtol=1e-4)
    for level in (0.001, 0.05, 0.4, 0.75, 0.99):
        np.testing.assert_allclose(predictive.cdf(exact.ppf(level) + _mean(0.3)), level, atol=2e-4)


def test_student_t_oracle_agrees_with_brute_force():
    """r and f at context and query drawn from the prior, weighted by the likelihood of two noisy points."""
    x, query, noise, df = np.array([-1.0, 0.5]), np.array([0.0, 1.2]), 0.3, 4.0
    y = _mean(x) + np.array([1.5, -0.7])
    rng, n = np.random.default_rng(0), 100_000
    points = np.concatenate([x, query])
    r = stats.invgamma(df / 2, scale=(df - 2) / 2).rvs(n, random_state=rng)
    normal = rng.multivariate_normal(np.zeros(4), _gram(points, points), n, method="eigh")
    f = _mean(points) + np.sqrt(r)[:, None] * normal
    weights = np.exp(-0.5 * (((y - f[:, :2]) / noise) ** 2).sum(1))
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 2000  # effective sample size
    predictive = ProcessOracle(noise, df)(Task(x, y), query)
    for i in range(2):
        for level in (0.02, 0.2, 0.5, 0.8, 0.98):
            below = stats.norm.cdf((predictive.quantile(level)[i] - f[:, 2 + i]) / noise)
            estimate = weights @ below
            assert abs(level - estimate) < 4 * np.sqrt(weights**2 @ (below - estimate) ** 2) + 2e-4


def test_student_t_oracle_becomes_gaussian_with_many_degrees_of_freedom():
    env = gp_sinusoid(n_test=3)
    for context, target in zip(env.meta_test.context, env.meta_test.target):
        gaussian, student = env.oracle(context, target.x), ProcessOracle(0.1, 5000.0)(context, target.x)
        np.testing.assert_allclose(student.mean, gaussian.mean, atol=2e-3)
        np.testing.assert_allclose(student.std, gaussian.std, rtol=1e-2)


@both
def test_oracle_is_the_conditional_of_the_exact_density(name):
    """log p(y_q | D) = log p(y_q, D) - log p(D) with the densities of `scores.exact`."""
    env = NAMES[name](n_test=5, n_target=4)
    with jax.enable_x64(True):
        kernel = ExpSquared(1.0)
        process = (
            GaussianProcessScore(sinusoidal_mean, kernel)
            if name == "gp-sinusoid"
            else StudentTProcessScore(sinusoidal_mean, kernel, 5.0)
        )
        jitted = eqx.filter_jit(process.log_prob)

        def log_prob(y, x):
            return jitted(jnp.asarray(y), jnp.asarray(x), 0.1)

        for context, target in zip(env.meta_test.context, env.meta_test.target):
            given = log_prob(context.y, context.x)
            joint = [log_prob([*context.y, y], [*context.x, x]) for x, y in zip(target.x, target.y)]
            expected = np.array(joint) - float(given)
            # The densities have a jitter of 1e-5 beside the noise variance of 1e-2; the oracle has none.
            np.testing.assert_allclose(env.oracle(context, target.x).log_prob(target.y), expected, atol=5e-3)


@both
def test_probability_integral_transform_is_uniform(name):
    env = NAMES[name](n_test=600, n_target=1)
    pit = np.array([p.cdf(t.y)[0] for p, t in zip(_predict(env.oracle, env), env.meta_test.target)])
    assert stats.kstest(pit, "uniform").pvalue > 0.05


@both
@pytest.mark.parametrize(
    "change",
    [
        lambda p: Predictive(p.locs + 0.1, p.scales),
        lambda p: Predictive(p.mean + 1.4 * (p.locs - p.mean), 1.4 * p.scales),
        lambda p: Predictive(p.mean + (p.locs - p.mean) / 1.4, p.scales / 1.4),
    ],
    ids=["shifted", "wider", "narrower"],
)
def test_perturbed_oracles_are_worse(name, change):
    env = NAMES[name](n_test=150, n_target=20)
    predictives = _predict(env.oracle, env)
    gain = _nll([change(p) for p in predictives], env) - _nll(predictives, env)
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def test_each_oracle_wins_on_its_own_process():
    gaussian, student = ProcessOracle(0.1), ProcessOracle(0.1, 3.0)
    for env, right, wrong in (
        (gp_sinusoid(n_test=300, n_target=10), gaussian, student),
        (student_t_sinusoid(n_test=300, n_target=10, df=3.0), student, gaussian),
    ):
        assert env.oracle == right
        gain = _nll(_predict(wrong, env), env) - _nll(_predict(right, env), env)
        assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def test_mean_is_the_same_in_numpy_and_jax():
    x = np.linspace(-5, 5, 11)[:, None]
    np.testing.assert_allclose(jax.jit(sinusoidal_mean)(jnp.asarray(x)), sinusoidal_mean(x), atol=1e-5)
    assert sinusoidal_mean(x).dtype == np.float64


def test_impossible_parameters_are_refused():
    with pytest.raises(ValueError, match="more than 2"):
        student_t_sinusoid(df=2.0)
    with pytest.raises(ValueError, match="positive"):
        gp_sinusoid(noise_std=0.0)
