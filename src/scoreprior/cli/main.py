"""`scoreprior`: the tour of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from scoreprior import __version__, methods
from scoreprior._memory import keep_freed_memory
from scoreprior.cli._compiled import keep_compiled
from scoreprior.cli._console import Debug, Json, NoSeed, Quiet, Seed, talking
from scoreprior.cli.bench import bench_app
from scoreprior.cli.check import check_command
from scoreprior.cli.data import data_app
from scoreprior.cli.fit import fit_command
from scoreprior.cli.inspect import inspect_command
from scoreprior.cli.predict import predict_command
from scoreprior.cli.reproduce import reproduce_command
from scoreprior.cli.update import update_command

_TOUR = """Learn a prior over functions from many small, related datasets; predict a new one with honest error bars.

A tour, with a table that has one row per point and a column that says which patient, sensor or run it belongs to:

\b
  scoreprior fit readings.csv --out gcs.prior \\
      --task patient --inputs hour --target gcs
  scoreprior inspect gcs.prior --plot prior.png --data readings.csv
  scoreprior predict gcs.prior new.csv --at query.csv --out predictions.csv
  scoreprior check gcs.prior held-out.csv --plot reliability.png
  scoreprior update gcs.prior held-out.csv --out gcs.prior
  scoreprior methods

Without a table: scoreprior demo. Exit codes: 0 fine, 1 the work failed, 2 the call was wrong.
"""

app = typer.Typer(help=_TOUR, no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
_OWN, _OTHER = "Your own table", "Methods, data, benchmarks"
app.command("fit", rich_help_panel=_OWN)(fit_command)
app.command("inspect", rich_help_panel=_OWN)(inspect_command)
app.command("predict", rich_help_panel=_OWN)(predict_command)
app.command("check", rich_help_panel=_OWN)(check_command)
app.command("update", rich_help_panel=_OWN)(update_command)


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
    keep_compiled()
    keep_freed_memory()


@app.command("demo", rich_help_panel=_OTHER)
def demo_command(
    out: Annotated[Path, typer.Option(help="Where to write the figure.")] = Path("demo.png"),
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Meta-learn sinusoids and dose-response curves, then predict unseen ones from 8 points each.

    Example: scoreprior demo --out demo.png
    """
    with talking(quiet, as_json, debug) as talk:
        from scoreprior.cli.demo import run_demo

        run_demo(talk, out, seed=seed)


@app.command("methods", rich_help_panel=_OTHER)
def methods_command(seed: NoSeed = 0, quiet: Quiet = False, as_json: Json = False, debug: Debug = False) -> None:
    """List every method with one line each.

    Example: scoreprior methods
    """
    with talking(quiet, as_json, debug) as talk:
        table = Table("method", "what it is", box=None, pad_edge=False)
        for name, description in methods().items():
            table.add_row(name, description)
        talk.result({"methods": methods()}, table)


app.add_typer(data_app, name="data", rich_help_panel=_OTHER)
app.add_typer(bench_app, name="bench", rich_help_panel=_OTHER)
app.command("reproduce", rich_help_panel=_OTHER)(reproduce_command)
