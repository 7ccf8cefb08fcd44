"""Log score and CRPS in records, tables, findings and tuning; records from before they were kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_records import make

from scoreprior import environment
from scoreprior.bench import catalogue
from scoreprior.bench.campaign import records_path
from scoreprior.bench.cell import Cell
from scoreprior.bench.line_file import read_lines
from scoreprior.bench.report.findings import findings, standings
from scoreprior.bench.report.ranking import bold
from scoreprior.bench.report.results import Results
from scoreprior.bench.report.splits import split_table
from scoreprior.bench.report.tables import all_tables
from scoreprior.bench.runner import InlineRunner
from scoreprior.bench.selected import Selection
from scoreprior.bench.tuning import SEED, run_off

ENVIRONMENTS = ("physionet-gcs", "berkeley")
METHODS = {"last-value": 0.9, "hierarchical-gp": 0.3, "mars-gp": 0.4, "maml": 0.5}


def rewrite(out: Path, environment: str, method: str, change) -> None:
    path = records_path(out, environment, method)
    path.write_text("".join(json.dumps(change(record)) + "\n" for record in read_lines(path)))


def as_before(record: dict) -> dict:
    """A record as it was before there was a log score."""
    if record["status"] == "failed":
        return record
    tasks = {name: value for name, value in record["tasks"].items() if name not in ("log_score", "crps")}
    summary = {name: value for name, value in record["summary"].items() if not name.startswith("log_score")}
    return record | {"tasks": tasks, "summary": summary}


def better_log_score(record: dict) -> dict:
    """A log score that says something else than the NLL."""
    tasks, summary = record["tasks"], record["summary"]
    lower = [value - 5 for value in tasks["log_score"]]
    return record | {
        "tasks": tasks | {"log_score": lower},
        "summary": summary | {"log_score": summary["log_score"] - 5},
    }


@pytest.fixture
def new(tmp_path) -> Path:
    make(tmp_path, METHODS, environments=ENVIRONMENTS)
    return tmp_path


@pytest.fixture
def old(new) -> Path:
    for where in ENVIRONMENTS:
        for method in METHODS:
            rewrite(new, where, method, as_before)
    return new


def shown(out: Path, table: str) -> dict[tuple[str, str], str]:
    found = next(each for each in all_tables(Results.load(out)) if each.name == table)
    return {(row.label, column): each.text for row in found.rows for column, each in zip(found.head[1:], row.values)}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.data("berkeley")) if name.startswith("berkeley") else name
        for name in catalogue.CONTINUOUS
    ],
)
def test_where_targets_are_continuous_is_known(name: str):
    assert environment(name).resolution == 0


@pytest.mark.data("physionet")
@pytest.mark.parametrize(
    ("variable", "step"), [("gcs", 1.0), ("hct", 0.1), ("hr", 1.0), ("nimap", 0.01), ("temp", 0.1)]
)
@pytest.mark.parametrize("split", [0, 1])
def test_the_steps_of_physionet(variable, step, split):
    assert environment(f"physionet-{variable}", split=split).resolution == step


def test_records_keep_all_scores_of_every_task(new):
    (first, *_) = read_lines(records_path(new, "berkeley", "mars-gp"))
    assert {len(first["tasks"][name]) for name in ("rmse", "nll", "log_score", "crps")} == {30}
    (point, *_) = read_lines(records_path(new, "berkeley", "maml"))
    assert [point["tasks"][name] for name in ("nll", "log_score", "crps", "pit")] == [None] * 4
    results = Results.load(new)
    for metric in ("log_score", "crps"):
        assert bold(results, "physionet-gcs", metric, list(METHODS)) == {"hierarchical-gp"}
    for table in ("log-score", "crps"):
        assert shown(new, table)["maml", "berkeley"] == "-"
        assert shown(new, table)["np", "berkeley"] == "not run"


def test_the_log_score_decides_where_records_have_it(new):
    rewrite(new, "physionet-gcs", "mars-gp", better_log_score)
    found = {(each.environment, each.metric): each for each in standings(Results.load(new), ("hierarchical-gp",))}
    assert found["physionet-gcs", "log_score"].is_first
    assert not found["physionet-gcs", "rmse"].is_first
    assert ("physionet-gcs", "nll") not in found
    assert "By NLL" not in findings(Results.load(new))[0]


def test_older_records_keep_what_they_have(old):
    log_score, nll, crps = (shown(old, name) for name in ("log-score", "nll", "crps"))
    for method in ("last-value", "hierarchical-gp", "mars-gp"):
        assert log_score[method, "physionet-gcs"] == "-"  # what it would be is not known
        assert log_score[method, "berkeley"] == nll[method, "berkeley"] != "-"
        assert crps[method, "berkeley"] != "-"
    results = Results.load(old)
    assert bold(results, "berkeley", "log_score", list(METHODS)) == {"hierarchical-gp"}
    assert bold(results, "berkeley", "crps", list(METHODS)) == set()  # nothing to test
    first = findings(results)[0]
    assert "By NLL instead of the log score, which some records lack: physionet-gcs." in first
    assert "NLL on physionet-gcs (hierarchical-gp" in first
    assert "log score on berkeley (hierarchical-gp" in first
    assert split_table(results) is None


def test_one_older_record_is_compared_by_what_all_have(new):
    rewrite(new, "physionet-gcs", "mars-gp", better_log_score)
    rewrite(new, "physionet-gcs", "hierarchical-gp", as_before)
    found = [each for each in standings(Results.load(new), ("hierarchical-gp",)) if each.environment == "physionet-gcs"]
    assert [each.metric for each in found] == ["rmse", "nll", "pooled_calibration_error"]
    assert not found[1].is_first
    assert bold(Results.load(new), "physionet-gcs", "crps", list(METHODS)) == set()


@pytest.mark.parametrize("is_older", [True, False])
def test_a_run_off_with_an_older_record_is_decided_by_nll(tmp_path, is_older):
    def work(cell: Cell) -> dict:
        selected = bool(cell.overrides)
        scores = {"nll": 1.0 - selected, "log_score": 1.0 + selected}
        if is_older and not selected:
            del scores["log_score"]
        return {"summary": scores, "tasks": {"nll": [scores["nll"]]}, "seconds": {"wall": 1.0}}

    protocol = {"mode": "random", "metric": "log_score", "iterations": 0.1, "split": 0, "seed": SEED}
    selection = Selection("physionet-gcs", "np", {"width": 32}, protocol, 1.0, None, 2.0, [], {})
    assert run_off(tmp_path, selection, InlineRunner(work)).settings == ({"width": 32} if is_older else {})
