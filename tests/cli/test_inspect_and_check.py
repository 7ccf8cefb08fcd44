"""`scoreprior inspect` and `scoreprior check`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from own_table import COLUMNS, rows, run

import scoreprior as sp
from scoreprior.cli.check import _verdict_words
from scoreprior.cli.inspect import noise_std
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference import Average, ClosedForm
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.serialization import describe
from scoreprior.tasks import Standardizer


def test_inspect_shows_what_fit_wrote(table, no_gp):
    prior = table.with_name("gcs.prior")
    assert run("fit", table, *COLUMNS, "--out", prior, "--method", "ridge", "--quick").exit_code == 0
    result = run("inspect", prior)
    assert result.exit_code == 0, result.output
    for text in ("ridge", "patient", "hour: 0 to", "gcs", "noise", "small budget", "left-out tasks", "last-value"):
        assert text in result.stdout
    record = json.loads(run("inspect", prior, "--json").stdout)
    assert record["held_out"]["tasks"] == 10
    assert record["tasks"] == 12
    # The lines have noise of 0.1, and ridge's error on half a task is some multiple of it.
    assert 0.05 < record["noise"] < 3


def test_inspect_of_a_prior_saved_from_python(tmp_path):
    tasks = sp.TaskSet.from_arrays([[0.0, 1.0], [0.0, 2.0]], [[1.0, 2.0], [2.0, 3.0]])
    sp.learner("vanilla-gp").fit(tasks, 0).save(tmp_path / "p")
    result = run("inspect", tmp_path / "p")
    assert result.exit_code == 0, result.output
    assert "No held-out metrics" in result.stdout


def test_noise_is_in_the_targets_units():
    x = np.linspace(0, 1, 30)
    rng = np.random.default_rng(0)
    tasks = sp.TaskSet.from_arrays([x] * 6, [100 * rng.normal() + 5 * rng.normal(size=30) for _ in range(6)])
    # The residual of the mean of 15 points: sqrt(1 + 1/15) times the noise of 5.
    assert noise_std(sp.learner("context-mean").fit(tasks, 0)) == pytest.approx(5 * np.sqrt(16 / 15), rel=0.25)
    assert noise_std(sp.learner("vanilla-gp").fit(tasks, 0)) is None


def test_noise_is_that_of_the_first_process_where_there_are_two():
    tasks = sp.TaskSet.from_arrays([[0.0, 1.0]] * 2, [[0.0, 10.0], [1.0, 9.0]])
    processes = [GaussianProcess(ZeroMean(), Matern(np.ones(()), np.ones(1), 2.5), np.array(n)) for n in (0.2, 0.7)]
    prior = FunctionPrior(Standardizer.fit(tasks), Average(*map(ClosedForm, processes)))
    assert noise_std(prior) == pytest.approx(0.2 * prior.standardizer.y_std)


def test_inspect_draws_the_prior_over_a_table(prior, table):
    plot = table.with_name("prior.png")
    result = run("inspect", prior, "--plot", plot, "--data", table)
    assert result.exit_code == 0, result.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert json.loads(run("inspect", prior, "--data", table, "--json").stdout)["wider_than_data"] == []


def test_inspect_says_where_the_prior_is_wider_than_the_data(prior, table):
    """All tasks follow the mean at first and spread later; the prior is as wide everywhere."""
    rng = np.random.default_rng(0)
    spread, hours = np.where(np.arange(24) > 11, 20.0, 0.05), np.arange(24)
    values = 10.5 + 0.51 * hours + spread * rng.normal(size=(12, 24))
    lines = [f"p{i},{hour},{values[i, hour]:.3f}" for i in range(12) for hour in range(24)]
    data = table.with_name("data.csv")
    data.write_text("\n".join(["patient,hour,gcs", *lines]))
    plot = table.with_name("wide.png")
    result = run("inspect", prior, "--data", data, "--plot", plot)
    assert result.exit_code == 0, result.output
    assert "the prior is wider than the data where hour is 0 to " in result.stdout
    found = json.loads(run("inspect", prior, "--data", data, "--json").stdout)["wider_than_data"]
    assert all(each["high"] < 14 for each in found)
    assert found[0]["ratio"] > 1.5


def test_inspect_refuses_other_files(table, tmp_path):
    for path, code, words in (
        (table, 1, "not a Scoreprior file"),
        (tmp_path, 1, "it is a directory"),
        (tmp_path / "none", 2, "There is no file"),
    ):
        result = run("inspect", path)
        assert result.exit_code == code
        assert words in result.stderr


def test_check_measures_error_and_calibration(prior, table):
    held = table.with_name("held.csv")
    held.write_text("\n".join(["patient,hour,mood,gcs", *rows(30, seed=1)]))
    plot = table.with_name("reliability.png")
    result = run("check", prior, held, "--plot", plot)
    assert result.exit_code == 0, result.output
    for text in ("30 tasks", "RMSE", "last-value", "90% interval", "calibration error", "holds what it promises"):
        assert text in result.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")
    record = json.loads(run("check", prior, held, "--json").stdout)
    assert record["tasks"] == 30
    assert 0 <= record["coverage50"] <= record["coverage90"] <= 1
    assert record["rules"]["context-mean"] > record["rmse"]


def test_check_agrees_with_a_prediction_by_hand(prior, table):
    held = table.with_name("held.csv")
    held.write_text("patient,hour,gcs\na,4,13\na,0,10\na,2,11\na,6,14\nb,1,9\nb,3,10\nc,1,9\n")
    result = run("check", prior, held, "--json")
    record = json.loads(result.stdout)
    assert (record["tasks"], record["points"]) == (2, 3)
    assert "1 task with a single point" in record["warnings"][0]
    loaded = sp.load_prior(prior)
    a = loaded.condition([0.0, 2.0], [10.0, 11.0], 0).predict([[4.0], [6.0]]).mean
    b = loaded.condition([1.0], [9.0], 0).predict([[3.0]]).mean
    expected = (np.sqrt(np.mean((a - [13, 14]) ** 2)) + abs(b[0] - 10)) / 2
    assert record["rmse"] == pytest.approx(expected, rel=1e-4)
    hours, scores = np.array([4.0, 0, 2, 6, 1, 3, 1]), np.array([13, 10, 11, 14, 9, 10, 9])
    low, high = loaded.condition([], [], 0).predict(hours[:, None]).interval(0.9)
    assert record["coverage90_without_points"] == pytest.approx(np.mean((low <= scores) & (scores <= high)))


@pytest.mark.slow
def test_check_on_the_training_table_says_so(prior, table):
    assert "12 of 12 tasks are those that the prior was learned from" in run("check", prior, table).stderr
    old, new = rows(12), [row.replace("p", "q", 1) for row in rows(12, seed=1)]
    table.write_text("\n".join(["patient,hour,mood,gcs", *new]))
    assert "learned from" not in run("check", prior, table).stderr
    first = old[0].split(",")[0]
    some = [row for row in reversed(old) if row.split(",")[0] == first]
    table.write_text("\n".join(["patient,hour,mood,gcs", *new, *some]))  # one task that is known, in another order
    assert "1 of 13 tasks are those that the prior was learned from" in run("check", prior, table).stderr


def test_check_says_when_error_bars_are_too_narrow(prior, table):
    rng = np.random.default_rng(0)
    lines = [f"p{i},{h},{rng.normal(0, 50):.2f}" for i in range(30) for h in range(8)]
    held = table.with_name("held.csv")
    held.write_text("\n".join(["patient,hour,gcs", *lines]))
    assert "too narrow" not in run("check", prior, held).stdout  # such tasks are recognised
    bare = table.with_name("bare.prior")
    sp.load_prior(prior).unguarded.save(bare, metadata=describe(prior)["extra"])
    result = run("check", bare, held, "--task", "patient", "--inputs", "hour", "--target", "gcs")
    assert "too narrow" in result.stdout
    assert "Before the first point of a task the error bars are too narrow" in result.stderr
    lines = [f"p{i},{h},{10 + 0.5 * h:.2f}" for i in range(30) for h in range(8)]
    held.write_text("\n".join(["patient,hour,gcs", *lines]))
    assert "too wide" in run("check", prior, held).stdout


@pytest.mark.parametrize(
    ("tasks", "coverage", "error", "words"),
    [
        (100, 0.9, 0.02, "holds what it promises"),
        (100, 0.8, 0.02, "too narrow"),
        (100, 0.97, 0.02, "too wide"),
        (6, 0.69, 0.15, "69% instead of 90% may be chance"),
        (4, 0.9, 0.01, "too few tasks"),
    ],
)
def test_the_verdict_says_no_more_than_the_points_allow(tasks, coverage, error, words):
    found = sp.judge_coverage(coverage, error, tasks, points=1000)
    assert words in _verdict_words(found, coverage)


def test_check_refuses_what_cannot_be_checked(prior, table):
    held = table.with_name("held.csv")
    held.write_text("patient,hour,gcs\na,4,13\nb,0,10\n")
    result = run("check", prior, held)
    assert result.exit_code == 2
    assert "two points" in result.stderr
    held.write_text("patient,hour,gcs\na,4,\nb,0,\n")
    result = run("check", prior, held)
    assert result.exit_code == 1
    assert "no row is complete" in result.stderr
    assert run("check", prior).exit_code == 2


def test_methods_and_data_speak_json():
    assert json.loads(run("methods", "--json").stdout)["methods"] == sp.methods()
    assert "berkeley" in json.loads(run("data", "list", "--json").stdout)["data"]
