"""The sinusoids and their oracle: closed-form moments, importance sampling, calibration, known figures."""

import numpy as np
import pytest
from scipy import stats

from scoreprior.environments import environment
from scoreprior.environments.sinusoid import sinusoid, sinusoid_oracle
from scoreprior.predictive import Predictive
from scoreprior.tasks import Task
from scoreprior.tasks.checks import TaskError

EMPTY = Task(np.zeros((0, 1)), np.zeros(0))


@pytest.fixture(scope="module")
def env():
    return sinusoid()


@pytest.fixture(scope="module")
def predictives(env):
    return [env.oracle(c, t.x) for c, t in zip(env.meta_test.context, env.meta_test.target)]


def _nll(predictives, env, change=lambda p: p):
    return np.array([-change(p).log_prob(t.y).mean() for p, t in zip(predictives, env.meta_test.target)])


def test_sizes_and_ranges(env):
    assert (env.name, env.split, env.meta_train.dim) == ("sinusoid", 0, 1)
    assert list(env.meta_train.sizes) == [8] * 20
    for part, n in ((env.meta_valid, 50), (env.meta_test, 100)):
        assert list(part.context.sizes) == [8] * n
        assert list(part.target.sizes) == [100] * n
    assert np.abs(env.meta_test.target.x).max() <= 5
    assert "20 training tasks of 8 points" in str(env.card)


def test_split_decides_everything_and_sizes_do_not_change_a_task(env):
    again, other = environment("sinusoid", split=0), environment("sinusoid", split=1)
    np.testing.assert_array_equal(again.meta_test.target.y, env.meta_test.target.y)
    assert not np.isin(other.meta_test.target.y, env.meta_test.target.y).any()
    small = sinusoid(tasks=5, n_test=3)
    np.testing.assert_array_equal(small.meta_train[4].y, env.meta_train[4].y)
    np.testing.assert_array_equal(small.meta_test.target[2].y, env.meta_test.target[2].y)


def test_parts_share_no_point(env):
    parts = [env.meta_train, env.meta_valid.context, env.meta_valid.target]
    parts += [env.meta_test.context, env.meta_test.target]
    values = np.concatenate([part.x[:, 0] for part in parts])
    assert len(np.unique(values)) == len(values)


def _prior_moments(x):
    """Mean and variance of y without data: independent parameters, E exp(itb) = exp(-t^2 0.1^2 / 2)."""
    wave = np.sin(1.5 * x) * np.exp(-0.5 * (1.5 * 0.1) ** 2)
    square = 0.5 * (1 - np.cos(3 * x) * np.exp(-0.5 * (3 * 0.1) ** 2))
    amplitude_square = 1 + 0.6**2 / 12
    variance = 0.1**2 + (0.2 * x) ** 2 + amplitude_square * square - wave**2 + 0.1**2
    return 5 + 0.5 * x + wave, variance


def test_tasks_have_the_prior_moments():
    env = sinusoid(tasks=4000, points=1, n_valid=1, n_test=1)
    mean, variance = _prior_moments(env.meta_train.x[:, 0])
    z = (env.meta_train.y - mean) / np.sqrt(variance)
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
    assert abs((z**2).mean() - 1) < 4 * (z**2).std() / np.sqrt(len(z))


def test_oracle_without_data_has_the_prior_moments():
    x = np.linspace(-5, 5, 101)
    predictive = sinusoid_oracle(EMPTY, x)
    mean, variance = _prior_moments(x)
    np.testing.assert_allclose(predictive.mean, mean, atol=5e-3 * np.sqrt(variance).min())
    np.testing.assert_allclose(predictive.std, np.sqrt(variance), rtol=5e-3)


def test_oracle_agrees_with_importance_sampling(env):
    """All four parameters drawn from the prior and weighted by the likelihood of three points."""
    context, query = env.meta_test.context[1].take(slice(3)), np.array([-4.0, -1.0, 0.5, 3.0])
    rng, n = np.random.default_rng(0), 400_000
    a, b = rng.uniform(0.7, 1.3, n), rng.normal(0, 0.1, n)
    c, beta = rng.normal(5, 0.1, n), rng.normal(0.5, 0.2, n)

    def function(x):
        return beta * x + a * np.sin(1.5 * (x - b)) + c

    log_weights = sum(-0.5 * ((y - function(x)) / 0.1) ** 2 for x, y in zip(context.x[:, 0], context.y))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 5000  # effective sample size
    predictive = sinusoid_oracle(context, query)

    def check(values, answer, slack):
        estimate = weights @ values
        error = np.sqrt((weights**2) @ (values - estimate) ** 2)
        assert abs(answer - estimate) < 4 * error + slack

    for i, x in enumerate(query):
        f = function(x)
        check(f, predictive.mean[i], 5e-3 * predictive.std[i])
        for level in (0.05, 0.3, 0.7, 0.95):
            threshold = predictive.quantile(level)[i]
            check(stats.norm.cdf((threshold - f) / 0.1), level, 2e-3)


def test_components_and_cells_are_fine_enough(env, predictives):
    """Against 16 times the components and 4 times the cells each way."""
    for i in range(3):
        fine = sinusoid_oracle(env.meta_test.context[i], env.meta_test.target[i].x, components=8192, cells=(2400, 512))
        assert np.abs((predictives[i].mean - fine.mean) / fine.std).max() < 5e-3
        assert np.abs(predictives[i].std / fine.std - 1).max() < 1e-2
        y = env.meta_test.target[i].y
        assert abs(np.mean(predictives[i].log_prob(y) - fine.log_prob(y))) < 1e-3


def test_known_figures(env, predictives):
    """With 8 context points the Bayes-optimal predictor has RMSE 0.129 and NLL -0.61."""
    targets = env.meta_test.target
    rmse = np.array([np.sqrt(np.mean((p.mean - t.y) ** 2)) for p, t in zip(predictives, targets)])
    nll = _nll(predictives, env)
    assert abs(rmse.mean() - 0.129) < 2 * rmse.std() / np.sqrt(len(rmse))
    assert abs(nll.mean() + 0.61) < 2 * nll.std() / np.sqrt(len(nll))


def test_many_points_leave_only_the_noise():
    context = sinusoid(tasks=1, points=200, n_valid=1, n_test=1).meta_train[0]
    predictive = sinusoid_oracle(context, np.linspace(-5, 5, 50))
    assert (predictive.std > 0.1).all()
    assert (predictive.std < 0.105).all()


def test_probability_integral_transform_is_uniform():
    env = sinusoid(1, n_test=300, n_target=1)  # one target per task: points of one task are dependent
    pairs = zip(env.meta_test.context, env.meta_test.target)
    pit = np.array([env.oracle(context, target.x).cdf(target.y)[0] for context, target in pairs])
    assert stats.kstest(pit, "uniform").pvalue > 0.05


@pytest.mark.parametrize(
    "change",
    [
        lambda p: Predictive(p.locs + 0.05, p.scales),
        lambda p: Predictive(p.mean + 1.4 * (p.locs - p.mean), 1.4 * p.scales),
        lambda p: Predictive(p.mean + (p.locs - p.mean) / 1.4, p.scales / 1.4),
    ],
    ids=["shifted", "wider", "narrower"],
)
def test_perturbed_oracles_are_worse(env, predictives, change):
    gain = _nll(predictives, env, change) - _nll(predictives, env)
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def test_contexts_with_other_inputs_are_refused():
    with pytest.raises(TaskError, match="2 input columns"):
        sinusoid_oracle(Task(np.zeros((3, 2)), np.zeros(3)), np.zeros(2))
