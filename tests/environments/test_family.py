"""Dose-response, sawtooth, change-point: their oracles against closed forms, importance sampling and fine grids."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import scoreprior as sp
from scoreprior.environments import environment
from scoreprior.environments.change_point import CHANGE_POINT
from scoreprior.environments.dose_response import DOSE_RESPONSE
from scoreprior.environments.sawtooth import SAWTOOTH
from scoreprior.predictive import Predictive
from scoreprior.tasks import Task

EMPTY = Task(np.zeros((0, 1)), np.zeros(0))
FAMILIES = {family.name: family for family in (DOSE_RESPONSE, SAWTOOTH, CHANGE_POINT)}
each = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def dose_response(rng, x, n):
    """n functions of the prior at x (k,), written down again from the card."""
    slope, centre = np.exp(rng.uniform(np.log(2), np.log(10), (n, 1))), rng.uniform(-2.5, 2.5, (n, 1))
    lower, upper = rng.normal(0, 0.02, (n, 1)), rng.normal(1, 0.3, (n, 1))
    return lower + (upper - lower) / (1 + np.exp(-slope * (x - centre)))


def sawtooth(rng, x, n):
    return 2 * np.mod(rng.uniform(0.1, 0.3, (n, 1)) * x + rng.uniform(size=(n, 1)), 1) - 1


def change_point(rng, x, n):
    before, after = rng.normal(0, 0.5, (2, n, 1))
    return np.where(x < rng.uniform(-5, 5, (n, 1)), before, after)


WRITTEN_AGAIN = {"dose-response": dose_response, "sawtooth": sawtooth, "change-point": change_point}


@pytest.fixture(scope="module")
def predicted():
    """By name: an environment with 60 test tasks, and the oracle's predictives of them; made once."""
    made = {}

    def of(family):
        if family.name not in made:
            env = family.environment(tasks=1, n_valid=1, n_test=60)
            made[family.name] = env, predict(env)
        return made[family.name]

    return of


def nll(predictives, env):
    return np.array([-p.log_prob(t.y).mean() for p, t in zip(predictives, env.meta_test.target)])


def predict(env):
    return [env.oracle(c, t.x) for c, t in zip(env.meta_test.context, env.meta_test.target)]


@each
def test_sizes_determinism_and_nested_tasks(family):
    env, few, other = (environment(family.name, **options) for options in ({}, {"tasks": 100}, {"split": 1}))
    assert (env.name, env.split, env.oracle) == (family.name, 0, family)
    assert list(env.meta_train.sizes) == [20] * 1000
    for pairs in (env.meta_valid, env.meta_test):
        assert list(pairs.context.sizes) == [8] * 100
        assert list(pairs.target.sizes) == [50] * 100
    assert len(few.meta_train) == 100
    np.testing.assert_array_equal(few.meta_train.y, env.meta_train.y[: 100 * 20])
    np.testing.assert_array_equal(few.meta_train.x, env.meta_train.x[: 100 * 20])
    np.testing.assert_array_equal(few.meta_test.target.y, env.meta_test.target.y)
    assert not np.isin(other.meta_train.y, env.meta_train.y).any()
    pairs = (env.meta_valid, env.meta_test)
    parts = [env.meta_train, *(part for pair in pairs for part in (pair.context, pair.target))]
    x = np.concatenate([part.x[:, 0] for part in parts])
    assert len(np.unique(x)) == len(x)
    assert x.min() > family.x_range[0]
    assert x.max() < family.x_range[1]
    assert "1000 training tasks of 20 points" in str(env.card)


@each
def test_functions_are_those_of_the_card(family):
    x = np.linspace(*family.x_range, 5) * 0.9
    ours = family.functions(np.random.default_rng(0), x, 20_000)
    again = WRITTEN_AGAIN[family.name](np.random.default_rng(1), x, 20_000)
    assert ours.shape == again.shape
    directions = np.random.default_rng(2).normal(size=(6, 5))
    pvalues = [stats.ks_2samp(ours @ direction, again @ direction).pvalue for direction in directions]
    assert min(pvalues) > 0.05 / len(pvalues)  # one test of six, at the level 0.05


