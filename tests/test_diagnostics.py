"""Diagnostics against closed forms: made predictives with known coverage, made methods with a known place."""

from __future__ import annotations

import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats import norm, t
from typer.testing import CliRunner

import scoreprior as sp
from scoreprior import diagnostics, metrics
from scoreprior.cli import app
from scoreprior.diagnostics import (
    Coverage,
    coverage_without_points,
    cross_validate,
    halves,
    paired_difference,
    task_folds,
)
from scoreprior.learners import Prior
from scoreprior.predictive import Mixture
from scoreprior.tasks import Standardizer

QUICK_RULES = ("last-value", "context-mean", "newest-lag", "ridge")


class MadePrior(Prior):
    """Says N(last known value or 0, scale^2) plus an offset; `without` is the scale where no point is known."""

    standardizer: Standardizer
    scale: float
    without: float
    carries: bool
    offset: float
    point: bool = False

    def infer(self, context, key):
        last = context.y[jnp.maximum(context.mask.sum() - 1, 0)]
        loc = jnp.where(context.mask.any() & self.carries, last, 0.0) + self.offset
        return loc, jnp.where(context.mask.any(), self.scale, self.without)

    def evaluate(self, state, x):
        locs = jnp.full((1, len(x)), state[0])
        return Mixture(locs, None if self.point else jnp.full_like(locs, state[1]))


def made(scale: float = 1.0, without: float = 1.0, carries: bool = False, offset: float = 0.0, point: bool = False):
    return MadePrior(Standardizer(np.zeros(1), np.ones(1), 0.0, 1.0), scale, without, carries, offset, point)


@dataclass(frozen=True)
class Made:
    """Learns nothing."""

    prior: Prior

    def fit(self, tasks, key, *, progress=True):
        return self.prior

    def with_budget(self, share):
        return self


def white(n: int, m: int, seed: int = 0) -> sp.TaskSet:
    """Independent standard normal targets."""
    rng = np.random.default_rng(seed)
    return sp.TaskSet.from_arrays([np.arange(m, dtype=float)] * n, list(rng.normal(size=(n, m))))


def walks(n: int = 60, m: int = 12) -> sp.TaskSet:
    """Random walks: the last value is the best guess there is."""
    steps = np.random.default_rng(1).normal(size=(n, m))
    return sp.TaskSet.from_arrays([np.arange(m, dtype=float)] * n, list(steps.cumsum(1)))


def share(z: float) -> float:
    """Probability that a standard normal lies within +-z."""
    return float(2 * norm.cdf(z) - 1)


@pytest.mark.parametrize(("scale", "verdict"), [(0.5, "too narrow"), (1.0, "right"), (2.0, "too wide")])
def test_coverage_is_that_of_the_predictives_that_were_made(scale, verdict):
    tasks = white(100, 20)
    found = sp.check(made(scale, without=0.7), tasks, 0)
    assert found.verdict == found.coverage.verdict == verdict
    assert found.coverage[2:] == (100, 1000)
    for value, level, spread, points in (
        (found.coverage.share, 0.9, scale, 1000),
        (found.summary["coverage50"], 0.5, scale, 1000),
        (found.coverage_without_points, 0.9, 0.7, 2000),
    ):
        expected = share(norm.ppf(0.5 + level / 2) * spread)
        assert value == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / points))
    # Points are independent here, so that the spread over tasks is binomial, too.
    binomial = np.sqrt(found.coverage.share * (1 - found.coverage.share) / 1000)
    assert found.coverage.standard_error == pytest.approx(binomial, rel=4 / np.sqrt(2 * 100))


