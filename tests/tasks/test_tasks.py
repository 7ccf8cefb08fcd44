"""Tasks at the door: what is accepted, what is refused with which words, and what is preserved inside."""

import datetime
import warnings
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoreprior.tasks import ContextTarget, PaddedTasks, Standardizer, Task, TaskSet, bucket
from scoreprior.tasks.checks import TaskError, check_query

fast = settings(max_examples=30, deadline=None)


@st.composite
def task_sets(draw, min_tasks=1, min_points=1, max_points=9):
    """Task sets whose rows are all different, so that a row can be recognised wherever it ends up."""
    dim = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(min_points, max_points), min_size=min_tasks, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return TaskSet([Task(rng.normal(size=(m, dim)), rng.normal(size=m), f"t{i}") for i, m in enumerate(sizes)])


def long_form(tasks):
    """The pandas frame that `TaskSet.from_frame` reads."""
    rows = [(task.name, *x, y) for task in tasks for x, y in zip(task.x, task.y)]
    return pd.DataFrame(rows, columns=["task", *tasks.input_names, tasks.target_name])


def frame(**columns):
    """Two tasks u and v of two rows each, with some columns replaced."""
    base = {"t": ["u", "u", "v", "v"], "a": [1.0, 2.0, 3.0, 4.0], "y": [0.1, 0.2, 0.3, 0.4]}
    return pd.DataFrame(base | columns)


def read(table, **options):
    return TaskSet.from_frame(table, **({"task": "t", "inputs": ["a"], "target": "y"} | options))


# Task


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


# TaskSet


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"x": [1.0], "y": [2.0]}),
        pl.DataFrame({"x": [1.0]}),
        pa.table({"x": [1.0]}),
        pd.Series([1.0]),
        np.zeros((3, 2)),
        jnp.zeros((3, 2)),
        Task([1.0], [2.0]),
        {"x": [1.0], "y": [2.0]},
        "table.csv",
        3,
    ],
    ids=lambda table: type(table).__name__,
)
def test_a_single_table_is_not_a_set_of_tasks(table):
    with pytest.raises(TaskError, match=rf"a single table \({type(table).__name__}\) was passed.*from_frame"):
        TaskSet(table)


def test_a_task_set_accepts_any_iterable_of_tasks():
    tasks = TaskSet(Task([float(i)], [0.0]) for i in range(3))
    assert (len(tasks), tasks.dim, list(tasks.sizes)) == (3, 1, [1, 1, 1])
    assert tasks[-1].x[0, 0] == 2
    assert [task.x[0, 0] for task in tasks[1:]] == [1, 2]
    assert repr(tasks) == "TaskSet(n=3, m=1..1, d=1)"


@pytest.mark.parametrize(
    ("tasks", "options", "message"),
    [
        ([], {}, "There are no tasks"),
        ([Task([1.0], [1.0]), (1, 2)], {}, r"Entry 1 is a tuple, not a Task"),
        (
            [Task([1.0], [1.0], "p"), Task([[1.0, 2.0]], [1.0], "q")],
            {},
            r"q \(entry 1\) has 2 input columns but p has 1",
        ),
        ([Task([1.0], [1.0]), Task([], [], "q")], {}, r"q \(entry 1\) is empty"),
        ([Task([1.0], [1.0])], {"input_names": ["a", "b"]}, "2 input names for 1 input columns"),
    ],
)
def test_a_bad_set_is_refused_by_entry(tasks, options, message):
    with pytest.raises(TaskError, match=message):
        TaskSet(tasks, **options)


def test_empty_tasks_are_allowed_where_asked_for():
    batch = TaskSet([Task(np.zeros((0, 2)), [])], allow_empty=True).padded(4)
    assert batch.x.shape == (1, 4, 2)
    assert not batch.mask.any()


def test_from_arrays_pairs_inputs_with_targets():
    ragged = TaskSet.from_arrays([[1.0], [1.0, 2.0]], [[1.0], [3.0, 4.0]], names=["p", "q"], target_name="z")
    assert ([task.name for task in ragged], list(ragged.sizes), ragged.target_name) == (
        ["p", "q"],
        [1, 2],
        "z",
    )
    stacked = TaskSet.from_arrays(np.zeros((3, 4, 2)), np.ones((3, 4)))
    assert (len(stacked), stacked.dim, stacked[2].name) == (3, 2, "task 2")


