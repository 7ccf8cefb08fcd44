"""A set of cells and their records on disk: what is there is not computed again, what is computed is not lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from scoreprior._files import replace_file
from scoreprior.bench.cell import Cell, canonical, split_suffix
from scoreprior.bench.line_file import LineFile, allow_open_files, in_place, parse_lines, read_lines
from scoreprior.bench.published import archive_path, last_lines, published, read_result
from scoreprior.bench.runner import Record, Runner

VERSION = 1
"""Of the records' layout."""


def records_path(out: Path, environment: str, method: str) -> Path:
    """One file of records per environment and method, so that other methods may be run at the same time."""
    return out / "records" / environment / f"{method}.jsonl"


def points_path(out: Path, cell: Cell) -> Path:
    """Predictions of one seed, to plot."""
    name = f"{cell.environment}--{cell.method}--{cell.config_hash}{split_suffix(cell.split)}.json"
    return out / "points" / name


def read_points(out: Path, cell: Cell) -> dict[str, Any] | None:
    """Observed values, means and intervals to plot, if they were kept."""
    data = read_result(out, cell.environment, points_path(out, cell))
    return None if data is None else json.loads(data)


def read_records(out: Path) -> list[tuple[Cell, Record]]:
    """The last record of every cell, in an order that does not depend on the order in which cells were run."""
    found = [
        (Cell.from_dict(line["cell"] | {"budget": line["budget"]}), line) for line in _last_lines(out, "*").values()
    ]
    return sorted(found, key=lambda pair: canonical(pair[0].to_dict()))


def _last_lines(out: Path, environment: str) -> dict[str, Record]:
    """The last line of every key, of one environment or of all ("*"): working files go before what is published."""
    lines = []
    for archive in sorted(out.glob(str(archive_path(Path(), environment)))):
        for name, data in published(out, archive.stem).items():
            if name.startswith("records/"):
                lines += parse_lines(data, archive / name)
    for path in sorted((out / "records").glob(f"{environment}/*.jsonl")):
        lines += read_lines(path)
    return last_lines(lines)


class Campaign:
    """Cells to compute into the directory `out`: `with Campaign(out, cells) as campaign: ... campaign.run(runner)`.

    `done` are the cells that need no work, with their records; `todo` the others, whose files it holds for itself. A
    cell that failed before is done, unless `retry_failed`.
    """

    def __init__(self, out: Path, cells: Iterable[Cell], *, retry_failed: bool = False):
        self._out = out
        wanted = {cell.key: cell for cell in cells}  # asked for twice is asked for once
        found: dict[str, Record] = {}
        for environment in {cell.environment for cell in wanted.values()}:
            found |= _last_lines(out, environment)

        def is_done(key: str) -> bool:
            return key in found and not (retry_failed and found[key]["status"] == "failed")

        # What is done stays done, and needs no lock. What is not may be at work elsewhere: its file, once held, says.
        pairs = sorted({_pair(cell) for key, cell in wanted.items() if not is_done(key)})
        allow_open_files(len(pairs))
        with ExitStack() as stack:  # all files or none
            if pairs:
                stack.enter_context(in_place(out))
            self._files = {pair: stack.enter_context(LineFile(records_path(out, *pair))) for pair in pairs}
            self._open = stack.pop_all()
        for environment in {environment for environment, _ in pairs}:
            found |= _last_lines(out, environment)
        self.done = [(cell, found[key]) for key, cell in wanted.items() if is_done(key)]
        self.todo = [cell for key, cell in wanted.items() if not is_done(key)]

    def run(self, runner: Runner) -> Iterator[tuple[Cell, Record]]:
        """Compute what is to do; every record is on disk when it comes out here."""
        for cell, record in runner.map(self.todo):
            # Plain data first: a plot without its record is overwritten next time, a record stays as it is.
            points = record.pop("points", None)
            if points is not None:
                path = points_path(self._out, cell)
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, (canonical(points) + "\n").encode())
            made = {"date": datetime.now(UTC).isoformat(timespec="seconds")} | record.pop("made", {})
            identity = {"version": VERSION, "key": cell.key, "cell": cell.to_dict(), "budget": cell.budget}
            line = identity | record | {"made": made}
            self._files[_pair(cell)].append(line)
            yield cell, line

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()


def _pair(cell: Cell) -> tuple[str, str]:
    return cell.environment, cell.method
