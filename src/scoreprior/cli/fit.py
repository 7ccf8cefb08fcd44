"""`scoreprior fit`: learn a prior from a table, after an honest look at how well that works."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float

from scoreprior import diagnostics
from scoreprior.cli import _comparison
from scoreprior.cli._console import CallError, Debug, Json, Quiet, Seed, Talk, check_input, check_output, count, talking
from scoreprior.cli._forecasts import forecasts_of, tell_forecasts, time_options, with_caption
from scoreprior.cli._notes import metadata
from scoreprior.cli._tables import Columns, Reading, input_names, named, need_tasks, read_tasks, tell
from scoreprior.cli._target_kinds import KindName, chosen_kind, suggestion
from scoreprior.learners import MetaLearner, Prior, learner, methods
from scoreprior.learners.guarded import Guarded, surprise_of
from scoreprior.serialization import PriorFileError, describe
from scoreprior.tasks import TargetKind, TaskSet
from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.grouping import Order
from scoreprior.tasks.input_kinds import Since


def fit_command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file, one row per point.")],
    task: Annotated[str, typer.Option(help="Column that says which task (patient, sensor, run) a row belongs to.")],
    inputs: Annotated[str, typer.Option(help="Input column, or several separated by commas: numbers, dates, text.")],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    out: Annotated[Path, typer.Option(help="File to write the prior to.")],
    method: Annotated[str, typer.Option(help="A name shown by `scoreprior methods`.")] = "mars-gp",
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of all iterations, for a first look.")] = False,
    hold_out: Annotated[bool, typer.Option(help="Compare with simple rules on held-out tasks first.")] = True,
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

    A fifth of the tasks is held out first: the method, simple rules and a
    pooled Gaussian process predict the second half of each from the first.
    Then the prior is learned from all tasks. Rows with missing values are
    left out.

    Example: scoreprior fit readings.csv --task patient --inputs hour --target gcs --out gcs.prior
    """
    with talking(quiet, as_json, debug) as talk:
        columns = Columns(task, input_names(inputs), target, order, noise, replicates, weight)
        kind = None if target_kind is None and bounds is None else chosen_kind(target_kind or "real", bounds)
        dates = {"since": since} | time_options(cycle, horizon, time, columns)
        options: dict[str, Any] = {"method": method, "quick": quick, "hold_out": hold_out, "kind": kind, "dates": dates}
        run_fit(talk, table, columns, out, **options, horizon=horizon, seed=seed)


def run_fit(
    talk: Talk,
    table: Path,
    columns: Columns,
    out: Path,
    *,
    method: str,
    quick: bool,
    hold_out: bool,
    kind: TargetKind | None,
    dates: dict[str, Any],
    horizon: int | None,
    seed: int,
) -> None:
    """Read the table, compare on held-out tasks, fit to all tasks, write the prior.

    Without a kind of target it is any number, and a sentence says which kind the values look like.
    """
    check_input(table)
    check_output(out, table)
    _spare_other_files(out)
    chosen = choose(method, quick)
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
    held_out, left_out, shown = None, None, []
    started = perf_counter()
    if hold_out:
        unfit = diagnostics.LAG_RULES if columns.order == "input" else ()  # rows in order of a lag would be in no order
        rivals = {rule: choose(rule, quick) for rule in diagnostics.RULES if rule != method and rule not in unfit}
        held_out, left_out = _judge(talk, tasks, columns, method, chosen, rivals, horizon, seed)
        shown = [] if held_out is None else [with_caption(_comparison.grid(held_out, columns.target), horizon)]
    talk.say(f"Training {method} on all {len(tasks)} tasks ...")
    prior = _guarded(chosen.fit(tasks, seed, progress=talk.progress), tasks, left_out)
    seconds = perf_counter() - started
    rest = {"held_out": held_out, "quick": quick, "seed": seed, "horizon": horizon}
    _save(prior, chosen, out, metadata(method, columns, tasks, rest))
    result = _result(out, method, reading, tasks, held_out, seconds)
    talk.result(result, *shown, f"Wrote {out} ({seconds:.0f} s). Next: scoreprior predict {out} NEW.csv")


# People act on these predictions, so quick may not mean untrained: a twentieth, as `bench --quick` takes, only shows
# that everything runs. A quarter of all steps is still a fit, and a first look at a table in a fraction of the time.
QUICK_SHARE = 0.25


def choose(method: str, quick: bool) -> MetaLearner:
    """The method, with a quarter of all its iterations if quick."""
    if method not in methods():
        raise CallError(f"There is no method {method!r}; `scoreprior methods` lists them.")
    chosen: Any = learner(method)
    return chosen.with_budget(QUICK_SHARE) if quick else chosen


def _judge(
    talk: Talk,
    tasks: TaskSet,
    columns: Columns,
    method: str,
    chosen: MetaLearner,
    rivals: dict[str, MetaLearner],
    horizon: int | None,
    seed: int,
) -> tuple[dict[str, Any] | None, Float[np.ndarray, "n 2"] | None]:
    """The record of a method beside others on held-out tasks, and how surprising these are; None if they are too few.

    What is judged is what people get: the method with its guard against tasks that do not fit.
    """
    try:
        split = diagnostics.hold_out(tasks, seed) if horizon is None else forecasts_of(tasks, seed, horizon)
    except TaskError as error:
        talk.warn(_comparison.too_few_words(tasks) if horizon is None else str(error))
        return None, None
    held, rest = len({task.name for task in split.meta_test.context}), len(split.meta_train)
    talk.say(f"Holding out {held} tasks, training {method} and simple rules on the other {rest} to compare them ...")
    part, left_out = chosen.fit(split.meta_train, seed, progress=talk.progress), None
    if not part.is_point:
        left_out = surprise_of(Guarded().guard(part, split.meta_train), split.meta_test.whole, seed)
    judged = _guarded(part, split.meta_train, left_out)
    # Rules that cannot use what is known of rows are no rivals.
    plain = not any(task.weight != 1 or task.noise_is_known for task in tasks)
    optional = diagnostics.LAG_RULES if plain else tuple(rivals)
    found = diagnostics.compare({method: judged, **rivals}, split, seed, optional=optional, progress=talk.progress)
    found = found if horizon is None else found.per_task
    if not plain and (gone := [rule for rule in rivals if rule not in found.rules]):
        talk.say(f"Rules that cannot use {' or '.join(columns.extra)} are not compared with: {', '.join(gone)}.")
    for text in _comparison.rule_words(found) + _comparison.narrow_words(method, found.coverage):
        talk.warn(text)
    return _comparison.record(found), left_out


def _guarded(prior: Prior, tasks: TaskSet, left_out: Float[np.ndarray, "n 2"] | None) -> Prior:
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
    config = {} if "config" in prior.about() else {"config": repr(chosen)}
    prior.save(out, metadata=config | about)


def _result(
    out: Path, method: str, reading: Reading, tasks: TaskSet, held_out: dict[str, Any] | None, seconds: float
) -> dict[str, Any]:
    return {
        "out": out,
        "method": method,
        "rows": reading.rows,
        "dropped": reading.dropped,
        "tasks": len(tasks),
        "points": int(tasks.sizes.sum()),
        "held_out": held_out,
        "seconds": round(seconds, 1),
    }
