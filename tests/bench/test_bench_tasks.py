"""Cells with another number of training tasks, and the learning curves over it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from made_records import make
from made_records import work as made_work
from typer.testing import CliRunner

from scoreprior.bench import work
from scoreprior.bench.campaign import read_records
from scoreprior.bench.cell import ORACLE, Cell
from scoreprior.bench.curve import Curves, Place, curve_tables
from scoreprior.bench.plan import Plan, known_environments
from scoreprior.bench.report.curve_figure import curve_figure
from scoreprior.bench.report.results import Results
from scoreprior.bench.report.significance import paired_difference, standard_error
from scoreprior.cli.bench import bench_app
from scoreprior.environments import environment

ROOT = Path(__file__).parents[2]


def bench(*words: str):
    return CliRunner().invoke(bench_app, list(words))


@pytest.mark.parametrize("place", ["bench", "learned-score"])
def test_published_records_keep_their_keys(place):
    pairs = read_records(ROOT / "results" / place)
    assert len(pairs) > 40
    for cell, record in pairs:
        assert cell.key == record["key"]
        assert cell.to_dict() == record["cell"]


def test_a_number_of_tasks_is_part_of_the_identity_where_it_is_set():
    usual, fewer = (Cell.of("sinusoid", "np", 0, {}, tasks=tasks) for tasks in (None, 10))
    assert "tasks" not in usual.to_dict()
    assert usual.key == Cell.of("sinusoid", "np", 0, {}).key != fewer.key
    assert Cell.from_dict(fewer.to_dict()) == fewer
    assert "10 tasks" in str(fewer)


def test_a_plan_has_every_split_and_number_once_and_the_oracle_knows_no_number(tmp_path):
    cells = Plan(["sinusoid"], ["ridge", ORACLE], 2, splits=(0, 1), tasks=(5, 20, None)).cells(tmp_path)
    # 20 is the usual number of sinusoids: the same cell as without a number.
    learned = {(cell.split, cell.tasks, cell.seed) for cell in cells if cell.method == "ridge"}
    assert learned == {(split, tasks, seed) for split in (0, 1) for tasks in (5, None) for seed in (0, 1)}
    assert [(cell.split, cell.tasks) for cell in cells if cell.method == ORACLE] == [(0, None), (1, None)]


def test_a_cell_learns_from_so_many_tasks(monkeypatch):
    seen = []

    def predict_unseen(method, env, seed, *, tasks):
        seen.append(env.meta_train)
        raise RuntimeError("seen enough")

    monkeypatch.setattr("scoreprior.bench.work.predict_unseen", predict_unseen)
    for tasks in (7, None):
        with pytest.raises(RuntimeError, match="seen enough"):
            work.run_cell(Cell.of("sinusoid", "ridge", 0, {}, tasks=tasks))
    assert [len(each) for each in seen] == [7, 20]
    assert all(np.array_equal(few.y, many.y) for few, many in zip(*seen))


def test_tables_show_the_usual_number_of_tasks_only(tmp_path):
    make(tmp_path, {"np": 0.3}, environments=("sinusoid",))
    make(tmp_path, {"np": 0.1, "anp": 0.1}, environments=("sinusoid",), tasks=10)
    assert len(read_records(tmp_path)) == 4 + 6
    results = Results.load(tmp_path)
    assert set(results.entries) == {("sinusoid", "np")}
    assert [cell.tasks for cell in results.get("sinusoid", "np").cells] == [None, None]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "argus-sim", "--tasks", "5"], "The environment argus-sim has no option 'tasks'"),
        (["--env", "sinusoid", "--tasks", "5,many"], "--tasks needs whole numbers from 1 with commas between, or all"),
        (["--env", "sinusoid", "--tasks", "0"], "--tasks needs whole numbers from 1"),
        (["--env", "sinusoid", "--tasks", ","], "Name at least one number of tasks."),
        (["--env", "sinusoid", "--tasks", "all"], "a whole number of at least 1, not 'all'"),
    ],
)
@pytest.mark.parametrize("command", ["run", "curve"])
def test_a_number_of_tasks_that_cannot_be_is_told_before_anything_runs(tmp_path, command, words, message):
    out = tmp_path / "none"
    result = bench(command, *words, "--method", "ridge", "--workers", "0", "--out", str(out))
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not out.exists()


def test_splits_are_numbers_and_metrics_are_known(tmp_path):
    wrong = bench("run", "--env", "sinusoid", "--method", "ridge", "--split", "0,x", "--out", str(tmp_path / "none"))
    assert wrong.exit_code == 2
    assert "--split needs whole numbers" in wrong.stderr
    words = ["curve", "--env", "sinusoid", "--method", "ridge", "--tasks", "5", "--out", str(tmp_path / "none")]
    wrong = bench(*words, "--metric", "beauty")
    assert wrong.exit_code == 2
    assert "There is no metric 'beauty'; there are rmse" in wrong.stderr


def test_a_curve_runs_what_has_no_record_and_draws_it(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "run_cell", partial(made_work, {"last-value": 0.5, "ridge": 0.3, ORACLE: 0.1}))
    words = ["--env", "sinusoid", "--method", "last-value,ridge", "--seeds", "2", "--workers", "0", "--json"]
    words += ["--out", str(tmp_path)]
    first = bench("run", *words, "--tasks", "5", "--split", "0,1")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["computed"] == 2 * 2 * 2
    curve = bench("curve", *words, "--tasks", "5,20")
    assert curve.exit_code == 0, curve.output
    found = json.loads(curve.stdout)
    assert (found["cells"], found["computed"]) == (9, 5)  # 20 tasks, and the oracle
    files = {path.name: path.read_bytes() for path in map(Path, found["files"])}
    assert set(files) == {"curve.md", "curve.svg", "curve.png"}
    text = files["curve.md"].decode()
    assert "| method | 5 | 20 | most - fewest |" in text
    assert "| oracle |" in text
    for word in (b"sinusoid", b"last-value", b"ridge", b"oracle", b"training tasks"):
        assert word in files["curve.svg"]
    again = bench("curve", *words, "--tasks", "5,20")
    assert json.loads(again.stdout)["computed"] == 0
    assert {path.name: path.read_bytes() for path in map(Path, found["files"])} == files


def made_curves(out: Path) -> Curves:
    make(out, {"np": 0.4, "anp": 0.5, "maml": 0.6}, environments=("sinusoid",), tasks=5)
    make(out, {"np": 0.2, "anp": 0.5, "maml": 0.6, ORACLE: 0.1}, environments=("sinusoid",))
    return Curves.of(read_records(out))


def test_a_curve_is_of_its_records(tmp_path):
    curves = made_curves(tmp_path)
    assert curves.tasks("sinusoid") == [5, len(environment("sinusoid").meta_train)]
    few, many = (curves.entries[Place("sinusoid", "np", tasks)] for tasks in (5, 20))
    assert [cell.tasks for cell in few.cells] == [5, 5]
    tables = {table.name: table for table in curve_tables(curves, ["rmse", "log_score"], 2)}
    rows = {row.label: row.values for row in tables["rmse"].rows}
    one, other = few.values("rmse"), many.values("rmse")
    assert rows["np"][0].text == f"{one.mean():.3f} ± {standard_error(one):.3f}"
    gap = paired_difference(other, one)
    assert gap[0] == pytest.approx(other.mean() - one.mean())
    assert rows["np"][2].text == f"{gap[0]:.3f} ± {gap[1]:.3f}"
    assert rows["np"][1].bold
    assert not rows["anp"][1].bold
    assert rows["oracle"][0] == rows["oracle"][1]
    # A point predictor has no distribution to score.
    assert {row.label: row for row in tables["log_score"].rows}["maml"].values[0].text == "-"


def test_standard_errors_are_those_of_independent_tasks_and_seeds():
    rng = np.random.default_rng(0)
    tasks, seeds = 40, 6
    truth = np.sqrt(1 / tasks + 0.25 / seeds)
    draws = [rng.normal(size=tasks) + 0.5 * rng.normal(size=(seeds, 1)) for _ in range(400)]
    squared = np.array([standard_error(each) ** 2 for each in draws])
    assert abs(squared.mean() - truth**2) < 4 * squared.std() / 20
    assert paired_difference(draws[0], draws[0])[0] == 0
    # What both have of a task cancels.
    assert paired_difference(draws[0] + 100 * rng.normal(size=tasks), draws[0])[1] > paired_difference(*draws[:2])[1]


@pytest.mark.parametrize("later", [False, True])
def test_the_log_score_is_drawn_where_all_records_have_it(tmp_path, later):
    curves = made_curves(tmp_path)
    scored = [entry for place, entry in curves.entries.items() if place.method != "maml"]
    first, *others = (record for entry in scored for record in entry.records)
    for record in (first, *others):
        record["tasks"]["log_score"] = [1.0] * len(record["tasks"]["rmse"])
        record["summary"]["log_score"] = 1.0
    if later:  # one was made before there was a log score
        del first["tasks"]["log_score"], first["summary"]["log_score"]
    for record in curves.oracles["sinusoid"].records:
        record["tasks"]["log_score"] = [0.5] * len(record["tasks"]["rmse"])
    metric = "nll" if later else "log_score"
    assert curves.known("sinusoid", "log_score") == metric
    drawn = curve_figure(curves, ["rmse", "log_score"])["svg"].decode()
    assert ("NLL" in drawn) == later
    assert ("log score" in drawn) != later


def test_the_suite_is_the_physionet_variables(monkeypatch):
    monkeypatch.setattr("scoreprior.bench.plan.environment", lambda name: None)
    chosen = known_environments("sinusoid,suite,physionet-hct")
    assert len(chosen) == 11
    assert chosen[0] == "sinusoid"
    assert all(name.startswith("physionet-") for name in chosen[1:])
