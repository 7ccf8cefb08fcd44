"""Cells and the files that keep their records."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from scoreprior import metrics
from scoreprior.bench import campaign as campaign_module
from scoreprior.bench import counts, work
from scoreprior.bench.campaign import Campaign, points_path, read_records, records_path
from scoreprior.bench.cell import Cell, canonical
from scoreprior.bench.line_file import DamagedError, InUseError, LineFile, read_lines
from scoreprior.bench.runner import InlineRunner


def test_the_identity_of_a_cell_is_the_same_for_ever():
    # These are the keys of published records: a change here makes all of them unreadable.
    assert Cell.of("sinusoid", "ridge", 0, {}).key == "1b3977b8774db3d8"
    assert Cell.of("sinusoid", "np", 3, {"width": 64, "training.steps": 5}).config_hash == "dfd1f32e5d"


def test_what_is_computed_tells_cells_apart_and_nothing_else():
    one = Cell.of("sinusoid", "np", 0, {"width": 64, "latent": 4})
    assert one.key == Cell.of("sinusoid", "np", 0, {"latent": 4, "width": 64}, budget="quick").key
    others = [
        Cell.of("berkeley", "np", 0, {"width": 64, "latent": 4}),
        Cell.of("sinusoid", "anp", 0, {"width": 64, "latent": 4}),
        Cell.of("sinusoid", "np", 1, {"width": 64, "latent": 4}),
        Cell.of("sinusoid", "np", 0, {"width": 64, "latent": 5}),
        Cell.of("sinusoid", "np", 0, {"width": 64, "latent": 4}, split=1),
        Cell.of("sinusoid", "np", 0, {"width": 64, "latent": 4}, part="valid"),
    ]
    assert len({cell.key for cell in (one, *others)}) == 7


def test_settings_come_back_from_json_as_configs_hold_them():
    settings = {"network.hidden": (32, 32), "process.order": math.inf, "skip": "none", "rate": 0.1, "n": None}
    cell = Cell.of("sinusoid", "maml", 0, settings)
    assert cell.overrides == settings
    assert Cell.from_dict(cell.to_dict()) == cell


@pytest.mark.parametrize("tail", [b'{"key": "c", "val', b"\x00\x00\x00\x00", b'{"a":\n', b"\n"[:0], b'{"key": "c"}'])
def test_an_interrupted_write_is_removed_and_nothing_else(tmp_path, tail):
    path = tmp_path / "records.jsonl"
    with LineFile(path) as file:
        file.append({"key": "a"})
        file.append({"key": "b"})
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert [line["key"] for line in read_lines(path)] == ["a", "b"]
    with LineFile(path) as file:
        assert path.read_bytes() == whole
        file.append({"key": "d"})
    assert [line["key"] for line in read_lines(path)] == ["a", "b", "d"]


def test_damage_inside_a_file_is_an_error_that_names_the_line(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"key": "a"}\n<<<<<<< ours\n{"key": "b"}\n')
    before = path.read_bytes()
    with pytest.raises(DamagedError, match="line 2"):
        LineFile(path)
    assert path.read_bytes() == before


def test_a_file_has_one_writer(tmp_path):
    with LineFile(tmp_path / "records.jsonl"), pytest.raises(InUseError, match="another run"):
        LineFile(tmp_path / "records.jsonl")
    LineFile(tmp_path / "records.jsonl").close()


def test_failed_cells_run_again_only_when_asked_and_the_last_record_counts(tmp_path):
    cell = Cell.of("sinusoid", "ridge", 0, {})
    succeeds = False

    def work(_: Cell) -> dict:
        if not succeeds:
            raise MemoryError("too large")
        return {"summary": {"rmse": 1.0}}

    def computed(**options: bool) -> int:
        with Campaign(tmp_path, [cell, cell], **options) as campaign:
            return len(list(campaign.run(InlineRunner(work))))

    assert computed() == 1
    assert read_records(tmp_path)[0][1]["error"] == {"type": "MemoryError", "message": "too large"}
    succeeds = True
    assert computed() == 0
    assert computed(retry_failed=True) == 1
    assert computed(retry_failed=True) == 0
    ((found, record),) = read_records(tmp_path)
    assert (found, record["status"]) == (cell, "done")
    assert len(read_lines(records_path(tmp_path, "sinusoid", "ridge"))) == 2


def compute(out: Path, *methods: str, seeds: int = 2, fails: bool = False, **options: bool) -> list[Cell]:
    """Run cells that take no time; returns those that were computed."""

    def work(cell: Cell) -> dict:
        if fails:
            raise MemoryError("too large")
        return {"value": cell.seed}

    with Campaign(out, cells_of(*methods, seeds=seeds), **options) as campaign:
        return [cell for cell, _ in campaign.run(InlineRunner(work))]


def cells_of(*methods: str, seeds: int = 2) -> list[Cell]:
    return [Cell.of("sinusoid", method, seed, {}) for method in methods for seed in range(seeds)]


def record_files(out: Path) -> set[str]:
    return {str(path.relative_to(out / "records")) for path in (out / "records").rglob("*.jsonl")}


def test_a_campaign_holds_the_methods_it_is_to_write_and_no_others(tmp_path):
    compute(tmp_path, "ridge")
    with Campaign(tmp_path, cells_of("ridge", "np")) as campaign:
        assert campaign.todo == cells_of("np")
        assert record_files(tmp_path) == {"sinusoid/ridge.jsonl", "sinusoid/np.jsonl"}
        assert compute(tmp_path, "ridge", "anp") == cells_of("anp")
        assert compute(tmp_path, "ridge", seeds=3) == cells_of("ridge", seeds=3)[2:]
        with pytest.raises(InUseError, match=r"another run is writing it.*np\.jsonl"):
            compute(tmp_path, "ridge", "np")
    assert len(compute(tmp_path, "np")) == 2


def test_what_another_run_computes_before_the_lock_is_held_is_not_computed_again(tmp_path, monkeypatch):
    cells, others = cells_of("ridge", seeds=3), []

    def late(path: Path) -> LineFile:
        monkeypatch.undo()
        others.extend(compute(tmp_path, "ridge", seeds=2))
        return LineFile(path)

    monkeypatch.setattr(campaign_module, "LineFile", late)
    with Campaign(tmp_path, cells) as campaign:
        assert others == cells[:2]
        assert campaign.todo == cells[2:]
        assert [(cell, record["value"]) for cell, record in campaign.done] == [(cells[0], 0), (cells[1], 1)]


def test_all_methods_on_all_environments_are_not_too_many_files(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = os.open(tmp_path, os.O_RDONLY)  # the lowest number that is free
    os.close(used)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, before[1]))
    try:
        assert len(compute(tmp_path, *(f"method{i}" for i in range(40)), seeds=1)) == 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_every_split_has_points_of_its_own(tmp_path):
    cells = [Cell.of("sinusoid", "ridge", 0, {}, split=split) for split in (0, 1)]
    with Campaign(tmp_path, cells) as campaign:
        for _ in campaign.run(InlineRunner(lambda cell: {"points": {"split": cell.split}})):
            pass
    paths = [points_path(tmp_path, cell) for cell in cells]
    assert [path.name for path in paths] == [
        "sinusoid--ridge--44136fa355.json",  # as published
        "sinusoid--ridge--44136fa355--split1.json",
    ]
    assert [path.read_text() for path in paths] == ['{"split":0}\n', '{"split":1}\n']


def test_the_revision_is_of_our_code_not_of_a_repository_around_it(tmp_path, monkeypatch):
    def git(*words: str) -> str:
        who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
        return subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    def revision() -> str:
        work.provenance.cache_clear()
        return work.provenance()["revision"]

    module = tmp_path / "venv" / "scoreprior" / "bench" / "work.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    (tmp_path / "theirs.txt").write_text("")
    git("init")
    git("add", "theirs.txt")
    git("commit", "-m", "theirs")
    monkeypatch.setattr(work, "__file__", str(module))
    try:
        assert revision() == "no git"
        git("add", str(module))
        git("commit", "-m", "ours")
        assert revision() == git("rev-parse", "--short=10", "HEAD")
        Path(module).write_text("changed")
        assert revision().endswith("-dirty")
    finally:
        work.provenance.cache_clear()


def test_counted_pits_have_the_calibration_error_of_the_pits():
    rng = np.random.default_rng(0)
    tasks = [rng.beta(0.7, 1.3, size=n) for n in (1, 3, 200, 1200)]
    tasks.append(np.concatenate([counts.GRID, [0.0, 1.0, np.nextafter(1.0, 0.0)]]))  # on the levels themselves
    text = counts.encode(tasks)
    found = counts.decode(text)
    assert [row.sum() for row in found] == [len(task) for task in tasks]
    expected = [metrics.calibration_error(task) for task in tasks]
    np.testing.assert_allclose(counts.calibration_error(found), expected, rtol=0, atol=1e-12)
    everything = metrics.calibration_error(np.concatenate(tasks))
    np.testing.assert_allclose(counts.calibration_error(found.sum(0)), everything, rtol=0, atol=1e-12)


def test_canonical_json_is_strict():
    assert canonical({"b": (1, math.nan), "a": -math.inf}) == '{"a":"-inf","b":[1,null]}'
