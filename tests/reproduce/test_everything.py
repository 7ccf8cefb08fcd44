"""`scoreprior reproduce all`: what is run, what is not run again, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from scoreprior.bench import Tables, catalogue, reproduce_tables, work
from scoreprior.bench.campaign import read_records
from scoreprior.cli import app
from scoreprior.reproduce import _output, everything, score_tables
from scoreprior.reproduce._output import Report, Settings, kept, save
from scoreprior.tasks.checks import TaskError


class Fakes:
    """Two experiments and the tables, which note that they were run; those in `broken` raise what is given there."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.broken: dict[str, BaseException] = {}
        self.asked: dict[str, object] = {}
        self.failed_cells = 0

    def experiment(self, name: str):
        def run(settings: Settings) -> Report:
            self._note(name)
            return Report({"seeds": settings.seeds}, findings=[f"{name} was found."], figure=Figure())

        return run

    def tables(self, budget: str, out: Path, **options: object) -> Tables:
        self._note("bench")
        self.asked = {"budget": budget, "out": out, **options}
        return Tables([out / "report.md"], ["MARS was found."], self.failed_cells)

    def _note(self, name: str) -> None:
        self.ran.append(name)
        if name in self.broken:
            raise self.broken[name]


@pytest.fixture
def fakes(monkeypatch) -> Fakes:
    made = Fakes()
    for name in ("table7", "table8"):
        monkeypatch.setattr(score_tables, name, made.experiment(name))
    monkeypatch.setattr(everything, "experiments", lambda: {"table7": "RMSE", "table8": "cosine", "choose": "ours"})
    monkeypatch.setattr("scoreprior.bench.reproduce_tables", made.tables)
    monkeypatch.setattr("scoreprior.cli.main.keep_compiled", lambda: None)
    return made


def run(out: Path, *words: str):
    return CliRunner().invoke(app, ["reproduce", "all", "--out", str(out), *words], env={"COLUMNS": "200"})


def test_all_is_everything_of_the_paper(tmp_path):
    names = [part.name for part in everything.parts(tmp_path, seeds=1, seed=0)]
    assert names == ["table7", "table8", "figure1", "figure2", "figure3", "figure5", "figure6", "bench"]


def test_it_says_what_it_does_and_ends_with_findings_and_files(tmp_path, fakes):
    result = run(tmp_path)
    assert result.exit_code == 0, result.output
    assert fakes.ran == ["table7", "table8", "bench"]
    lines = result.stderr.splitlines()
    assert lines[0] == "[1/3] table7: RMSE."
    assert lines[1].startswith("[1/3] table7: done in ")
    assert lines[2] == "[2/3] table8: cosine."
    assert "table7: table7 was found.\ntable8: table8 was found.\nbench: MARS was found." in result.stdout
    assert "table8.json, table8.png, table8.svg" in result.stdout
    assert "bench/report.md" in result.stdout
    quiet = run(tmp_path, "--quiet")
    assert quiet.stderr == ""
    assert "bench: MARS was found." in quiet.stdout


def test_what_is_done_with_the_same_settings_is_not_run_again(tmp_path, fakes):
    first = json.loads(run(tmp_path, "--json").stdout)
    again = run(tmp_path, "--json")
    assert fakes.ran == ["table7", "table8", "bench", "bench"]  # the benchmark knows itself what it has
    parts = json.loads(again.stdout)["parts"]
    assert [part["status"] for part in parts.values()] == ["kept", "kept", "done"]
    for what in ("findings", "files"):
        assert parts["table7"][what] == first["parts"]["table7"][what]
    for words in (["--seeds", "2"], ["--seed", "1"], ["--budget", "quick"]):
        fakes.ran.clear()
        run(tmp_path, *words)
        assert fakes.ran == ["table7", "table8", "bench"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda out: (out / "table7.json").write_text((out / "table7.json").read_text()[:-20]),
        lambda out: (out / "table7.json").write_text("[]"),
        lambda out: (out / "table7.json").unlink(),
        lambda out: (out / "table7.png").unlink(),
    ],
)
def test_what_is_not_whole_is_run_again(tmp_path, fakes, damage):
    run(tmp_path)
    damage(tmp_path)
    fakes.ran.clear()
    assert run(tmp_path).exit_code == 0
    assert fakes.ran == ["table7", "bench"]
    assert "is there from an earlier run" in run(tmp_path).stderr


def test_a_failing_part_stops_no_other_and_is_tried_again(tmp_path, fakes):
    fakes.broken = {"table7": RuntimeError("no luck")}
    result = run(tmp_path)
    assert result.exit_code == 1
    assert fakes.ran == ["table7", "table8", "bench"]
    assert "Warning: table7 failed: Unexpected RuntimeError: no luck" in result.stderr
    assert "table7 failed: Unexpected RuntimeError: no luck" in result.stdout
    assert "Traceback" not in result.output
    fakes.ran.clear()
    told = run(tmp_path, "--json", "--debug")
    record = json.loads(told.stdout)
    assert told.exit_code == 1
    assert record["failed"] == ["table7"]
    assert record["parts"]["table7"]["error"].startswith("Unexpected RuntimeError: no luck")
    assert "error" not in record["parts"]["table8"]
    assert "Traceback" in told.stderr
    fakes.broken = {}
    assert run(tmp_path).exit_code == 0
    assert fakes.ran == ["table7", "bench", "table7", "bench"]


