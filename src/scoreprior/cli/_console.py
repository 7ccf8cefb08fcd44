"""How commands talk: results on stdout, everything else on stderr; errors in a sentence or two, with an exit code.

0: fine. 1: the work failed. 2: the call was wrong. 130: stopped by Ctrl-C, where the same command continues.
"""

from __future__ import annotations

import errno
import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, RenderableType

from scoreprior._extras import MissingExtraError, extra
from scoreprior._files import is_special, replace_file
from scoreprior._plugins import PluginError
from scoreprior._progress import track
from scoreprior.environments import DataError
from scoreprior.predictive import NoDistributionError
from scoreprior.serialization import PriorFileError
from scoreprior.tasks.checks import TaskError
from scoreprior.tasks.files import ColumnError, TableError
from scoreprior.training import DivergenceError

MOST_SEED = 2**31 - 1
"""Commands count up from the seed; this leaves them room below what a JAX key takes."""
Seed = Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help="Seed: the same one gives the same result.")]
NoSeed = Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help="Accepted everywhere; unused here.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the result and warnings only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

TaskName = Annotated[str | None, typer.Option("--task", help="Task column, if not named as in training.")]
InputNames = Annotated[str | None, typer.Option("--inputs", help="Input columns, if not named as in training.")]
TargetName = Annotated[str | None, typer.Option("--target", help="Target column, if not named as in training.")]

INTERRUPTED = 130
FIGURES = ("png", "pdf", "svg")


class CallError(Exception):
    """The command was called in a way that cannot work; the message says how to call it."""


_EXPECTED = (TableError, TaskError, PriorFileError, DataError, DivergenceError, NoDistributionError, MissingExtraError)


class Talk:
    """One command's way to speak."""

    def __init__(self, quiet: bool, as_json: bool):
        self.as_json = as_json
        self.quiet = quiet or as_json
        self.warnings: list[str] = []
        self._out = Console(highlight=False, markup=False, emoji=False)

    @property
    def progress(self) -> bool:
        """Whether to show progress bars."""
        return not self.quiet

    def say(self, text: str) -> None:
        """What is going on; stderr, unless quiet."""
        if not self.quiet:
            typer.echo(text, err=True)

    @contextmanager
    def stage(self, text: str) -> Iterator[None]:
        """A part of the work of which the number of steps is not known: that it goes on is shown, on a terminal."""
        with track(None, text, self.progress):
            yield

    def warn(self, text: str) -> None:
        """What the user has to know; stderr, and among the JSON result's warnings. Once each."""
        if text not in self.warnings:
            self.warnings.append(text)
            typer.echo(f"Warning: {text}", err=True)

    def result(self, record: dict[str, Any], *shown: RenderableType) -> None:
        """What the command was called for; stdout."""
        if self.as_json:
            typer.echo(json.dumps(plain(record | {"warnings": self.warnings}), ensure_ascii=False))
            return
        for each in shown:
            if isinstance(each, str):
                typer.echo(each)
            else:
                self._out.print(each)


@contextmanager
def talking(quiet: bool, as_json: bool, debug: bool) -> Iterator[Talk]:
    """Run a command: whatever goes wrong becomes a sentence on stderr and an exit code."""
    talk = Talk(quiet, as_json)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", ".*compilation cache")  # kept or not, the answer is the same
        warnings.showwarning = lambda message, category, *_: (  # only what the package itself has to say
            talk.warn(str(message)) if category is UserWarning else None
        )
        try:
            yield talk
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if debug:
                raise
            message, code = explain(error)
            if as_json:
                typer.echo(json.dumps({"error": message, "warnings": talk.warnings}, ensure_ascii=False))
            typer.echo(f"Error: {message}", err=True)
            raise typer.Exit(code) from error


def explain(error: Exception) -> tuple[str, int]:
    """An error in a sentence or two, and the exit code it stands for."""
    message = " ".join(str(error).split())
    if isinstance(error, (CallError, ColumnError, PluginError)):
        return message, 2
    if isinstance(error, _EXPECTED):
        return message, 1
    if isinstance(error, OSError):
        place = f" {str(error.filename)!r}" if error.filename is not None else ""
        return f"Cannot read or write{place}: {error.strerror or message}.", 1
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in message:
        return "There is not enough memory for tables of this size; use fewer tasks or fewer points per task.", 1
    short = message if len(message) <= 200 else f"{message[:200]}..."
    return f"Unexpected {type(error).__name__}: {short} Run again with --debug to see where.", 1


def plain(value: Any) -> Any:
    """The value as JSON knows it: numbers that are not finite are null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def count(number: int, noun: str) -> str:
    """`1 task`, `1,234 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_output(path: Path | None, *inputs: Path | None, formats: tuple[str, ...] = ()) -> None:
    """Before any work: can this file be written, and is it none of the files to be read?"""
    if path is not None and formats == FIGURES:
        with extra("plots"):
            import_module("matplotlib")
    if path is None or is_special(path):
        return
    if path.is_dir():
        raise CallError(f"Cannot write {str(path)!r}: it is a directory. Give the name of a file in it.")
    parent = Path(os.path.realpath(path)).parent
    if not parent.is_dir():
        raise CallError(f"Cannot write {str(path)!r}: there is no directory {str(parent)!r}.")
    if not os.access(parent, os.W_OK):
        raise PermissionError(errno.EACCES, "no permission to write there", str(path))
    if any(each is not None and os.path.realpath(each) == os.path.realpath(path) for each in inputs):
        raise CallError(f"{str(path)!r} is to be read and written; give the output another name.")
    if formats and path.suffix.lower().lstrip(".") not in formats:
        raise CallError(f"Cannot write {str(path)!r}: its name should end in .{' or .'.join(formats)}.")


def check_input(path: Path | None) -> None:
    """Before any work: is there such a file?"""
    if path is not None and not path.exists():
        raise CallError(f"There is no file {str(path)!r}.")


def write(path: Path, data: bytes) -> None:
    """Write a file, all of it or nothing."""
    try:
        replace_file(path, data)
    except OSError as error:
        # The name that the user gave, not that of the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_figure(path: Path, figure: Any) -> None:
    """Write a matplotlib figure, all of it or nothing."""
    from io import BytesIO

    buffer = BytesIO()
    figure.savefig(buffer, dpi=150, format=path.suffix.lower().lstrip("."))
    write(path, buffer.getvalue())
