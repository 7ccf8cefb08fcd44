"""Figures in docs/score-estimation.md are those of the records in results/reproduce."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
REPRODUCED = ROOT / "results" / "reproduce"
PAGE = (ROOT / "docs" / "score-estimation.md").read_text()
TEXT = " ".join(PAGE.split())


def rows_of(heading: str) -> dict[str, list[str]]:
    """The cells of the table with this first column, by the name of the row."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {row[0]: row[1:] for row in cells}


def test_the_tables_of_score_estimation_are_those_of_the_records():
    for name, heading in (("table7", "RMSE"), ("table8", "cosine")):
        figures = json.loads((REPRODUCED / f"{name}.json").read_text())["figures"]
        shown = rows_of(heading)
        assert list(shown) == list(figures)
        for estimator, problems in figures.items():
            for cell, each in zip(shown[estimator], problems.values(), strict=True):
                paper = "-" if each["paper"] is None else f"{each['paper']:.2f}"
                assert cell == f"{paper} / {each['one_set']:.2f} / {each['mean']:.2f} ± {each['standard_error']:.2f}"
    for sentence in json.loads((REPRODUCED / "table7.json").read_text())["findings"][4:7]:
        assert sentence in TEXT


def figure(number: int) -> dict:
    return json.loads((REPRODUCED / f"figure{number}.json").read_text())


def captions() -> dict[str, str]:
    """What score-estimation.md says of the figures."""
    one, two, three, five, six = (figure(each) for each in (1, 2, 3, 5, 6))
    error = {name: each["rmse"] for name, each in one["errors"].items()}
    spread = {name: np.median(values) for name, values in two["implied_std"].items()}
    heavy = {
        kind: {name: np.mean(each["rmse"]) for name, each in found["estimates"].items()}
        for kind, found in five["distributions"].items()
    }
    wide = six["spreads"]
    return {
        "figure 1": (
            f"RMSE on 20 unseen tasks: vanilla BNN {error['vanilla-bnn']:.2f}, functional BNN {error['fbnn-gp']:.2f}, "
            f"MARS {error['mars-gp']:.2f}, the true process {error['oracle']:.2f}."
        ),
        "figure 2": (
            f"Median over five seeds of the implied standard deviation (truth: 1): normalised {spread['with']:.2f}, "
            f"not normalised {spread['without']:.2f}; in (a) SSGE {spread['ssge']:.2f} with the median bandwidth, "
            f"{spread['ssge, bandwidth 0.2']:.2f} with 0.2, and the network {spread['network']:.2f}."
        ),
        "figure 3": (
            f"RMSE on ten unseen tasks: zero biases {np.mean(three['rmse']['constant']['2000']):.2f}, Steinwart biases "
            f"{np.mean(three['rmse']['steinwart']['2000']):.2f}."
        ),
        "figure 5": (
            f"RMSE of the score: Laplace, SSGE {heavy['Laplace']['ssge']:.2f} and network "
            f"{heavy['Laplace']['network']:.2f}; Student-t, SSGE {heavy['Student-t']['ssge']:.2f}, Gaussian "
            f"{heavy['Student-t']['shrunk-gaussian']:.2f} and network {heavy['Student-t']['network']:.2f}; "
            f"without spectral normalisation {heavy['Laplace']['network, not normalised']:.1f} and "
            f"{heavy['Student-t']['network, not normalised']:.1f}."
        ),
        "figure 6": (
            f"Standard deviation in the gap: draws {wide['draws']['in the gap']:.2f}, means "
            f"{wide['means']['in the gap']:.2f}; outside it {wide['draws']['outside']:.2f} and "
            f"{wide['means']['outside']:.2f}."
        ),
    }


@pytest.mark.parametrize("name", captions())
def test_captions_are_computed_from_the_reproduced_figures(name):
    assert captions()[name] in TEXT