@each
def test_tasks_are_functions_with_noise(family):
    tasks = [family.draw(np.random.default_rng(i), 400) for i in range(20)]
    # Neighbours of 400 points differ by the noise, and by the function only where it is steep or jumps.
    differences = np.concatenate([np.diff(y[np.argsort(x)]) for x, y in tasks])
    spread = stats.median_abs_deviation(differences, scale="normal") / np.sqrt(2)
    assert spread == pytest.approx(family.noise_std, rel=0.06)


@each
@pytest.mark.parametrize("m", [0, 2])
def test_oracle_agrees_with_importance_sampling(family, m):
    """Functions drawn from the prior as the card has it and weighted by the likelihood of a context."""
    context = family.environment(tasks=1, n_test=2, n_valid=1).meta_test.context[1].take(slice(m))
    query = np.linspace(*family.x_range, 4) * 0.8
    n = 20_000 if m == 0 else 900_000
    f = WRITTEN_AGAIN[family.name](np.random.default_rng(0), np.concatenate([context.x[:, 0], query]), n)
    log_weights = -0.5 * (((context.y - f[:, :m]) / family.noise_std) ** 2).sum(1)
    weights = np.exp(log_weights - logsumexp(log_weights))
    f, weights = f[weights > 1e-12], weights[weights > 1e-12]
    assert 1 / (weights**2).sum() > 1000  # effective sample size
    predictive = family(context, query)

    def check(values, answer, slack):
        estimate = weights @ values
        error = np.sqrt((weights**2) @ (values - estimate) ** 2)
        assert abs(answer - estimate) < 4 * error + slack

    for i in range(len(query)):
        check(f[:, m + i], predictive.mean[i], 5e-3 * predictive.std[i])
        for level in (0.05, 0.3, 0.7, 0.95):
            below = stats.norm.cdf((predictive.quantile(level)[i] - f[:, m + i]) / family.noise_std)
            check(below, level, 2e-3)


@each
@pytest.mark.slow
def test_nodes_components_and_cells_are_fine_enough(family, predicted):
    """Against 4 times the nodes, none merged, and twice the cells each way: errors are well below the noise."""

    def finer(inputs):
        return tuple(np.interp(np.arange(2 * len(e) - 1) / 2, np.arange(len(e)), e) for e in family.edges(inputs))

    fine = replace(family, edges=finer, nodes=4 * family.nodes, components=4 * family.nodes)
    env, predictives = predicted(family)
    gaps = []
    for i, (context, target) in enumerate(zip(env.meta_test.context[:3], env.meta_test.target)):
        ours, exact = predictives[i], fine(context, target.x)
        assert np.abs(ours.mean - exact.mean).max() < 0.1 * family.noise_std
        assert np.abs(ours.std - exact.std).max() < 0.2 * family.noise_std
        assert np.abs(ours.cdf(target.y) - exact.cdf(target.y)).max() < 0.01
        gaps.append(np.mean(ours.log_prob(target.y) - exact.log_prob(target.y)))
    assert abs(np.mean(gaps)) < 1e-3


def test_change_point_is_the_sum_over_the_gaps_between_context_points():
    """The predictive density with every weight in closed form: 9 gaps, two sides of the query in its own."""
    fine = replace(CHANGE_POINT, nodes=2**15, components=2**15)
    env = CHANGE_POINT.environment(tasks=1, n_valid=1, n_test=4)
    for context, target in zip(env.meta_test.context, env.meta_test.target):
        x, y = context.x[:, 0], context.y
        for at, value in zip(target.x[:8, 0], target.y[:8]):
            edges = np.sort([-5.0, *x, at, 5.0])
            places, log_widths = 0.5 * (edges[1:] + edges[:-1]), np.log(np.diff(edges))

            def log_joint(points, values, places=places, log_widths=log_widths):
                """log p(values) with the levels integrated out, for a step in each of the gaps, and all in all."""
                side = points[None] >= places[:, None]
                cov = 0.25 * (side[:, :, None] == side[:, None]) + 0.05**2 * np.eye(len(points))
                normal = stats.multivariate_normal
                return logsumexp([normal(cov=c).logpdf(values) + w for c, w in zip(cov, log_widths)])

            exact = log_joint(np.append(x, at), np.append(y, value)) - log_joint(x, y)
            ours = fine(context, [at]).log_prob([value])[0]
            assert ours == pytest.approx(exact, abs=0.02)


