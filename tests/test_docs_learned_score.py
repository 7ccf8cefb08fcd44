"""The table of results/learned-score in docs/results.md is that of its records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scoreprior.bench.report.results import Results

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ("dose-response", "sawtooth", "change-point")
METHODS = ("last-value", "ridge", "pooled-gp", "hierarchical-gp", "mars-denoiser", "oracle")


def figure(results: Results, environment: str, method: str, metric: str) -> float:
    (entry,) = results.entries[environment, method].values()
    return float(np.mean([record["summary"][metric] for record in entry.records]))


def table() -> str:
    results = Results.load(ROOT / "results" / "learned-score")
    lines = [f"| RMSE, NLL, in the 90% interval | {' | '.join(ENVIRONMENTS)} |", "|---|" + "---|" * len(ENVIRONMENTS)]
    for method in METHODS:
        cells = []
        for environment in ENVIRONMENTS:
            rmse, nll, inside = (
                figure(results, environment, method, metric) for metric in ("rmse", "nll", "pooled_coverage90")
            )
            cells.append(f"{rmse:.3f}, {nll:.2f}, {inside:.0%}")
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_table_is_that_of_the_records():
    page = (ROOT / "docs" / "results.md").read_text()
    between = page.split("<!-- learned-score -->")[1].split("<!-- /learned-score -->")[0]
    assert between.strip() == table()


def test_the_finding_is_that_of_the_records():
    results = Results.load(ROOT / "results" / "learned-score")
    page = " ".join((ROOT / "docs" / "results.md").read_text().split())
    ours, process = (
        {metric: [figure(results, each, method, metric) for each in ENVIRONMENTS] for metric in ("rmse", "nll")}
        for method in ("mars-denoiser", "hierarchical-gp")
    )
    shares = [f"{1 - a / b:.0%}" for a, b in zip(ours["rmse"], process["rmse"])]
    assert "by {} (dose-response), {} (sawtooth) and {} (change-point)".format(*shares) in page
    gains = [f"{b - a:.2f}" for a, b in zip(ours["nll"], process["nll"])]
    assert "a lower NLL by {}, {} and {}".format(*gains) in page


def test_the_network_is_better_than_the_process_on_every_environment():
    results = Results.load(ROOT / "results" / "learned-score")
    for environment in ENVIRONMENTS:
        (ours,) = results.entries[environment, "mars-denoiser"].values()
        (process,) = results.entries[environment, "hierarchical-gp"].values()
        nll = [np.mean([record["tasks"]["nll"] for record in entry.records], axis=0) for entry in (process, ours)]
        gain = nll[0] - nll[1]
        assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))
