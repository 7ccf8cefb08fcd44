"""`scoreprior bench`: what it prints and the codes it ends with."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from scoreprior.bench.campaign import read_records
from scoreprior.bench.line_file import LineFile
from scoreprior.cli.bench import bench_app

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def bench(*words: str):
    return CliRunner().invoke(bench_app, list(words))


def test_run_continues_reports_and_says_what_failed(tmp_path):
    where = ["--env", "sinusoid", "--out", str(tmp_path), "--workers", "0", "--json"]
    first = bench("run", *where, "--method", "last-value", "--seeds", "2")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout) | {"out": ""} == {"cells": 2, "computed": 2, "failed": 0, "out": "", "warnings": []}
    more = bench("run", *where, "--method", "last-value,newest-lag", "--seeds", "3")
    assert more.exit_code == 1
    assert json.loads(more.stdout)["computed"] == 4  # one more seed, and three of a rule that does not apply here
    assert "3 of 6 cells failed" in more.stderr
    again = bench("run", *where, "--method", "last-value,newest-lag", "--seeds", "3")
    assert json.loads(again.stdout)["computed"] == 0
    assert {cell.method for cell, _ in read_records(tmp_path)} == {"last-value", "newest-lag"}
    report = bench("report", "--out", str(tmp_path), "--json")
    assert report.exit_code == 0, report.output
    assert "n/a" in (tmp_path / "report.md").read_text()


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
    with LineFile(tmp_path / "records" / "sinusoid.jsonl"):
        result = bench("run", "--env", "sinusoid", "--method", "ridge", "--out", str(tmp_path), "--workers", "0")
    assert result.exit_code == 1
    assert "another run is writing it" in result.stderr


def test_a_method_with_nothing_to_tune_is_no_error(tmp_path):
    result = bench("tune", "--env", "sinusoid", "--method", "ridge", "--out", str(tmp_path), "--workers", "0")
    assert result.exit_code == 0, result.output
    assert "ridge has no settings to tune" in result.stderr


def test_an_interrupted_run_says_how_to_continue(tmp_path, monkeypatch):
    from scoreprior.bench import work

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
