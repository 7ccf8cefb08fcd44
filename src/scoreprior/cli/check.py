"""`scoreprior check`: calibration and error of a prior on tasks with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as Grid

from scoreprior import diagnostics
from scoreprior.cli._comparison import LOW_COVERAGE, interval
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
from scoreprior.diagnostics import Check, PitMoments, Verdict
from scoreprior.tasks import TaskSet


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

    A prior that was fitted with --horizon predicts the next rows, at several origins of each task.

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
    reading, read = read_tasks(table, columns, encoding=notes.encoding, one_task=task is None)
    tell(talk, reading, read, columns)
    tasks = need_tasks(reading, table).with_target(prior.standardizer.kind)
    if notes.horizon is not None and tasks.sizes.max() <= notes.horizon:
        raise CallError(f"No task of {str(table)!r} has more than {notes.horizon} rows, the horizon of its forecasts.")
    single = int((tasks.sizes < 2).sum())
    if single == len(tasks):
        raise CallError(f"No task of {str(table)!r} has two points: one to know and one to predict.")
    if single:
        talk.warn(f"{count(single, 'task')} with a single point cannot be checked and are left out.")
    known = "the second half" if notes.horizon is None else f"the next {count(notes.horizon, 'row')}"
    talk.say(f"Predicting {known} of {count(len(tasks) - single, 'task')} from the rows before ...")
    with talk.stage("Predicting"):
        found = diagnostics.check(prior, tasks, seed, horizon=notes.horizon)
    seen = len(tasks) - len(notes.unknown(tasks))
    if seen:
        talk.warn(
            f"{seen} of {count(len(tasks), 'task')} are those that the prior was learned from: on these every prior "
            "looks good."
        )
    outside = _outside(tasks, notes)
    if outside:
        talk.warn(f"{count(outside, 'point')} outside the range of training: do not expect good answers there.")
    if plot is not None:
        from scoreprior.cli import _figures  # matplotlib takes its time

        write_figure(plot, _figures.calibration(found.rows))
    blind = found.coverage_without_points
    if blind < LOW_COVERAGE:  # whole tasks miss at once, so 90% is noisy
        talk.warn(
            f"Before the first point of a task the error bars are too narrow: {blind:.0%} of all points lie in the 90% "
            "interval of the prior alone. Do not rely on predictions with known_points 0."
        )
    record = _record(found, outside) | {"plot": plot}
    words = [_verdict_words(found.verdict, found.coverage.share)]
    if found.moments is not None:
        words.append(found.moments.words())
    talk.result(record, _grid(record, columns.target, notes.horizon), *words)
    if plot is not None:
        talk.say(f"Figure: {plot}")


def _outside(tasks: TaskSet, notes: Notes) -> int:
    """Number of predicted points outside the range of training."""
    pairs = diagnostics.halves(tasks) if notes.horizon is None else tasks.rolling_origin(notes.horizon)
    flags = [notes.extrapolates(target.x, context) for context, target in zip(pairs.context, pairs.target)]
    return sum(int(each.sum()) for each in flags if each is not None)


def _record(found: Check, outside: int) -> dict[str, Any]:
    numbers = found.summary
    return {
        "tasks": found.coverage.tasks,
        "points": found.coverage.points,
        **numbers[["rmse", "rmse_se", "nll", "nll_se", "crps"]],
        "pooled_calibration_error": numbers["calibration_error"],
        "pooled_calibration_floor": numbers["calibration_floor"],
        **numbers[["coverage50", "coverage90", "coverage90_se", "width90"]],
        "coverage90_low": found.coverage.interval[0],
        "coverage90_high": found.coverage.interval[1],
        "rules": found.rules,
        "extrapolating": outside,
        "moments": None if found.moments is None else _moments(found.moments),
        "coverage90_without_points": numbers["coverage90_without_points"],
    }


def _moments(moments: PitMoments) -> dict[str, dict[str, float | bool]]:
    """What is known of centre, spread, skewness and tails."""
    return {
        name: {"value": each.value, "se": each.standard_error, "right": each.right, "wrong": each.sign != 0}
        for name, each in moments._asdict().items()
    }


def _grid(record: dict[str, Any], target: str, horizon: int | None) -> Grid:
    known = "the first halves" if horizon is None else f"the rows before, {count(horizon, 'row')} ahead"
    title = f"{count(record['tasks'], 'task')}, {count(record['points'], 'point')} predicted from {known}"
    table = Grid("", "", title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    rows = {f"error of {target} (RMSE per task, mean)": f"{record['rmse']:.4g} ± {record['rmse_se']:.2g}"}
    rows |= {f"  the same for {name}": f"{error:.4g}" for name, error in record["rules"].items()}
    if np.isfinite(record["nll"]):
        rows |= {
            "negative log-likelihood per point (NLL)": f"{record['nll']:.4g} ± {record['nll_se']:.2g}",
            "points in the 50% interval": f"{record['coverage50']:.0%}",
            "points in the 90% interval": f"{record['coverage90']:.0%}{interval(record)}",
            "  the same without any known point": f"{record['coverage90_without_points']:.0%}",
            "width of the 90% interval": f"{record['width90']:.4g}",
            "calibration error": f"{record['pooled_calibration_error']:.3f} "
            f"(a perfect predictor: about {record['pooled_calibration_floor']:.3f})",
        }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _verdict_words(verdict: Verdict, coverage: float) -> str:
    """What the coverage means, in a sentence."""
    words: dict[Verdict, str] = {
        "no error bars": "This method predicts points without error bars.",
        "too few tasks": "These are too few tasks to judge the error bars.",
        "too narrow": "The error bars are too narrow: fewer points than promised lie in the 90% interval.",
        "too wide": "The error bars are too wide: more points than promised lie in the 90% interval.",
        "unclear": "So few tasks cannot tell whether the error bars are right: "
        f"{coverage:.0%} instead of 90% may be chance.",
        "right": "The 90% interval holds what it promises, as far as so many tasks can tell.",
    }
    return words[verdict]
