"""A comparison with simple rules on left-out tasks, in words and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table as Grid

from scoreprior.cli._console import count
from scoreprior.diagnostics import FEWEST_TASKS, Comparison, Coverage, paired_difference
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
        "folds": comparison.folds,
        "tasks": comparison.coverage.tasks,
        "points": comparison.coverage.points,
        "methods": comparison.table.to_dict("index"),
    }


def grid(held_out: dict[str, Any], target: str) -> Grid:
    """The record of a comparison for people."""
    folds = held_out.get("folds", 1)  # version 0.2 held out one
    title = f"Unseen: {count(held_out['tasks'], 'left-out task')}, {count(held_out['points'], 'point')}"
    caption = f"first half known, second half predicted; {count(folds, 'fold')}, each a fifth of the tasks at most"
    table = Grid(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("method", no_wrap=True)
    for name in (f"error of {target} (RMSE)", "NLL", "in 90% interval"):
        table.add_column(name, justify="right")
    for name, row in held_out["methods"].items():
        spread = f" ± {row['rmse_se']:.2g}"
        coverage = "-" if np.isnan(row["coverage90"]) else f"{row['coverage90']:.0%}{interval(row)}"
        nll = "-" if np.isnan(row["nll"]) else f"{row['nll']:.3f}"
        table.add_row(name, f"{row['rmse']:.4g}{spread}", nll, coverage)
    return table


def interval(row: dict[str, Any]) -> str:
    """Between which shares the coverage lies, with 95% confidence; earlier versions did not say."""
    if not np.isfinite(row.get("coverage90_low", np.nan)):
        return ""
    return f" ({100 * row['coverage90_low']:.0f} to {row['coverage90_high']:.0%})"


def shown(held_out: dict[str, Any], method: str, target: str) -> list[Grid | str]:
    """The table, and what it says of the method in a sentence."""
    row = held_out["methods"][method]
    text = f"{method}: RMSE {row['rmse']:.3g} ± {row['rmse_se']:.2g}"
    if np.isfinite(row["coverage90"]):
        text += f", 90% intervals hold {row['coverage90']:.0%}{interval(row)} of the points"
    return [grid(held_out, target), f"{text} of {count(held_out['tasks'], 'left-out task')}."]


def budget_words(full: Comparison, quick: Comparison) -> str | None:
    """A sentence where the full budget predicts the same left-out tasks no better than that of --quick."""
    import pandas as pd  # here, since it takes a quarter of a second

    rows = pd.concat([full.rows[full.rows["position"].isin(quick.rows["position"])], quick.rows])
    gap = paired_difference(rows, full.method, quick.method, "log_score")
    what = "log scores"
    if not np.isfinite(gap.mean):
        gap, what = paired_difference(rows, full.method, quick.method), "errors"
    if gap.is_lower:
        return None
    return (
        f"The full budget of {full.method} is no better than --quick on {count(len(quick.rows), 'left-out task')}: "
        f"{what} differ by {abs(gap.mean):.2g} ± {gap.standard_error:.2g}."
    )


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
            f"{RULES[rule][0].upper()}{RULES[rule][1:]} ({rule}) {beaten} {method} on your left-out tasks: "
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
    """A plain warning where fewer left-out points than promised lie in the method's 90% interval."""
    low, high = coverage.interval
    sure = f" (with 95% confidence {100 * low:.0f} to {high:.0%})" if np.isfinite(low) else ""
    share = f"{coverage.share:.0%} of the points lie in the 90% interval{sure}"
    if coverage.verdict == "too narrow":
        return [f"The error bars of {method} are too narrow on your left-out tasks: {share}."]
    if coverage.verdict == "unclear" and coverage.share < LOW_COVERAGE:
        return [
            f"The error bars of {method} may be too narrow: {share}. With {coverage.tasks} left-out tasks this may "
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
