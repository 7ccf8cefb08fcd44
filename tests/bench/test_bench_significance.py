"""Who is bold, against scipy and against Holm's paper by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from scoreprior.bench import counts
from scoreprior.bench.report.results import _pseudo_values
from scoreprior.bench.report.significance import holm, not_worse, worse


def test_holm_by_hand():
    # 4 x 0.01, 3 x 0.02, 2 x 0.03, 1 x 0.04 and never less than the one before.
    assert holm({"c": 0.03, "a": 0.01, "d": 0.04, "b": 0.02}) == pytest.approx(
        {"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06}
    )
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def one_seed(values: dict[str, np.ndarray]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    return {name: float(each.mean()) for name, each in values.items()}, {
        name: each[None] for name, each in values.items()
    }


def test_bold_by_scipy_on_a_hand_made_column():
    tasks = np.random.default_rng(3).gamma(2.0, size=20)  # tasks differ more than methods do
    spread = 0.3 * np.linspace(-1, 1, 20)
    values = {
        "best": tasks,
        "as-good": tasks + 0.02 + spread,
        "worse": tasks + 0.2 - spread,
        "much-worse": tasks + 5 + spread,
    }
    means, seeded = one_seed(values)
    assert min(means, key=means.__getitem__) == "best"
    p = {name: stats.ttest_1samp(each - tasks, 0.0).pvalue for name, each in values.items() if name != "best"}
    for name, expected in p.items():  # with one seed it is the paired test over tasks
        assert worse(tasks[None], values[name][None]) == pytest.approx(expected, rel=1e-6)
    ordered = sorted(p, key=p.__getitem__)
    assert ordered == ["much-worse", "worse", "as-good"]
    assert 3 * p["much-worse"] < 0.05
    assert 2 * p["worse"] < 0.05
    assert p["as-good"] > 0.05
    assert not_worse(means, seeded) == {"best", "as-good"}
    assert stats.ttest_ind(values["worse"], tasks).pvalue > 0.05  # only a paired test sees through the tasks' spread


def test_one_test_among_many_is_corrected():
    differences = np.array([0.1, 0.3, -0.05, 0.25, 0.12, 0.2, -0.1, 0.15])
    p = stats.ttest_1samp(differences, 0.0).pvalue
    assert 0.05 / 5 < p < 0.05
    base = np.arange(8.0)
    two = {"best": base, "other": base + differences}
    assert not_worse(*one_seed(two)) == {"best"}
    many = two | {f"equal-{i}": base + i / 100 + 0.2 * (-1.0) ** np.arange(8) for i in range(1, 5)}
    assert "other" in not_worse(*one_seed(many))


def test_without_differences_between_tasks_it_is_welchs_test_over_seeds():
    rng = np.random.default_rng(1)
    better, other = rng.normal(size=5), 1 + 2 * rng.normal(size=4)
    columns = [np.repeat(each[:, None], 7, axis=1) for each in (better, other)]
    expected = stats.ttest_ind(other, better, equal_var=False)
    assert expected.statistic > 0
    assert worse(*columns) == pytest.approx(expected.pvalue, rel=1e-6)


@pytest.mark.parametrize("seed_effect", [0.0, 0.3, 1.0])
def test_equally_good_methods_are_told_apart_no_more_often_than_the_level(seed_effect: float):
    """What a method's seeds do to all tasks alike must not look like a difference between methods."""
    rng, n, sets = np.random.default_rng(7), 30, 1000

    def column() -> np.ndarray:
        return seed_effect * rng.normal(size=(5, 1)) + rng.normal(size=(5, n))

    rejected = by_tasks = 0
    for _ in range(sets):
        tasks = 3 * rng.normal(size=n)
        one, other = sorted((tasks + column(), tasks + column()), key=np.mean)
        rejected += worse(one, other) < 0.05
        by_tasks += stats.ttest_rel(other.mean(0), one.mean(0)).pvalue < 0.05
    allowed = 0.05 + 3 * np.sqrt(0.05 * 0.95 / sets)
    assert rejected / sets < allowed
    if seed_effect == 1.0:  # the test that averages over seeds fails this
        assert by_tasks / sets > 5 * allowed
    # And a difference of two standard deviations of a seed, or one of a task, is seen.
    tasks = 3 * rng.normal(size=n)
    assert worse(tasks + column(), tasks + 1 + 2 * seed_effect + column()) < 0.05


def test_cases_without_a_t_statistic():
    base = np.arange(5.0)[None]
    assert worse(base, base) == 1.0
    assert worse(base, base + 1) == 0.0
    assert worse(base + 1, base) == 1.0
    assert worse(base, np.where(base == 2, np.inf, base)) == 0.0
    assert worse(base[:, :1], base[:, :1] + 1) == 1.0  # one task, one seed: nobody knows
    assert not_worse({}, {}) == set()


def test_pseudo_values_estimate_the_spread_of_the_pooled_calibration_error():
    # Their mean is the jackknife's estimate; their standard error that of the estimate, here over many data sets.
    rng = np.random.default_rng(5)
    sets = [counts.decode(counts.encode(rng.beta(3.0, 2.0, size=(60, 20)))) for _ in range(200)]
    found = np.array([counts.pooled(each) for each in sets])
    values = np.array([_pseudo_values(each) for each in sets])
    errors = values.std(1, ddof=1) / np.sqrt(60)
    assert np.sqrt((errors**2).mean()) == pytest.approx(found.std(ddof=1), rel=4 / np.sqrt(2 * 199))
    assert values.mean() == pytest.approx(found.mean(), abs=4 * found.std() / np.sqrt(200))
