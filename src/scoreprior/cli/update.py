"""`scoreprior update`: let a prior learn from further tasks, without those that it knows."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from scoreprior.cli._console import (
    CallError,
    Debug,
    InputNames,
    Json,
    NoSeed,
    Quiet,
    Talk,
    TargetName,
    TaskName,
    check_input,
    check_output,
    count,
    talking,
)
from scoreprior.cli._notes import Notes, choose_columns, metadata, open_prior
from scoreprior.cli._tables import input_names, need_tasks, read_tasks, tell
from scoreprior.inference import NeedsAllTasksError


def update_command(
    prior: Annotated[Path, typer.Argument(metavar="PRIOR", help="A file written by `scoreprior fit`.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Further tasks, in the columns of training.")],
    out: Annotated[Path, typer.Option(help="File to write the updated prior to; it may be PRIOR.")],
    task: TaskName = None,
    inputs: InputNames = None,
    target: TargetName = None,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let a prior learn from further tasks in seconds, without the table that it was fitted to.

    What all tasks share is learned from the new ones too, exactly; how tasks
    differ stays as it was fitted. This works for the processes (pooled-gp,
    hierarchical-gp, and mars-gp where it keeps no network). Tasks that the
    prior knows already are left out.

    Example: scoreprior update gcs.prior new-patients.csv --out gcs.prior
    """
    with talking(quiet, as_json, debug) as talk:
        names = None if inputs is None else input_names(inputs)
        run_update(talk, prior, table, out, task=task, inputs=names, target=target)


def run_update(
    talk: Talk,
    prior_file: Path,
    table: Path,
    out: Path,
    *,
    task: str | None,
    inputs: tuple[str, ...] | None,
    target: str | None,
) -> None:
    """Read the table, leave known tasks out, update, write the prior."""
    check_input(table)
    check_output(out, table)
    prior, notes = open_prior(prior_file)
    columns = choose_columns(notes, task, inputs, target, prior.dim)
    reading, read = read_tasks(table, columns, encoding=notes.encoding, one_task=task is None)
    tell(talk, reading, read, columns)
    tasks = need_tasks(reading, table).with_target(prior.standardizer.kind)
    new = notes.unknown(tasks)
    if not new:
        raise CallError(f"The prior has learned from all tasks of {str(table)!r} already.")
    if len(new) < len(tasks):
        talk.warn(f"{count(len(tasks) - len(new), 'task')} that the prior knows already are left out.")
    started = perf_counter()
    try:
        updated = prior.update(tasks.take(new))
    except NeedsAllTasksError as error:
        raise CallError(f"{error} Its table and the new one together go to `scoreprior fit`.") from error
    seconds = perf_counter() - started
    about = metadata(notes.header.get("method") or "", columns, tasks.take(new), {})
    before = {"config": notes.header.get("config"), **notes.header.get("extra", {})}  # metrics are those of the fit
    updated.save(out, metadata=before | about | _joined(about, notes))
    total = notes.training.get("tasks", 0) + len(new)
    talk.result(
        {"out": out, "new_tasks": len(new), "tasks": total, "seconds": round(seconds, 1)},
        f"Wrote {out}: learned from {count(total, 'task')}, {len(new)} of them new ({seconds:.0f} s).",
    )


def _joined(about: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """What a file says of training after old and new tasks."""
    training, new, joined = notes.training, about["training"], {}
    if training:
        low, high = (extreme([training["target"][i], new["target"][i]]) for i, extreme in ((0, min), (1, max)))
        joined["training"] = new | {
            "tasks": training["tasks"] + new["tasks"],
            "points": training["points"] + new["points"],
            "target": [low, high],
            "fingerprints": [*training.get("fingerprints", ()), *new["fingerprints"]],
        }
    if notes.domain is not None:
        domain = about["domain"]
        joined["domain"] = {
            "low": np.minimum(notes.domain[0], domain["low"]),
            "high": np.maximum(notes.domain[1], domain["high"]),
        }
    return joined
