"""`Guarded`: against closed forms where the prior is exact, and on tasks of another family."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ZeroMean
from scoreprior.gp.broad import _GRID, condition_broad, draw_broad, predict_broad
from scoreprior.inference import ClosedForm
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.learners.guarded import FLAGGED, GuardedPrior, Tail, _fisher, _most_against, surprise_of
from scoreprior.predictive import NoDistributionError
from scoreprior.tasks import PaddedTasks, Standardizer

NOISE = 0.2


def exact(folds: int = 8) -> GuardedPrior:
    """A Gaussian process in its own units, and its guard."""
    process = GaussianProcess(ZeroMean(), Matern(jnp.asarray(1.0), jnp.asarray([1.0]), 2.5), jnp.asarray(NOISE))
    member = FunctionPrior(Standardizer(np.zeros(1), np.ones(1), 0.0, 1.0), ClosedForm(process))
    return sp.Guarded(folds=folds).guard(member, functions(4, 0))


def functions(n: int, seed: int, m: int = 10) -> sp.TaskSet:
    """Draws of that process."""
    rng, tasks = np.random.default_rng(seed), []
    for _ in range(n):
        x = rng.uniform(-3, 3, m)
        distance = np.sqrt(5) * np.abs(x[:, None] - x)
        gram = (1 + distance + distance**2 / 3) * np.exp(-distance) + NOISE**2 * np.eye(m)
        tasks.append(sp.Task(x[:, None], np.linalg.cholesky(gram) @ rng.normal(size=m)))
    return sp.TaskSet(tasks)


def others(n: int, seed: int, m: int = 10) -> sp.TaskSet:
    """Another family: far away, ten times as large, and rough."""
    rng, tasks = np.random.default_rng(seed), []
    for _ in range(n):
        x = rng.uniform(-3, 3, m)
        y = rng.normal(20, 5) + rng.uniform(5, 15) * np.sin(rng.uniform(0.5, 3) * x + rng.uniform(0, 6))
        tasks.append(sp.Task(x[:, None], y + rng.normal(size=m)))
    return sp.TaskSet(tasks)


def test_a_broad_posterior_is_the_average_over_the_grid_by_evidence():
    rng = np.random.default_rng(0)
    x, y, at = rng.normal(size=(5, 2)), 2 * rng.normal(size=5), rng.normal(size=(3, 2))
    padded = PaddedTasks(np.vstack([x, np.zeros((2, 2))]), np.append(y, [9.0, 9.0]), np.arange(7) < 5)
    found = predict_broad(condition_broad(jax.tree.map(jnp.asarray, padded)), jnp.asarray(at))
    size, both = np.sqrt(np.mean(y**2)), np.vstack([x, at])
    spread = np.sqrt((size**2 + np.sum((y - y.mean()) ** 2)) / 5)
    evidence, means, stds = [], [], []
    for signal, lengthscale, noise in _GRID * [spread, np.sqrt(2), 1.0]:
        r = np.sqrt(3) * np.linalg.norm(both[:, None] - both, axis=-1) / lengthscale
        full = signal**2 * (1 + r) * np.exp(-r) + (2 * size) ** 2 + (noise * signal) ** 2 * np.eye(8)
        evidence.append(scipy.stats.multivariate_normal.logpdf(y, np.zeros(5), full[:5, :5]))
        gain = np.linalg.solve(full[:5, :5], full[:5, 5:]).T
        means.append(gain @ y)
        stds.append(np.sqrt(np.diag(full[5:, 5:] - gain @ full[:5, 5:])))
    np.testing.assert_allclose(found.weights, scipy.special.softmax(evidence), rtol=0.02, atol=1e-3)  # single precision
    # Single precision regularises grams a little.
    np.testing.assert_allclose(found.locs, means, rtol=0.01, atol=0.03)
    np.testing.assert_allclose(found.scales, stds, rtol=0.01, atol=0.03)


@pytest.mark.slow
def test_broad_draws_have_the_predictive_mean_and_spread():
    task = PaddedTasks(jnp.asarray([[0.0], [1.0]]), jnp.asarray([5.0, 6.0]), jnp.ones(2, bool))
    posterior, x, n = condition_broad(task), jnp.asarray([[0.5], [4.0]]), 3000
    draw = eqx.filter_jit(jax.vmap(lambda key: draw_broad(posterior, x, key)))
    draws = np.asarray(draw(jax.random.split(jax.random.key(0), n)), np.float64)
    noise = np.sqrt(posterior.weights @ posterior.processes.noise_std**2)
    found = predict_broad(posterior, x)
    std = np.sqrt(found.weights @ (found.scales**2 + (found.locs - found.mean) ** 2) - noise**2)
    assert (np.abs(draws.mean(0) - found.mean) < 4 * std / np.sqrt(n)).all()
    # The variance of the sample variance, by the draws' own fourth moment.
    fourth = np.mean((draws - draws.mean(0)) ** 4, axis=0)
    assert (np.abs(draws.var(0) - std**2) < 4 * np.sqrt((fourth - std**4) / n)).all()


@pytest.mark.parametrize("total", [0.5, 4.0, 60.0])
def test_fishers_statistic_is_the_gamma_distributions(total):
    mask = jnp.arange(6) < 4
    found = _fisher(jnp.where(mask, total / 4, 0.0), mask)
    assert float(found) == pytest.approx(-scipy.stats.gamma(4).logsf(total), rel=1e-4, abs=1e-5)
    assert float(_fisher(jnp.zeros(6), jnp.zeros(6, bool))) == 0


def test_the_most_that_a_p_value_says():
    p = np.array([1e-8, 1e-3, 0.3])
    np.testing.assert_allclose(_most_against(jnp.log(p)), np.log(1 / (-np.e * p * np.log(p))), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(_most_against(jnp.log(jnp.asarray([0.4, 1.0]))), 0)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_of_related_tasks_one_in_a_hundred_is_flagged(scale):
    """Exponential statistics, whatever their scale: the share that is flagged, within its standard error."""
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(50):
        tail, fresh = Tail.of(rng.exponential(scale, (300, 2))), rng.exponential(scale, (2000, 2))
        shares.append(np.mean(np.exp(tail.log_probabilities(jnp.asarray(fresh))) < FLAGGED))
    assert abs(np.mean(shares) - 0.01) < 4 * np.std(shares) / np.sqrt(len(shares)) + 0.002


def test_known_points_are_predicted_from_all_others():
    """With as many folds as points, by hand: condition on the others, and look at the one left out; or on nothing."""
    prior = exact(folds=10)
    for task in (*functions(3, 3), *others(1, 0)):
        logs = []
        for at in range(10):
            rest = np.arange(10) != at
            left = prior.member.condition(task.x[rest], task.y[rest], 0).predict(task.x[at : at + 1])
            logs.append(-scipy.stats.norm.logsf(np.abs(task.y[at] - left.mean[0]) / left.std[0]) - np.log(2))
        alone = np.mean(-scipy.stats.norm.logsf(np.abs(task.y) / np.sqrt(1 + NOISE**2)) - np.log(2))
        expected = [-scipy.stats.gamma(10).logsf(np.sum(logs)), alone]
        np.testing.assert_allclose(prior.condition(task.x, task.y, 0).state.statistics, expected, rtol=0.02)


def test_related_tasks_are_left_to_the_prior():
    prior, pairs = exact(), functions(100, 4).context_target(6)
    posteriors = prior.condition_many(pairs.context, 0)
    assert np.mean(posteriors.surprise < FLAGGED) <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / 100)
    guarded, plain = (sp.evaluate_pairs(each, pairs, 0) for each in (prior, prior.member))
    for metric in ("rmse", "nll", "crps"):
        gap = guarded[metric] - plain[metric]
        assert gap.mean() < plain[metric].std() / np.sqrt(len(pairs)) / 2


def test_tasks_of_another_family_are_flagged_and_widened():
    prior, pairs = exact(), others(100, 5).context_target(6)
    posteriors = prior.condition_many(pairs.context, 0)
    assert np.mean(posteriors.surprise < FLAGGED) > 0.95
    guarded, plain = (sp.evaluate_pairs(each, pairs, 0) for each in (prior, prior.member))
    assert guarded["coverage90"].mean() > 0.8 > 0.3 > plain["coverage90"].mean()
    for posterior, task in zip(posteriors, pairs.context):
        predictive = posterior.predict(task.x)
        assert (np.abs(predictive.mean - task.y) < 3 * predictive.std).all()


def test_a_value_that_was_mistyped_is_told():
    prior, task = exact(), functions(1, 6)[0]
    mistyped = np.where(np.arange(10) == 4, 50.0, task.y)
    assert prior.condition(task.x, task.y, 0).surprise > FLAGGED
    assert prior.condition(task.x, mistyped, 0).surprise < 1e-6


@pytest.mark.slow
def test_one_point_none_and_many_are_answered():
    prior, rng = exact(), np.random.default_rng(0)
    assert prior.condition([], [], 0).surprise == 1
    assert prior.condition([0.0], [30.0], 0).surprise < 1e-6
    x = rng.uniform(-3, 3, 150)
    posterior = prior.condition(x, 40 + np.sin(x), 0)
    assert posterior.surprise < 1e-6
    assert posterior.predict([[0.5]]).interval(0.9)[0] > 30
    assert posterior.sample([[0.5], [1.0]], 0, 3).shape == (3, 2)


@pytest.mark.slow
def test_a_method_is_judged_by_tasks_it_has_not_seen():
    tasks = functions(60, 7)
    prior = sp.Guarded("ridge").fit(tasks, 0, progress=False)
    assert surprise_of(prior, tasks.take(range(20)), 1).shape == (60, 2)
    # Lines do not fit such functions, which left-out tasks know: most related ones are no surprise all the same.
    assert np.mean(prior.condition_many(functions(100, 8), 0).surprise < FLAGGED) < 0.1
    assert float(prior.tail.deciles[0]) > np.log(10)


def test_it_is_saved_and_loaded(tmp_path):
    prior, task = exact(), others(1, 0)[0]
    prior.save(tmp_path / "guarded.prior")
    loaded = sp.load_prior(tmp_path / "guarded.prior")
    found, expected = (each.condition(task.x, task.y, 0) for each in (loaded, prior))
    np.testing.assert_array_equal(found.predict(task.x).mean, expected.predict(task.x).mean)
    assert found.surprise == expected.surprise


def test_what_cannot_be_guarded_is_refused():
    tasks = functions(4, 0)
    with pytest.raises(NoDistributionError, match="predicts points"):
        sp.Guarded().guard(sp.learner("maml").with_budget(0.01).fit(tasks, 0, progress=False), tasks)
    with pytest.raises(NoDistributionError, match=r"sp\.Guarded"):
        _ = exact().member.condition(tasks[0].x, tasks[0].y, 0).surprise
    for wrong in ({"doubt": 0.0}, {"folds": 1}, {"held_out": 1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            sp.Guarded(**wrong)


@pytest.mark.parametrize("guarded", [True, False])
def test_points_that_are_added_are_as_if_known_from_the_start(guarded):
    prior, task = exact() if guarded else exact().member, functions(1, 2)[0]
    whole = prior.condition(task.x, task.y, 0)
    part = (
        prior.condition(task.x[:6], task.y[:6], 0).update(task.x[6:9], task.y[6:9], 0).update(task.x[9:], task.y[9:], 0)
    )
    found, expected = (each.predict([[0.3], [2.5]]) for each in (part, whole))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-5)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-5)
    with pytest.raises(sp.TaskError, match="columns"):
        part.update(np.zeros((1, 2)), [0.0], 0)
    with pytest.raises(ValueError, match="does not know its points"):
        sp.Posterior(prior, whole.state).update([0.0], [1.0], 0)
