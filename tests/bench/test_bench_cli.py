"""`scoreprior bench`: what it prints and the codes it ends with."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from scoreprior.bench import work
from scoreprior.bench.budget import flat
from scoreprior.bench.campaign import read_records, records_path
from scoreprior.bench.line_file import LineFile
from scoreprior.bench.plan import UnknownNameError, check_settings
from scoreprior.bench.selected import load_selection, selected_path
from scoreprior.cli.bench import bench_app
from scoreprior.learners import learner, methods
from scoreprior.space import Choice

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def bench(*words: str):
    return CliRunner().invoke(bench_app, list(words))


def test_run_continues_and_reports(tmp_path):
    where = ["--env", "sinusoid", "--out", str(tmp_path), "--workers", "0", "--json"]
    first = bench("run", *where, "--method", "last-value", "--seeds", "2")
    assert first.exit_code == 0, first.output
    expected = {"cells": 2, "computed": 2, "failed": 0, "does_not_apply": 0, "out": str(tmp_path), "warnings": []}
    assert json.loads(first.stdout) == expected
    more = bench("run", *where, "--method", "last-value,newest-lag", "--seeds", "3")
    assert more.exit_code == 0, more.output  # that a rule does not apply is an answer
    # One more seed, and three of a rule that needs lags.
    assert json.loads(more.stdout) == expected | {"cells": 6, "computed": 4, "does_not_apply": 3}
    again = bench("run", *where, "--method", "last-value,newest-lag", "--seeds", "3")
    assert json.loads(again.stdout)["computed"] == 0
    assert {cell.method for cell, _ in read_records(tmp_path)} == {"last-value", "newest-lag"}
    report = bench("report", "--out", str(tmp_path), "--json")
    assert report.exit_code == 0, report.output
    assert "n/a" in (tmp_path / "report.md").read_text()


def test_run_says_what_failed_and_what_does_not_apply(tmp_path, monkeypatch):
    def run_cell(cell):
        raise ValueError("no")

    monkeypatch.setattr(work, "run_cell", run_cell)
    where = ["--env", "sinusoid", "--out", str(tmp_path), "--workers", "0", "--seeds", "2"]
    result = bench("run", *where, "--method", "ridge", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["failed"], found["does_not_apply"]) == (2, 0)
    assert found["warnings"] == ["2 of 2 cells failed; their records say why, --retry-failed runs them again."]
    monkeypatch.undo()
    result = bench("run", *where, "--method", "ridge,newest-lag")
    assert result.exit_code == 1  # as recorded
    assert "2 of 4 cells do not apply" in result.stderr
    assert "2 of 4 cells failed" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--env", "nowhere", "--method", "ridge"], "There is no environment 'nowhere'; there are sinusoid"),
        (["run", "--env", "sinusoid", "--method", "ridge,magic"], "There is no method 'magic'; there are last-value"),
        (
            ["run", "--env", "sinusoid", "--method", "np", "--set", "widht=3"],
            "np: NeuralProcess has no setting 'widht'",
        ),
        (["run", "--env", "sinusoid", "--method", "np", "--set", "width"], "--set needs NAME=JSON"),
        (
            ["run", "--env", "sinusoid", "--method", "np", "--set", "training=5"],
            "np: training is a group of settings; set one of them: training.steps, training.learning_rate,",
        ),
        (
            ["run", "--env", "sinusoid", "--method", "mars-gp", "--set", 'anchor={"frequencies": 3}'],
            "mars-gp: anchor is a group of settings; set one of them: anchor.deviation,",
        ),
        (
            ["run", "--env", "sinusoid", "--method", "ridge", "--set", "strengths=5"],
            "ridge: strengths cannot be 5; it is of the kind Sequence[float].",
        ),
        (
            ["run", "--env", "sinusoid", "--method", "np", "--set", 'training.steps="many"'],
            'np: training.steps cannot be "many"; it is of the kind int.',
        ),
        (
            ["run", "--env", "sinusoid", "--method", "ridge", "--workers", "0", "--limit", "5"],
            "--limit needs worker processes",
        ),
        (
            ["tune", "--env", "sinusoid", "--method", "np", "--workers", "0", "--limit", "5"],
            "--limit needs worker processes",
        ),
        (["run", "--env", "sinusoid", "--method", ","], "Name at least one method"),
        (["tune", "--env", "sinusoid", "--method", "magic"], "There is no method 'magic'"),
        (["report", "--out", "nothing-here"], "There are no records in 'nothing-here'"),
    ],
)
def test_a_wrong_call_is_told_in_a_line_and_ends_with_2(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = bench(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_records_in_use_are_an_error_not_a_wait(tmp_path):
    with LineFile(records_path(tmp_path, "sinusoid", "ridge")):
        result = bench("run", "--env", "sinusoid", "--method", "ridge", "--out", str(tmp_path), "--workers", "0")
    assert result.exit_code == 1
    assert "another run is writing it" in result.stderr


@pytest.mark.parametrize("name", methods())
def test_all_that_a_method_holds_or_a_tuner_tries_may_be_set(name):
    for setting, value in flat(learner(name)):
        check_settings([name], {setting: value})
    for setting, dimension in getattr(learner(name), "space", {}).items():
        for value in dimension.options if isinstance(dimension, Choice) else (dimension.low, dimension.high):
            check_settings([name], {setting: value})


def test_settings_are_of_their_kind():
    right = {"training.clip": math.inf, "networks": 3, "inference.bnn.hidden": (8,), "inference.smoothing": 0}
    check_settings(["mars-fsvgd"], right)
    wrong = {"networks": 2.5, "average": 1, "inference.bnn.hidden": (8, "8"), "anchor.mean": "guess", "noised": True}
    for setting, value in wrong.items():
        with pytest.raises(UnknownNameError, match=f"mars-fsvgd: {setting} cannot be"):
            check_settings(["mars-fsvgd"], {setting: value})
    with pytest.raises(UnknownNameError, match="context cannot be"):
        check_settings(["np"], {"context": (0.1, 0.2, 0.3)})


def validated(cell) -> dict:
    value = abs(cell.overrides.get("training.learning_rate", 1.0) - 0.01)
    return {
        "summary": {"nll": value, "log_score": value, "rmse": 1.0},
        "tasks": {"nll": [value]},
        "seconds": {"wall": 1.0},
    }


def test_a_hopeless_study_does_not_cost_the_others_their_selections(tmp_path, monkeypatch):
    def run_cell(cell):
        if cell.method == "np":
            raise ValueError("no hope")
        return validated(cell)

    monkeypatch.setattr(work, "run_cell", run_cell)
    words = ["tune", "--env", "sinusoid", "--trials", "3", "--out", str(tmp_path), "--workers", "0", "--json"]
    result = bench(*words, "--method", "np,anp")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert list(found["selected"]) == ["sinusoid, anp"]
    assert found["warnings"] == ["No trial of np on sinusoid succeeded: no hope"]
    assert [path.name for path in (tmp_path / "selected").iterdir()] == ["sinusoid--anp.json"]


def test_a_selection_is_saved_before_the_next_study_begins(tmp_path, monkeypatch):
    def run_cell(cell):
        if cell.method == "np":
            raise KeyboardInterrupt
        return validated(cell)

    monkeypatch.setattr(work, "run_cell", run_cell)
    where = ["--env", "sinusoid", "--out", str(tmp_path), "--workers", "0"]
    result = bench("tune", *where, "--trials", "3", "--method", "anp,np")
    assert result.exit_code == 130
    assert load_selection(tmp_path, "sinusoid", "anp").settings


def test_a_damaged_selection_is_named_and_tuning_replaces_it(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "run_cell", validated)
    where = ["--env", "sinusoid", "--method", "np", "--out", str(tmp_path), "--workers", "0"]
    path = selected_path(tmp_path, "sinusoid", "np")
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 1, "sett')
    result = bench("run", *where)
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert "delete it or tune again" in result.stderr
    assert "Unexpected" not in result.stderr
    assert bench("tune", *where, "--trials", "2").exit_code == 0
    assert load_selection(tmp_path, "sinusoid", "np") is not None


def test_a_method_with_nothing_to_tune_is_no_error(tmp_path):
    result = bench("tune", "--env", "sinusoid", "--method", "ridge", "--out", str(tmp_path), "--workers", "0")
    assert result.exit_code == 0, result.output
    assert "ridge has no settings to tune" in result.stderr


def test_an_interrupted_run_says_how_to_continue(tmp_path, monkeypatch):
    seen = []

    def run_cell(cell):
        seen.append(cell.seed)
        if len(seen) == 3:
            raise KeyboardInterrupt
        summary = {"rmse": 1.0, "nll": 1.0, "pooled_calibration_error": 0.1}
        return {"summary": summary, "seconds": {"wall": 1.0}}

    monkeypatch.setattr(work, "run_cell", run_cell)
    words = ["run", "--env", "sinusoid", "--method", "ridge", "--seeds", "4", "--workers", "0", "--out", str(tmp_path)]
    stopped = bench(*words)
    assert stopped.exit_code == 130
    assert "Stopped: 2 of 4 cells" in stopped.stderr
    assert bench(*words).exit_code == 0
    assert seen == [0, 1, 2, 2, 3]