def test_the_numbers_of_a_check_are_those_of_the_gaussian():
    tasks, scale = white(30, 8), 1.3
    target = np.array([task.y[4:] for task in tasks])
    found = sp.check(made(scale), tasks, 0)
    numbers = found.summary
    for name, values in (
        ("rmse", np.sqrt((target**2).mean(1))),
        ("nll", -norm.logpdf(target, scale=scale).mean(1)),
    ):
        assert numbers[name] == pytest.approx(values.mean(), rel=1e-5)
        assert numbers[f"{name}_se"] == pytest.approx(values.std(ddof=1) / np.sqrt(30), rel=1e-4)
    z = target / scale
    crps = scale * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert numbers["crps"] == pytest.approx(crps.mean(), rel=1e-5)
    assert numbers["width90"] == pytest.approx(2 * norm.ppf(0.95) * scale, rel=1e-5)
    assert numbers["calibration_error"] == pytest.approx(metrics.calibration_error(norm.cdf(z)), rel=1e-5)
    assert numbers["calibration_floor"] == pytest.approx(metrics.calibration_floor([120]))
    for name, known in (("context-mean", np.mean), ("last-value", lambda y: y[-1])):
        guesses = np.array([[known(task.y[:4])] for task in tasks])
        assert found.rules[name] == pytest.approx(np.sqrt(((target - guesses) ** 2).mean(1)).mean(), rel=1e-4)


def test_a_point_predictor_and_a_single_task_are_checked_as_far_as_can_be():
    found = sp.check(made(point=True), white(10, 4), 0)
    assert found.verdict == "no error bars"
    assert np.isfinite(found.summary["rmse"])
    assert np.isnan(found.summary[["nll", "coverage50", "coverage90", "coverage90_without_points"]]).all()
    alone = sp.check(made(), white(1, 6), 0)
    assert (alone.verdict, alone.rules) == ("too few tasks", {})
    assert np.isnan(alone.summary["rmse_se"])


def test_tasks_with_one_point_count_only_where_no_point_is_known():
    tasks = sp.TaskSet.from_arrays([[0.0, 1.0, 2.0], [0.0]], [[0.0, 0.0, 0.0], [9.0]])
    found = sp.check(made(), tasks, 0)
    assert len(found.rows) == 1
    assert found.coverage.share == 1.0
    assert coverage_without_points(made(), tasks, 0)[::2] == (0.75, 2)
    assert [len(task) for task in halves(tasks).target] == [1]


@pytest.mark.parametrize(
    ("coverage", "error", "tasks", "verdict"),
    [
        (0.9, 0.02, 100, "right"),
        (0.8, 0.02, 100, "too narrow"),
        (0.97, 0.02, 100, "too wide"),
        (0.69, 0.15, 6, "unclear"),
        (0.9, 0.01, 4, "too few tasks"),
        (0.9, np.nan, 6, "too few tasks"),
        (np.nan, np.nan, 100, "no error bars"),
        (0.885, 0.0, 100, "right"),  # no spread over tasks: 1000 points have a standard error of 0.0095
        (0.88, 0.0, 100, "too narrow"),
    ],
)
def test_judgements_of_coverage(coverage, error, tasks, verdict):
    assert sp.judge_coverage(coverage, error, tasks, points=1000) == verdict


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_right_error_bars_are_rarely_called_too_narrow(correlation):
    """P(t < -2) with 39 degrees of freedom, and no more where points of a task miss together."""
    rng, runs, verdicts = np.random.default_rng(0), 1000, []
    for _ in range(runs):
        common, own = rng.normal(size=(40, 1)), rng.normal(size=(40, 25))
        inside = np.abs(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own) <= norm.ppf(0.95)
        verdicts.append(Coverage.of(pd.DataFrame({"coverage90": inside.mean(1), "n_target": 25})).verdict)
    chance = t.cdf(-2, 39)
    most = runs * chance + 4 * np.sqrt(runs * chance * (1 - chance))
    assert verdicts.count("too narrow") < most
    if correlation == 0:  # shares are skewed where they are correlated: "too wide" is then said more often
        assert verdicts.count("too wide") < most


def test_a_paired_difference_is_the_mean_gap_and_its_standard_error():
    first, second = np.array([1.0, 20.0, 300.0, 4.0]), np.array([1.5, 20.1, 301.0, 4.4])
    rows = pd.concat(
        [
            pd.DataFrame({"method": "a", "position": range(4), "rmse": first, "nll": -first}),
            pd.DataFrame({"method": "b", "position": range(4), "rmse": second, "nll": -second}).iloc[::-1],
        ]
    )
    gaps = first - second
    expected = np.sqrt(((gaps - gaps.mean()) ** 2).sum() / (4 * 3))
    found = paired_difference(rows, "a", "b")
    assert found == pytest.approx((gaps.mean(), expected))
    assert (found.is_lower, found.other_as_good) == (True, False)
    back = paired_difference(rows, "a", "b", "nll")
    assert back == pytest.approx((-gaps.mean(), expected))
    assert (back.is_lower, back.other_as_good) == (False, True)
    for wrong in (rows.iloc[:-1], pd.concat([rows, rows])):
        with pytest.raises(ValueError, match="one row for each of the same tasks"):
            paired_difference(wrong, "a", "b")


