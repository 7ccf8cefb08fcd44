"""`scoreprior predict`: rows, quantiles, flags, figures and refusals."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from functools import partial

import numpy as np
import pandas as pd
import pytest
from own_table import run

import scoreprior as sp
from scoreprior import Task
from scoreprior.cli._figures import predictions
from scoreprior.cli._notes import open_prior
from scoreprior.cli._partial import dependence
from scoreprior.cli._queries import GRID, Query
from scoreprior.cli._tables import Columns
from scoreprior.cli._truths import true_points

NUMBERS = ["mean", "std", "q5", "q25", "q50", "q75", "q95"]


@pytest.fixture
def new(table):
    path = table.with_name("new.csv")
    path.write_text("patient,hour,gcs\nx,6,14\nx,0,10\ny,3,20\nz,5,\n")
    return path


def frame_of(result) -> pd.DataFrame:
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout))


def test_rows_agree_with_the_library(prior, new):
    at = new.with_name("query.csv")
    at.write_text("patient,hour\nx,1\ny,10\nx,12\nghost,2\n")  # in their own order
    out = new.with_name("predictions.csv")
    result = run("predict", prior, new, "--at", at, "--out", out)
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["patient", "hour", *NUMBERS, "extrapolates", "known_points", "surprise"]
    assert frame["patient"].tolist() == ["x", "y", "x", "ghost"]
    assert frame["known_points"].tolist() == [2, 1, 2, 0]
    loaded = sp.load_prior(prior)
    expected = loaded.condition([0.0, 6.0], [10.0, 14.0], 0).predict([[1.0], [12.0]]).to_frame()
    np.testing.assert_allclose(frame.loc[[0, 2], NUMBERS], expected[NUMBERS], rtol=1e-4)
    empty = loaded.condition([], [], 0).predict([[2.0]]).to_frame()
    np.testing.assert_allclose(frame.loc[3:, NUMBERS], empty[NUMBERS], rtol=1e-4)
    assert "1 task without known points, answered by the prior alone: ghost" in result.stderr


def test_a_grid_without_at_covers_the_range_of_training(prior, new, table):
    frame = frame_of(run("predict", prior, new, "--quiet"))
    hours = pd.read_csv(table)["hour"]
    assert frame["patient"].unique().tolist() == ["x", "y", "z"]
    assert len(frame) == 3 * GRID
    assert (frame["hour"].min(), frame["hour"].max()) == (hours.min(), hours.max())
    assert not frame["extrapolates"].any()
    assert frame.groupby("patient")["known_points"].first().tolist() == [2, 1, 0]
    assert (frame[NUMBERS[2:]].diff(axis=1).iloc[:, 1:] > 0).all().all()


def test_without_a_table_the_prior_answers(prior):
    frame = frame_of(run("predict", prior))
    assert (frame["known_points"] == 0).all()
    assert len(frame) == GRID


def test_one_task_needs_no_task_column(prior, new):
    new.write_text("hour,gcs\n0,10\n6,14\n")
    at = new.with_name("query.csv")
    at.write_text("hour\n1\n")
    result = run("predict", prior, new, "--at", at)
    expected = sp.load_prior(prior).condition([0.0, 6.0], [10.0, 14.0], 0).predict([[1.0]])
    assert frame_of(result)["mean"][0] == pytest.approx(expected.mean[0], rel=1e-4)
    assert "taken as one task" in result.stderr
    at.write_text("patient,hour\nx,1\n")
    assert "which known points belong to which task" in run("predict", prior, new, "--at", at).stderr
    assert run("predict", prior, new, "--task", "patient").exit_code == 2


def test_queries_without_tasks_are_for_all_tasks(prior, new):
    at = new.with_name("query.csv")
    at.write_text("hour\n1\n2\n")
    assert frame_of(run("predict", prior, new, "--at", at))["patient"].tolist() == ["x", "x", "y", "y", "z", "z"]


def test_far_queries_are_flagged_and_gaps_stay_blank(prior, new):
    at = new.with_name("query.csv")
    at.write_text("patient,hour\nx,1\nx,\nx,500\nx,-1\n,3\n")
    result = run("predict", prior, new, "--at", at)
    frame = frame_of(result)
    assert [str(flag) for flag in frame["extrapolates"]] == ["False", "nan", "True", "True", "nan"]
    assert frame[NUMBERS].isna().all(axis=1).tolist() == [False, True, False, False, True]
    assert "2 predictions outside the range of training" in result.stderr
    assert "2 rows of" in result.stderr


def test_many_rows_are_answered_in_blocks_alike(prior, new, monkeypatch):
    at = new.with_name("query.csv")
    at.write_text("patient,hour\n" + "".join(f"x,{i / 10}\n" for i in range(30)) + "y,1\n")
    whole = frame_of(run("predict", prior, new, "--at", at))
    monkeypatch.setattr("scoreprior.cli.predict._BLOCK", 16)
    pd.testing.assert_frame_equal(frame_of(run("predict", prior, new, "--at", at)), whole, rtol=1e-6)


def test_json_and_parquet(prior, new):
    at = new.with_name("query.csv")
    at.write_text("patient,hour\nx,1\nx,\n")
    record = json.loads(run("predict", prior, new, "--at", at, "--json").stdout)
    assert record["predictions"][0]["patient"] == "x"
    assert record["predictions"][0]["extrapolates"] is False
    assert record["predictions"][1]["mean"] is None
    out = new.with_name("predictions.parquet")
    assert run("predict", prior, new, "--at", at, "--out", out).exit_code == 0
    assert pd.read_parquet(out)["mean"][0] == pytest.approx(record["predictions"][0]["mean"])


def test_the_figure(prior, new):
    plot = new.with_name("out.png")
    assert run("predict", prior, new, "--plot", plot, "--quiet").exit_code == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    result = run("predict", prior, new, "--plot", new.with_name("out.xyz"))
    assert result.exit_code == 2
    assert ".png" in result.stderr


def test_a_figure_has_curves_for_a_grid_alone_and_shades_what_extrapolates(prior):
    loaded, notes = open_prior(prior)
    hours = np.array([[1.0], [5.0], [500.0]])
    predictive = loaded.condition([0.0], [10.0], 0).predict(hours)
    shown = [("x", hours, Task([[0.0]], [10.0]))] * 5
    draw = partial(predictions, notes.columns, notes, shown, [predictive] * 5, of=5)
    curves, points = draw(curves=True).axes, draw(curves=False).axes
    assert len(curves) == 6  # two rows of three
    assert [ax.get_visible() for ax in curves] == [True] * 5 + [False]
    assert len(curves[0].lines[0].get_xdata()) == len(points[0].lines[0].get_xdata()) == 3
    assert curves[0].lines[0].get_linestyle() == "-"
    assert points[0].lines[0].get_linestyle() == "None"
    (shade,) = points[0].patches
    assert shade.get_x() == notes.domain[1, 0]
    assert shade.get_label() == "outside the range of training"


def test_two_inputs(table, no_gp):
    rng = np.random.default_rng(0)
    lines = [f"p{i % 6},{a:.2f},{b:.2f},{a + 2 * b:.2f}" for i, (a, b) in enumerate(rng.uniform(0, 5, (60, 2)))]
    table.write_text("\n".join(["patient,hour,dose,gcs", *lines]))
    prior, plot, at = (table.with_name(name) for name in ("p", "f.svg", "q.csv"))
    columns = ("--task", "patient", "--inputs", "hour, dose", "--target", "gcs")
    result = run("fit", table, *columns, "--out", prior, "--method", "ridge", "--no-hold-out")
    assert result.exit_code == 0, result.output
    result = run("predict", prior, table)
    assert result.exit_code == 2
    assert "2 inputs" in result.stderr
    at.write_text("patient,dose,hour\np1,1,2\np2,9,1\n")
    frame = frame_of(run("predict", prior, table, "--at", at, "--plot", plot))
    np.testing.assert_allclose(frame["mean"], [4, 19], atol=0.3)
    assert frame["extrapolates"].tolist() == [False, True]
    assert plot.stat().st_size > 1000


def test_priors_saved_from_python_ask_for_column_names(tmp_path, new):
    tasks = sp.TaskSet.from_arrays([[0.0, 1.0], [0.0, 2.0]], [[1.0, 2.0], [2.0, 3.0]])
    path = tmp_path / "python.prior"
    sp.learner("ridge").fit(tasks, 0).save(path)
    result = run("predict", path, new)
    assert result.exit_code == 2
    assert "--inputs and --target" in result.stderr
    result = run("predict", path, new, "--inputs", "hour", "--target", "gcs", "--task", "patient")
    assert frame_of(result)["extrapolates"].isna().all()
    assert run("predict", path, new, "--inputs", "hour,gcs", "--target", "patient").exit_code == 2


def test_failures_leave_nothing_behind(prior, new, monkeypatch):
    before = sorted(new.parent.iterdir())
    for arguments, code in (
        ((new, new), 1),
        ((new.with_name("none.prior"),), 2),
        ((prior, new.with_name("none.csv")), 2),
        ((prior, new, "--at", new.with_name("none.csv")), 2),
        ((prior, new, "--out", new), 2),
        ((prior, new, "--out", prior), 2),
        ((prior, new, "--seed", "-1"), 2),
    ):
        result = run("predict", *arguments)
        assert result.exit_code == code, arguments
        assert "Traceback" not in result.output

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run("predict", prior, new, "--out", new.with_name("out.csv"))
    assert result.exit_code == 1
    assert "out.csv" in result.stderr
    assert "No space left on device" in result.stderr
    assert sorted(new.parent.iterdir()) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_device_is_written_to_and_stays_a_device(prior, new):
    result = run("predict", prior, new, "--out", "/dev/full")
    assert result.exit_code == 1
    assert "'/dev/full': No space left on device" in result.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_directory_without_permission_is_found_before_any_work(prior, new, monkeypatch):
    """Root may write anywhere, so permission is asked of a stand-in."""
    monkeypatch.setattr(os, "access", lambda path, mode, **options: mode != os.W_OK)
    result = run("predict", prior, new, "--out", new.with_name("out.csv"))
    assert result.exit_code == 1
    assert "out.csv': no permission to write there" in result.stderr
    assert "Predicting" not in result.stderr


def test_formats_that_cannot_be_written_are_refused(prior, new, monkeypatch):
    result = run("predict", prior, new, "--out", new.with_name("out.xlsx"))
    assert result.exit_code == 2
    assert ".csv or .txt or .parquet" in result.stderr
    monkeypatch.setattr("scoreprior.cli.predict.find_spec", lambda name: None)
    result = run("predict", prior, new, "--out", new.with_name("out.parquet"))
    assert result.exit_code == 2
    assert "pip install" in result.stderr


def test_tasks_that_are_not_asked_for_are_named(prior, new):
    at = new.with_name("query.csv")
    at.write_text("patient,hour\nx,1\n")
    assert "2 tasks of" in (text := run("predict", prior, new, "--at", at).stderr)
    assert "not asked for in" in text
    assert "y, z" in text


def test_a_truncated_prior_is_refused(prior, new):
    whole = prior.read_bytes()
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        prior.write_bytes(whole[:length])
        for command in (("predict", prior, new), ("inspect", prior), ("check", prior, new)):
            result = run(*command)
            assert result.exit_code == 1, command
            assert str(prior) in result.stderr
            assert "Unexpected" not in result.stderr


def test_point_predictors_have_a_mean_alone(prior, new, monkeypatch):
    predict = sp.Posteriors.predict
    strip = lambda self, xs: [sp.Predictive(each.locs, None) for each in predict(self, xs)]  # noqa: E731
    monkeypatch.setattr(sp.Posteriors, "predict", strip)
    frame = frame_of(run("predict", prior, new))
    assert list(frame.columns) == ["patient", "hour", "mean", "extrapolates", "known_points", "surprise"]


def test_a_task_that_does_not_fit_is_named_and_its_error_bars_are_wide(prior, table):
    new = table.with_name("odd.csv")
    new.write_text(
        "patient,hour,gcs\n" + "".join(f"odd,{h},{120 - 100 * (h % 2)}\nplain,{h},{10 + h / 4}\n" for h in range(5))
    )
    result = run("predict", prior, new)
    frame = frame_of(result)
    odd, plain = (frame[frame["patient"] == name] for name in ("odd", "plain"))
    assert (odd["surprise"] < 1e-6).all()
    assert (plain["surprise"] > 0.01).all()
    assert odd["std"].min() > 10 * plain["std"].min()
    assert "Task odd is unlike those of training: fewer than one in a million" in result.stderr
    assert "Task plain" not in result.stderr
    assert "1 task with known gcs outside that of training" in result.stderr


def test_a_prior_without_a_guard_says_nothing_of_surprise(prior, new):
    bare = new.with_name("bare.prior")
    sp.load_prior(prior).unguarded.save(bare)
    columns = ("--task", "patient", "--inputs", "hour", "--target", "gcs")
    assert frame_of(run("predict", bare, new, *columns))["surprise"].isna().all()


def test_each_of_several_inputs_varies_while_the_others_stay(table, no_gp):
    """Tasks are planes, a line along every input; a word that never changes within a task has no panel."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 5, (60, 2))
    tasks = sp.TaskSet.from_frame(
        pd.DataFrame(
            {"t": np.arange(60) % 6, "a": x[:, 0], "b": x[:, 1], "kind": np.where(np.arange(60) % 2, "u", "v")}
        ).assign(y=x @ [1.0, 2.0]),
        task="t",
        inputs=["a", "b", "kind"],
        target="y",
    )
    prior = sp.learner("ridge").fit(tasks, 0)
    domain = np.array([tasks.x.min(0), tasks.x.max(0)])
    known = tasks[0]
    (found,) = dependence(prior, prior.encoding, domain, [("t", known.x[:1], known)], 0)
    assert [each.name for each in found] == ["a", "b"]
    middle = np.median(known.x[:, :2], axis=0)
    for each, slope, other in zip(found, (1.0, 2.0), (2 * middle[1], middle[0])):
        np.testing.assert_allclose(each.predictive.mean, slope * each.place + other, atol=0.3)
        np.testing.assert_array_equal(each.of(known).y, known.y)
    assert found[0].place[[0, -1]].tolist() == domain[:, 0].tolist()


def test_observations_at_the_rows_asked_for_are_drawn(table):
    at = table.with_name("query.csv")
    at.write_text("patient,hour,gcs\nx,1,10\ny,2,11\nx,3,\n")
    columns = Columns("patient", ("hour",), "gcs")
    queries = [
        Query("x", (), np.array([[1.0], [3.0]]), np.array([0, 2])),
        Query("y", (), np.array([[2.0]]), np.array([1])),
    ]
    first, second = true_points(at, columns, queries)
    assert (first.x.tolist(), first.y.tolist()) == ([[1.0]], [10.0])
    assert second.y.tolist() == [11.0]
    at.write_text("patient,hour\nx,1\ny,2\nx,3\n")
    assert true_points(at, columns, queries) == [None, None]
