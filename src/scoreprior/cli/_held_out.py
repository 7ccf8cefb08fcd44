"""How well methods predict tasks that they have not seen: the first half of a task's rows predicts the second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from rich.table import Table as Grid

from scoreprior.cli._console import Talk, count
from scoreprior.environments import Environment
from scoreprior.environments._base import Card
from scoreprior.evaluation import evaluate, summarise
from scoreprior.learners import MetaLearner
from scoreprior.tasks import TaskSet
from scoreprior.tasks.checks import TaskError

RULES = {
    "last-value": "carrying the last value forward",
    "context-mean": "taking the mean of the known points",
    "newest-lag": "taking the newest lag",
    "ridge": "a straight line",
    "pooled-gp": "one Gaussian process for all tasks",
}
"""What every method has to beat, in words."""
LAGS = frozenset({"newest-lag"})
"""Rules for inputs that are earlier values of the target, never for a time that happens to be of its size."""
FEWEST_TASKS = 5
MOST_HELD_OUT = 200
LOW_COVERAGE = 0.8
"""Share of points in the 90% interval below which people are told, even where it may be chance."""


def cut(tasks: TaskSet, seed: int) -> Environment | None:
    """A random fifth of the tasks (2 to 200 of them) held out of the others; None if there are too few tasks."""
    usable = np.flatnonzero(tasks.sizes >= 2)
    if len(tasks) < FEWEST_TASKS or len(usable) < 2:
        return None
    number = min(max(2, round(len(tasks) / 5)), MOST_HELD_OUT, len(usable))
    held = np.random.default_rng(seed).permutation(usable)[:number]
    rest = np.setdiff1d(np.arange(len(tasks)), held)
    pairs = tasks.take(np.sort(held)).context_target(0.5)
    return Environment("your table", tasks.take(rest), pairs, pairs, Card("your table", "", "", "", ""), 0)


def compare(compared: dict[str, MetaLearner], environment: Environment, seed: int, talk: Talk) -> pd.DataFrame:
    """The rows of `evaluate` for every method, with a column `method`."""
    frames: list[pd.DataFrame] = []
    for name, each in compared.items():
        try:
            frame = evaluate(each, environment, seed, progress=talk.progress)
        except TaskError:
            if name in LAGS and frames:  # no rule for these inputs; the method itself comes first
                continue
            raise
        frames.append(frame.assign(method=name))
    return pd.concat(frames, ignore_index=True)


def record(frame: pd.DataFrame) -> dict[str, Any]:
    """The comparison as plain numbers: means over tasks, standard errors, coverage over all points."""
    lines = summarise(frame, by="method").to_dict("records")
    return {
        "tasks": int(lines[0]["n_tasks"]),
        "points": int(lines[0]["n_points"]),
        "methods": {
            str(line["method"]): {
                "rmse": line["rmse"],
                "rmse_se": line["rmse_se"],
                "nll": line["nll"],
                "nll_se": line["nll_se"],
                "coverage90": line["pooled_coverage90"],
                "coverage90_se": coverage_error(frame[frame["method"] == line["method"]]),
            }
            for line in lines
        },
    }


def grid(held_out: dict[str, Any], target: str) -> Grid:
    """The comparison for people."""
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


def coverage_error(rows: pd.DataFrame) -> float:
    """Standard error of the share of points in the 90% interval, over tasks: points of one task miss together."""
    return float(rows["coverage90"].std(ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else float("nan")


Bars = Literal["none", "too few tasks", "too narrow", "too wide", "unclear", "right"]


def judge_bars(coverage: float, error: float, tasks: int, points: int) -> Bars:
    """What the share of points in the 90% interval says of the error bars; two standard errors are chance."""
    if not np.isfinite(coverage):
        return "none"
    if tasks < FEWEST_TASKS or not np.isfinite(error):
        return "too few tasks"
    # With all tasks alike the spread over tasks is zero, yet the number of points still limits what can be said.
    chance = 2 * max(error, float(np.sqrt(0.09 / points)))
    if abs(coverage - 0.9) > chance:
        return "too narrow" if coverage < 0.9 else "too wide"
    return "unclear" if chance > 0.1 else "right"


@dataclass(frozen=True)
class Duel:
    """Mean paired difference of a metric over tasks, method minus rival, and its standard error."""

    difference: float
    error: float

    @property
    def rival_as_good(self) -> bool:
        """The rival is better, or worse by no more than one standard error."""
        return bool(self.difference > -self.error)


def duel(frame: pd.DataFrame, method: str, rival: str, metric: str) -> Duel:
    """Both methods on the same tasks, task by task."""
    columns = [frame[frame["method"] == name].sort_values("position")[metric].to_numpy() for name in (method, rival)]
    gaps = columns[0] - columns[1]
    return Duel(float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps))))


def verdicts(frame: pd.DataFrame, method: str) -> list[str]:
    """A plain warning for every simple rule that predicts as well as the method, best rule first."""
    means = frame.groupby("method")["rmse"].mean()
    found = []
    for rival in sorted((name for name in RULES if name in means.index and name != method), key=lambda r: means[r]):
        if not duel(frame, method, rival, "rmse").rival_as_good:
            continue
        beaten = "beats" if means[rival] < means[method] else "is about as good as"
        text = (
            f"{RULES[rival][0].upper()}{RULES[rival][1:]} ({rival}) {beaten} {method} on your held-out tasks: "
            f"error {means[rival]:.3g} against {means[method]:.3g}."
        )
        better = duel(frame, method, rival, "nll")
        if better.difference < -better.error:
            text += f" The error bars of {method} are better, though (NLL lower by {-better.difference:.2f})."
        elif np.isfinite(better.difference):
            text += f" Its error bars are as good, too: consider --method {rival}."
        found.append(text)
    return found


def narrow_words(held_out: dict[str, Any], method: str) -> list[str]:
    """A plain warning where fewer held-out points than promised lie in the method's 90% interval."""
    row = held_out["methods"][method]
    coverage = row["coverage90"]
    bars = judge_bars(coverage, row["coverage90_se"], held_out["tasks"], held_out["points"])
    share = f"{coverage:.0%} of the points lie in the 90% interval"
    if bars == "too narrow":
        return [f"The error bars of {method} are too narrow on your held-out tasks: {share}."]
    if bars == "unclear" and coverage < LOW_COVERAGE:
        return [
            f"The error bars of {method} may be too narrow: {share}. With {held_out['tasks']} held-out tasks this may "
            "be chance; scoreprior check tells on more."
        ]
    return []


def enough_words(tasks: TaskSet) -> str:
    """Why no task was held out."""
    return (
        f"There are only {count(len(tasks), 'task')} (or fewer than two with two points): too few to hold some out, so "
        "how well this prior predicts is not known. Use at least "
        f"{FEWEST_TASKS} tasks, better 20 or more."
    )
