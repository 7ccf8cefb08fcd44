"""The report as one HTML page that needs nothing else: style and drawings are inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from scoreprior.bench.report.table import Row, Table, Value

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1240px; padding: 1em 2em; color: #1a1a1a; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin: 1.8em 0 0.3em; }
p { max-width: 60em; } .lead { border-left: 4px solid #0072B2; padding-left: 0.8em; }
nav a { margin-right: 1em; white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12px; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2em 0.55em; text-align: right; vertical-align: top; border-bottom: 1px solid #e4e4e4; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
.words td { text-align: left; overflow-wrap: anywhere; } .words td:first-child { white-space: normal; }
tr.group td { font-style: italic; color: #555; padding-top: 0.8em; }
small { display: block; color: #6a6a6a; font-size: 10.5px; white-space: nowrap; }
td.missing { color: #767676; } figure { margin: 0.5em 0; } svg { max-width: 100%; height: auto; }
"""
_WORDS = ("provenance", "failures")  # tables of text, not of figures


def page(
    title: str,
    paragraphs: Sequence[str],
    tables: Sequence[Table],
    drawings: Mapping[str, str],
    folded: Sequence[Table],
) -> str:
    """Paragraphs, tables, drawings; the folded tables open with a click."""
    lead, *others = paragraphs
    links = [*((table.name, table.title.split(":")[0]) for table in tables), ("figures", "Figures")]
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(lead)}</p>',
        *(f"<p>{escape(each)}</p>" for each in others),
        "<nav>" + "".join(f'<a href="#{name}">{escape(text)}</a> ' for name, text in links) + "</nav>",
        *(_section(table) for table in tables),
        '<h2 id="figures">Calibration and predictions</h2>',
        *(f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>" for name, svg in drawings.items()),
        *(f"<details><summary>{escape(table.title)}</summary>{_section(table)}</details>" for table in folded),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # An empty icon: without one, browsers ask the server for it.
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n'
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _section(table: Table) -> str:
    kind = ' class="words"' if table.name in _WORDS else ""
    head = "".join(f"<th>{escape(each)}</th>" for each in table.head)
    rows = "\n".join(_row(row, len(table.head)) for row in table.rows)
    return (
        f'<h2 id="{table.name}">{escape(table.title)}</h2>\n<p>{escape(table.caption)}</p>\n'
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'
    )


def _row(row: Row, width: int) -> str:
    if not row.values:
        return f'<tr class="group"><td colspan="{width}">{escape(row.label)}</td></tr>'
    return f"<tr><td>{escape(row.label)}</td>" + "".join(map(_cell, row.values)) + "</tr>"


def _cell(value: Value) -> str:
    text = f"<strong>{escape(value.text)}</strong>" if value.bold else escape(value.text)
    paper = f"<small>paper {escape(value.paper)}</small>" if value.paper else ""
    missing = ' class="missing"' if value.text in ("not run", "n/a", "failed") else ""
    origin = f' title="{escape(value.origin, quote=True)}"' if value.origin else ""
    return f"<td{missing}{origin}>{text}{paper}</td>"
