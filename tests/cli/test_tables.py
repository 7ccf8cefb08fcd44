"""The same file gives the same tasks to the command line, to `TaskSet.from_frame` and to `TaskSet.from_file`."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_table import COLUMNS, run

import scoreprior as sp
from scoreprior.cli._tables import Columns, read_tasks
from scoreprior.tasks import TaskSet


def write(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, index=False)
    return path


def tables(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Tables with what one reader could treat in another way than the next."""

    def table(points: int, tasks: int = 3) -> pd.DataFrame:
        names = rng.permutation(np.repeat([f"p{i}" for i in range(tasks)], points))
        columns = {name: rng.permutation(len(names)) / 8 for name in ("hour", "dose", "gcs")}
        return pd.DataFrame({"patient": names, **columns})

    unsorted = table(6)
    missing = table(6)
    for row, column in ((2, "hour"), (5, "dose"), (7, "gcs"), (8, "gcs")):
        missing.loc[row, column] = np.nan
    missing.loc[missing["patient"] == "p1", "gcs"] = np.nan
    return {
        "unsorted": unsorted,
        "ties": unsorted.assign(hour=unsorted["hour"].round(0) % 2),
        "long": table(230),
        "missing": missing,
        "just long enough": table(200),
    }


TABLES = tables(np.random.default_rng(0))


def from_command_line(path: Path, inputs: tuple[str, ...], **options) -> TaskSet:
    tasks = read_tasks(path, Columns("patient", inputs, "gcs", **options))[0].tasks
    assert tasks is not None
    return tasks


def from_frame(path: Path, inputs: tuple[str, ...], **options) -> TaskSet:
    frame = pd.read_csv(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TaskSet.from_frame(frame, task="patient", inputs=inputs, target="gcs", missing="drop", **options)


def from_file(path: Path, inputs: tuple[str, ...], **options) -> TaskSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TaskSet.from_file(path, task="patient", inputs=inputs, target="gcs", missing="drop", **options)


def assert_same(a: TaskSet, b: TaskSet) -> None:
    assert [task.name for task in a] == [task.name for task in b]
    assert (a.input_names, a.target_name) == (b.input_names, b.target_name)
    for one, other in zip(a, b):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.y, other.y)


ORDERS = pytest.mark.parametrize("options", [{}, {"order": "input"}, {"order": "rows"}], ids=str)


@ORDERS
@pytest.mark.parametrize("inputs", [("hour",), ("dose", "hour")], ids=len)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_gives_the_same_tasks_however_it_is_read(tmp_path, name, inputs, options):
    path = write(tmp_path / "readings.csv", TABLES[name])
    expected = from_command_line(path, inputs, **options)
    assert_same(from_frame(path, inputs, **options), expected)
    assert_same(from_file(path, inputs, **options), expected)


def test_the_orders_differ(tmp_path):
    path = write(tmp_path / "readings.csv", TABLES["unsorted"])
    by_input, by_row = (from_command_line(path, ("hour",), order=order) for order in ("input", "rows"))
    assert not np.array_equal(by_input.x, by_row.x)


cells = st.sampled_from(["0", "1", "1.5", "-2e3", "7", "", "NA", "inf"])
lines = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), cells, cells, cells), min_size=1, max_size=20)


@settings(max_examples=50, deadline=None)
@given(lines, st.sampled_from(["input", "rows"]))
def test_any_table_gives_the_same_tasks_however_it_is_read(tmp_path_factory, lines, order):
    path = tmp_path_factory.mktemp("tables") / "readings.csv"
    path.write_text("\n".join(["patient,hour,dose,gcs", *map(",".join, lines)]) + "\n")
    reading, _ = read_tasks(path, Columns("patient", ("hour", "dose"), "gcs", order))
    if reading.tasks is None:
        for read in (from_frame, from_file):
            with pytest.raises(sp.TaskError, match="nothing is left to learn from"):
                read(path, ("hour", "dose"), order=order)
        return
    for read in (from_frame, from_file):
        assert_same(read(path, ("hour", "dose"), order=order), reading.tasks)


def test_what_was_left_out_is_counted_once_with_its_first_reason(tmp_path):
    path = tmp_path / "readings.csv"
    path.write_text("patient,hour,gcs\na,2,1\n,3,\na,,\nb,1,\na,1,2\n")
    reading, table = read_tasks(path, Columns("patient", ("hour",), "gcs"))
    assert reading.tasks is not None
    assert reading.tasks[0].y.tolist() == [2, 1]
    assert reading.dropped == {"without patient": 1, "without hour": 1, "without gcs": 1}
    assert (reading.empty, reading.thinned, reading.rows, len(table)) == (("b",), 0, 5, 5)


@pytest.mark.parametrize("method", ["last-value", "ridge"])
@pytest.mark.parametrize("options", [{}, {"order": "rows"}], ids=str)
def test_a_prior_is_the_same_from_the_command_line_and_from_python(tmp_path, method, options):
    """A table in no order with ties, a missing value, and a task of more than 200 points."""
    rng = np.random.default_rng(1)
    names = rng.permutation(np.repeat(["a", "b", "c", "d"], [230, 5, 9, 12]))
    hours = rng.integers(0, 40, len(names))
    frame = pd.DataFrame({"patient": names, "hour": hours, "gcs": np.round(rng.normal(10, 2, len(names)), 3)})
    frame.loc[4, "gcs"] = np.nan
    path = write(tmp_path / "readings.csv", frame)
    out = tmp_path / "gcs.prior"
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    result = run("fit", path, *COLUMNS, "--out", out, "--method", method, "--seed", 5, "--no-hold-out", *words)
    assert result.exit_code == 0, result.output
    assert result.output.count("more than 200 points") == 1
    with pytest.warns(UserWarning, match="1 of 4 tasks have more than 200 points"):
        tasks = TaskSet.from_frame(frame, task="patient", inputs="hour", target="gcs", missing="drop", **options)
    found, expected = (
        prior.condition([1.0, 3.0], [9.0, 11.0], 0).predict([[5.0], [30.0]])
        for prior in (sp.load_prior(out).unguarded, sp.learner(method).fit(tasks, 5))
    )
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.std, expected.std)
