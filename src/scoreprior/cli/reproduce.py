"""`scoreprior reproduce`: the paper's score-estimation experiments, one command each, or all of the paper."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scoreprior.cli._console import INTERRUPTED, CallError, Debug, Json, Quiet, Seed, Talk, explain, talking
from scoreprior.reproduce import Budget, experiments, reproduce

if TYPE_CHECKING:
    from rich.table import Table

    from scoreprior.reproduce.everything import Outcome

ALL = "all"
_SEEDS: dict[Budget, int] = {"full": 5, "quick": 1}


def reproduce_command(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=f"{', '.join(experiments())}; or {ALL}.")],
    out: Annotated[Path, typer.Option(help="Directory for the figure (PNG, SVG) and the numbers (JSON).")] = Path(
        "reproduced"
    ),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Initialisations to average over.", show_default="5; 1 if quick")
    ] = None,
    budget: Annotated[
        Budget, typer.Option(help="In full, or to see it run: a fraction, of the benchmark a twentieth, with one seed.")
    ] = "full",
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Only for all: processes for the benchmark; 0 uses this one.", show_default="1"),
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run one of the paper's score-estimation experiments and print the paper's figures beside ours.

    With all: every experiment of the paper, then the benchmark's tables in OUT/bench, with seeds 0, 1, ...

    Stop it at any moment: the same command continues. In full it takes days, with --budget quick hours.

    Example: scoreprior reproduce table7 --out reproduced
    """
    with talking(quiet, as_json, debug) as talk:
        if name != ALL and name not in experiments():
            raise CallError(f"There is no experiment {name!r}; there are {', '.join(experiments())}, and {ALL}.")
        if name != ALL and workers is not None:
            raise CallError(f"{name} runs in this process; --workers is for the benchmark, in `reproduce {ALL}`.")
        if out.exists() and not out.is_dir():
            raise CallError(f"{str(out)!r} is a file; --out names the directory that files are written to.")
        seeds = _SEEDS[budget] if seeds is None else seeds
        if name == ALL:
            workers = 1 if workers is None else workers
            run_all(talk, out, seeds=seeds, budget=budget, workers=workers, seed=seed, debug=debug)
        else:
            run_reproduce(talk, name, out, seeds=seeds, budget=budget, seed=seed)


def run_reproduce(talk: Talk, name: str, out: Path, *, seeds: int, budget: Budget, seed: int) -> None:
    """Run the experiment, write its files, print its tables and what they say."""
    talk.say(f"{name}: {experiments()[name]}.")
    report = reproduce(name, out, seeds=seeds, budget=budget, seed=seed, progress=talk.progress)
    record = {"experiment": name, "findings": report.findings, "files": report.files}
    written = ", ".join(path.name for path in report.files)
    talk.result(record, *report.tables, *report.findings, f"Wrote {written} to {out}")


def run_all(talk: Talk, out: Path, *, seeds: int, budget: Budget, workers: int, seed: int, debug: bool) -> None:
    """Run every part that is not done yet, print what each found and wrote; exit code 1 if one of them failed."""
    from scoreprior.reproduce.everything import parts

    todo = parts(out, seeds=seeds, seed=seed, budget=budget, workers=workers, progress=talk.progress)
    outcomes: dict[str, Outcome] = {}
    for number, part in enumerate(todo, start=1):
        where = f"[{number}/{len(todo)}] {part.name}"
        talk.say(f"{where}: {part.description}.")
        try:
            found = outcomes[part.name] = part.run()
        except KeyboardInterrupt:
            talk.say(f"Stopped at {part.name}, part {number} of {len(todo)}. The same command continues.")
            raise typer.Exit(INTERRUPTED) from None
        if debug and isinstance(found.problem, Exception):
            traceback.print_exception(found.problem)
        if found.status == "failed":
            talk.warn(f"{part.name} failed: {_problem(found)}")
        elif found.status == "kept":
            talk.say(f"{where}: is there from an earlier run; delete {found.files[0]} to have it run again.")
        else:
            talk.say(f"{where}: done in {found.seconds:.0f} s.")
    failed = [name for name, found in outcomes.items() if found.status == "failed"]
    lines = [f"{name}: {line}" for name, found in outcomes.items() for line in found.findings]
    lines += [f"{name} failed: {_problem(outcomes[name])}" for name in failed]
    record = {name: _record(found) for name, found in outcomes.items()}
    talk.result({"parts": record, "failed": failed, "out": out}, *lines, _table(outcomes, out))
    if failed:
        raise typer.Exit(1)


def _problem(found: Outcome) -> str | None:
    return explain(found.problem)[0] if isinstance(found.problem, Exception) else found.problem


def _record(found: Outcome) -> dict[str, object]:
    known: dict[str, object] = {
        "status": found.status,
        "seconds": found.seconds,
        "findings": found.findings,
        "files": found.files,
    }
    return known if found.problem is None else {**known, "error": _problem(found)}


def _table(outcomes: dict[str, Outcome], out: Path) -> Table:
    from scoreprior.reproduce._output import table

    rows = [
        [name, found.status, f"{found.seconds:.0f}", ", ".join(str(path.relative_to(out)) for path in found.files)]
        for name, found in outcomes.items()
    ]
    made = table(f"Files in {out}", ["part", "status", "seconds", "files"], rows)
    made.columns[-1].justify, made.columns[-1].no_wrap = "left", False
    return made
