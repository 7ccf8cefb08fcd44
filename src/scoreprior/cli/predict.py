"""`scoreprior predict`: predictions for new tasks, row by row, in the units of the table."""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

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
    write,
    write_figure,
)
from scoreprior.cli._notes import Notes, choose_columns, open_prior
from scoreprior.cli._partial import dependence
from scoreprior.cli._queries import Known, Query, find_queries, with_text, with_zones
from scoreprior.cli._tables import Columns, input_names, named, read_tasks, tell
from scoreprior.cli._truths import true_points
from scoreprior.learners import Posteriors, Prior
from scoreprior.learners.guarded import FLAGGED
from scoreprior.predictive import Predictive
from scoreprior.tasks import InputEncoding, Task, TaskSet

if TYPE_CHECKING:
    import pandas as pd

_BLOCK, _LONGEST = 65_536, 4096
"""Query points of all tasks together, and of one task, that are evaluated at once."""
MOST_PREDICTIONS = 1_000_000
MOST_SHOWN = 12
"""Tasks in a figure."""
MOST_VARIED = 5
"""Tasks in a figure with a panel for each of several inputs."""
TABLES = ("csv", "txt", "parquet")


def predict_command(
    prior: Annotated[Path, typer.Argument(metavar="PRIOR", help="A file written by `scoreprior fit`.")],
    table: Annotated[
        Path | None, typer.Argument(metavar="[TABLE]", help="Known points of new tasks; without it, the prior answers.")
    ] = None,
    at: Annotated[
        Path | None, typer.Option(help="Inputs to predict at; without it a grid, or the rows of a forecast.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV or Parquet file to write; without it, CSV on stdout.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Figure to write (.png, .pdf, .svg).")] = None,
    task: TaskName = None,
    inputs: InputNames = None,
    target: TargetName = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict new tasks from a few known points each: mean, std and quantiles, in the units of the table.

    A prior that was fitted with --horizon predicts the next rows of each task.

    A task without known points gets the prior's prediction. Inputs outside the
    range of training, and new categories, are flagged in the column
    `extrapolates`. The column `surprise` says how rare known points that fit no
    better are among related tasks; below 0.01 a task is unlike those of
    training, and is named.

    Example: scoreprior predict gcs.prior new.csv --at query.csv --out predictions.csv --plot predictions.png
    """
    with talking(quiet, as_json, debug) as talk:
        names = None if inputs is None else input_names(inputs)
        run_predict(talk, prior, table, at=at, out=out, plot=plot, task=task, inputs=names, target=target, seed=seed)


def run_predict(
    talk: Talk,
    prior_file: Path,
    table: Path | None,
    *,
    at: Path | None,
    out: Path | None,
    plot: Path | None,
    task: str | None,
    inputs: tuple[str, ...] | None,
    target: str | None,
    seed: int,
) -> None:
    """Condition on the rows of the table, predict at the rows of `at` or on a grid, write and plot."""
    for each in (table, at):
        check_input(each)
    check_output(out, prior_file, table, at, formats=TABLES)
    _check_parquet(out)
    check_output(plot, prior_file, table, at, out, formats=FIGURES)
    prior, notes = open_prior(prior_file)
    columns = choose_columns(notes, task, inputs, target, prior.dim)
    encoding = notes.encoding or InputEncoding.of_numbers(columns.inputs)
    known = _known(talk, table, columns, encoding, task is not None)
    contexts = known.tasks
    queries = find_queries(talk, prior, notes, columns, encoding, known, at)
    if sum(len(query.x) for query in queries) > MOST_PREDICTIONS:
        raise CallError(f"That would be more than {MOST_PREDICTIONS:,} predictions; ask for fewer rows or tasks.")
    blank = [query.task for query in queries if query.task and len(contexts.get(query.task, ())) == 0]
    if blank and table is not None:
        talk.warn(f"{count(len(blank), 'task')} without known points, answered by the prior alone: {named(blank)}.")
    unasked = [name for name in contexts if name not in {query.task for query in queries}]
    if unasked:
        talk.warn(f"{count(len(unasked), 'task')} of {table} not asked for in {at}: {named(unasked)}.")
    talk.say(f"Predicting {count(len(queries), 'task')} ...")
    with talk.stage("Predicting"):
        frame, predictives = _answer(prior, notes, columns, contexts, queries, seed)
    _tell_extrapolation(talk, frame, notes)
    _tell_unlike(talk, frame, columns, notes, contexts)
    record = {"tasks": len(queries), "rows": len(frame), "out": out, "plot": plot}
    if out is not None:
        write(out, _encode(frame, out, columns, encoding))
    if plot is not None:
        with talk.stage("Drawing"):
            write_figure(plot, _figure(prior, notes, columns, encoding, contexts, queries, predictives, at, seed))
        talk.say(f"Figure: {plot}")
    if out is not None:
        talk.result(record, f"Wrote {out}: {count(len(frame), 'row')}, {count(len(queries), 'task')}.")
    elif talk.as_json:
        frame = with_text(frame, columns, encoding)
        talk.result(record | {"predictions": frame.astype(object).where(frame.notna(), None).to_dict("records")})
    else:
        talk.result(record, _csv(with_text(frame, columns, encoding)).decode().rstrip("\n"))


def _figure(
    prior: Prior,
    notes: Notes,
    columns: Columns,
    encoding: InputEncoding,
    contexts: dict[str, Task],
    queries: list[Query],
    predictives: list[Predictive],
    at: Path | None,
    seed: int,
) -> Any:
    """The predictions of the first tasks: over the only input, or as each of several varies."""
    from scoreprior.cli import _figures  # matplotlib takes its time

    several = len(encoding.inputs) > 1 and notes.domain is not None
    first = queries[: MOST_VARIED if several else MOST_SHOWN]
    truths = true_points(at, columns, first)
    shown = [(query.task, query.x[np.isfinite(query.x).all(1)], contexts.get(query.task)) for query in first]
    if several and all(len(asked) or known for _, asked, known in shown):
        assert notes.domain is not None
        varied = dependence(prior, encoding, notes.domain, shown, seed)
        return _figures.dependences(columns, shown, varied, truths, of=len(queries))
    # Between rows that were asked for nothing is known, so only a grid is drawn as a curve.
    options: dict[str, Any] = {"of": len(queries), "curves": at is None, "truths": truths}
    return _figures.predictions(columns, notes, shown, predictives, **options)


def _known(talk: Talk, path: Path | None, columns: Columns, encoding: InputEncoding, named_task: bool) -> Known:
    """Known points of every task of the table, possibly none."""
    if path is None:
        return Known({}, None, False)
    reading, table = read_tasks(path, columns, encoding=encoding, one_task=not named_task, need_rows=False)
    tell(talk, reading, table, columns)
    if reading.whole and reading.rows:
        talk.say(f"  There is no column {columns.task!r}: all rows are taken as one task.")
    contexts = {} if reading.tasks is None else {task.name: task for task in reading.tasks}
    nothing = Task(np.zeros((0, len(encoding.names))), np.zeros(0))
    return Known(contexts | dict.fromkeys(reading.empty, nothing), reading.starts, reading.whole)


def _answer(
    prior: Prior, notes: Notes, columns: Columns, contexts: dict[str, Task], queries: list[Query], seed: int
) -> tuple[pd.DataFrame, list[Predictive]]:
    """The table of predictions, and the predictives of the tasks that a figure shows."""
    import pandas as pd  # here, since it takes a quarter of a second

    nothing = Task(np.zeros((0, prior.dim)), np.zeros(0))
    known = [contexts.get(query.task, nothing) for query in queries]
    posteriors = prior.condition_many(TaskSet(known, allow_empty=True), seed)
    complete = [np.isfinite(query.x).all(1) for query in queries]
    surprise = np.full(len(known), np.nan) if prior.unguarded is prior else posteriors.surprise
    answers, predictives = _in_blocks(posteriors, [query.x[rows] for query, rows in zip(queries, complete)])
    frames = []
    for query, context, rows, answer, rare in zip(queries, known, complete, answers, surprise):
        answer = answer.set_index(np.flatnonzero(rows)).reindex(range(len(rows)))
        frame = pd.DataFrame({columns.task: query.task} | dict(zip(columns.inputs, _cells(query))))
        outside = notes.extrapolates(query.x, context)
        flags = pd.Series([None] * len(rows) if outside is None else outside, dtype=object)
        frame = pd.concat([frame, answer], axis=1)
        told = rare if len(context) else np.nan
        frames.append(frame.assign(extrapolates=flags.where(rows, None), known_points=len(context), surprise=told))
    # In the order of the rows that were asked for, whatever task they belong to.
    order = np.argsort(np.concatenate([query.rows for query in queries]), kind="stable")
    return pd.concat(frames, ignore_index=True).iloc[order].reset_index(drop=True), predictives


def _cells(query: Query) -> list[np.ndarray]:
    """The inputs of a query for the answer's columns."""
    return [column.cells() for column in query.inputs]


def _in_blocks(posteriors: Posteriors, queries: list[np.ndarray]) -> tuple[list[pd.DataFrame], list[Predictive]]:
    """Predictions at any number of points: only a block of them is ever held with all its components."""
    import pandas as pd  # here, since it takes a quarter of a second

    step = min(_LONGEST, max(1, _BLOCK // len(queries)))
    frames: list[list[pd.DataFrame]] = [[] for _ in queries]
    shown: list[list[Predictive]] = [[] for _ in queries[:MOST_SHOWN]]
    for start in range(0, max(1, *map(len, queries)), step):
        block = posteriors.predict([query[start : start + step] for query in queries])
        for pieces, predictive in zip(frames, block):
            pieces.append(predictive.to_frame())
        for kept, predictive in zip(shown, block):
            kept.append(predictive)
    return [pd.concat(pieces, ignore_index=True) for pieces in frames], [
        first.joined_with(rest) for first, *rest in shown
    ]


def _tell_extrapolation(talk: Talk, frame: pd.DataFrame, notes: Notes) -> None:
    if notes.domain is None:
        talk.say("The file does not tell the range of training: the column 'extrapolates' is left blank.")
        return
    outside = int((frame["extrapolates"] == True).sum())  # noqa: E712 (None is neither)
    if outside:
        ahead = "" if notes.horizon is None else f", or more than {count(notes.horizon, 'row')} ahead"
        talk.warn(
            f"{count(outside, 'prediction')} outside the range of training{ahead}, flagged in the column "
            "'extrapolates': do not rely on them."
        )


def _tell_unlike(talk: Talk, frame: pd.DataFrame, columns: Columns, notes: Notes, contexts: dict[str, Task]) -> None:
    """One sentence for each task whose known points do not fit the prior, or lie outside the targets of training."""
    rare = frame.groupby(columns.task, sort=False)["surprise"].first()
    for name, value in rare[rare < FLAGGED].items():
        who = f"Task {name}" if name else "The task"
        talk.warn(
            f"{who} is unlike those of training: {_one_in(value)} related tasks fit as badly. Its error bars are "
            "widened; look at its known points."
        )
    span = notes.header.get("extra", {}).get("training", {}).get("target")
    if span is None:
        return
    low, high = span
    outside = [name for name, task in contexts.items() if len(task) and (task.y.min() < low or task.y.max() > high)]
    if outside:
        talk.warn(
            f"{count(len(outside), 'task')} with known {columns.target} outside that of training ({low:g} to "
            f"{high:g}): {named(outside)}."
        )


def _one_in(probability: float) -> str:
    return "fewer than one in a million" if probability < 1e-6 else f"one in {1 / probability:,.0f}"


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n", float_format="%.8g").encode()


def _check_parquet(out: Path | None) -> None:
    if out is not None and out.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise CallError("Parquet files need pyarrow: pip install 'scoreprior[parquet]', or write a .csv file.")


def _encode(frame: pd.DataFrame, out: Path, columns: Columns, encoding: InputEncoding) -> bytes:
    if out.suffix.lower() != ".parquet":
        return _csv(with_text(frame, columns, encoding))
    buffer = BytesIO()
    with_zones(frame, columns, encoding).to_parquet(buffer, index=False)
    return buffer.getvalue()
