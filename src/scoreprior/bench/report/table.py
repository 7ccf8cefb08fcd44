"""A table before it is Markdown, LaTeX or HTML."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scoreprior.bench.catalogue import Figure


@dataclass(frozen=True)
class Value:
    """What stands in a table's cell.

    Args:
        text: the figure, or why there is none.
        bold: best, or not significantly worse.
        paper: the paper's figure beside it.
        origin: where the number is from, for whoever points at it.
    """

    text: str
    bold: bool = False
    paper: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Row:
    """A labelled line; one without values is the heading of those below it."""

    label: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Table:
    """A titled table; `name` is for links."""

    name: str
    title: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]


def shown(figure: Figure | None) -> str:
    """Mean and standard deviation; three decimals as in the paper, fewer where the numbers are large."""
    if figure is None:
        return "-"
    return f"{number(figure.mean)} ± {number(figure.std, figure.mean)}" if figure.std else number(figure.mean)


def number(value: float | None, like: float | None = None) -> str:
    """A number with decimals fit for its size, or for that of another number in the same cell."""
    if value is None:
        return "-"
    size = abs(value if like is None else like)
    if not math.isfinite(value) or size >= 1e4:
        return f"{value:.1e}"
    return f"{value:.{3 if size < 10 else 2 if size < 100 else 1}f}"
