"""What the tables are made of: groups of methods, the environments, and the paper's figures under our names."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from scoreprior.bench.cell import ORACLE

RULES = ("last-value", "context-mean", "newest-lag", "ridge")
ALONE = ("vanilla-gp", "vanilla-bnn", "fbnn-gp", "fbnn-gp-vi")
LEARNED = (
    *("maml", "bmaml", "np", "anp", "ndp", "mlap", "pacoh-gp-map", "pacoh-gp", "pacoh-nn"),
    *("pooled-gp", "hierarchical-gp", "stack"),
)
MARS = ("mars-gp", "mars-fsvgd")
MARS_PAPER = ("mars-gp-paper", "mars-bnn-paper")
MARS_EXACT = ("mars-gp-exact", "interpolated-mixture")
MARS_LETTER = ("mars-gp-letter", "mars-bnn-letter")
GROUPS: dict[str, tuple[str, ...]] = {
    "rules without learning": RULES,
    "each task alone": ALONE,
    "learned from all tasks": LEARNED,
    "MARS": MARS,
    "the paper's MARS, repaired": MARS_PAPER,
    "the same, with the exact score or posterior": MARS_EXACT,
    "MARS to the letter of the paper": MARS_LETTER,
    "knows the truth": (ORACLE,),
}
ABLATIONS = ("mars-ssge", "mars-no-spectral", "mars-gp-mean")
OTHER_ABLATIONS = ("mars-gauss",)
INTERPOLATORS = ("mars-gp-mean", "mars-gp", "mars-nn", "mars-ensemble", "mars-bnn")

SUITE = tuple(
    f"physionet-{name}" for name in ("gcs", "hct", "hr", "nimap", "temp", "glucose", "k", "na", "creatinine", "wbc")
)
"""One rule, ten variables: what a design decision is to hold on."""
ENVIRONMENTS = (
    *("physionet-gcs", "physionet-hct", "berkeley", "argus-sim", "swissfel-sim"),
    *("sinusoid", "student-t-sinusoid"),
)
"""Columns of every table, run or not; others have one when they have records."""
TRUTH_KNOWN = ("sinusoid", "gp-sinusoid", "student-t-sinusoid", "dose-response", "sawtooth", "change-point")
"""Environments that have an oracle."""
CONTINUOUS = (*TRUTH_KNOWN, "berkeley", "berkeley-full", "argus-sim", "swissfel-sim")
"""Environments whose targets are on no grid: the NLL of an older record, which has no log score, is its log score."""
STAND_INS = ("argus-sim", "swissfel-sim")
"""Simulations beside which the paper's figures on the original recordings stand: not the same data."""

_PAPER_ENVIRONMENT = {
    "physionet-gcs": "Physionet-GCS",
    "physionet-hct": "Physionet-HCT",
    "berkeley": "Berkeley-Sensor",
    "argus": "Argus-Control",
    "argus-sim": "Argus-Control",
    "swissfel": "SwissFEL",
    "swissfel-sim": "SwissFEL",
}
PAPER_ENVIRONMENTS = tuple(name for name in ENVIRONMENTS if name in _PAPER_ENVIRONMENT)

# What the paper calls a method, table by table where it has several names for one.
_PAPER_METHOD = {
    "vanilla-gp": ("Vanilla GP",),
    "vanilla-bnn": ("Vanilla BNN",),
    "maml": ("MAML",),
    "bmaml": ("BMAML",),
    "np": ("NP",),
    "mlap": ("MLAP",),
    "pacoh-gp": ("PACOH-GP",),
    "pacoh-nn": ("PACOH-NN",),
    "mars-gp": ("MARS-GP", "MARS"),
    "mars-bnn": ("MARS-BNN",),
    "mars-ssge": ("SSGE score estimates",),
    "mars-no-spectral": ("No spectral reg.",),
    "mars-gp-mean": ("No GP sampling", "GP mean"),
    "mars-nn": ("determ. NN",),
    "mars-ensemble": ("NN Ensemble",),
}


class Figure(NamedTuple):
    """Mean and standard deviation over seeds."""

    mean: float
    std: float


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """The paper's tables, and under "source" where they are from."""
    return json.loads(files("scoreprior.bench").joinpath("paper_figures.json").read_text())


def paper_figure(table: str, method: str, column: str) -> Figure | None:
    """The paper's figure; the column is one of our environments, or for table 6 one of the paper's columns."""
    rows = published()[table]
    for name in _PAPER_METHOD.get(method.removesuffix("-paper").removesuffix("-letter"), ()):
        found = rows.get(name, {}).get(_PAPER_ENVIRONMENT.get(column, column))
        if found is not None:
            return Figure(*found)
    return None


def ablated(method: str) -> str | None:
    """The method that an ablation is made from."""
    name, suffix = method.removesuffix("-letter"), "-letter" if method.endswith("-letter") else ""
    is_ablation = name in (*ABLATIONS, *OTHER_ABLATIONS, *INTERPOLATORS) and name not in ("mars-gp", "mars-bnn")
    return f"mars-gp{suffix}" if is_ablation else None


def to_the_letter(methods: tuple[str, ...]) -> tuple[str, ...]:
    """The same methods to the letter of the paper."""
    return tuple(f"{name}-letter" for name in methods)
