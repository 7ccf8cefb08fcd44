"""Tables as LaTeX (booktabs), to be \\input."""

from __future__ import annotations

from collections.abc import Sequence

from scoreprior.bench.report.table import Row, Table, Value

_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def latex(paragraphs: Sequence[str], tables: Sequence[Table]) -> str:
    """Paragraphs as comments, then every table with a label."""
    comments = [f"% {paragraph}" for paragraph in ("Needs \\usepackage{booktabs}.", *paragraphs)]
    return "\n".join([*comments, *(_table(table) for table in tables)]) + "\n"


def _table(table: Table) -> str:
    columns = len(table.head)
    lines = [
        r"\begin{table}",
        r"\centering\scriptsize",
        rf"\caption{{{escaped(table.title)}. {escaped(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}",
        r"\toprule",
        " & ".join(map(escaped, table.head)) + r" \\",
        *(_line(row, columns) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _line(row: Row, columns: int) -> str:
    if not row.values:
        return rf"\midrule \multicolumn{{{columns}}}{{l}}{{\emph{{{escaped(row.label)}}}}} \\"
    return " & ".join([escaped(row.label), *map(_cell, row.values)]) + r" \\"


def _cell(value: Value) -> str:
    ours = rf"\textbf{{{escaped(value.text)}}}" if value.bold else escaped(value.text)
    return rf"\shortstack[r]{{{ours} \\ (paper {escaped(value.paper)})}}" if value.paper else ours


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(character, character) for character in text)
