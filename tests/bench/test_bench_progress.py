"""What people see while cells are computed, and the one call behind `reproduce`."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from scoreprior.bench import Campaign, Cell, InlineRunner, reproduce_tables
from scoreprior.bench.watch import Progress


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
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(Progress(again, workers=2).table())
    shown = [[word.strip() for word in line.split("│")] for line in console.export_text().splitlines()]
    rows = {words[2]: words[3:-1] for words in shown if words[1:2] == ["sinusoid"]}
    assert rows["ridge"] == ["3/3", "", "1.000", "-", "0.500", "10.0"]  # the mean of the seeds' 0, 1 and 2
    assert rows["np"] == ["3/3", "3", "-", "-", "-", ""]


def test_one_call_runs_and_reports(tmp_path):
    options = {"seeds": 1, "workers": 0, "environments": ["sinusoid"], "methods": ["last-value"]}
    paths, findings, failed = reproduce_tables("quick", tmp_path, **options)
    assert failed == 0
    assert {path.name for path in paths} == {"report.md", "report.tex", "report.html"}
    assert findings[0].startswith("MARS has not been run")
    assert "| last-value | not run | not run | not run | not run | not run | **1.128** |" in paths[0].read_text()
    assert "Quick budget" in paths[0].read_text()
