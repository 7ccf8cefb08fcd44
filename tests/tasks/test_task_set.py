"""Sets of tasks: what is accepted, and how they are split."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import fast, frame, task_sets

from scoreprior.tasks import ContextTarget, Task, TaskSet
from scoreprior.tasks.checks import TaskError


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