@pytest.mark.parametrize(
    ("xs", "ys", "options", "message"),
    [
        (np.zeros((4, 2)), np.zeros(4), {}, "a single task's arrays were passed"),
        (frame()[["a"]], frame()["y"], {}, "a single task's arrays were passed"),
        ({"a": [1.0]}, {"a": [1.0]}, {}, "a single task's arrays were passed"),
        (3.0, 4.0, {}, "a single task's arrays were passed"),
        ([[1.0]], [[1.0], [2.0]], {}, "1 arrays of inputs but 2 of targets"),
        ([[1.0]], [[1.0]], {"names": ["p", "q"]}, "2 names for 1 tasks"),
        ([[1.0], [1.0, 2.0]], [[1.0], [2.0]], {}, "task 1 has 2 rows in x but 1 in y"),
        ([], [], {}, "There are no tasks"),
    ],
)
def test_from_arrays_refuses_what_does_not_pair_up(xs, ys, options, message):
    with pytest.raises(TaskError, match=message):
        TaskSet.from_arrays(xs, ys, **options)


# Frames


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


@pytest.mark.parametrize("values", [pd.date_range("2020", periods=4), pd.to_timedelta([1, 2, 3, 4], unit="h")])
@pytest.mark.parametrize("convert", [lambda df: df, pl.from_pandas, pa.Table.from_pandas])
def test_date_columns_are_refused_with_advice(values, convert):
    with pytest.raises(TaskError, match="Column 'a' holds dates or times; turn it into numbers"):
        read(convert(frame(a=values)))


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
    ],
)
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_missing_task_label_is_refused_by_row(labels, missing):
    with pytest.raises(TaskError, match=r"Column 't' is missing in row 1 \(1 such rows\): which task is it"):
        read(frame(t=labels), missing=missing)


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


# Properties


@fast
@given(task_sets(), st.integers(0, 5))
def test_padding_is_undone_by_the_mask(tasks, extra):
    size = int(tasks.sizes.max()) + extra
    batch = [np.asarray(array) for array in tasks.padded(size)]
    assert batch[0].shape == (len(tasks), size, tasks.dim)
    for task, x, y, mask in zip(tasks, *batch):
        assert np.allclose(x[mask], task.x, rtol=1e-6)
        assert np.allclose(y[mask], task.y, rtol=1e-6)
        assert (mask == (np.arange(size) < len(task))).all()
        assert (x[~mask] == 0).all()
        assert (y[~mask] == 0).all()


def test_a_batch_that_is_too_small_is_refused():
    with pytest.raises(TaskError, match="up to 3 points do not fit a batch of size 2"):
        TaskSet([Task([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])]).padded(2)


@fast
@given(task_sets(min_tasks=2), st.data())
def test_split_is_a_partition_of_the_tasks(tasks, data):
    first = data.draw(st.integers(1, len(tasks) - 1))
    second = data.draw(st.integers(1, len(tasks) - first - 1)) if len(tasks) - first > 1 else None
    sizes = [first] if second is None else [first, second]
    for key in (None, data.draw(st.integers(0, 1000))):
        parts = tasks.split(*sizes, key=key)
        assert [len(part) for part in parts] == [*sizes, len(tasks) - sum(sizes)]
        names = [task.name for part in parts for task in part]
        assert sorted(names) == sorted(task.name for task in tasks)
        if key is None:
            assert names == [task.name for task in tasks]


def test_split_by_fraction_and_by_key():
    tasks = TaskSet([Task([float(i)], [0.0], str(i)) for i in range(20)])
    train, valid, test = tasks.split(0.6, 0.25, key=1)
    assert (len(train), len(valid), len(test)) == (12, 5, 3)
    again = tasks.split(0.6, 0.25, key=jax.random.key(1))[0]
    assert [task.name for task in train] == [task.name for task in again]
    assert [task.name for task in train] != [task.name for task in tasks.split(0.6, 0.25, key=2)[0]]