def test_failed_cells_are_a_failure_with_a_report(tmp_path, fakes):
    fakes.failed_cells = 3
    result = run(tmp_path, "--json")
    assert result.exit_code == 1
    part = json.loads(result.stdout)["parts"]["bench"]
    assert part["error"].startswith("Cells that failed: 3.")
    again = f"`scoreprior bench run --env all --method all --seeds 5 --retry-failed --out {tmp_path / 'bench'}`"
    assert again in part["error"]
    assert part["files"] == [str(tmp_path / "bench" / "report.md")]


@pytest.mark.parametrize("name", ["table8", "bench"])
def test_an_interruption_says_that_the_same_command_continues(tmp_path, fakes, name):
    fakes.broken = {name: KeyboardInterrupt()}
    stopped = run(tmp_path)
    assert stopped.exit_code == 130
    assert f"Stopped at {name}, part {len(fakes.ran)} of 3. The same command continues." in stopped.stderr
    assert stopped.stdout == ""
    fakes.broken = {}
    fakes.ran.clear()
    assert run(tmp_path).exit_code == 0
    assert fakes.ran == list(dict.fromkeys([name, "bench"]))


def test_options_reach_the_parts(tmp_path, fakes):
    run(tmp_path, "--budget", "quick", "--workers", "2")
    assert json.loads((tmp_path / "table7.json").read_text())["seeds"] == 1  # quick is one seed
    known = {"budget": "quick", "out": tmp_path / "bench", "seeds": 1, "workers": 2}
    assert {name: fakes.asked[name] for name in known} == known
    run(tmp_path)
    assert {name: fakes.asked[name] for name in ("budget", "seeds", "workers")} == {
        "budget": "full",
        "seeds": 5,
        "workers": 1,
    }
    alone = CliRunner().invoke(app, ["reproduce", "table7", "--out", str(tmp_path), "--workers", "2"])
    assert alone.exit_code == 2
    assert "--workers is for the benchmark" in alone.stderr


def test_a_record_is_there_only_with_its_figures(tmp_path, monkeypatch):
    settings = Settings(1, "quick", False, tmp_path)
    save(Report({}, findings=["Old."], figure=Figure()), "thing", settings)
    assert kept("thing", settings).findings == ["Old."]

    def full_disk(path: Path, data: bytes) -> None:
        raise OSError("no space")

    monkeypatch.setattr(_output, "replace_file", full_disk)
    with pytest.raises(OSError, match="no space"):
        save(Report({}, findings=["New."], figure=Figure()), "thing", settings)
    assert kept("thing", settings) is None  # its figure may be the old one or the new one


def test_the_tables_are_real_and_continue(tmp_path):
    def tables(methods: list[str]) -> everything.Outcome:
        options = {"workers": 0, "environments": ["sinusoid"], "methods": methods}
        return everything.parts(tmp_path, seeds=1, seed=0, budget="quick", **options)[-1].run()

    first = tables(["last-value"])
    assert first.status == "done", first.problem
    assert [path.name for path in first.files] == ["report.md", "report.tex", "report.html"]
    before = read_records(tmp_path / "bench")
    assert tables(["last-value", "context-mean"]).status == "done"
    after = read_records(tmp_path / "bench")
    assert [cell.method for cell, _ in after] == ["context-mean", "last-value"]
    assert after[1] == before[0]  # with its date: it was not computed again


def test_environments_without_data_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SCOREPRIOR_DATA", str(tmp_path / "nothing"))
    monkeypatch.setattr(catalogue, "ENVIRONMENTS", ("sinusoid", "physionet-gcs"))
    with pytest.warns(UserWarning, match="not on this machine: physionet-gcs, berkeley-full") as seen:
        made = reproduce_tables("quick", tmp_path, seeds=1, workers=0, methods=["last-value"])
    assert "scoreprior data fetch" in str(seen[0].message)
    assert made.findings[-1] == str(seen[0].message)
    assert {cell.environment for cell, _ in read_records(tmp_path)} == {"sinusoid"}


def test_a_method_that_does_not_apply_is_no_failure(tmp_path, monkeypatch):
    def run_cell(cell):
        raise {"ridge": TaskError, "np": ValueError}[cell.method]("no")

    monkeypatch.setattr(work, "run_cell", run_cell)
    options = {"seeds": 2, "workers": 0, "environments": ["sinusoid"]}
    assert reproduce_tables("quick", tmp_path, methods=["ridge"], **options).failed == 0
    assert reproduce_tables("quick", tmp_path, methods=["ridge", "np"], **options).failed == 2
    assert reproduce_tables("quick", tmp_path, methods=["np"], **options).failed == 2  # recorded, not run again
