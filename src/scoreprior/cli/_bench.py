"""What the commands of `scoreprior bench` share: their options, the names in them, and a campaign that they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from scoreprior.cli._console import INTERRUPTED, CallError, Talk

if TYPE_CHECKING:
    from scoreprior.bench.cell import Cell
    from scoreprior.bench.runner import Record, Runner
    from scoreprior.bench.watch import Progress

Result = TypeVar("Result")

Environments = Annotated[str, typer.Option("--env", help="Environments with commas between; suite; all.")]
Methods = Annotated[str, typer.Option("--method", help="Methods with commas between; all; oracle is the truth.")]
Out = Annotated[Path, typer.Option("--out", file_okay=False, help="Directory of records, selections and reports.")]
Workers = Annotated[int, typer.Option(min=0, help="Processes, each on one core; 0 computes in this one.")]
Limit = Annotated[float | None, typer.Option(min=1.0, help="Give a cell up after so many seconds.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ... of every cell.")]
Split = Annotated[int, typer.Option(min=0, help="Data split; 0 is the canonical one.")]
Splits = Annotated[str, typer.Option("--split", help="Data splits with commas between; 0 is the canonical one.")]
Quick = Annotated[bool, typer.Option("--quick", help="A twentieth of all iterations.")]
Untuned = Annotated[bool, typer.Option("--untuned", help="The defaults, not the selected configurations.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run cells again that failed.")]
RESULTS = Path("results/bench")


def checked(function: Callable[..., Result], *arguments: Any) -> Result:
    """A call of the user's that cannot work ends with the exit code for that."""
    from scoreprior.bench.plan import UnknownNameError

    try:
        return function(*arguments)
    except UnknownNameError as error:
        raise CallError(str(error)) from error


def known_names(env: str, method: str) -> tuple[list[str], list[str]]:
    """Environments and methods that exist, and whose data are at hand."""
    from scoreprior.bench.plan import known_environments, known_methods

    return checked(known_environments, env), checked(known_methods, method)


def known_splits(text: str) -> list[int]:
    """Data splits from a list with commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise CallError(f"--split needs whole numbers with commas between, such as 0,1,2, not {text!r}.")
    return list(dict.fromkeys(map(int, words)))


def make_runner(workers: int, limit: float | None, keep: bool = False) -> Runner:
    """Who computes the cells."""
    if limit is not None and workers == 0:
        raise CallError("--limit needs worker processes, which can be ended: use --workers 1 or more.")
    from scoreprior.bench.runner import runner_for
    from scoreprior.bench.work import run_cell

    return runner_for(run_cell, workers, limit, keep=keep)


class Ran(NamedTuple):
    """The cells with their records, how many of them were computed now, and what came of them."""

    pairs: list[tuple[Cell, Record]]
    computed: int
    failed: int
    inapplicable: int
    progress: Progress


def run_campaign(
    talk: Talk, out: Path, cells: Sequence[Cell], runner: Runner, workers: int, *, retry_failed: bool
) -> Ran:
    """Compute the cells that have no record, tell the progress and what failed; Ctrl-C ends the command."""
    from scoreprior.bench.campaign import Campaign
    from scoreprior.bench.runner import does_not_apply
    from scoreprior.bench.watch import Progress, watch

    with Campaign(out, cells, retry_failed=retry_failed) as campaign:
        final = Progress(campaign, workers)
        pairs = list(campaign.done)
        try:
            with watch(campaign, workers, talk.progress) as saw:
                for cell, record in campaign.run(runner):
                    saw(cell, record)
                    final.saw(cell, record)
                    pairs.append((cell, record))
        except KeyboardInterrupt:
            talk.say(f"Stopped: {final.headline()}. The same command continues.")
            raise typer.Exit(INTERRUPTED) from None
    inapplicable = sum(does_not_apply(record) for _, record in pairs)
    failed = sum(record["status"] == "failed" for _, record in pairs) - inapplicable
    if inapplicable:
        talk.say(f"{inapplicable} of {len(pairs)} cells do not apply: their methods are not for such tasks.")
    if failed:
        talk.warn(f"{failed} of {len(pairs)} cells failed; their records say why, --retry-failed runs them again.")
    return Ran(pairs, len(campaign.todo), failed, inapplicable, final)