@pytest.mark.parametrize("sizes", [(0,), (2,), (-1,), (1, 1), (1.0,)])
def test_a_split_leaves_no_part_empty(sizes):
    tasks = TaskSet([Task([1.0], [1.0]), Task([2.0], [2.0])])
    with pytest.raises(TaskError, match="Cannot split 2 tasks"):
        tasks.split(*sizes)


@fast
@given(
    task_sets(min_points=2),
    st.one_of(st.just(1), st.floats(0.01, 0.99)),
    st.one_of(st.none(), st.integers(0, 9)),
)
def test_context_and_target_are_a_partition_of_every_task(tasks, context, key):
    parts = tasks.context_target(context, key=key)
    assert len(parts) == len(tasks)
    for task, given_part, asked_part in zip(tasks, parts.context, parts.target):
        assert len(given_part) > 0
        assert len(asked_part) > 0
        assert task.name == given_part.name == asked_part.name
        both = np.concatenate([np.c_[given_part.x, given_part.y], np.c_[asked_part.x, asked_part.y]])
        whole = np.c_[task.x, task.y]
        if key is None:
            assert (both == whole).all()
        assert (both[np.lexsort(both.T)] == whole[np.lexsort(whole.T)]).all()


def test_context_by_count_and_by_function():
    tasks = TaskSet([Task([1.0, 5.0, 2.0], [1.0, 2.0, 3.0], "p"), Task([7.0, 0.0], [4.0, 5.0], "q")])
    early = tasks.context_target(lambda task: task.x[:, 0] < 4)
    assert [list(part.y) for part in early.context] == [[1, 3], [5]]
    assert [list(part.y) for part in early.target] == [[2], [4]]
    assert [list(part.y) for part in tasks.context_target(1).context] == [[1], [4]]
    assert early.take([1]).target[0].name == "q"


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (2, "q with 2 points cannot give 2 to the context"),
        (0, "at least one point, not 0"),
        (1.0, "strictly between 0 and 1, not 1.0"),
        (float("nan"), "strictly between 0 and 1, not nan"),
        (lambda task: np.ones(len(task), bool), "p with 3 points cannot give 3"),
        (lambda task: np.array([0]), r"gave int64 \(1,\) for p; expected bool \(3,\)"),
    ],
)
def test_a_bad_context_is_refused_by_task(context, message):
    tasks = TaskSet([Task([1.0, 5.0, 2.0], [1.0, 2.0, 3.0], "p"), Task([7.0, 0.0], [4.0, 5.0], "q")])
    with pytest.raises(TaskError, match=message):
        tasks.context_target(context)


def test_contexts_and_targets_pair_up():
    one, two = TaskSet([Task([1.0], [1.0])]), TaskSet([Task([1.0], [1.0])] * 2)
    with pytest.raises(TaskError, match="1 contexts do not pair with 2 targets"):
        ContextTarget(one, two)


@fast
@given(task_sets(), st.sampled_from([lambda df: df, pl.from_pandas, pa.Table.from_pandas]))
def test_long_form_round_trip(tasks, convert):
    table = convert(long_form(tasks))
    again = TaskSet.from_frame(table, task="task", inputs=tasks.input_names, target=tasks.target_name)
    assert len(again) == len(tasks)
    for a, b in zip(tasks, again):
        assert a.name == b.name
        assert (a.x == b.x).all()
        assert (a.y == b.y).all()


# Standardizer


@fast
@given(task_sets(min_tasks=2, min_points=2), st.floats(-8, 8), st.floats(-1e3, 1e3))
def test_standardised_training_points_have_mean_zero_and_std_one(tasks, log10_scale, offset):
    scale = 10.0**log10_scale
    tasks = tasks.map(lambda task: Task(scale * (task.x + offset), scale * (task.y + offset), task.name))
    scaler = Standardizer.fit(tasks)
    scaled = scaler.apply(tasks)
    assert np.allclose(scaled.x.mean(0), 0, atol=1e-9)
    assert np.allclose(scaled.x.std(0), 1, rtol=1e-9)
    assert np.allclose([scaled.y.mean(), scaled.y.std() - 1], 0, atol=1e-9)
    assert np.allclose(scaler.unscale_y(scaled.y), tasks.y, rtol=1e-12, atol=1e-12 * scale * (1 + abs(offset)))
    assert [task.name for task in scaled] == [task.name for task in tasks]


