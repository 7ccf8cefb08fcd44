"""From labels and numbers to tasks: which rows are used, in which order, and what is said to be left out."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import fast

from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.grouping import MOST_POINTS, group_rows


@st.composite
def columns(draw):
    """Labels, some of them empty, and numbers with ties, in which one of several is missing."""
    rows, dim = draw(st.integers(0, 40)), draw(st.integers(1, 3))
    labels = draw(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=rows, max_size=rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    numbers = rng.integers(0, 5, size=(rows, dim + 1)).astype(float)
    numbers[rng.random(numbers.shape) < 0.1] = rng.choice([np.nan, np.inf])
    return labels, numbers


def frames(labels, numbers, order):
    """Complete rows of every task that has a label, grouped and sorted by pandas."""
    table = pd.DataFrame(numbers).assign(label=labels)
    table = table[(table["label"] != "") & np.isfinite(numbers).all(1)]
    if order == "input":
        table = table.sort_values(0, kind="stable")
    return {label: part.drop(columns="label").to_numpy() for label, part in table.groupby("label", sort=False)}


@fast
@given(columns(), st.sampled_from(["input", "rows"]))
def test_tasks_are_what_pandas_groups_and_sorts(given_columns, order):
    labels, numbers = given_columns
    grouping = group_rows(labels, numbers, order=order, most_points=None)
    expected = frames(labels, numbers, order)
    named = list(dict.fromkeys(label for label in labels if label))
    assert [task.name for task in grouping.tasks] == [label for label in named if label in expected]
    assert list(grouping.empty) == [label for label in named if label not in expected]
    assert grouping.thinned == 0
    for task in grouping.tasks:
        np.testing.assert_array_equal(np.c_[task.x, task.y], expected[task.name])


@fast
@given(columns(), st.sampled_from(["input", "rows"]), st.integers(2, 12))
def test_thinned_tasks_keep_both_ends_and_spread_evenly(given_columns, order, most):
    labels, numbers = given_columns
    numbers = np.c_[numbers[:, :-1], np.where(np.isfinite(numbers[:, -1]), np.arange(len(numbers)), np.nan)]
    whole = group_rows(labels, numbers, order=order, most_points=None)
    thinned = group_rows(labels, numbers, order=order, most_points=most)
    assert [task.name for task in thinned.tasks] == [task.name for task in whole.tasks]
    assert thinned.empty == whole.empty
    assert thinned.thinned == sum(len(task) > most for task in whole.tasks)
    for task, all_of_it in zip(thinned.tasks, whole.tasks):
        assert len(task) == min(most, len(all_of_it))
        # Targets are all different: they say which rows are left.
        kept = np.flatnonzero(np.isin(all_of_it.y, task.y))
        np.testing.assert_array_equal(np.c_[task.x, task.y], np.c_[all_of_it.x, all_of_it.y][kept])
        assert (kept[0], kept[-1]) == (0, len(all_of_it) - 1)
        gaps = np.diff(kept)
        assert gaps.size == 0 or np.ptp(gaps) <= 1


def test_by_default_rows_are_sorted_and_at_most_200_of_a_task_are_used():
    numbers = np.random.default_rng(0).permutation(500)[:, None] * [1.0, -1.0]
    (task,) = group_rows(["a"] * 500, numbers).tasks
    assert len(task) == MOST_POINTS == 200
    assert (np.diff(task.x[:, 0]) > 0).all()
    assert (task.x[0, 0], task.x[-1, 0]) == (0, 499)
    assert group_rows(["a"] * 200, numbers[:200]).thinned == 0


@pytest.mark.parametrize("options", [{"order": "file"}, {"order": None}, {"most_points": 0}, {"most_points": "all"}])
def test_settings_that_mean_nothing_are_refused(options):
    (name,) = options
    with pytest.raises(TaskError, match=f"{name} must be"):
        group_rows(["a"], np.zeros((1, 2)), **options)
