"""`scoreprior check`: calibration and error of a prior on tasks with known answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.table import Table as Grid

from scoreprior.cli import _held_out
from scoreprior.cli._console import (
    FIGURES,
    CallError,
    Debug,
    InputNames,
    Json,
    Quiet,
    Seed,
    Talk,
    TargetName,
    TaskName,
    check_input,
    check_output,
    count,
    talking,
    write_figure,
)
from scoreprior.cli._notes import Notes, choose_columns, open_prior
from scoreprior.cli._tables import input_names, need_tasks, read_tasks, tell
from scoreprior.environments import Environment
from scoreprior.environments._base import Card
from scoreprior.evaluation import evaluate, summarise
from scoreprior.learners import Prior, learner
from scoreprior.tasks import ContextTarget, Task, TaskSet

RULES = ("last-value", "context-mean")
"""Rules whose error depends on nothing but the task itself, so that any table can be their measure."""


def check_command(
    prior: Annotated[Path, typer.Argument(metavar="PRIOR", help="A file written by `scoreprior fit`.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Tasks with known answers, not used in training.")],
    plot: Annotated[Path | None, typer.Option(help="Figure to write: reliability diagram and PIT histogram.")] = None,
    task: TaskName = None,
    inputs: InputNames = None,
    target: TargetName = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check a prior on data with known answers: the first half of every task's rows predicts the second.

    Example: scoreprior check gcs.prior held-out.csv --plot reliability.png
    """
    with talking(quiet, as_json, debug) as talk:
        names = None if inputs is None else input_names(inputs)
        run_check(talk, prior, table, plot=plot, task=task, inputs=names, target=target, seed=seed)


def run_check(
    talk: Talk,
    prior_file: Path,
    table: Path,
    *,
    plot: Path | None,
    task: str | None,
    inputs: tuple[str, ...] | None,
    target: str | None,
    seed: int,
) -> None:
    """Condition on the first half of every task, predict the second, compare with what was observed."""
    check_input(table)
    check_output(plot, prior_file, table, formats=FIGURES)
    prior, notes = open_prior(prior_file)
    columns = choose_columns(notes, task, inputs, target, prior.dim)
    reading, read = read_tasks(table, columns, one_task=task is None)
    tell(talk, reading, read, columns)
    tasks = need_tasks(reading, table)
    usable = [at for at, size in enumerate(tasks.sizes) if size >= 2]
    if not usable:
        raise CallError(f"No task of {str(table)!r} has two points: one to know and one to predict.")
    if len(usable) < len(tasks):
        talk.warn(f"{count(len(tasks) - len(usable), 'task')} with a single point cannot be checked and are left out.")
    pairs = tasks.take(usable).context_target(0.5)
    environment = Environment("your table", tasks, pairs, pairs, Card("your table", "", "", "", ""), 0)
    frame = evaluate(prior, environment, seed)
    summary = summarise(frame).iloc[0]
    blind = _coverage_without_points(prior, environment, seed)
    rules = {name: _rule_error(name, environment) for name in RULES} if len(tasks) > 1 else {}
    if _seen(tasks, notes):
        talk.warn("This looks like the table that the prior was learned from: on it, every prior looks good.")
    outside = _outside(pairs, notes)
    if outside:
        talk.warn(f"{count(outside, 'point')} outside the range of training: do not expect good answers there.")
    if plot is not None:
        from scoreprior.cli import _figures  # matplotlib takes its time

        write_figure(plot, _figures.calibration(frame))
    if blind < _held_out.LOW_COVERAGE:  # whole tasks miss at once, so 90% is noisy
        talk.warn(
            f"Before the first point of a task the error bars are too narrow: {blind:.0%} of all points lie in the 90% "
            "interval of the prior alone. Do not rely on predictions with known_points 0."
        )
    record = _record(summary, frame, rules, outside) | {"coverage90_without_points": blind, "plot": plot}
    talk.result(record, _grid(record, columns.target), _verdict(record))
    if plot is not None:
        talk.say(f"Figure: {plot}")


