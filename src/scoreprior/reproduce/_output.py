"""What an experiment returns, how it is written, each file whole or not at all, and how it is found again."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from scoreprior._extras import extra
from scoreprior._files import replace_file

with extra("cli"):
    from rich.box import SIMPLE
    from rich.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Budget = Literal["quick", "full"]
_FIGURES = ("png", "svg")


@dataclass(frozen=True)
class Settings:
    """How an experiment is run: with the networks' seeds `seed`, `seed` + 1, ..."""

    seeds: int
    budget: Budget
    progress: bool
    out: Path
    seed: int = 0
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, not {self.seeds}.")
        if self.budget not in get_args(Budget):
            raise ValueError(f"budget is one of {', '.join(get_args(Budget))}, not {self.budget!r}.")

    @property
    def network_seeds(self) -> range:
        """Of the initialisations that are averaged over."""
        return range(self.seed, self.seed + self.seeds)

    def scaled(self, number: int, quick: int) -> int:
        """The number itself, or the other under the quick budget."""
        return number if self.budget == "full" else quick


@dataclass(frozen=True)
class Report:
    """The numbers behind a figure or table (JSON), tables for people, what they say, and the figure."""

    numbers: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    figure: Figure | None = None
    files: list[Path] = field(default_factory=list)


def save(report: Report, name: str, settings: Settings) -> list[Path]:
    """Write `name`.json and, with a figure, `name`.png and `name`.svg; the paths."""
    settings.out.mkdir(parents=True, exist_ok=True)
    record = {
        "experiment": name,
        "command": _command(name, settings),
        "seconds": round(time.perf_counter() - settings.started, 1),
        "findings": report.findings,
        **report.numbers,
    }
    contents = {"json": (json.dumps(_plain(record), indent=1) + "\n").encode()}
    if report.figure is not None:
        contents |= {kind: _drawn(report.figure, kind) for kind in _FIGURES}
    paths = {kind: settings.out / f"{name}.{kind}" for kind in contents}
    # The record goes first and comes last: where there is one, the figures beside it are of the same run.
    paths["json"].unlink(missing_ok=True)
    for kind in reversed(contents):
        replace_file(paths[kind], contents[kind])
    return list(paths.values())


def kept(name: str, settings: Settings) -> Report | None:
    """What an earlier run with the same settings left: its record, findings and files. None unless all is there."""
    paths = [settings.out / f"{name}.{kind}" for kind in ("json", *_FIGURES)]
    record = read_record(paths[0])
    if record.get("command") != _command(name, settings) or not all(path.is_file() for path in paths):
        return None
    return Report(record, findings=record["findings"], files=paths)


def read_record(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is no file, or none that can be read as one."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table with the first column to the left and the others to the right."""
    made = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def _command(name: str, settings: Settings) -> str:
    """What gives these files; it names all that decides what is in them."""
    return f"scoreprior reproduce {name} --seeds {settings.seeds} --budget {settings.budget} --seed {settings.seed}"


def _drawn(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    # No date: the same numbers give the same file.
    metadata = {"Date": None} if kind == "svg" else {}
    figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """JSON, with numbers rounded to five significant digits: more are noise and bulk."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(np.asarray(value).tolist())
    return float(f"{value:.5g}") if isinstance(value, float) else value