def test_a_constant_input_is_only_centred_and_warned_about_by_name():
    tasks = TaskSet(
        [Task([[0.1, 3.0], [0.1, 4.0]], [1.0, 2.0]), Task([[0.1, 5.0]], [3.0])], input_names=["dose", "time"]
    )
    with pytest.warns(UserWarning, match="Input 'dose' is constant over all tasks"):
        scaler = Standardizer.fit(tasks)
    assert scaler.x_std[0] == 1
    assert np.allclose(scaler.apply(tasks).x[:, 0], 0)
    assert scaler.scale_x(np.array([[0.6, 4.0]]))[0, 0] == pytest.approx(0.5)


def test_a_constant_target_is_only_centred_and_warned_about_by_name():
    tasks = TaskSet([Task([1.0, 2.0], [7.0, 7.0]), Task([3.0], [7.0])], target_name="yield")
    with pytest.warns(UserWarning, match=r"Target yield is constant \(7\) over all tasks"):
        scaler = Standardizer.fit(tasks)
    assert (scaler.y_mean, scaler.y_std) == (7, 1)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (TaskSet([Task([1.0, 2.0], [1.0, 2.0], "p")]), r"at least two tasks, but there is only one \(p\)"),
        ([Task([1.0], [1.0])] * 2, "A TaskSet is needed, not a list"),
        (frame(), "A TaskSet is needed, not a DataFrame"),
        (
            TaskSet([Task([1.0], [1.0]), Task([], [], "q")], allow_empty=True),
            "'q' has no points; meta-training tasks need",
        ),
    ],
)
def test_too_little_to_learn_from_is_refused(tasks, message):
    with pytest.raises(TaskError, match=message):
        Standardizer.fit(tasks)


# Shapes


@fast
@given(st.integers(0, 5000))
def test_buckets_hold_their_size_and_waste_at_most_half(size):
    assert bucket(size) >= size
    assert bucket(size) <= max(4, 1.5 * size)
    assert bucket(size + 1) >= bucket(size)
    assert bucket(bucket(size)) == bucket(size)


def test_buckets_are_few():
    assert sorted({bucket(size) for size in range(1, 33)}) == [4, 6, 8, 12, 16, 24, 32]


@pytest.mark.parametrize(
    ("x", "dim", "message"),
    [
        ([[1.0, 2.0]], 3, r"x has shape \(1, 2\); this prior was fitted with d=3, so it must be \(q, 3\)"),
        ([1.0, 2.0], 2, r"x has shape \(2,\)"),
        ([[1.0, np.nan]], 2, "x is nan in row 0, column 1"),
        (["a"], 1, "x holds text"),
    ],
)
def test_bad_query_points_are_refused(x, dim, message):
    with pytest.raises(TaskError, match=message):
        check_query(x, dim)


def test_query_points_of_one_dimension_may_be_flat():
    assert check_query([1, 2, 3], 1).shape == (3, 1)
    assert check_query(np.zeros((0, 2)), 2).shape == (0, 2)


def test_thinned_tasks_keep_real_points_in_their_order():
    x = jnp.broadcast_to(jnp.arange(9.0)[None, :, None], (3, 9, 1))
    mask = jnp.arange(9)[None, :] < jnp.array([9, 5, 2])[:, None]
    kept = PaddedTasks(x, x[..., 0], mask).at_most(4, jax.random.key(0))
    assert kept.mask.sum(axis=1).tolist() == [4, 4, 2]
    for points, values, real in zip(kept.x, kept.y, kept.mask):
        own = np.asarray(values)[np.asarray(real)]
        assert (np.diff(own) > 0).all()
        assert (points[: len(own), 0] == own).all()
        assert real[: len(own)].all()
