"""`scoreprior reproduce`: the paper's score-estimation experiments, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scoreprior.cli._console import CallError, Debug, Json, Quiet, Seed, Talk, talking
from scoreprior.reproduce import Budget, experiments, reproduce


def reproduce_command(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=f"{', '.join(experiments())}.")],
    out: Annotated[Path, typer.Option(help="Directory for the figure (PNG, SVG) and the numbers (JSON).")] = Path(
        "reproduced"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Initialisations that networks are averaged over.")] = 5,
    budget: Annotated[Budget, typer.Option(help="The protocol in full, or a fraction of it to see it run.")] = "full",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run one of the paper's score-estimation experiments and print the paper's figures beside ours.

    Example: scoreprior reproduce table7 --out reproduced
    """
    with talking(quiet, as_json, debug) as talk:
        run_reproduce(talk, name, out, seeds=seeds, budget=budget, seed=seed)


def run_reproduce(talk: Talk, name: str, out: Path, *, seeds: int, budget: Budget, seed: int) -> None:
    """Run the experiment, write its files, print its tables and what they say."""
    if name not in experiments():
        raise CallError(f"There is no experiment {name!r}; there are {', '.join(experiments())}.")
    if out.exists() and not out.is_dir():
        raise CallError(f"{str(out)!r} is a file; --out names the directory that files are written to.")
    talk.say(f"{name}: {experiments()[name]}.")
    report = reproduce(name, out, seeds=seeds, budget=budget, seed=seed, progress=talk.progress)
    record = {"experiment": name, "findings": report.findings, "files": report.files}
    written = ", ".join(path.name for path in report.files)
    talk.result(record, *report.tables, *report.findings, f"Wrote {written} to {out}")
