"""`scoreprior fit`: learn a prior from a table, after an honest look at how well that works."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from scoreprior.cli import _comparison
from scoreprior.cli._console import CallError, Debug, Json, Quiet, Seed, Talk, check_input, check_output, count, talking
from scoreprior.cli._forecasts import tell_forecasts, time_options, with_caption
from scoreprior.cli._judgement import AUTO, Judgement, choose, judge
from scoreprior.cli._notes import metadata
from scoreprior.cli._tables import Columns, Reading, input_names, named, need_tasks, read_tasks, tell
from scoreprior.cli._target_kinds import KindName, chosen_kind, suggestion
from scoreprior.learners import MetaLearner, Prior
from scoreprior.learners.guarded import Guarded
from scoreprior.serialization import PriorFileError, describe
from scoreprior.tasks import TargetKind, TaskSet
from scoreprior.tasks.grouping import Order
from scoreprior.tasks.input_kinds import Since


def fit_command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file, one row per point.")],
    task: Annotated[str, typer.Option(help="Column that says which task (patient, sensor, run) a row belongs to.")],
    inputs: Annotated[str, typer.Option(help="Input column, or several separated by commas: numbers, dates, text.")],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    out: Annotated[Path, typer.Option(help="File to write the prior to.")],
    method: Annotated[str, typer.Option(help="A name shown by `scoreprior methods`, or auto.")] = "mars-gp",
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of all iterations, for a first look.")] = False,
    hold_out: Annotated[bool, typer.Option(help="Judge by cross-validation over tasks first.")] = True,
    folds: Annotated[
        int | None, typer.Option(min=1, max=5, help="Folds of that; without it 5; 3, or 1 if quick, for networks.")
    ] = None,
    order: Annotated[
        Order, typer.Option(help="Rows of a task sorted by the first input, or as they stand in the table.")
    ] = "input",
    target_kind: Annotated[
        KindName | None, typer.Option(help="What values the target can have; without it, any number.")
    ] = None,
    bounds: Annotated[str | None, typer.Option(help="LOW,HIGH: the bounds of --target-kind bounded.")] = None,
    cycle: Annotated[
        str, typer.Option(help="Phases of dates as inputs: of day, week, year, separated by commas; auto; none.")
    ] = "",
    since: Annotated[Since, typer.Option(help="Count time from one date, or from each task's first row.")] = "auto",
    noise: Annotated[
        str | None, typer.Option(help="Column with the known standard deviation of a row's target.")
    ] = None,
    replicates: Annotated[
        str | None, typer.Option(help="Column that says how many measurements a row is the mean of.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column that says how much a task counts in learning.")] = None,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Forecast: judge by, and later predict, the next so many rows of a task.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Input column that is time, with --horizon; found if not named.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a prior from a table of small, related tasks, after an honest look at how well that works.

    Tasks are left out first, a fifth at a time: the method, simple rules and a
    pooled Gaussian process, fitted without them, predict the second half of
    each from the first. Then the prior is learned from all tasks. With
    --method auto the method is chosen by these predictions. Rows with missing
    values are left out.

    Example: scoreprior fit readings.csv --task patient --inputs hour --target gcs --out gcs.prior
    """
    with talking(quiet, as_json, debug) as talk:
        columns = Columns(task, input_names(inputs), target, order, noise, replicates, weight)
        kind = None if target_kind is None and bounds is None else chosen_kind(target_kind or "real", bounds)
        dates = {"since": since} | time_options(cycle, horizon, time, columns)
        options: dict[str, Any] = {"method": method, "quick": quick, "hold_out": hold_out, "folds": folds}
        run_fit(talk, table, columns, out, **options, kind=kind, dates=dates, horizon=horizon, seed=seed)


