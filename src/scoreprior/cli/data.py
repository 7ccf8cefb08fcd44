"""`scoreprior data`: which data files are there, where they are, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from scoreprior.cli._console import Debug, Json, NoSeed, Quiet, talking
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
def list_data(
    data_dir: DataDir = None, seed: NoSeed = 0, quiet: Quiet = False, as_json: Json = False, debug: Debug = False
) -> None:
    """Show every data set: its file, whether it is there and intact, its size, and what uses it.

    Example: scoreprior data list
    """
    with talking(quiet, as_json, debug) as talk:
        table = Table(*(Column(title, no_wrap=True) for title in ("name", "file", "status", "size")), "used by")
        record = {}
        for name, source in _store.SOURCES.items():
            status = _store.status(name, data_dir)
            path = _store.expected_path(name, data_dir)
            size = None if status == "absent" else path.stat().st_size
            used_by = list(source.used_by)
            record[name] = {"path": path, "status": status, "bytes": size, "used_by": used_by}
            shown = "" if size is None else f"{size / 1e6:.1f} MB"
            table.add_row(name, source.file, status, shown, ", ".join(used_by))
        directory = _store.data_directory(data_dir)
        talk.result({"directory": directory, "data": record}, table, f"in {directory}")


@data_app.command()
def fetch(
    name: Annotated[str, typer.Argument(callback=_known, help="A name shown by `scoreprior data list`.")],
    data_dir: DataDir = None,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Download a data set, or continue an interrupted download, and check it.

    Example: scoreprior data fetch physionet
    """
    with talking(quiet, as_json, debug) as talk:
        path = _store.fetch(name, data_dir)
        talk.result({"path": path}, str(path))


@data_app.command()
def path(
    name: Annotated[
        str | None, typer.Argument(callback=_known, help="A data set; without it, the directory is printed.")
    ] = None,
    data_dir: DataDir = None,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the data directory, or the path of a data set's intact file.

    Example: scoreprior data path
    """
    with talking(quiet, as_json, debug) as talk:
        found = _store.data_directory(data_dir) if name is None else _store.locate(name, data_dir)
        talk.result({"path": found}, str(found))