def test_a_method_that_is_worse_than_the_last_value_is_found():
    found = sp.compare_with_rules(Made(made(carries=True, offset=3.0)), walks(), 0, rules=QUICK_RULES)
    assert found.method == "Made"
    assert "last-value" in found.rules_as_good
    errors = found.table["rmse"]
    assert list(found.rules_as_good) == sorted(found.rules_as_good, key=lambda rule: errors[rule])
    difference = found.paired_difference("last-value")
    assert difference.mean == pytest.approx(errors["Made"] - errors["last-value"])
    assert not difference.is_lower


def test_a_perfect_method_is_not_flagged():
    x, rng = np.arange(8.0), np.random.default_rng(2)
    wiggle = np.where(x < 4, np.sin(9 * x), 0.0)  # zero in the half that is predicted
    tasks = sp.TaskSet.from_arrays([x] * 50, list(wiggle + 0.01 * rng.normal(size=(50, 8))))
    found = sp.compare_with_rules(Made(made(scale=0.01)), tasks, 0, rules=QUICK_RULES)
    assert found.verdict != "too narrow"
    assert found.rules_as_good == ()
    assert found.rules == ("last-value", "context-mean", "ridge")  # no input is a lag
    assert found.table["nll"].idxmin() == "Made"


def test_held_out_tasks_are_a_random_fifth_and_the_same_for_the_same_key():
    tasks = sp.TaskSet(list(white(23, 5)) + [sp.Task([0.0], [1.0], f"single {i}") for i in range(4)])
    for seed in (0, 3, 2**31 - 1):
        split = sp.hold_out(tasks, seed)
        held = np.sort(np.random.default_rng(seed).permutation(23)[:5])
        assert [task.name for task in split.meta_test.target] == [tasks[i].name for i in held]
        assert [task.name for task in split.meta_train] == [t.name for i, t in enumerate(tasks) if i not in held]
        by_key = sp.hold_out(tasks, jax.random.key(seed))
        assert [task.name for task in by_key.meta_test.target] == [tasks[i].name for i in held]
        assert set(split.meta_test.context.sizes) == {2}
    assert len(sp.hold_out(white(2000, 2), 0).meta_test) == 200
    assert len(sp.hold_out(white(5, 2), 0).meta_test) == 2


def test_what_cannot_be_diagnosed_is_refused():
    with pytest.raises(sp.TaskError, match="4 tasks, 4 of them with two points, are too few to hold some out"):
        sp.hold_out(white(4, 3), 0)
    with pytest.raises(sp.TaskError, match="No task has two points"):
        sp.check(made(), white(6, 1), 0)
    with pytest.raises(sp.TaskError, match="A TaskSet is needed, not a list"):
        sp.check(made(), [([0.0], [1.0])], 0)
    with pytest.raises(TypeError, match="A fitted Prior is needed, not a Ridge"):
        sp.check(sp.learner("ridge"), white(6, 3), 0)
    with pytest.raises(TypeError, match="give its meta-learner"):
        sp.compare_with_rules(made(), white(6, 3), 0)
    with pytest.raises(ValueError, match="no method to compare"):
        cross_validate({}, white(6, 3), 0)
    with pytest.raises(ValueError, match="1 to 5 folds, not 6"):
        task_folds(white(9, 3), 0, 6)


def test_a_rule_for_lags_is_left_out_only_as_a_rule():
    with pytest.raises(sp.TaskError, match="No input looks like an earlier reading"):
        sp.compare_with_rules("newest-lag", white(6, 3), 0, rules=("last-value",))
    lags = sp.TaskSet([sp.Task(task.y[:-1], task.y[1:], task.name) for task in walks()])
    assert "newest-lag" in sp.compare_with_rules("ridge", lags, 0, rules=QUICK_RULES).rules


