"""Tables and paragraphs as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from scoreprior.bench.report.table import Row, Table, Value

_WIDTH = 160


def wrapped(text: str) -> str:
    """A paragraph in lines that a reader of the source can follow."""
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def markdown_table(table: Table, level: int = 3) -> str:
    """Heading, caption, table; the paper's figure is below ours in each cell."""
    width = len(table.head)
    lines = [
        "| " + " | ".join(table.head) + " |",
        "|" + "---|" * width,
        *(_line(row, width) for row in table.rows),
    ]
    parts = [f"{'#' * level} {table.title}", wrapped(table.caption), "\n".join(lines)]
    return "\n\n".join(part for part in parts if part)


def markdown(title: str, paragraphs: Sequence[str], tables: Sequence[Table]) -> str:
    """The whole report."""
    parts = [f"# {title}", *map(wrapped, paragraphs), *(markdown_table(table, 2) for table in tables)]
    return "\n\n".join(parts) + "\n"


def _line(row: Row, width: int) -> str:
    if not row.values:
        return f"| *{_escaped(row.label)}* " + "| " * (width - 1) + "|"
    return "| " + " | ".join([_escaped(row.label), *map(_cell, row.values)]) + " |"


def _cell(value: Value) -> str:
    text = _escaped(value.text)
    ours = f"**{text}**" if value.bold else text
    return f"{ours}<br>paper {value.paper}" if value.paper else ours


def _escaped(text: str) -> str:
    for character in "|<*_`":
        text = text.replace(character, f"\\{character}")
    return text
