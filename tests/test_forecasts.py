"""Held-out forecasts: what is known of the future, and one row per task."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import scoreprior as sp
from scoreprior import diagnostics


def sales(products: int = 10, days: int = 30, **options) -> sp.TaskSet:
    rng = np.random.default_rng(0)
    dates = pd.date_range("2024-01-01", periods=days)
    frames = [pd.DataFrame({"product": f"p{i}", "date": dates, "sold": rng.normal(size=days)}) for i in range(products)]
    table = pd.concat(frames)
    return sp.TaskSet.from_frame(table, task="product", inputs="date", target="sold", time=True, **options)


def test_on_the_calendar_no_task_tells_the_future():
    tasks = sales()
    (fold,) = diagnostics.forecast_folds(tasks, 0, horizon=5, number=1, origins=2)
    train, test = fold.meta_train, fold.meta_test
    first = min(task.x[0, 0] for task in test.target)
    assert first == 20
    assert train.x[:, 0].max() == first - 1
    assert len(test) == 4
    assert not {task.name for task in train} & {task.name for task in test.context}


def test_time_since_the_beginning_of_a_task_is_the_past_of_others():
    tasks = sales(since="task")
    train = diagnostics.forecast_folds(tasks, 0, horizon=5)[0].meta_train
    assert (train.sizes == 30).all()


def test_too_few_or_too_short_tasks_cannot_be_judged():
    with pytest.raises(sp.TaskError, match="too few to judge forecasts of 30 rows"):
        diagnostics.forecast_folds(sales(), 0, horizon=30)
    with pytest.raises(sp.TaskError, match="4 tasks"):
        diagnostics.forecast_folds(sales(products=4), 0, horizon=5)
    with pytest.raises(sp.TaskError, match="too little to learn from"):
        diagnostics.forecast_folds(sales(days=4), 0, horizon=3, origins=1)


def test_every_task_is_left_out_once():
    folds = diagnostics.forecast_folds(sales(), 0, horizon=5, origins=2)
    assert sorted(np.concatenate([np.unique(fold.positions) for fold in folds])) == list(range(10))
    for fold in folds:
        assert [task.name for task in fold.meta_test.context] == [f"p{at}" for at in fold.positions]


def test_origins_of_a_task_become_one_row():
    tasks = sales()
    (fold,) = diagnostics.forecast_folds(tasks, 0, horizon=5, number=1)
    methods = {name: sp.learner(name) for name in ("last-value", "context-mean")}
    found = sp.cross_validate(methods, tasks, 0, folds=1, horizon=5).comparison()
    assert found.coverage.tasks == 2
    assert found.coverage.points == 30
    for row in found.rows[found.rows["method"] == "last-value"].itertuples():
        pairs = [(c, t) for c, t in zip(fold.meta_test.context, fold.meta_test.target) if c.name == row.task]
        assert len(pairs) == 3
        errors = np.concatenate([target.y - known.y[-1] for known, target in pairs])
        assert row.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
        assert tasks[row.position].name == row.task


def test_check_predicts_at_rolling_origins():
    tasks = sales()
    prior = sp.learner("ridge").fit(tasks, 0)
    found = sp.check(prior, tasks, 0, horizon=5)
    rows = sp.evaluate_pairs(prior, tasks.rolling_origin(5), 0)
    assert found.coverage.tasks == 10
    assert found.coverage.points == rows["n_target"].sum() == 150
    assert found.coverage.share == pytest.approx(rows["coverage90"].mean())
