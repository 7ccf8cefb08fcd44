"""How often a method is first: counts over environments and splits."""

from __future__ import annotations

import json

import pytest
from made_records import make
from typer.testing import CliRunner

from scoreprior.bench.cell import ORACLE
from scoreprior.bench.report.ranking import known_metric
from scoreprior.bench.report.results import Entry
from scoreprior.bench.report.suite import count_standings, methods_of, pairs_of, standings, suite_tables
from scoreprior.cli.bench import bench_app

ENVIRONMENTS = ("physionet-gcs", "physionet-hct")


@pytest.fixture
def out(tmp_path):
    """np is far ahead on split 0, anp on split 1; pooled-gp has the errors of np, so almost its figures."""
    make(tmp_path, {"np": 0.2, "pooled-gp": 0.201, "anp": 0.6, ORACLE: 0.1}, environments=ENVIRONMENTS)
    make(tmp_path, {"np": 0.6, "anp": 0.2}, environments=ENVIRONMENTS, split=1)
    make(tmp_path, {"np": 0.6, "anp": 0.2}, environments=("berkeley",))  # not of the suite
    make(tmp_path, {"np": 0.2, "anp": 0.6}, environments=ENVIRONMENTS, split=1, part="valid")
    make(tmp_path, {"np": 0.01}, environments=ENVIRONMENTS, tasks=50)
    return tmp_path


def test_first_not_worse_and_worse_are_counted_over_environments_and_splits(out):
    pairs = pairs_of(out, ENVIRONMENTS)
    assert [str(pair) for pair in pairs] == [f"{name}, split {split}" for name in ENVIRONMENTS for split in (0, 1)]
    methods = methods_of(pairs)
    assert set(methods) == {"np", "pooled-gp", "anp"}  # newest-lag only failed, and the oracle does not compete
    counts = count_standings(pairs, methods, "rmse")
    assert counts["np"]["worse"] == 2  # split 1
    assert counts["anp"] == {"first": 2, "worse": 2}
    # One percent apart on 30 tasks of 12 points: one of the two is first, the other not significantly worse.
    for pair in pairs[::2]:
        found = standings(pair, "rmse", methods)
        assert {found["np"], found["pooled-gp"]} == {"first", "not worse"}
        assert found["anp"] == "worse"
    table = suite_tables(pairs, methods)[0]
    rows = {row.label: [value.text for value in row.values] for row in table.rows}
    assert rows["anp"][0] == "2 / 0 / 2"
    assert rows["anp"][-1] == "4 of 4"
    assert rows["pooled-gp"][-1] == "2 of 4"


def test_methods_with_the_same_figures_share_the_first_place(tmp_path):
    make(tmp_path, {"np": 0.2}, environments=("physionet-gcs",))
    make(tmp_path, {"np": 0.2}, environments=("physionet-hct",))
    pairs = pairs_of(tmp_path, ENVIRONMENTS)
    entries = pairs[0].results.entries
    entries["physionet-gcs", "anp"] = entries["physionet-gcs", "np"]
    for metric in ("rmse", "nll", "pooled_calibration_error"):
        assert standings(pairs[0], metric, ["np", "anp"]) == {"np": "first", "anp": "first"}


def test_the_nll_stands_in_where_a_record_has_no_log_score():
    def entry(**tasks):
        return Entry([], [{"summary": {"nll": tasks.get("nll")}, "tasks": tasks}])

    new, old, point = entry(nll=[1.0], log_score=[2.0]), entry(nll=[1.0]), entry(nll=None)
    assert known_metric("log_score", [new, point]) == "log_score"
    assert known_metric("log_score", [new, old]) == "nll"
    assert known_metric("rmse", [old]) == "rmse"


def test_the_command_writes_the_table_of_either_part(out):
    def suite(*words: str):
        return CliRunner().invoke(bench_app, ["suite", "--out", str(out), *words, "--json"])

    found = json.loads(suite().stdout)
    assert found["pairs"] == 4
    assert found["counts"]["rmse"]["anp"] == {"first": 2, "worse": 2}
    text = (out / "suite.md").read_text()
    assert "| anp | 2 / 0 / 2 | 2 / 0 / 2 |" in text
    assert "physionet-hct, split 1" in text
    valid = json.loads(suite("--part", "valid", "--method", "np,anp").stdout)
    assert (valid["pairs"], valid["counts"]["rmse"]["np"]) == (2, {"first": 2})
    assert json.loads(suite("--split", "1", "--env", "physionet-gcs").stdout)["pairs"] == 1
    nothing = suite("--env", "sawtooth")
    assert nothing.exit_code == 2
    assert "There are no such records" in nothing.stderr
