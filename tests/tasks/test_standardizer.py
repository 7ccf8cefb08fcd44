"""Standardised units, fitted to the training tasks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import fast, frame, task_sets

from scoreprior.tasks import Standardizer, Task, TaskSet
from scoreprior.tasks.checks import TaskError


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