@pytest.mark.slow
def test_the_command_line_and_python_give_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("scoreprior.cli.main.keep_compiled", lambda: None)
    monkeypatch.setattr(diagnostics, "RULES", QUICK_RULES)
    tables = {"train": walks(30, 6), "new": walks(20, 7)}
    for name, tasks in tables.items():
        rows = [(task.name, x, y) for task in tasks for (x,), y in zip(task.x, task.y)]
        pd.DataFrame(rows, columns=["task", "x", "y"]).to_csv(tmp_path / f"{name}.csv", index=False)

    def run(*arguments):
        result = CliRunner().invoke(app, [*map(str, arguments), "--seed", "4", "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    table, out = tmp_path / "train.csv", tmp_path / "a.prior"
    fitted = run("fit", table, "--task", "task", "--inputs", "x", "--target", "y", "--out", out, "--method", "ridge")
    methods = {rule: sp.learner(rule) for rule in ("ridge", "last-value", "context-mean")}
    comparison = cross_validate(methods, tables["train"], 4).guarded(4)[0].comparison()
    assert fitted["held_out"]["methods"] == comparison.table.to_dict("index")
    assert (fitted["held_out"]["tasks"], fitted["held_out"]["points"]) == comparison.coverage[2:]
    assert sum("on your left-out tasks" in text for text in fitted["warnings"]) == len(comparison.rules_as_good)
    checked = run("check", out, tmp_path / "new.csv")
    found = sp.check(sp.load_prior(out), tables["new"], 4)
    numbers = found.summary.rename(lambda name: name.replace("calibration_", "pooled_calibration_"))
    assert {name: checked[name] for name in numbers.index} == dict(numbers)
    assert checked["rules"] == found.rules
    assert (checked["tasks"], checked["points"]) == found.coverage[2:]


def test_the_energy_distance_is_that_of_scipy_but_for_its_bias():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=30), rng.exponential(size=20)
    # SciPy's is the root, and counts the distance of a draw to itself.
    spread = [np.abs(each[:, None] - each).mean() for each in (one, other)]
    biased = 2 * np.abs(one[:, None] - other).mean() - sum(spread)
    assert biased == pytest.approx(stats.energy_distance(one, other) ** 2)
    removed = spread[0] / 29 + spread[1] / 19
    assert diagnostics.energy_distance(one[:, None], other[:, None]) == pytest.approx(biased - removed)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_energy_distance_of_normals(shift):
    rng = np.random.default_rng(1)
    found = [
        diagnostics.energy_distance(rng.normal(size=(40, 1)), shift + rng.normal(size=(25, 1))) for _ in range(300)
    ]
    # |N(shift, 2)| has a folded normal distribution.
    truth = 2 * stats.foldnorm(shift / np.sqrt(2), scale=np.sqrt(2)).mean() - 4 / np.sqrt(np.pi)
    assert abs(np.mean(found) - truth) < 4 * np.std(found) / np.sqrt(300)


def test_the_energy_distance_sees_what_marginals_do_not():
    rng = np.random.default_rng(2)
    shared = np.repeat(rng.normal(size=(200, 1)), 2, axis=1)
    found = [
        diagnostics.energy_distance(each, rng.normal(size=(200, 2))) for each in (shared, rng.normal(size=(200, 2)))
    ]
    assert found[0] > 0.05 > abs(found[1])
    with pytest.raises(ValueError, match="values at the same points"):
        diagnostics.energy_distance(shared, shared[:, :1])
    with pytest.raises(ValueError, match="two draws at least"):
        diagnostics.energy_distance(shared[:1], shared)


def test_folds_leave_out_every_task_once_and_are_of_one_size():
    tasks = sp.TaskSet([*white(23, 5), sp.Task([0.0], [1.0], "single")])
    folds = task_folds(tasks, 0)
    positions = np.concatenate([fold.positions for fold in folds])
    assert [len(fold.meta_test) for fold in folds] == [4] * 5
    assert len(set(positions)) == 20
    assert 23 not in positions  # a single point cannot be cut in two
    for fold in folds:
        left_out = {tasks[row].name for row in fold.positions}
        assert {task.name for task in fold.meta_test.target} == left_out
        assert {task.name for task in fold.meta_train} == {task.name for task in tasks} - left_out
    assert all(np.array_equal(one.positions, other.positions) for one, other in zip(folds, task_folds(tasks, 0, 2)))


@pytest.mark.parametrize(("tasks", "number", "size"), [(5, 5, 1), (45, 5, 9), (400, 3, 80), (1200, 1, 200)])
def test_no_more_folds_than_leave_out_two_hundred_tasks(tasks, number, size):
    assert [len(fold.meta_test) for fold in task_folds(white(tasks, 2), 0)] == [size] * number


def test_a_cross_validation_is_a_fit_without_each_fold(monkeypatch):
    tasks = walks(10, 6)
    found = cross_validate({"last-value": sp.learner("last-value")}, tasks, 0).comparison()
    assert (found.folds, len(found.rows)) == (5, 10)
    for fold in task_folds(tasks, 0):
        prior = sp.learner("last-value").fit(fold.meta_train, 0)
        rows = found.rows.set_index("position").loc[fold.positions]
        np.testing.assert_allclose(rows["nll"], sp.evaluate_pairs(prior, fold.meta_test, 1)["nll"], rtol=1e-5)


def test_where_each_task_has_a_point_the_interval_is_the_binomial_one():
    inside = np.r_[np.ones(41), np.zeros(6)]
    found = Coverage.of(pd.DataFrame({"coverage90": inside, "n_target": 1}))
    exact = stats.binomtest(41, 47).proportion_ci(0.95, "exact")
    # The variance of the sample is n / (n - 1) times that of the binomial.
    assert found.interval == pytest.approx((exact.low, exact.high), abs=0.004)
    whole = Coverage.of(pd.DataFrame({"coverage90": np.ones(20), "n_target": 30}))
    assert whole.interval == pytest.approx((stats.binomtest(20, 20).proportion_ci(0.95, "exact").low, 1.0))
    assert np.isnan(Coverage.of(pd.DataFrame({"coverage90": [0.9], "n_target": [9]})).interval).all()


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_interval_of_a_coverage_holds_the_true_one(correlation):
    """Of ten tasks whose points miss together the standard error says little: there two of them hold it in 81%."""
    rng, runs, held = np.random.default_rng(3), 400, 0
    for _ in range(runs):
        sizes = rng.integers(2, 20, 10)
        z = np.sqrt(correlation) * rng.normal(size=(10, 1)) + np.sqrt(1 - correlation) * rng.normal(size=(10, 20))
        inside = (np.abs(z) <= norm.ppf(0.95)) & (np.arange(20) < sizes[:, None])
        low, high = Coverage.of(pd.DataFrame({"coverage90": inside.sum(1) / sizes, "n_target": sizes})).interval
        held += low <= 0.9 <= high
    assert held / runs > 0.9


def test_the_standard_error_of_a_coverage_is_that_of_a_bootstrap_over_tasks():
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 30, 40)
    shares = rng.beta(9, 1, 40)
    found = Coverage.of(pd.DataFrame({"coverage90": shares, "n_target": sizes}))
    rows = rng.integers(0, 40, (4000, 40))
    again = (sizes * shares)[rows].sum(1) / sizes[rows].sum(1)
    assert found.standard_error == pytest.approx(again.std(), rel=0.1)


def test_the_width_of_a_prior_is_compared_where_there_are_enough_targets():
    """N(0, 1) everywhere, where targets spread by 0.5 on the left and 2 on the right: twice and half as wide."""
    rng = np.random.default_rng(5)
    x = np.arange(20.0)
    y = rng.normal(size=(200, 20)) * np.where(x < 10, 0.5, 2.0)
    tasks = sp.TaskSet.from_arrays([x] * 200, list(y))
    found = diagnostics.relative_width(made(), tasks, 0)
    assert len(found) == 10
    assert [each.ratio for each in found] == pytest.approx([2.0] * 5 + [0.5] * 5, rel=0.15)
    assert (found[0].low, found[-1].high) == (0.0, 19.0)
    assert diagnostics.relative_width(made(), tasks[:5], 0) == []
    with pytest.raises(sp.NoDistributionError, match="has no width"):
        diagnostics.relative_width(made(point=True), tasks, 0)