def run_fit(
    talk: Talk,
    table: Path,
    columns: Columns,
    out: Path,
    *,
    method: str,
    quick: bool,
    hold_out: bool,
    folds: int | None,
    kind: TargetKind | None,
    dates: dict[str, Any],
    horizon: int | None,
    seed: int,
) -> None:
    """Read the table, judge on left-out tasks, fit to all tasks, write the prior.

    Without a kind of target it is any number, and a sentence says which kind the values look like.
    """
    check_input(table)
    check_output(out, table)
    _spare_other_files(out)
    if method == AUTO and not hold_out:
        raise CallError("--method auto chooses by left-out tasks: leave out --no-hold-out, or name a method.")
    judgement = None if method == AUTO else Judgement(method, choose(method, quick))
    reading, read = read_tasks(table, columns, **dates)
    tell(talk, reading, read, columns)
    tasks = need_tasks(reading, table)
    if reading.empty:
        talk.say(f"  {count(len(reading.empty), 'task')} without a complete row: {named(reading.empty)}.")
    if len(tasks) < 2:
        raise CallError(
            f"All complete rows of {str(table)!r} belong to one task, but a prior is learned from several. "
            f"Is {columns.task!r} the column that says which task a row belongs to?"
        )
    _odd_sizes(talk, tasks, columns)
    if horizon is not None:
        tell_forecasts(talk, tasks, horizon)
    if kind is not None:
        tasks = tasks.with_target(kind)
    elif hint := suggestion(tasks.y, columns.target):
        talk.say(f"  {hint}")
    started = perf_counter()
    if judgement is None or hold_out:
        judgement = judge(talk, tasks, columns, method, quick=quick, folds=folds, horizon=horizon, seed=seed)
    name, chosen, held_out, left_out, reason, _ = judgement
    shown: list[Any] = [] if held_out is None else _comparison.shown(held_out, name, columns.target)
    if shown:
        with_caption(shown[0], horizon)
    told = "" if judgement.seconds is None else f" (about {judgement.seconds:.0f} s)"
    talk.say(f"Training {name} on all {len(tasks)} tasks{told} ...")
    with talk.stage(f"Training {name}"):
        prior = _guarded(chosen.fit(tasks, seed, progress=talk.progress), tasks, left_out)
    seconds = perf_counter() - started
    rest = {"held_out": held_out, "quick": quick, "seed": seed, "horizon": horizon, "reason": reason}
    _save(prior, chosen, out, metadata(name, columns, tasks, rest))
    result = _result(out, judgement, reading, tasks, seconds)
    talk.result(result, *shown, f"Wrote {out} ({seconds:.0f} s). Next: scoreprior predict {out} NEW.csv")


def _guarded(prior: Prior, tasks: TaskSet, left_out: Any) -> Prior:
    """The prior with a guard against tasks that do not fit; a point predictor cannot have one."""
    return prior if prior.is_point else Guarded().guard(prior, tasks, left_out)


def _odd_sizes(talk: Talk, tasks: TaskSet, columns: Columns) -> None:
    single = int((tasks.sizes == 1).sum())
    if single == len(tasks):
        talk.warn(
            f"Every task has a single point. Is {columns.task!r} the column that says which task a row belongs to?"
        )
    elif len(tasks) < 10:
        talk.warn(f"{count(len(tasks), 'task')} say little about how tasks differ; expect wide or wrong error bars.")


def _spare_other_files(out: Path) -> None:
    """A prior may take the place of an older one, but of nothing else: tables are easily named by mistake."""
    if not out.is_file() or out.stat().st_size == 0:
        return
    try:
        describe(out)
    except PriorFileError as error:
        raise CallError(
            f"{str(out)!r} exists and is no prior file. Give --out another name, or remove that file first."
        ) from error


def _save(prior: Prior, chosen: MetaLearner, out: Path, about: dict[str, Any]) -> None:
    config: dict[str, Any] = {}
    if "config" not in prior.about() and is_dataclass(chosen):
        config = {"config": json.loads(json.dumps(asdict(chosen), default=repr))}
    prior.save(out, metadata=config | about)


def _result(out: Path, judgement: Judgement, reading: Reading, tasks: TaskSet, seconds: float) -> dict[str, Any]:
    return {
        "out": out,
        "method": judgement.name,
        "reason": judgement.reason,
        "rows": reading.rows,
        "dropped": reading.dropped,
        "tasks": len(tasks),
        "points": int(tasks.sizes.sum()),
        "held_out": judgement.record,
        "seconds": round(seconds, 1),
    }
