"""Packed results are read like the working files they were made of, and packing loses nothing."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scoreprior.bench import published as module
from scoreprior.bench.campaign import Campaign, read_points, read_records, records_path
from scoreprior.bench.cell import Cell, canonical, digest
from scoreprior.bench.line_file import DamagedError, InUseError
from scoreprior.bench.published import ArchiveError, archive_path, has_results, pack, published
from scoreprior.bench.runner import InlineRunner
from scoreprior.bench.selected import Selection, load_selection, save_selection, selected_path
from scoreprior.bench.tuning import Protocol, Study, tune
from scoreprior.cli.bench import bench_app

REPOSITORY = Path(__file__).parents[2]
CELLS = [Cell.of("sinusoid", method, seed, {}) for method in ("ridge", "np", "anp") for seed in range(2)]


def compute(out: Path, cells: list[Cell], value: float = 0.0, **options: bool) -> list[Cell]:
    """Run cells that take no time, those of anp fail at value 0; returns what was computed."""

    def work(cell: Cell) -> dict:
        if cell.method == "anp" and value == 0.0:
            raise MemoryError("too large")
        return {"value": value, "points": {"mean": [value]}}

    with Campaign(out, cells, **options) as campaign:
        return [cell for cell, _ in campaign.run(InlineRunner(work))]


def files(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} - {".lock"}


def test_packed_records_count_until_newer_ones_replace_them(tmp_path):
    assert compute(tmp_path, CELLS) == CELLS
    before = read_records(tmp_path)
    assert pack(tmp_path) == [archive_path(tmp_path, "sinusoid")]
    assert files(tmp_path) == {"published/sinusoid.zip"}
    assert read_records(tmp_path) == before
    assert compute(tmp_path, CELLS) == []
    assert files(tmp_path) == {"published/sinusoid.zip"}  # what is published needs no file to be opened
    assert compute(tmp_path, CELLS, 1.0, retry_failed=True) == CELLS[4:]
    more = Cell.of("sinusoid", "ridge", 2, {})
    assert compute(tmp_path, [*CELLS, more], 2.0) == [more]
    after = read_records(tmp_path)
    assert len(after) == 7
    assert {record["status"] for _, record in after} == {"done"}
    pack(tmp_path)
    assert files(tmp_path) == {"published/sinusoid.zip"}
    assert read_records(tmp_path) == after
    assert compute(tmp_path, [*CELLS, more], retry_failed=True) == []


def test_every_kind_of_file_is_packed_into_the_archive_of_its_environment(tmp_path):
    other = Cell.of("berkeley", "ridge", 0, {})
    compute(tmp_path, [CELLS[0], other], 3.0)
    selection = Selection("berkeley", "np", {"points": 7}, {"metric": "nll"}, 1.0, None, 2.0, [], {})
    save_selection(tmp_path, selection)
    pack(tmp_path)
    assert set(published(tmp_path, "sinusoid")) == {
        "records/sinusoid/ridge.jsonl",
        "points/sinusoid--ridge--44136fa355.json",
    }
    assert set(published(tmp_path, "berkeley")) == {
        "records/berkeley/ridge.jsonl",
        "points/berkeley--ridge--44136fa355.json",
        "selected/berkeley--np.json",
    }
    assert load_selection(tmp_path, "berkeley", "np") == selection
    assert read_points(tmp_path, other) == {"mean": [3.0]}
    assert read_points(tmp_path, Cell.of("berkeley", "np", 0, {})) is None
    save_selection(tmp_path, selection)
    assert not selected_path(tmp_path, "berkeley", "np").exists()  # what is published already is not written again
    compute(tmp_path, [Cell.of("berkeley", "ridge", 0, {}, part="valid")], 4.0)
    assert read_points(tmp_path, other) == {"mean": [4.0]}  # a working file goes before a published one


def test_a_packed_journal_is_continued(tmp_path):
    def trials(number: int) -> list[Cell]:
        asked = []

        def work(cell: Cell) -> dict:
            asked.append(cell)
            return {
                "summary": {"nll": 1.0, "log_score": 1.0, "rmse": 1.0},
                "tasks": {"nll": [1.0]},
                "seconds": {"wall": 2.0},
            }

        study = Study(tmp_path, "sinusoid", "np", number, Protocol())
        try:
            for _ in tune(study, InlineRunner(work)):
                pass
            with pytest.raises(InUseError):
                pack(tmp_path)
        finally:
            study.close()
        return asked

    assert len(trials(3)) == 3
    pack(tmp_path)
    assert files(tmp_path) == {"published/sinusoid.zip"}
    assert trials(3) == []
    assert len(trials(5)) == 2
    pack(tmp_path)
    assert trials(5) == []


def test_packing_waits_for_no_run_and_no_run_starts_while_it_packs(tmp_path, monkeypatch):
    compute(tmp_path, CELLS[:2])
    with Campaign(tmp_path, CELLS), pytest.raises(InUseError, match="another run"):
        pack(tmp_path)
    refused = []

    def late(members):
        with pytest.raises(InUseError):
            compute(tmp_path, CELLS)
        refused.append(True)
        return zipped(members)

    zipped = module._zipped
    monkeypatch.setattr(module, "_zipped", late)
    pack(tmp_path)
    assert refused == [True]
    assert len(read_records(tmp_path)) == 2


def test_packing_that_was_interrupted_is_done_again_with_the_same_result(tmp_path, monkeypatch):
    compute(tmp_path, CELLS, 1.0)
    before = read_records(tmp_path)

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            pack(tmp_path)
    archive = archive_path(tmp_path, "sinusoid")
    once = archive.read_bytes()
    assert read_records(tmp_path) == before
    pack(tmp_path)
    assert archive.read_bytes() == once
    assert files(tmp_path) == {"published/sinusoid.zip"}
    assert read_records(tmp_path) == before


@pytest.mark.parametrize("name", ["records/sinusoid/ridge.jsonl", "selected/sinusoid--np.json"])
def test_damaged_files_are_named_and_nothing_is_removed(tmp_path, name):
    compute(tmp_path, CELLS, 1.0)
    damaged = tmp_path / name
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_text("<<<<<<< ours\n{}\n")
    before = files(tmp_path)
    with pytest.raises(DamagedError) as caught:
        pack(tmp_path)
    assert caught.value.filename == str(damaged)
    assert files(tmp_path) == before


def test_a_damaged_archive_is_named(tmp_path):
    compute(tmp_path, CELLS, 1.0)
    (archive,) = pack(tmp_path)
    archive.write_bytes(archive.read_bytes()[:-50])
    with pytest.raises(ArchiveError) as caught:
        read_records(tmp_path)
    assert caught.value.filename == str(archive)


def test_a_torn_line_at_the_end_of_a_working_file_is_left_out(tmp_path):
    compute(tmp_path, CELLS[:2])
    path = records_path(tmp_path, "sinusoid", "ridge")
    path.write_bytes(path.read_bytes() + b'{"key": "c", "val')
    Campaign(tmp_path, CELLS[2:4]).__exit__(None, None, None)  # leaves a file without a line
    pack(tmp_path)
    assert [cell for cell, _ in read_records(tmp_path)] == CELLS[:2]
    assert not [name for name in published(tmp_path, "sinusoid") if "np" in name]
    assert files(tmp_path) == {"published/sinusoid.zip"}


def test_the_command_says_what_it_wrote(tmp_path):
    def bench(*words: str):
        return CliRunner().invoke(bench_app, [*words, "--out", str(tmp_path / "bench"), "--json"])

    assert bench("pack").exit_code == 2  # no such directory
    compute(tmp_path / "bench", CELLS, 1.0)
    result = bench("pack")
    assert (result.exit_code, json.loads(result.stdout)["files"]) == (
        0,
        [str(archive_path(tmp_path / "bench", "sinusoid"))],
    )
    assert json.loads(bench("pack").stdout)["files"] == []
    assert has_results(tmp_path / "bench")


def test_the_published_archives_hold_whole_records_under_their_own_names():
    out = REPOSITORY / "results" / "bench"
    found = read_records(out)
    assert len(found) == len({record["key"] for _, record in found}) > 900
    for cell, record in found:
        assert record["key"] == cell.key
        assert f"records/{cell.environment}/{cell.method}.jsonl" in published(out, cell.environment)
    configurations = {(cell.environment, cell.method, cell.config_hash) for cell, _ in found}
    for archive in out.glob("published/*.zip"):
        assert archive.stat().st_size < 2**20
        with zipfile.ZipFile(archive) as opened:
            points = [name for name in opened.namelist() if name.startswith("points/")]
        for name in points:
            environment, method, config, *_ = Path(name).stem.split("--")
            assert (environment, method, config) in configurations
            assert archive.stem == environment
    assert digest(canonical({}), 10) == "44136fa355"  # of the defaults, whose points the loop above has seen


def test_the_repository_carries_no_working_files():
    listed = subprocess.run(["git", "ls-files", "results/bench"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git repository")
    suffixes = {Path(name).suffix for name in listed.stdout.split()}
    assert suffixes <= {".zip", ".md"}, "run: scoreprior bench pack"
