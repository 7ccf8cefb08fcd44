"""Three tables of docs/results.md are those of their records: ablations, five tables, priors that learn on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scoreprior.bench.campaign import read_records

ROOT = Path(__file__).parents[1]
CHANGES = {
    "{}": "`mars-gp-paper`",
    '{"network.frequencies":0}': "inputs as they are, no Fourier features",
    '{"objective.tau":0}': "white noise, no smooth part",
    '{"network.multiplier":1}': "normalised layers without the factor 2",
    '{"objective.form":"score"}': "the score itself, not a denoiser",
    '{"objective.tails":false}': "no pull outside the training values",
    '{"least_points":null}': "always 24 points, not 2 to 24",
    '{"measurement":"box"}': "points in a box, not around inputs",
    '{"interpolator.noise_std":0.1}': "interpolator noise of 0.1",
}
ENVIRONMENTS = ("sinusoid", "physionet-gcs", "physionet-hct")
TITLES = {
    "plants_with_treatment": "plants, 5 known points",
    "dose_response": "dose-response, 2 known points",
    "daily_sales": "sales, 14 days ahead",
    "machines": "machines, 6 inputs, 100 known",
    "many_small_tasks": "5,000 tasks, 2 of 5 points known",
}


def ablations() -> str:
    """RMSE of the paper's repaired configuration with one change undone."""
    found = {
        (cell.settings, cell.environment): record["summary"]["rmse"]
        for cell, record in read_records(ROOT / "results" / "paper-ablations")
        if record["status"] == "done"
    }
    lines = [f"| RMSE on validation tasks | {' | '.join(ENVIRONMENTS)} |", "|---|" + "---|" * len(ENVIRONMENTS)]
    for settings, words in CHANGES.items():
        cells = (f"{found[settings, each]:.3f}" for each in ENVIRONMENTS)
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def five_tables() -> str:
    """Means over seeds, the standard error of the first figure over them."""
    records: list[dict[str, Any]] = json.loads((ROOT / "results" / "tables.json").read_text())
    lines = ["| table | how | RMSE | in the 90% interval | its width |", "|---|---|---|---|---|"]
    for table, title in TITLES.items():
        runs = [each["figures"] for each in records if each["table"] == table]
        for way in runs[0]:
            rmse = [run[way]["rmse"] for run in runs]
            cells = [f"{np.mean(rmse):.3g} ± {np.std(rmse, ddof=1) / np.sqrt(len(rmse)):.1g}"]
            if "coverage90" in runs[0][way]:
                cells.append(f"{np.mean([run[way]['coverage90'] for run in runs]):.0%}")
                cells.append(f"{np.mean([run[way]['width90'] for run in runs]):.3g}")
            lines.append("| " + " | ".join([title, way, *cells, *["-"] * (3 - len(cells))]) + " |")
    return "\n".join(lines)


def updates() -> str:
    """Ways to a prior of all tasks."""
    records = json.loads((ROOT / "results" / "update.json").read_text())["records"]
    lines = ["| environment | prior | CPU seconds | RMSE | log score | CRPS |", "|---|---|---|---|---|---|"]
    for each in records:
        figures = f"{each['rmse']:.3f} | {each['log_score']:.3f} | {each['crps']:.3f}"
        lines.append(f"| {each['environment']} | {each['way']} | {each['cpu_seconds']:.1f} | {figures} |")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "table"), [("paper-ablations", ablations), ("five-tables", five_tables), ("updates", updates)]
)
def test_the_page_has_the_table(name: str, table: Callable[[], str]):
    page = (ROOT / "docs" / "results.md").read_text()
    assert page.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0].strip() == table()
