"""A progress bar for the long loops, on a terminal and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol


class Advance(Protocol):
    """Moves the bar on by `steps` and shows a note, such as the current loss, beside it."""

    def __call__(self, steps: int, note: str = "") -> None: ...


@contextmanager
def track(total: int, description: str, enabled: bool = True) -> Iterator[Advance]:
    """A bar over `total` steps with the time left; silent when not enabled, off a terminal, and without rich."""
    if not enabled or sys.stderr is None or not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda steps, note="": None
        return
    # Imported here because most runs draw no bar, and importing the package should stay quick.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total, note="")
        yield lambda steps, note="": bar.update(task, advance=steps, note=note)
