"""`scoreprior`: the tour of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from scoreprior import __version__, methods
from scoreprior.cli.data import data_app

app = typer.Typer(
    help="Learn a prior over functions from a few small regression datasets; predict a new one with honest error bars.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.add_typer(data_app, name="data")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"scoreprior {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Where to write the figure.")] = Path("demo.png"),
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, only the table.")] = False,
) -> None:
    """Meta-learn on 20 small sinusoid datasets, then predict unseen ones from 8 points each.

    Example: scoreprior demo --out demo.png
    """
    from scoreprior.cli.demo import run_demo

    run_demo(Console(), out, seed=seed, progress=not quiet)


@app.command("methods")
def methods_command() -> None:
    """List every method with one line each.

    Example: scoreprior methods
    """
    table = Table("method", "what it is", box=None, pad_edge=False)
    for name, description in methods().items():
        table.add_row(name, description)
    Console().print(table)
