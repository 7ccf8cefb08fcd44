"""What docs/results.md says of networks is what results/learned-score, results/curves and results/suite hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scoreprior.bench.campaign import read_records
from scoreprior.bench.catalogue import SUITE
from scoreprior.bench.report.suite import METRICS, count_standings, methods_of, pairs_of
from scoreprior.bench.runner import Record

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ("dose-response", "sawtooth", "change-point")
METHODS = ("last-value", "ridge", "pooled-gp", "hierarchical-gp", "mars-gp", "oracle")
CURVES = {"physionet-gcs": (100, 1000, 3328), "physionet-hct": (100, 1000, 1691)}
STANDINGS = ("first", "not worse", "worse")
COMPARED = ("anp", "hierarchical-gp", "mars-gp")
_USUAL = {"physionet-gcs": 100, "physionet-hct": 100} | dict.fromkeys(ENVIRONMENTS, 1000)


@cache
def found(place: str) -> dict[tuple[str, str, int], list[Record]]:
    """Records on test tasks by environment, method and number of training tasks."""
    cells: dict[tuple[str, str, int], list[Record]] = {}
    for cell, record in read_records(ROOT / "results" / place):
        if record["status"] == "done" and cell.part == "test" and cell.settings == "{}":
            tasks = _USUAL[cell.environment] if cell.tasks is None else cell.tasks
            cells.setdefault((cell.environment, cell.method, tasks), []).append(record)
    return cells


def figure(records: Sequence[Record], metric: str) -> float:
    """The mean over seeds."""
    return float(np.mean([record["summary"][metric] for record in records]))


def three(records: Sequence[Record], score: str) -> str:
    """RMSE, a log score and coverage, as the tables have them."""
    return f"{figure(records, 'rmse'):.3f}, {figure(records, score):.2f}, {figure(records, 'pooled_coverage90'):.0%}"


def learned_table(tasks: int, methods: Sequence[str]) -> str:
    """Methods on functions that no Gaussian process follows."""
    lines = [f"| RMSE, NLL, in the 90% interval | {' | '.join(ENVIRONMENTS)} |", "|---|" + "---|" * len(ENVIRONMENTS)]
    for method in methods:
        cells = (three(found("learned-score")[each, method, tasks], "nll") for each in ENVIRONMENTS)
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def curves_table() -> str:
    """Methods on PhysioNet by the number of training patients."""
    lines = []
    for name, counts in CURVES.items():
        heads = " | ".join(f"{count:,} patients" for count in counts)
        lines += ["", f"| {name}: RMSE, log score, in the 90% interval | {heads} |", "|---|" + "---|" * len(counts)]
        for method in COMPARED:
            cells = (three(found("curves")[name, method, count], "log_score") for count in counts)
            lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines).strip()


def suite_table() -> str:
    """On how many pairs of a PhysioNet variable and a data split a method is first, not worse, worse."""
    pairs = pairs_of(ROOT / "results" / "suite", SUITE)
    names = methods_of(pairs)
    counts = {metric: count_standings(pairs, names, metric) for metric in METRICS}
    lines = ["| first, not worse, worse of 20 | RMSE | log score | pooled calibration |", "|---|---|---|---|"]
    for name in names:
        cells = (", ".join(str(counts[metric][name][each]) for each in STANDINGS) for metric in METRICS)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """By the name of their place on the page."""
    return {
        "suite": suite_table(),
        "learned-score": learned_table(1000, METHODS),
        "learned-score-100": learned_table(100, ("hierarchical-gp", "mars-gp")),
        "curves": curves_table(),
    }


def sentences() -> dict[str, str]:
    """By what they are about."""
    records, curves = found("learned-score"), found("curves")
    said = {}
    for tasks in (1000, 100):
        ours, process = (
            {
                metric: [figure(records[name, method, tasks], metric) for name in ENVIRONMENTS]
                for metric in ("rmse", "nll")
            }
            for method in ("mars-gp", "hierarchical-gp")
        )
        lower = [f"{1 - a / b:.0%}" for a, b in zip(ours["rmse"], process["rmse"])]
        gains = [f"{b - a:.2f}" for a, b in zip(ours["nll"], process["nll"])]
        said[f"{tasks} tasks"] = (
            f"With {tasks:,} tasks `mars-gp` has a lower RMSE than `hierarchical-gp` by {lower[0]} (dose-response), "
            f"{lower[1]} (sawtooth) and {lower[2]} (change-point), and a lower NLL by {gains[0]}, {gains[1]} and "
            f"{gains[2]}."
        )
    for name, title in (("physionet-gcs", "GCS"), ("physionet-hct", "HCT")):
        counts = CURVES[name]
        scores = {
            method: [f"{figure(curves[name, method, count], 'log_score'):.3f}" for count in counts]
            for method in COMPARED
        }
        listed = {method: f"{values[0]}, {values[1]} and {values[2]}" for method, values in scores.items()}
        said[title] = (
            f"Learned from {counts[0]}, {counts[1]:,} and {counts[2]:,} patients, the log score of `mars-gp` on "
            f"{title} is {listed['mars-gp']}; that of `hierarchical-gp` is {listed['hierarchical-gp']}, that of `anp` "
            f"{listed['anp']}."
        )
    squares = {
        method: np.sqrt(
            np.mean(np.square([record["tasks"]["rmse"] for record in curves["physionet-gcs", method, 100]]))
        )
        for method in ("mars-gp", "hierarchical-gp")
    }
    said["squares"] = (
        f"The root mean square over patients is {squares['mars-gp']:.3f} for `mars-gp` and "
        f"{squares['hierarchical-gp']:.3f} for `hierarchical-gp`."
    )
    drawn = {
        method: json.loads((ROOT / "results" / "draws" / f"sawtooth--{method}--seed0.json").read_text())
        for method in ("mars-gp", "hierarchical-gp")
    }
    distances = {method: np.mean(each["energy_distance"]) for method, each in drawn.items()}
    said["draws"] = (
        f"On the sawtooth the energy distance between draws of the prior and true functions is "
        f"{distances['mars-gp']:.3f} for `mars-gp` and {distances['hierarchical-gp']:.3f} for `hierarchical-gp`; "
        f"that of two true samples is {np.mean(drawn['mars-gp']['two_true_samples']):.3f}."
    )
    return said


def page() -> str:
    return (ROOT / "docs" / "results.md").read_text()


@pytest.mark.parametrize("name", ["learned-score", "learned-score-100", "curves", "suite"])
def test_a_table_is_that_of_the_records(name):
    between = page().split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]
    assert between.strip() == tables()[name]


@pytest.mark.parametrize("topic", ["1000 tasks", "100 tasks", "GCS", "HCT", "squares", "draws"])
def test_a_finding_is_that_of_the_records(topic):
    assert sentences()[topic] in " ".join(page().split())


@pytest.mark.parametrize("topic", ["1000 tasks", "GCS"])
def test_the_readme_claims_what_the_tables_say(topic):
    assert sentences()[topic] in " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_networks_are_better_than_the_process(environment):
    """By three standard errors over tasks of the paired difference in NLL, with 1,000 tasks."""
    records = found("learned-score")
    nll = [
        np.mean([record["tasks"]["nll"] for record in records[environment, method, 1000]], axis=0)
        for method in ("hierarchical-gp", "mars-gp")
    ]
    gain = nll[0] - nll[1]
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.parametrize("environment", CURVES)
def test_more_patients_lower_the_log_score(environment):
    scores = [figure(found("curves")[environment, "mars-gp", count], "log_score") for count in CURVES[environment]]
    assert scores == sorted(scores, reverse=True)


def test_figures_of_the_suite_in_the_text():
    means = {
        (cell.environment, cell.method): record["summary"]
        for cell, record in read_records(ROOT / "results" / "suite")
        if cell.split == 0
    }
    glucose = [means["physionet-glucose", method]["rmse"] for method in ("mars-gp", "pooled-gp")]
    text = " ".join(page().split())
    assert f"split 0: {glucose[0]:.1f}, `pooled-gp` {glucose[1]:.1f}" in text
    assert f"`mars-gp`, split 0: {means['physionet-gcs', 'mars-gp']['pooled_calibration_error']:.3f}" in text
