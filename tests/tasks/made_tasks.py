"""Task sets and data frames for the tests of the tasks."""

import numpy as np
import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st

from scoreprior.tasks import Task, TaskSet

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
