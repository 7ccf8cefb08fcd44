"""A progress bar for the long loops, on a terminal and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Advance(Protocol):
    """Moves the bar on by `steps` and shows a note, such as the current loss, beside it."""

    def __call__(self, steps: int, note: str = "") -> None: ...


_shown: list[Any] = []
"""The bars on the screen, at most one set of them: a loop within a loop adds a line to it."""


@contextmanager
def track(total: int | None, description: str, enabled: bool = True) -> Iterator[Advance]:
    """A bar over `total` steps with the time left; silent when not enabled, off a terminal, and without rich.

    Where the number of steps is not known, as while a program is compiled, total is None: then the bar shows that
    something is going on, and for how long.
    """
    if not enabled or sys.stderr is None or not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda steps, note="": None
        return
    if _shown:
        advance, task = _line(_shown[0], total, description)
        try:
            yield advance
        finally:
            _shown[0].remove_task(task)  # the loop around it goes on
        return
    with _bars() as bars:
        _shown.append(bars)
        try:
            yield _line(bars, total, description)[0]
        finally:
            _shown.clear()


def _line(bars: Any, total: int | None, description: str) -> tuple[Advance, Any]:
    """A new line, and what moves it on."""
    task = bars.add_task(description, total=total, note="")

    def advance(steps: int, note: str = "") -> None:
        bars.update(task, advance=steps, **({"note": note} if note else {}))

    return advance, task


def _bars() -> Any:
    # Imported here because most runs draw no bar, and importing the package should stay quick.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),  # moves on its own: a step may take a minute
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
