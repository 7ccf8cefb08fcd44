"""Figures in the text of the docs are those of the records in results/: sentences and rows are computed again here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scoreprior import environment
from scoreprior.bench.campaign import read_records
from scoreprior.bench.catalogue import ALONE, ENVIRONMENTS, LEARNED, RULES, paper_figure
from scoreprior.bench.cell import Cell, canonical
from scoreprior.bench.report.results import Results
from scoreprior.bench.report.table import number
from scoreprior.bench.runner import Record
from scoreprior.bench.selected import load_selection

MARS_SEEDS = 2
ROOT = Path(__file__).parents[1]
BENCH = ROOT / "results" / "bench"


def text_of(page: str) -> str:
    """The page with every run of white space as one space, so that line ends do not matter."""
    return " ".join((ROOT / "docs" / page).read_text().split())


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table with this first column."""
    lines = iter((ROOT / "docs" / page).read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            next(lines)
            found = []
            for row in lines:
                if not row.startswith("|"):
                    return found
                found.append([cell.strip() for cell in row.strip("| ").split(" | ")])
    raise AssertionError(f"{page} has no table whose first column is {heading!r}")


@cache
def records() -> list[tuple[Cell, Record]]:
    return read_records(BENCH)


@cache
def results(split: int = 0) -> Results:
    return Results.load(BENCH, split=split)


def reported(environment: str, method: str, metric: str, split: int = 0) -> float:
    """The mean over seeds in the tables."""
    return results(split).get(environment, method).figure(metric).mean


def left_out() -> list[str]:
    """Environments on which MARS predicts as the process does, seed by seed: its networks were left out."""
    found = []
    for name in ENVIRONMENTS:
        ours, process = (results().get(name, method) for method in ("mars-gp", "hierarchical-gp"))
        rmse = [each.only({*ours.seeds} & {*process.seeds}).figure("rmse").mean for each in (ours, process)]
        if abs(rmse[0] - rmse[1]) < 1e-3 * rmse[1]:
            found.append(name)
    return found


def sentences() -> dict[str, str]:
    """What results.md says, by what it is about."""
    rmse = lambda *cell: number(reported(*cell, "rmse"))  # noqa: E731
    nll = lambda *cell: f"{reported(*cell, 'nll'):.2f}"  # noqa: E731
    gcs, hct, lags = "physionet-gcs", "physionet-hct", "berkeley"
    runaway = results().get(gcs, "mars-gp-letter").values("rmse")[0]
    log_score = lambda *cell: f"{reported(*cell, 'log_score'):.2f}"  # noqa: E731
    repaired, exact, letter = (
        [rmse(name, method) for name in ("sinusoid", "student-t-sinusoid", lags)]
        for method in ("mars-gp-paper", "interpolated-mixture", "mars-gp-letter")
    )
    without = left_out()
    return {
        "berkeley": (
            f"On Berkeley `newest-lag` has an RMSE of {rmse(lags, 'newest-lag')} and `mars-gp` "
            f"{rmse(lags, 'mars-gp')}; the NLL is {nll(lags, 'newest-lag')} and {nll(lags, 'mars-gp')}."
        ),
        "gcs": (
            f"On GCS `last-value` has an RMSE of {rmse(gcs, 'last-value')}, `hierarchical-gp` "
            f"{rmse(gcs, 'hierarchical-gp')} and `mars-gp` {rmse(gcs, 'mars-gp')}; the log score is "
            f"{log_score(gcs, 'last-value')}, {log_score(gcs, 'hierarchical-gp')} and {log_score(gcs, 'mars-gp')}."
        ),
        "left out": (
            f"On {', '.join(without)} `mars-gp` has the RMSE of `hierarchical-gp`: held-out tasks did not gain by its "
            "networks."
        ),
        "repaired": (
            f"`mars-gp-paper`, the repaired one, has an RMSE of {repaired[0]} on the sinusoids, {repaired[1]} on the "
            f"Student-t sinusoids and {repaired[2]} on Berkeley; `mars-gp-letter` has {letter[0]}, {letter[1]} and "
            f"{letter[2]}. `interpolated-mixture`, the exact posterior of the interpolated process, has {exact[0]}, "
            f"{exact[1]} and {exact[2]}, {rmse(gcs, 'interpolated-mixture')} on GCS and "
            f"{rmse(hct, 'interpolated-mixture')} on HCT."
        ),
        "argus": (
            f"On argus-sim `mars-gp` has an RMSE of {rmse('argus-sim', 'mars-gp')} and an NLL of "
            f"{nll('argus-sim', 'mars-gp')}, `hierarchical-gp` {rmse('argus-sim', 'hierarchical-gp')} and "
            f"{nll('argus-sim', 'hierarchical-gp')}."
        ),
        "oracle": (
            f"On the sinusoids `mars-gp` has an RMSE of {rmse('sinusoid', 'mars-gp')} (oracle "
            f"{rmse('sinusoid', 'oracle')}), on the Student-t sinusoids {rmse('student-t-sinusoid', 'mars-gp')} "
            f"(oracle {rmse('student-t-sinusoid', 'oracle')})."
        ),
        "divergence": (
            f"On GCS the particles of {np.mean(runaway > 100):.0%} of the patients diverge (RMSE above 100), and the "
            f"median patient has an RMSE of {np.median(runaway):.2f}."
        ),
    }


@pytest.mark.parametrize("topic", sentences())
def test_sentences_of_the_results_are_computed_from_the_records(topic):
    assert sentences()[topic] in text_of("results.md")


@pytest.mark.data("physionet")
def test_carrying_coma_scores_forward_wins_by_patients_who_never_change():
    """The rule's lead on GCS is an average over patients, not over observations."""
    test = environment("physionet-gcs").meta_test
    points = np.array([len(task) for task in test.target])
    constant = np.array([np.all(target.y == context.y[-1]) for context, target in zip(test.context, test.target)])
    rule, mars = (
        np.array([record["tasks"]["rmse"] for record in results().get("physionet-gcs", name).records], float)
        for name in ("last-value", "mars-gp")
    )
    over_points = lambda errors: np.mean(np.sqrt(errors**2 @ points / points.sum()))  # noqa: E731
    assert rule[:, constant].max() < 1e-6  # round-off
    told = (
        f"{constant.mean():.0%} of the test patients keep their last score; there the rule's error is 0. On the others "
        f"`mars-gp` has an RMSE of {mars[:, ~constant].mean():.2f} and the rule {rule[:, ~constant].mean():.2f}; over "
        f"all observations, with equal weight, {over_points(mars):.2f} and {over_points(rule):.2f}."
    )
    assert told in text_of("results.md")


def configuration(environment: str, method: str, settings: str) -> str:
    """The canonical settings that a row of the experiment log names."""
    if settings == "defaults":
        return "{}"
    if settings == "selected":
        return canonical(load_selection(BENCH, environment, method).settings)
    pairs = [each.split("=", 1) for each in re.findall(r"`([^`]+)`", settings)]
    return canonical({name: json.loads(value) for name, value in pairs})


def logged(cells: Sequence[str]) -> list[Record]:
    """The records that a row of the log names: environment, method, settings, part, splits, seeds."""
    environment, method, settings, part, splits, seeds = (cells[0], cells[1].strip("`"), *cells[2:])
    wanted = configuration(environment, method, settings)
    numbers = lambda text: {int(each) for each in text.split(", ")}  # noqa: E731

    def fits(cell: Cell) -> bool:
        named = (cell.environment, cell.method, cell.part, cell.budget) == (environment, method, part, "full")
        return named and canonical(json.loads(cell.settings)) == wanted

    found = {(cell.split, cell.seed): record for cell, record in records() if fits(cell)}
    return [found[split, seed] for split in numbers(splits) for seed in numbers(seeds)]


def test_rows_of_the_experiment_log_are_means_of_records_of_their_date():
    seen = 0
    for section in (ROOT / "docs" / "experiment-log.md").read_text().split("\n## ")[1:]:
        for entry in section.split("\n### ")[1:]:
            rows = [line.strip("| ").split(" | ") for line in entry.splitlines() if re.match(r"\| [a-z-]+ \| `", line)]
            for row in rows:
                chosen = logged(row[:6])
                means = [np.mean([record["summary"][metric] for record in chosen]) for metric in ("rmse", "nll")]
                assert [number(float(mean)) for mean in means] == row[6:8], row
            dates = [record["made"]["date"][:10] for row in rows for record in logged(row[:6])]
            assert max(dates, default=section[:10]) == section[:10], entry.splitlines()[0]
            seen += len(rows)
    assert seen > 20


METHODS = (
    *("last-value", "newest-lag", "ridge", "vanilla-gp", "pooled-gp", "hierarchical-gp", "mars-gp", "pacoh-gp", "np"),
)
COLUMNS = ("sinusoid", "berkeley", "physionet-gcs", "physionet-hct")


def rmse_and_nll(environment: str, method: str) -> str:
    return f"{number(reported(environment, method, 'rmse'))}, {reported(environment, method, 'nll'):.2f}"


def comparison(method: str) -> list[str]:
    """A method's row in the short table of choosing-a-method.md: RMSE and NLL on four environments."""
    cells = [rmse_and_nll(each, method) if results().get(each, method) else "n/a" for each in COLUMNS]
    return [f"`{method}`", *cells]


def test_the_short_comparison_of_methods_is_that_of_the_tables():
    assert rows_of("choosing-a-method.md", "RMSE, NLL") == [comparison(method) for method in METHODS]


def test_speeds_are_those_that_were_recorded():
    record = " ".join((ROOT / "results" / "speed.txt").read_text().split())
    for name, _, *figures in rows_of("results.md", "measured"):
        assert " ".join([name.strip("`"), *figures]) in record


def test_the_readme_has_the_figures_of_the_tables():
    text = (ROOT / "README.md").read_text()
    cells = (("Berkeley sensors", "berkeley", "newest-lag"), ("PhysioNet GCS", "physionet-gcs", "last-value"))
    for title, name, rule in (*cells, ("PhysioNet HCT", "physionet-hct", "last-value")):
        pairs = [rmse_and_nll(name, method) for method in (rule, "mars-gp")]
        paper = paper_figure("table1", "mars-gp", name).mean
        assert f"| {title} | {' | '.join(pairs)} | {paper:.3f} |" in text


def test_what_has_been_run_is_what_the_table_says():
    seeds = lambda *cell: len(results().get(*cell).seeds) if results().get(*cell) else 0  # noqa: E731
    applies = lambda name, rule: rule != "newest-lag" or name.startswith("berkeley")  # noqa: E731
    for name in ENVIRONMENTS:
        assert all(seeds(name, rule) == 5 for rule in (*RULES, "vanilla-gp") if applies(name, rule))
        assert all(seeds(name, method) == 5 for method in ("pooled-gp", "hierarchical-gp"))
        assert seeds(name, "mars-gp") == MARS_SEEDS
        assert all(seeds(name, method) == 5 for method in (*ALONE[1:], *LEARNED[:-3]) if method != "ndp")
        assert seeds(name, "ndp") == seeds(name, "stack") == 0
        assert seeds(name, "mars-gp-letter") == 1
        assert seeds(name, "mars-bnn-letter") == (1 if name in ("berkeley", "sinusoid", "student-t-sinusoid") else 0)
    limits = {
        (cell.environment, cell.method): record["error"]["message"]
        for cell, record in records()
        if record["status"] == "failed" and record["error"]["type"] == "TimeLimit" and cell.part == "test"
    }
    assert limits == {
        ("physionet-hct", "mars-ssge"): "not done after 400 seconds",
        ("swissfel-sim", "mars-ssge"): "not done after 300 seconds",
    }


def test_settings_that_were_given_up_for_time_are_named():
    unfinished = {
        (cell.environment, cell.method)
        for cell, record in records()
        if record["status"] == "failed" and record["error"]["type"] == "TimeLimit" and cell.part == "valid"
    }
    assert unfinished == {("argus-sim", "maml"), ("argus-sim", "bmaml"), ("swissfel-sim", "bmaml")}
    for where in unfinished:
        chosen = load_selection(BENCH, *where)
        assert not chosen.settings
        assert chosen.value < chosen.default_value