def _coverage_without_points(prior: Prior, environment: Environment, seed: int) -> float:
    """Share of all points in the 90% interval of the prior alone; NaN for a method without error bars."""
    tasks = environment.meta_train
    nothing = TaskSet([Task(np.zeros((0, tasks.dim)), np.zeros(0))] * len(tasks), allow_empty=True)
    pairs = ContextTarget(nothing, tasks)
    return float(summarise(evaluate(prior, replace(environment, meta_test=pairs), seed)).iloc[0]["pooled_coverage90"])


def _rule_error(name: str, environment: Environment) -> float:
    return float(evaluate(learner(name), environment, 0)["rmse"].mean())


def _seen(tasks: TaskSet, notes: Notes) -> bool:
    """Whether size and ranges are those of the training table."""
    training = notes.header.get("extra", {}).get("training") or {}
    same_size = (training.get("tasks"), training.get("points")) == (len(tasks), int(tasks.sizes.sum()))
    return same_size and training.get("target") == [float(tasks.y.min()), float(tasks.y.max())]


def _outside(pairs: ContextTarget, notes: Notes) -> int:
    flags = notes.extrapolates(pairs.target.x)
    return 0 if flags is None else int(flags.sum())


def _record(summary: pd.Series, frame: pd.DataFrame, rules: dict[str, float], outside: int) -> dict[str, Any]:
    names = ("rmse", "rmse_se", "nll", "nll_se", "crps", "pooled_calibration_error", "pooled_calibration_floor")
    pits = np.concatenate(frame["pit"].to_list())
    return {
        "tasks": int(summary["n_tasks"]),
        "points": int(summary["n_points"]),
        **{name: float(summary[name]) for name in names},
        "coverage50": float(np.mean(np.abs(pits - 0.5) <= 0.25)) if np.isfinite(pits).all() else np.nan,
        "coverage90": float(summary["pooled_coverage90"]),
        "coverage90_se": _held_out.coverage_error(frame),
        "width90": float(summary["width90"]),
        "rules": rules,
        "extrapolating": outside,
    }


def _grid(record: dict[str, Any], target: str) -> Grid:
    title = f"{count(record['tasks'], 'task')}, {count(record['points'], 'point')} predicted from the first halves"
    table = Grid("", "", title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    rows = {f"error of {target} (RMSE per task, mean)": f"{record['rmse']:.4g} ± {record['rmse_se']:.2g}"}
    rows |= {f"  the same for {name}": f"{error:.4g}" for name, error in record["rules"].items()}
    if np.isfinite(record["nll"]):
        rows |= {
            "negative log-likelihood per point (NLL)": f"{record['nll']:.4g} ± {record['nll_se']:.2g}",
            "points in the 50% interval": f"{record['coverage50']:.0%}",
            "points in the 90% interval": f"{record['coverage90']:.0%}",
            "  the same without any known point": f"{record['coverage90_without_points']:.0%}",
            "width of the 90% interval": f"{record['width90']:.4g}",
            "calibration error": f"{record['pooled_calibration_error']:.3f} "
            f"(a perfect predictor: about {record['pooled_calibration_floor']:.3f})",
        }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _verdict(record: dict[str, Any]) -> str:
    """What the coverage means, in a sentence."""
    coverage, error = record["coverage90"], record["coverage90_se"]
    words: dict[_held_out.Bars, str] = {
        "none": "This method predicts points without error bars.",
        "too few tasks": "These are too few tasks to judge the error bars.",
        "too narrow": "The error bars are too narrow: fewer points than promised lie in the 90% interval.",
        "too wide": "The error bars are too wide: more points than promised lie in the 90% interval.",
        "unclear": "So few tasks cannot tell whether the error bars are right: "
        f"{coverage:.0%} instead of 90% may be chance.",
        "right": "The 90% interval holds what it promises, as far as so many tasks can tell.",
    }
    return words[_held_out.judge_bars(coverage, error, record["tasks"], record["points"])]
