"""`scoreprior data`: which data files are there, where they are, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from scoreprior.environments import _store

data_app = typer.Typer(help="Find and download the data sets.", no_args_is_help=True)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the files live (default: $SCOREPRIOR_DATA, then the user's cache)."),
]


def _known(name: str | None) -> str | None:
    if name is not None and name not in _store.SOURCES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(_store.SOURCES)}.")
    return name


@data_app.command("list")
def list_data(data_dir: DataDir = None) -> None:
    """Show every data set: its file, whether it is there and intact, its size, and what uses it."""
    table = Table(*(Column(title, no_wrap=True) for title in ("name", "file", "status", "size")), "used by")
    for name, source in _store.SOURCES.items():
        status = _store.status(name, data_dir)
        path = _store.expected_path(name, data_dir)
        size = "" if status == "absent" else f"{path.stat().st_size / 1e6:.1f} MB"
        table.add_row(name, source.file, status, size, ", ".join(source.used_by))
    console = Console()
    console.print(table)
    console.print(f"in {_store.data_directory(data_dir)}", soft_wrap=True, highlight=False)


@data_app.command()
def fetch(
    name: Annotated[str, typer.Argument(callback=_known, help="A name shown by `scoreprior data list`.")],
    data_dir: DataDir = None,
) -> None:
    """Download a data set, or continue an interrupted download, and check it."""
    try:
        typer.echo(_store.fetch(name, data_dir))
    except _store.DataError as error:
        raise _failed(error) from error


@data_app.command()
def path(
    name: Annotated[
        str | None, typer.Argument(callback=_known, help="A data set; without it, the directory is printed.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Print the data directory, or the path of a data set's intact file."""
    try:
        typer.echo(_store.data_directory(data_dir) if name is None else _store.locate(name, data_dir))
    except _store.DataError as error:
        raise _failed(error) from error


def _failed(error: _store.DataError) -> typer.Exit:
    typer.echo(f"Error: {error}", err=True)
    return typer.Exit(1)
