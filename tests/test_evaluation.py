"""`evaluate` and `summarise`, with a conjugate toy method whose answers can be recomputed by hand."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from scoreprior import metrics
from scoreprior.environments import Card, Environment
from scoreprior.evaluation import METRICS, evaluate, evaluate_oracle, evaluate_pairs, measure, summarise
from scoreprior.learners._base import Prior
from scoreprior.predictive import Mixture, Predictive
from scoreprior.tasks import Standardizer, Task, TaskSet


class LevelPrior(Prior):
    """Every task is an unknown level plus noise; with `jitter`, randomness enters through the key."""

    standardizer: Standardizer
    point: bool
    jitter: float

    def infer(self, context, key):
        precision = 1.0 + 4.0 * jnp.sum(context.mask)
        mean = 4.0 * jnp.sum(context.y) / precision + self.jitter * jax.random.normal(key)
        return mean, 1 / jnp.sqrt(precision)

    def evaluate(self, state, x):
        mean, std = state
        locs = jnp.full((1, len(x)), mean)
        return Mixture(locs, None if self.point else jnp.full_like(locs, jnp.sqrt(std**2 + 0.25)))


@dataclass
class LevelLearner:
    point: bool = False
    jitter: float = 0.0
    seen: list[Any] = field(default_factory=list)

    def fit(self, tasks, key, *, progress=True):
        self.seen.append((tasks, key, progress))
        return LevelPrior(Standardizer.fit(tasks), self.point, self.jitter)

    def with_budget(self, share):
        return self


def level_tasks(n, m, seed):
    rng = np.random.default_rng(seed)
    return TaskSet([Task(rng.normal(size=m), 10 + rng.normal() + 0.5 * rng.normal(size=m), f"p{i}") for i in range(n)])


def exact(context, x):
    """The Bayes-optimal answer: level ~ N(10, 1), noise std 0.5."""
    precision = 1 + 4 * len(context)
    mean = (10 + 4 * context.y.sum()) / precision
    return Predictive(np.full((1, len(x)), mean), np.sqrt(1 / precision + 0.25))


@pytest.fixture(scope="module")
def toy():
    test = level_tasks(6, 12, 2)
    ragged = TaskSet([task.take(slice(0, 5 + i)) for i, task in enumerate(test)])
    return Environment(
        "toy",
        meta_train=level_tasks(8, 5, 0),
        meta_valid=level_tasks(4, 7, 1).context_target(3),
        meta_test=ragged.context_target(3),
        card=Card("Toy", "simulated", "none", "8 tasks.", "none"),
        split=0,
        oracle=exact,
        selection_train=level_tasks(5, 5, 3),
    )


def test_one_row_per_task_with_the_metrics_of_its_own_posterior(toy):
    frame = evaluate(LevelLearner(), toy, 0)
    prior = LevelLearner().fit(toy.meta_train, 0)
    assert list(frame["task"]) == [f"p{i}" for i in range(6)]
    assert list(frame["position"]) == list(range(6))
    assert list(frame["n_target"]) == [2, 3, 4, 5, 6, 7]
    assert set(frame["n_context"]) == {3}
    assert set(frame["environment"]) == {"toy"}
    assert (set(frame["split"]), set(frame["part"])) == ({0}, {"test"})
    for row, context, target in zip(frame.itertuples(), toy.meta_test.context, toy.meta_test.target):
        predictive = prior.condition(context.x, context.y, 0).predict(target.x)
        for name, value in measure(predictive, target.y).items():
            assert getattr(row, name) == pytest.approx(value, rel=1e-5)
        assert row.pit == pytest.approx(metrics.pit(predictive, target.y), rel=1e-5)
    assert (frame["fit_seconds"] > 0).all()
    assert (frame["condition_seconds"] > 0).all()


def test_measures_are_the_metrics_by_name():
    predictive, y = Predictive(np.zeros((2, 3)), np.ones((2, 3))), np.array([0.1, -2.0, 1.0])
    assert measure(predictive, y) == {
        "rmse": metrics.rmse(predictive, y),
        "nll": metrics.nll(predictive, y),
        "log_score": metrics.nll(predictive, y),
        "crps": metrics.crps(predictive, y),
        "calibration_error": metrics.calibration_error(predictive.cdf(y)),
        "coverage90": metrics.coverage(predictive, y, 0.9),
        "width90": metrics.interval_width(predictive, 0.9),
        "sharpness": 1.0,
    }
    assert tuple(measure(predictive, y)) == METRICS
    assert measure(predictive, y, 0.1)["log_score"] == metrics.log_score(predictive, y, 0.1)


@pytest.mark.parametrize("from_training_tasks", [True, False])
def test_the_log_score_is_of_the_recording_step(from_training_tasks):
    rng = np.random.default_rng(0)
    whole = TaskSet.from_arrays(list(rng.normal(size=(12, 8, 1))), list(np.round(10 + 3 * rng.normal(size=(12, 8)))))
    pairs, learner = whole[6:].context_target(4), LevelLearner()
    prior = learner.fit(whole[:6], 0)
    method, meta_train = (learner, whole[:6]) if from_training_tasks else (prior, None)
    frame = evaluate_pairs(method, pairs, 0, meta_train=meta_train)
    for row, context, target in zip(frame.itertuples(), pairs.context, pairs.target):
        predictive = prior.condition(context.x, context.y, 0).predict(target.x)
        assert row.log_score == pytest.approx(metrics.log_score(predictive, target.y, 1.0), rel=1e-5)
        assert row.nll == pytest.approx(metrics.nll(predictive, target.y), rel=1e-5)


@pytest.mark.parametrize(("part", "n_train", "n_rows"), [("test", 8, 6), ("valid", 5, 4)])
def test_validation_never_fits_on_the_tasks_it_scores(toy, part, n_train, n_rows):
    learner = LevelLearner()
    frame = evaluate(learner, toy, 0, tasks=part, progress=True)
    ((training, _, progress),) = learner.seen
    assert (len(training), len(frame), progress) == (n_train, n_rows, True)
    assert set(frame["part"]) == {part}


def test_results_are_a_function_of_the_key_and_fit_has_its_own(toy):
    learner = LevelLearner(jitter=0.3)
    first, again, other = (evaluate(learner, toy, key) for key in (jax.random.key(4), 4, 5))
    assert (first["rmse"] == again["rmse"]).all()
    assert (first["rmse"] != other["rmse"]).all()
    fit_key = learner.seen[0][1]
    prior = learner.fit(toy.meta_train, 0)
    with_fit_key = prior.condition_many(toy.meta_test.context, fit_key)[0].predict(toy.meta_test.target[0].x)
    assert metrics.rmse(with_fit_key, toy.meta_test.target[0].y) != pytest.approx(first["rmse"][0], rel=1e-6)


def test_a_fitted_prior_is_used_as_it_is(toy):
    prior = LevelLearner().fit(toy.meta_train, 0)
    frame = evaluate(prior, toy, 0)
    assert frame["rmse"].to_numpy() == pytest.approx(evaluate(LevelLearner(), toy, 1)["rmse"].to_numpy(), rel=1e-6)
    assert frame["fit_seconds"].isna().all()


def test_tasks_of_ones_own_need_no_environment(toy):
    labelled = evaluate(LevelLearner(jitter=0.3), toy, 3)
    frame = evaluate_pairs(LevelLearner(jitter=0.3), toy.meta_test, 3, meta_train=toy.meta_train)
    where = ["environment", "split", "part"]
    assert list(labelled.columns) == [*where, *frame.columns]
    seconds = ["fit_seconds", "condition_seconds"]
    pd.testing.assert_frame_equal(labelled.drop(columns=where + seconds), frame.drop(columns=seconds))
    pd.testing.assert_frame_equal(summarise(labelled).drop(columns=seconds), summarise(frame).drop(columns=seconds))
    with pytest.raises(ValueError, match="LevelLearner is not fitted"):
        evaluate_pairs(LevelLearner(), toy.meta_test, 3)


def test_a_point_predictor_has_nan_where_a_distribution_is_needed(toy):
    frame = evaluate(LevelLearner(point=True), toy, 0)
    assert frame["rmse"].notna().all()
    assert frame[list(METRICS[1:])].isna().all(axis=None)
    assert all(np.isnan(pits).all() and len(pits) == n for pits, n in zip(frame["pit"], frame["n_target"]))
    summary = summarise(frame).iloc[0]
    assert np.isfinite(summary["rmse"])
    assert np.isnan(summary[["nll", "crps_se", "pooled_calibration_error", "pooled_coverage90"]].astype(float)).all()


def test_the_oracle_is_scored_like_a_method(toy):
    frame = evaluate_oracle(toy)
    by_hand = [
        metrics.nll(exact(context, target.x), target.y)
        for context, target in zip(toy.meta_test.context, toy.meta_test.target)
    ]
    assert frame["nll"].to_numpy() == pytest.approx(by_hand)
    assert list(frame.columns) == list(evaluate(LevelLearner(), toy, 0).columns)
    assert len(evaluate_oracle(toy, tasks="valid")) == 4


def test_summary_is_means_errors_and_pooled_figures(toy):
    frame = evaluate_oracle(toy)
    summary = summarise(frame)
    assert len(summary) == 1
    row = summary.iloc[0]
    assert (row["n_tasks"], row["n_points"]) == (6, 27)
    for name in METRICS:
        assert row[name] == pytest.approx(frame[name].mean())
        assert row[f"{name}_se"] == pytest.approx(frame[name].sem())
    pits = np.concatenate(list(frame["pit"]))
    inside = (pits >= 0.05) & (pits <= 0.95)
    assert row["pooled_calibration_error"] == pytest.approx(metrics.calibration_error(pits))
    assert row["pooled_coverage90"] == pytest.approx(inside.mean())
    assert row["calibration_floor"] == pytest.approx(metrics.calibration_floor([2, 3, 4, 5, 6, 7]))
    assert row["pooled_calibration_floor"] == pytest.approx(metrics.calibration_floor([27]))


def test_a_single_task_has_no_standard_error(toy):
    row = summarise(evaluate_oracle(toy).iloc[:1]).iloc[0]
    assert np.isfinite(row["rmse"])
    assert np.isnan(row["rmse_se"])


def test_runs_are_labelled_concatenated_and_summarised_by_label(toy):
    oracle = evaluate_oracle(toy).assign(method="oracle", seed=None)
    runs = [evaluate(LevelLearner(jitter=0.3), toy, seed).assign(method="level", seed=seed) for seed in (0, 1)]
    summary = summarise(pd.concat([oracle, *runs], ignore_index=True), by=["method", "seed"])
    assert list(summary["method"]) == ["oracle", "level", "level"]
    for (_, row), run in zip(summary.iterrows(), [oracle, *runs]):
        assert row["rmse"] == pytest.approx(run["rmse"].mean())
        expected = metrics.calibration_error(np.concatenate(list(run["pit"])))
        assert row["pooled_calibration_error"] == pytest.approx(expected)
    assert list(summarise(oracle, by="method")["method"]) == ["oracle"]


def test_mixed_rows_are_refused_rather_than_averaged(toy):
    frame = evaluate_oracle(toy)
    seeds = pd.concat([frame.assign(method="a", seed=seed) for seed in (0, 1)])
    with pytest.raises(ValueError, match=r"different method or seeds are mixed for \{'method': 'a'\}.*in `by`"):
        summarise(seeds, by="method")
    with pytest.raises(ValueError, match="different environments are mixed"):
        summarise(pd.concat([frame, frame.assign(environment="other")]))
    with pytest.raises(ValueError, match="different parts are mixed"):
        summarise(pd.concat([frame, evaluate_oracle(toy, tasks="valid")]))


def test_what_cannot_be_evaluated_is_refused(toy):
    with pytest.raises(TypeError, match="A MetaLearner or a fitted Prior is needed, not a str"):
        evaluate("oracle", toy, 0)
    with pytest.raises(ValueError, match='tasks must be "test" or "valid", not \'train\''):
        evaluate(LevelLearner(), toy, 0, tasks="train")
    unknown = Environment("real", toy.meta_train, toy.meta_valid, toy.meta_test, toy.card, 0)
    with pytest.raises(ValueError, match="The true process of real is not known"):
        evaluate_oracle(unknown)


def test_pits_of_rounded_targets_are_spread_differently_in_every_task():
    """One draw for all: the first points of all tasks would be moved the same way."""
    x = np.linspace(0, 1, 3)[:, None]
    tasks = TaskSet([Task(x, np.array([1.0, 2.0, 4.0])) for _ in range(6)])
    frame = evaluate_pairs(LevelLearner(), tasks.context_target(2), 0, meta_train=tasks)
    assert len(np.unique(np.concatenate(frame["pit"].to_list()))) == len(tasks)