def check_uniform(pit):
    assert stats.kstest(pit, "uniform").pvalue > 0.05
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert abs((pit < level).mean() - level) < 3 * np.sqrt(level * (1 - level) / len(pit))


@each
def test_probability_integral_transform_is_uniform(family, predicted):
    env, predictives = predicted(family)
    # One point of each task: points of one task depend on each other.
    check_uniform(np.array([p.cdf(t.y)[0] for p, t in zip(predictives, env.meta_test.target)]))


@pytest.mark.slow
@each
def test_probability_integral_transform_of_many_tasks_is_uniform(family):
    env = family.environment(split=7, tasks=1, n_valid=1, n_test=1000, n_target=1)
    check_uniform(np.array([p.cdf(t.y)[0] for p, t in zip(predict(env), env.meta_test.target)]))


@each
@pytest.mark.parametrize(
    ("shift", "factor"), [(0.5, 1.0), (0.0, 1.4), (0.0, 1 / 1.4)], ids=["shifted", "wider", "narrower"]
)
def test_perturbed_oracles_are_worse(family, shift, factor, predicted):
    env, predictives = predicted(family)
    changed = [Predictive(p.locs + shift * family.noise_std, factor * p.scales) for p in predictives]
    gain = nll(changed, env) - nll(predictives, env)
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


@each
def test_many_points_leave_only_the_noise(family):
    context = Task(*family.draw(np.random.default_rng(3), 80))
    predictive = family(context, np.linspace(*family.x_range, 60))
    assert (predictive.std > 0.999 * family.noise_std).all()
    assert np.median(predictive.std) < 1.1 * family.noise_std


def test_sawtooth_without_data_is_uniform_everywhere():
    """With a uniform phase f(x) is uniform on [-1, 1] at every x: the nodes must not follow the wave."""
    predictive = SAWTOOTH(EMPTY, np.linspace(-5, 5, 201))
    np.testing.assert_allclose(predictive.mean, 0, atol=0.01)
    np.testing.assert_allclose(predictive.std, np.sqrt(1 / 3 + 0.1**2), rtol=5e-3)
    z = np.linspace(-14, 14, 2801)  # P(f + noise < y) = E[F(y - noise)]
    weights = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    for y in (-1.05, -0.9, -0.5, 0.0, 0.4, 0.95, 1.05):
        exact = weights @ np.clip(0.5 * (y - 0.1 * z + 1), 0, 1)
        np.testing.assert_allclose(predictive.cdf(np.full(201, y)), exact, atol=4e-3)


def test_two_context_points_may_share_an_x():
    predictive = CHANGE_POINT(Task([0.0, 0.0, 1.0], [0.5, 0.45, -0.5]), [-1.0, 2.0])
    assert predictive.mean[0] > 0.3
    assert predictive.mean[1] < -0.3


@pytest.mark.slow
@each
def test_oracle_beats_the_hierarchical_process(family):
    env = environment(family.name, tasks=100)
    frame = sp.evaluate(sp.learner("hierarchical-gp"), env, key=0)
    gain = frame.nll.to_numpy() - nll(predict(env), env)
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def test_unknown_options_are_refused_with_those_there_are():
    with pytest.raises(ValueError, match="sawtooth has no option 'task'; its options are tasks, points"):
        environment("sawtooth", task=3)
    with pytest.raises(ValueError, match="The environment berkeley has no option 'tasks'; it has none"):
        environment("berkeley", tasks=3)
    assert len(environment("sinusoid", tasks=3).meta_train) == 3


@pytest.mark.parametrize("tasks", [0, -1, 2.5, True, "many"])
def test_a_number_of_tasks_is_a_positive_whole_number(tasks):
    with pytest.raises(ValueError, match="a whole number of at least 1, not"):
        environment("change-point", tasks=tasks)
