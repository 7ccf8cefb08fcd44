"""A table that fills while cells are computed, with the time left; on a terminal, and nowhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import numpy as np

from scoreprior._extras import extra
from scoreprior.bench.campaign import Campaign
from scoreprior.bench.cell import Cell
from scoreprior.bench.runner import Record, does_not_apply

with extra("cli"):
    from rich import box
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

Saw = Callable[[Cell, Record], None]
_MARGIN = 8  # lines of the screen that are not rows


class Progress:
    """What is done, what it was worth and what it took, per environment and method.

    Records may come while another thread draws the table.
    """

    def __init__(self, campaign: Campaign, workers: int):
        self._lock = threading.Lock()
        self._left = {cell.key: cell for cell in campaign.todo}
        self._workers = max(1, workers)
        self._totals: dict[tuple[str, str], int] = defaultdict(int)
        self._seen: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for cell in (*(cell for cell, _ in campaign.done), *campaign.todo):
            self._totals[cell.environment, cell.method] += 1
        for cell, record in campaign.done:
            self._seen[cell.environment, cell.method].append(record)
        self._started = time.monotonic()

    def saw(self, cell: Cell, record: Record) -> None:
        """A record has come."""
        where = (cell.environment, cell.method)
        with self._lock:
            del self._left[cell.key]
            self._seen[where] = [*self._seen.pop(where, []), record]  # to the end: the table shows the latest

    @property
    def seconds_left(self) -> float | None:
        """By what like cells took: of the same method and environment, else of the method, else of all."""
        with self._lock:
            walls = {where: _walls(records) for where, records in self._seen.items()}
            to_do = list(self._left.values())
        everything = [wall for each in walls.values() for wall in each]
        if not everything:
            return None
        by_method: dict[str, list[float]] = defaultdict(list)
        for (_, method), each in walls.items():
            by_method[method] += each
        expected = [
            np.mean(walls.get((cell.environment, cell.method)) or by_method[cell.method] or everything)
            for cell in to_do
        ]
        return float(np.sum(expected)) / self._workers

    def headline(self) -> str:
        """How far it is, and how long it will take."""
        total = sum(self._totals.values())
        left = self.seconds_left
        soon = "" if left is None or not self._left else f", about {_clock(left)} left"
        return f"{total - len(self._left)} of {total} cells, {_clock(time.monotonic() - self._started)} so far{soon}"

    def table(self, most: int | None = None) -> Table:
        """Rows with results, the latest last, and below them what is likely to be at work."""
        with self._lock:
            seen = list(self._seen.items())
        begun = {where for where, _ in seen}
        coming = [where for where in self._totals if where not in begun][: self._workers]
        rows = [*seen, *((where, []) for where in coming)]
        headline = self.headline()
        table = Table(
            title=headline,
            title_justify="left",
            min_width=len(headline),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            padding=0,
        )
        for name in ("environment", "method"):  # on a narrow screen names are shortened, never figures
            table.add_column(name, overflow="ellipsis")
        for name in ("cells", "failed", "RMSE", "NLL", "calib.", "s/cell"):
            table.add_column(name, justify="right", no_wrap=True)
        for where, records in rows[-most:] if most else rows:
            done = [record for record in records if record["status"] == "done"]
            table.add_row(
                *where,
                f"{len(records)}/{self._totals[where]}",
                _failures(records),
                *(_mean(done, name) for name in ("rmse", "nll", "pooled_calibration_error")),
                f"{np.mean(_walls(done)):.1f}" if done else "",
            )
        return table


@contextmanager
def watch(campaign: Campaign, workers: int, enabled: bool) -> Iterator[Saw]:
    """Show the progress of a campaign; elsewhere than on a terminal, a line per cell."""
    progress = Progress(campaign, workers)
    if not enabled:
        yield progress.saw
    elif not sys.stderr.isatty():

        def tell(cell: Cell, record: Record) -> None:
            progress.saw(cell, record)
            print(f"{progress.headline()}: {cell}: {outcome(record)}", file=sys.stderr, flush=True)

        yield tell
    else:
        console = Console(stderr=True)
        shown = lambda: progress.table(max(1, console.height - _MARGIN))  # noqa: E731
        with Live(get_renderable=shown, console=console, refresh_per_second=2):
            yield progress.saw


def outcome(record: Record) -> str:
    """A record in a few words."""
    if does_not_apply(record):
        return f"does not apply: {record['error']['message']}"
    if record["status"] == "failed":
        return f"failed, {record['error']['type']}: {record['error']['message']}"
    return f"RMSE {_mean([record], 'rmse')}, NLL {_mean([record], 'nll')}, {record['seconds']['wall']:.1f} s"


def _walls(records: list[Record]) -> list[float]:
    return [record["seconds"]["wall"] for record in records if record["status"] == "done"]


def _failures(records: list[Record]) -> str:
    failed = sum(record["status"] == "failed" and not does_not_apply(record) for record in records)
    return str(failed) if failed else ("n/a" if any(map(does_not_apply, records)) else "")


def _mean(records: list[Record], name: str) -> str:
    # As JSON tells them: a point predictor's NLL is null, an infinite one a string.
    values = [record["summary"][name] for record in records]
    known = [float(value) for value in values if value is not None]
    return f"{np.mean(known):.3f}" if known and np.isfinite(known).all() else "-"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
