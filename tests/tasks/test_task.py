"""One task at the door: what is accepted, and what is refused with which words."""

import datetime

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest

from scoreprior.tasks import Task
from scoreprior.tasks.checks import TaskError


def test_a_task_holds_read_only_double_copies():
    x, y = np.arange(3, dtype=np.float32), np.arange(3)
    task = Task(x, y, "s")
    x[0] = 99
    assert task.x.dtype == task.y.dtype == np.float64
    assert task.x.shape == (3, 1)
    assert task.x[0, 0] == 0
    for array in (task.x, task.y):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert (len(task), task.dim, repr(task)) == (3, 1, "Task('s', m=3, d=1)")


@pytest.mark.parametrize(
    "x",
    [
        [[1, 2], [3, 4]],
        jnp.array([[1, 2], [3, 4]]),
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}),
        pd.DataFrame({"a": pd.array([1, 3], "Int64"), "b": [2, 4]}),
        pl.DataFrame({"a": [1, 3], "b": [2, 4]}),
        np.array([[1, 2], [3, 4]], dtype=object),
    ],
)
def test_a_task_takes_anything_rectangular_and_numeric(x):
    assert (Task(x, [[1], [0]]).x == [[1, 2], [3, 4]]).all()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1, 2], [3, np.nan]], [1, 2], r"x of patient 7 is nan in row 1, column 1"),
        ([1, 2], [np.inf, 2], r"y of patient 7 is inf in row 0 \(1 such values\)"),
        ([1, None], [1, 2], r"x of patient 7 is nan in row 1"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), [1, 2], r"x of patient 7 is nan in row 1"),
        (pd.Series([1, None], dtype="Int64"), [1, 2], r"x of patient 7 is nan in row 1"),
        ([1, 2, 3], [1, 2], r"patient 7 has 3 rows in x but 2 in y"),
        (np.zeros((2, 2, 2)), [1, 2], r"x of patient 7 has shape \(2, 2, 2\)"),
        (np.zeros((2, 0)), [1, 2], r"x of patient 7 has shape \(2, 0\)"),
        (1.0, [1], r"x of patient 7 has shape \(\)"),
        ([1, 2], np.zeros((2, 2)), r"y of patient 7 has shape \(2, 2\); it must be \(m,\)"),
        ([[1], [2, 3]], [1, 2], r"x of patient 7 is not a rectangular array"),
    ],
)
def test_a_bad_task_is_refused_by_name_and_place(x, y, message):
    with pytest.raises(TaskError, match=message):
        Task(x, y, "patient 7")


@pytest.mark.parametrize(
    ("x", "held"),
    [
        (["a", "b"], "text"),
        (["1", "2"], "text"),
        (pd.Series(["1", "2"]), "text"),
        (np.array(["1", 2.0], dtype=object), "text"),
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), "dates or times"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "dates or times"),
        (pd.to_timedelta([1, 2], unit="h"), "dates or times"),
        (np.array([1j, 2.0]), "complex"),
    ],
)
def test_a_task_never_turns_text_or_dates_into_numbers_silently(x, held):
    with pytest.raises(TaskError, match=f"x of patient 7 holds {held}"):
        Task(x, [1, 2], "patient 7")


def test_dates_as_objects_are_refused():
    with pytest.raises(TaskError, match="x of patient 7 is not a rectangular array of numbers"):
        Task([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], [1, 2], "patient 7")
