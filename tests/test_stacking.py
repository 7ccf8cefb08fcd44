"""Weights of stacking against SciPy's optimisers, closed forms and the Karush-Kuhn-Tucker conditions."""

import numpy as np
import pytest
from scipy import optimize, stats

from scoreprior.stacking import squared_error_weights, stacking_weights


def densities(seed, members=4, tasks=6, points=5):
    """Log densities of members that are wrong in different places."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(tasks, points))
    locs, scales = rng.normal(0, 0.7, (members, tasks, 1)), rng.uniform(0.5, 2, (members, 1, 1))
    return stats.norm(locs, scales).logpdf(y)


def on_the_simplex(objective, k):
    """The minimiser by sequential least squares, from several starts."""
    rng = np.random.default_rng(0)
    found = [
        optimize.minimize(
            objective,
            start,
            method="SLSQP",
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        for start in rng.dirichlet(np.ones(k), 5)
    ]
    return min(found, key=lambda each: each.fun)


def log_score(log_prob, pseudo_count):
    def negative(w):
        mixture = np.log(np.tensordot(w, np.exp(log_prob), 1))
        return -mixture.mean(1).sum() - pseudo_count * np.log(np.maximum(w, 1e-12)).mean()

    return negative


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pseudo_count", [0.0, 1.0, 3.0])
def test_the_log_score_is_at_its_maximum(seed, pseudo_count):
    log_prob = densities(seed)
    objective = log_score(log_prob, pseudo_count)
    weights = stacking_weights(log_prob, pseudo_count=pseudo_count)
    best = on_the_simplex(objective, 4)
    assert weights.sum() == pytest.approx(1)
    assert objective(weights) <= best.fun + 1e-5
    if pseudo_count:  # strictly concave: the maximiser is unique
        np.testing.assert_allclose(weights, best.x, atol=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_the_log_score_meets_the_kkt_conditions(seed):
    """Slopes are at most 1, and 1 where the weight is not 0."""
    log_prob = densities(seed)
    weights = stacking_weights(log_prob, pseudo_count=0)
    density = np.exp(log_prob)
    slopes = np.mean(density / np.tensordot(weights, density, 1), axis=(1, 2))
    assert slopes.max() <= 1 + 2e-6
    np.testing.assert_allclose(slopes[weights > 1e-2], 1, atol=1e-3)


def test_the_member_that_is_the_truth_gets_the_weight():
    y = np.random.default_rng(0).normal(size=(300, 10))
    log_prob = np.stack([stats.norm(loc, scale).logpdf(y) for loc, scale in ((0, 1), (1.5, 1), (0, 3))])
    assert stacking_weights(log_prob)[0] > 0.95
    means = np.stack([y + 0.1, y - 2, np.zeros_like(y)])
    assert squared_error_weights(means, y)[0] > 0.9


def test_a_mixture_of_two_gives_back_its_weights():
    rng = np.random.default_rng(1)
    count = 40_000
    y = np.where(rng.uniform(size=count) < 0.3, rng.normal(-2, 1, count), rng.normal(2, 1, count))[:, None]
    log_prob = np.stack([stats.norm(loc, 1).logpdf(y) for loc in (-2, 2)])
    found = stacking_weights(log_prob)[0]
    density = np.exp(log_prob)
    slope = (density[0] - density[1]) / (0.3 * density[0] + 0.7 * density[1])
    assert abs(found - 0.3) < 4 / np.sqrt(count * np.mean(slope**2))  # Fisher information


@pytest.mark.parametrize("tasks", [1, 5, 80])
def test_identical_members_share_the_weight(tasks):
    log_prob = np.repeat(densities(0, members=1, tasks=tasks), 3, axis=0)
    np.testing.assert_allclose(stacking_weights(log_prob), 1 / 3)
    y = np.random.default_rng(2).normal(size=(tasks, 4))
    np.testing.assert_allclose(squared_error_weights(np.repeat(0.5 * y[None], 3, axis=0), y), 1 / 3)


def test_few_tasks_say_little_and_many_say_much():
    """Two members, one better by d nats everywhere: w solves n (1 - e^-d) / (w + (1 - w) e^-d) + 1/2w = 1/2(1 - w)."""
    found = {n: stacking_weights(np.stack([np.zeros((n, 3)), np.full((n, 3), -1.0)])) for n in (1, 5, 200)}
    for n, (w, rest) in found.items():
        slope = n * (1 - np.exp(-1)) / (w + rest * np.exp(-1)) + 0.5 / w - 0.5 / rest
        assert abs(slope) < 1e-3 * n
    assert 0.5 < found[1][0] < found[5][0] < 0.9 < 0.99 < found[200][0]


def test_every_task_counts_once_and_points_by_their_weights():
    log_prob = densities(3, tasks=4, points=3)
    repeated = np.concatenate([log_prob, log_prob[:, :, :2]], axis=2)
    counts = np.concatenate([np.ones((4, 3)), np.zeros((4, 2))], axis=1)
    np.testing.assert_allclose(stacking_weights(repeated, counts), stacking_weights(log_prob), atol=1e-12)
    np.testing.assert_allclose(stacking_weights(log_prob, 7 * np.ones((4, 3))), stacking_weights(log_prob), atol=1e-12)
    # A point of weight two is that point twice; a task of no weight is not there.
    double = np.concatenate([log_prob, log_prob[:, :, :1]], axis=2)
    np.testing.assert_allclose(
        stacking_weights(log_prob, np.tile([2.0, 1, 1], (4, 1))), stacking_weights(double), atol=1e-12
    )
    none = np.where(np.arange(4)[:, None] == 3, 0.0, 1.0) * np.ones((4, 3))
    hidden = np.where(none > 0, log_prob, np.nan)
    np.testing.assert_allclose(stacking_weights(hidden, none), stacking_weights(log_prob[:, :3]), atol=1e-12)


def test_log_densities_far_from_zero_and_excluded_points_are_fine():
    log_prob = densities(4)
    np.testing.assert_allclose(stacking_weights(log_prob - 5e4), stacking_weights(log_prob), atol=1e-8)
    log_prob[0, 0, 0] = -np.inf
    weights = stacking_weights(log_prob, pseudo_count=0)
    assert weights[0] < 1
    log_prob[:, 0, 0] = -np.inf
    with pytest.raises(ValueError, match="No member has a positive density"):
        stacking_weights(log_prob)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pseudo_count", [0.0, 1.0])
def test_the_squared_error_is_at_its_minimum(seed, pseudo_count):
    rng = np.random.default_rng(seed)
    y = 100 * rng.normal(size=(6, 5))
    means = y + 100 * rng.normal(size=(4, 1, 1)) + 50 * rng.normal(size=(4, 6, 5))
    least = ((means - y) ** 2).mean((1, 2)).min()

    def objective(w):
        error = y - np.tensordot(w, means, 1)
        return (error**2).mean(1).sum() / least + pseudo_count * w @ w

    weights, best = squared_error_weights(means, y, pseudo_count=pseudo_count), on_the_simplex(objective, 4)
    assert objective(weights) <= best.fun + 1e-8
    np.testing.assert_allclose(weights, best.x, atol=1e-4)


def test_an_exact_member_needs_no_other():
    y = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(squared_error_weights(np.stack([y, y + 1]), y), [1, 0], atol=1e-6)
    assert squared_error_weights(np.stack([y, y]), y) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("log_prob", "given", "message"),
    [
        (np.zeros(3), {}, "expected \\(members, tasks"),
        (np.zeros((2, 0)), {}, "none of them 0"),
        (np.full((2, 3), np.nan), {}, "nan or infinite"),
        (np.full((2, 3), np.inf), {}, "nan or infinite"),
        (np.zeros((2, 3)), {"pseudo_count": -1}, "pseudo_count"),
        (np.zeros((2, 3)), {"point_weights": np.ones(2)}, "of shape \\(3,\\)"),
        (np.zeros((2, 3)), {"point_weights": -np.ones(3)}, "not negative"),
        (np.zeros((2, 3)), {"point_weights": np.zeros(3)}, "nothing to learn"),
    ],
)
def test_what_makes_no_sense_is_refused(log_prob, given, message):
    with pytest.raises(ValueError, match=message):
        stacking_weights(log_prob, **given)


def test_means_that_do_not_fit_y_are_refused():
    with pytest.raises(ValueError, match="expected \\(k, n"):
        squared_error_weights(np.zeros((2, 3, 4)), np.zeros((3, 5)))
    with pytest.raises(ValueError, match="finite means"):
        squared_error_weights(np.full((2, 3), np.inf), np.zeros(3))
