"""What people see while cells are computed, and the one call behind `reproduce`."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest
from rich.console import Console

from scoreprior.bench import Campaign, Cell, InlineRunner, reproduce_tables
from scoreprior.bench.watch import Progress, outcome
from scoreprior.tasks.checks import TaskError


def work(cell: Cell) -> dict:
    if cell.method == "np":
        raise ValueError("no")
    seconds = {"ridge": 10.0, "last-value": 1.0}[cell.method]
    summary = {"rmse": float(cell.seed), "nll": None, "pooled_calibration_error": 0.5}
    return {"summary": summary, "seconds": {"wall": seconds}}


def test_the_time_left_goes_by_like_cells(tmp_path):
    cells = [Cell.of("sinusoid", method, seed, {}) for seed in range(3) for method in ("ridge", "last-value", "np")]
    with Campaign(tmp_path, cells) as campaign:
        progress = Progress(campaign, workers=2)
        assert progress.seconds_left is None
        computed = campaign.run(InlineRunner(work))
        for _ in range(3):
            progress.saw(*next(computed))
        # Two more cells of 10 s, two of 1 s, and two of unknown length: the mean of all that is known.
        assert progress.seconds_left == pytest.approx((2 * 10 + 2 * 1 + 2 * 5.5) / 2)
        for record in computed:
            progress.saw(*record)
        assert progress.headline().startswith("9 of 9 cells")
        assert "left" not in progress.headline()
    with Campaign(tmp_path, cells) as again:  # what was there before is shown, too
        rows = {words[1]: words[2:] for words in shown(Progress(again, workers=2), 120) if words[:1] == ["sinusoid"]}
    assert rows["ridge"] == ["3/3", "1.000", "-", "0.500", "10.0"]  # the mean of the seeds' 0, 1 and 2
    assert rows["np"] == ["3/3", "3", "-", "-", "-"]


def shown(progress: Progress, width: int, most: int | None = None) -> list[list[str]]:
    """The words of every line of the table."""
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(progress.table(most))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    return [line.split() for line in lines]


def test_figures_are_whole_on_a_narrow_screen(tmp_path):
    def far_off(cell: Cell) -> dict:
        summary = {"rmse": 1234.5678, "nll": -1234.5678, "pooled_calibration_error": 0.123}
        return {"summary": summary, "seconds": {"wall": 12345.6}}

    methods = ("mars-no-spectral-letter", "np")
    cells = [Cell.of("student-t-sinusoid", method, seed, {}) for method in methods for seed in range(10)]
    with Campaign(tmp_path, cells) as campaign:
        progress = Progress(campaign, workers=1)
        for record in campaign.run(InlineRunner(far_off)):
            progress.saw(*record)
    lines = shown(progress, 80)
    assert ["10/10", "1234.568", "-1234.568", "0.123", "12345.6"] in [line[2:] for line in lines]
    names = next(line for line in lines if line[:1] and line[0].startswith("student-t"))[:2]
    assert all(len(name) >= 10 for name in names)
    assert [line[-5:] for line in shown(progress, 60) if "10/10" in line] == [lines[-1][-5:]] * 2


def test_what_is_at_work_is_shown_before_anything_is_done(tmp_path):
    cells = [Cell.of("sinusoid", method, seed, {}) for method in ("ridge", "last-value", "np") for seed in range(2)]
    with Campaign(tmp_path, cells) as campaign:
        progress = Progress(campaign, workers=2)
        lines = shown(progress, 80)
        assert lines[0][:4] == ["0", "of", "6", "cells,"]
        assert [line for line in lines if line[:1] == ["sinusoid"]] == [
            ["sinusoid", "ridge", "0/2", "-", "-", "-"],
            ["sinusoid", "last-value", "0/2", "-", "-", "-"],
        ]
        for record in campaign.run(InlineRunner(work)):
            progress.saw(*record)
        assert [line[1] for line in shown(progress, 80, most=2) if line[:1] == ["sinusoid"]] == ["last-value", "np"]


def test_a_method_that_does_not_apply_has_not_failed(tmp_path):
    def does_not_apply(cell: Cell) -> dict:
        raise TaskError("it needs lags")

    with Campaign(tmp_path, [Cell.of("sinusoid", "newest-lag", 0, {})]) as campaign:
        progress = Progress(campaign, workers=1)
        for cell, record in campaign.run(InlineRunner(does_not_apply)):
            progress.saw(cell, record)
            assert outcome(record) == "does not apply: it needs lags"
    assert ["sinusoid", "newest-lag", "1/1", "n/a", "-", "-", "-"] in shown(progress, 80)


class Interrupted(dict):
    """A record during whose reading another thread brings another one, or waits until it may."""

    def __init__(self, record: dict, bring: Callable[[], None]):
        super().__init__(record)
        self.thread = threading.Thread(target=bring)

    def __getitem__(self, name: str):
        if self.thread.ident is None:
            self.thread.start()
            self.thread.join(0.2)
        return super().__getitem__(name)


def test_the_table_can_be_drawn_while_records_come(tmp_path):
    cells = [Cell.of("sinusoid", method, 0, {}) for method in ("ridge", "last-value")]
    with Campaign(tmp_path, cells) as campaign:
        progress = Progress(campaign, workers=1)
    second = {"status": "done", **work(cells[1])}
    first = Interrupted({"status": "done", **work(cells[0])}, lambda: progress.saw(cells[1], second))
    progress.saw(cells[0], first)
    assert progress.seconds_left == pytest.approx(10.0)  # of the second cell, which came just after
    first.thread.join()
    assert progress.seconds_left == 0


def test_one_call_runs_and_reports(tmp_path):
    options = {"seeds": 1, "workers": 0, "environments": ["sinusoid"], "methods": ["last-value"]}
    paths, findings, failed = reproduce_tables("quick", tmp_path, **options)
    assert failed == 0
    assert {path.name for path in paths} == {"report.md", "report.tex", "report.html"}
    assert findings[0].startswith("MARS has not been run")
    assert "| last-value | not run | not run | not run | not run | not run | **1.128** |" in paths[0].read_text()
    assert "Quick budget" in paths[0].read_text()
