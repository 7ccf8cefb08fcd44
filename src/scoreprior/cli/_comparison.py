"""A comparison with simple rules on held-out tasks, in words and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table as Grid

from scoreprior.cli._console import count
from scoreprior.diagnostics import FEWEST_TASKS, Comparison, Coverage
from scoreprior.tasks import TaskSet

RULES = {
    "last-value": "carrying the last value forward",
    "context-mean": "taking the mean of the known points",
    "newest-lag": "taking the newest lag",
    "ridge": "a straight line",
    "pooled-gp": "one Gaussian process for all tasks",
}
"""The rules of `diagnostics.RULES`, in words."""
LOW_COVERAGE = 0.8
"""Share of points in the 90% interval below which people are told, even where it may be chance."""


def record(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain numbers, for the prior's file: means over tasks, standard errors, coverage."""
    return {
        "tasks": comparison.coverage.tasks,
        "points": comparison.coverage.points,
        "methods": comparison.table.to_dict("index"),
    }


def grid(held_out: dict[str, Any], target: str) -> Grid:
    """The record of a comparison for people."""
    title = f"Unseen: {held_out['tasks']} held-out tasks, {held_out['points']} points"
    table = Grid(title=title, title_justify="left", caption="first half known, second half predicted")
    table.add_column("method", no_wrap=True)
    for name in (f"error of {target} (RMSE)", "NLL", "in 90% interval"):
        table.add_column(name, justify="right")
    for name, row in held_out["methods"].items():
        spread = f" ± {row['rmse_se']:.2g}"
        coverage = "-" if np.isnan(row["coverage90"]) else f"{row['coverage90']:.0%}"
        nll = "-" if np.isnan(row["nll"]) else f"{row['nll']:.3f}"
        table.add_row(name, f"{row['rmse']:.4g}{spread}", nll, coverage)
    return table


def rule_words(comparison: Comparison) -> list[str]:
    """A plain warning for every simple rule that predicts as well as the method, best rule first."""
    method, errors = comparison.method, comparison.table["rmse"]
    found = []
    for rule in comparison.rules_as_good:
        rmse = comparison.paired_difference(rule, "rmse")
        beaten = (
            "beats" if rmse.mean > rmse.standard_error else "is about as good as"
        )  # by more than one standard error
        text = (
            f"{RULES[rule][0].upper()}{RULES[rule][1:]} ({rule}) {beaten} {method} on your held-out tasks: "
            f"error {errors[rule]:.3g} against {errors[method]:.3g}."
        )
        nll = comparison.paired_difference(rule, "nll")
        if nll.is_lower:
            text += f" The error bars of {method} are better, though (NLL lower by {-nll.mean:.2f})."
        elif np.isfinite(nll.mean):
            text += f" Its error bars are as good, too: consider --method {rule}."
        found.append(text)
    return found


def narrow_words(method: str, coverage: Coverage) -> list[str]:
    """A plain warning where fewer held-out points than promised lie in the method's 90% interval."""
    share = f"{coverage.share:.0%} of the points lie in the 90% interval"
    if coverage.verdict == "too narrow":
        return [f"The error bars of {method} are too narrow on your held-out tasks: {share}."]
    if coverage.verdict == "unclear" and coverage.share < LOW_COVERAGE:
        return [
            f"The error bars of {method} may be too narrow: {share}. With {coverage.tasks} held-out tasks this may "
            "be chance; scoreprior check tells on more."
        ]
    return []


def too_few_words(tasks: TaskSet) -> str:
    """Why no task was held out."""
    return (
        f"There are only {count(len(tasks), 'task')} (or fewer than two with two points): too few to hold some out, so "
        "how well this prior predicts is not known. Use at least "
        f"{FEWEST_TASKS} tasks, better 20 or more."
    )
