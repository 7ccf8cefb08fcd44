"""Data frames of any library as tasks: what is read, and what is refused with which words."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import fast, frame, long_form, read, task_sets

from scoreprior.tasks import TaskSet
from scoreprior.tasks.checks import TaskError


@pytest.mark.parametrize(
    "convert",
    [
        lambda df: df,
        pl.from_pandas,
        pa.Table.from_pandas,
        lambda df: df.set_index("z").rename_axis(None),
        lambda df: df.convert_dtypes(),
        lambda df: df.convert_dtypes(dtype_backend="pyarrow"),
        lambda df: df.astype({"t": "category"}),
        lambda df: df.astype(object),
        lambda df: df.assign(column_names=0, columns=0),
    ],
    ids=[
        "pandas",
        "polars",
        "pyarrow",
        "index",
        "nullable",
        "arrow-dtypes",
        "categorical",
        "object",
        "odd-names",
    ],
)
def test_frames_of_all_kinds_are_read_alike(convert):
    table = frame(t=["v", "u", "v", "u"], a=[1, 2, 3, 4], b=[True, False, True, True], z=[9, 8, 7, 6])
    tasks = read(convert(table), inputs=["b", "a"])
    assert [task.name for task in tasks] == ["v", "u"]
    assert (tasks[0].x == [[1, 1], [1, 3]]).all()
    assert (tasks[1].x == [[0, 2], [1, 4]]).all()
    assert (tasks[1].y == [0.2, 0.4]).all()
    assert (tasks.input_names, tasks.target_name) == (("b", "a"), "y")


def test_headerless_frames_are_read_by_their_column_numbers():
    table = pd.DataFrame([[0, 1.5, 2.5], [1, 3.5, 4.5]])
    for names in ((0, 1, 2), ("0", "1", "2")):
        tasks = TaskSet.from_frame(table, task=names[0], inputs=[names[1]], target=names[2])
        assert (tasks.x[:, 0] == [1.5, 3.5]).all()
        assert (tasks.input_names, tasks.target_name) == (("1",), "2")


def test_numbers_come_in_many_dtypes():
    columns = {
        "object": pd.Series([1, 2.5, Decimal("3"), np.int8(4)], dtype=object),
        "category": pd.Categorical([1.0, 2.5, 3.0, 4.0]),
        "nullable": pd.array([1, 2.5, 3, 4], dtype="Float64"),
    }
    for values in columns.values():
        assert (read(frame(a=values)).x[:, 0] == [1, 2.5, 3, 4]).all()
    decimals = pl.DataFrame(frame().to_dict("list")).with_columns(pl.col("a").cast(pl.Decimal(10, 2)))
    assert (read(decimals).x[:, 0] == [1, 2, 3, 4]).all()


@pytest.mark.parametrize(
    "values",
    [
        ["1", "2", "3", "4"],
        pd.array(["1", "2", "3", "4"], dtype="string"),
        pd.Series([1, 2, "3", 4], dtype=object),
        pd.Categorical(["1", "2", "3", "4"]),
        [[1], [2], [3], [4]],
        [1j, 2, 3, 4],
    ],
    ids=["str", "string", "mixed", "categorical-text", "lists", "complex"],
)
def test_text_columns_are_refused_by_name_and_row(values):
    with pytest.raises(TaskError, match=r"Column 'a' is not numeric: row \d holds"):
        read(frame(a=values))


@pytest.mark.parametrize("convert", [lambda df: df, pl.from_pandas, pa.Table.from_pandas])
def test_durations_and_dates_to_predict_are_refused_with_advice(convert):
    with pytest.raises(TaskError, match="Column 'a' holds dates or times; turn it into numbers"):
        read(convert(frame(a=pd.to_timedelta([1, 2, 3, 4], unit="h"))))
    with pytest.raises(TaskError, match="Column 'y' holds dates or times; turn it into numbers"):
        read(convert(frame(y=pd.date_range("2020", periods=4))))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("a", [1.0, 2.0, np.nan, 4.0]),
        ("y", [1.0, 2.0, np.inf, 4.0]),
        ("a", pd.array([1, 2, None, 4], dtype="Int64")),
        ("a", pd.array([True, False, None, True], dtype="boolean")),
        ("a", pd.Series([1, 2, pd.NA, 4], dtype=object)),
        ("a", pd.Series([1, 2, None, 4], dtype=object)),
    ],
    ids=["nan", "inf", "Int64", "boolean", "object-NA", "object-None"],
)
def test_missing_values_are_refused_by_place_or_dropped(column, values):
    table = frame(**{column: values})
    with pytest.raises(TaskError, match=rf"Column '{column}' is (nan|inf) in row 2 \(task 'v'\); 1 rows .*\"drop\""):
        read(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks = read(table, missing="drop")
    assert list(tasks.sizes) == [2, 1]
    assert tasks[1].y == pytest.approx([table["y"][3]])


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_nulls_of_other_libraries_are_missing_values(convert):
    table = convert(frame(a=pd.array([1, None, 3, 4], dtype="Int64")))
    with pytest.raises(TaskError, match=r"Column 'a' is nan in row 1 \(task 'u'\)"):
        read(table)
    assert list(read(table, missing="drop").sizes) == [1, 2]


def test_tasks_without_a_complete_row_disappear_with_a_warning():
    with pytest.warns(UserWarning, match="1 tasks have no complete row and were left out: 'u'"):
        tasks = read(frame(a=[np.nan, np.nan, 3, 4]), missing="drop")
    assert [task.name for task in tasks] == ["v"]
    with (
        pytest.warns(UserWarning, match="'u', 'v'"),
        pytest.raises(TaskError, match="nothing is left to learn from"),
    ):
        read(frame(a=[np.nan] * 4), missing="drop")


@pytest.mark.parametrize(
    "labels",
    [
        ["u", None, "v", "v"],
        [1.0, np.nan, 2.0, 2.0],
        pd.array([1, None, 2, 2], dtype="Int64"),
        pd.array(["u", None, "v", "v"], dtype="string"),
        pd.Categorical(["u", None, "v", "v"]),
        pd.Series(["u", pd.NA, "v", "v"], dtype=object),
        pd.to_datetime(["2020", None, "2021", "2021"], format="%Y"),
        ["u", " ", "v", "v"],
    ],
)
def test_a_missing_task_label_is_refused_by_row_or_its_row_is_dropped(labels):
    with pytest.raises(TaskError, match=r"Column 't' is missing in row 1 \(1 such rows\): which task is it"):
        read(frame(t=labels))
    with pytest.warns(UserWarning, match="1 rows are without 't' and were left out"):
        tasks = read(frame(t=labels), missing="drop")
    assert list(tasks.y) == [0.1, 0.3, 0.4]


def test_labels_are_text_without_the_space_around_it():
    """As in a file: what a spreadsheet shows as one name is one task, and a blank is none."""
    assert [task.name for task in read(frame(t=["u", " u ", 1, "1"]))] == ["u", "1"]
    with pytest.raises(TaskError, match="Column 't' is missing in row 0"):
        read(frame(t=[" ", "u", "v", "v"]))


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (pd.concat([frame(), frame()[["a"]]], axis=1), {}, "Column 'a' appears 2 times"),
        (frame(), {"target": "z"}, "There is no column 'z'; the columns are 't', 'a', 'y'"),
        (frame(), {"inputs": ["a", "b"]}, "There is no column 'b'"),
        (frame(), {"inputs": ["a", "y"]}, "Column 'y' is used twice"),
        (frame(), {"inputs": "t"}, "Column 't' is used twice"),
        (frame(), {"inputs": []}, "At least one input column"),
        (frame().iloc[:0], {}, "The table has no rows"),
        (frame(), {"missing": "ignore"}, 'missing must be "error" or "drop", not \'ignore\''),
        (frame().to_dict(), {}, "A data frame is needed, not a dict"),
        (frame()["a"], {}, "A data frame is needed, not a Series"),
        (pl.from_pandas(frame()).lazy(), {}, "A data frame is needed, not a LazyFrame"),
    ],
)
def test_a_bad_frame_is_refused_by_column(table, options, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TaskError, match=message):
            read(table, **options)


def test_repeated_columns_of_an_arrow_table_are_refused():
    arrays = [pa.array(["u"]), pa.array([1.0]), pa.array([2.0]), pa.array([3.0])]
    with pytest.raises(TaskError, match="Column 'a' appears 2 times"):
        read(pa.Table.from_arrays(arrays, names=["t", "a", "a", "y"]))


@fast
@given(task_sets(), st.sampled_from([lambda df: df, pl.from_pandas, pa.Table.from_pandas]))
def test_long_form_round_trip(tasks, convert):
    table = convert(long_form(tasks))
    again = TaskSet.from_frame(table, task="task", inputs=tasks.input_names, target=tasks.target_name, order="rows")
    assert len(again) == len(tasks)
    for a, b in zip(tasks, again):
        assert a.name == b.name
        assert (a.x == b.x).all()
        assert (a.y == b.y).all()


def test_rows_are_sorted_by_the_first_input_unless_asked_otherwise():
    table = frame(t=["u"] * 4, a=[3.0, 1.0, 3.0, 2.0])
    assert list(read(table).y) == [0.2, 0.4, 0.1, 0.3]
    assert list(read(table, order="rows").y) == [0.1, 0.2, 0.3, 0.4]


def test_long_tasks_are_thinned_with_one_warning():
    table = pd.DataFrame({"t": np.repeat(["u", "v", "w"], [201, 200, 300]), "a": np.arange(701.0), "y": 0.0})
    with pytest.warns(UserWarning, match=r"2 of 3 tasks have more than 200 points, .*; pass most_points=None") as said:
        assert list(read(table).sizes) == [200, 200, 200]
    assert len(said) == 1
    assert said[0].filename.endswith("made_tasks.py")  # the line that called from_frame
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read(table, most_points=None).sizes) == [201, 200, 300]
