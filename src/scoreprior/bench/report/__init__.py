"""The report: Markdown, LaTeX and one HTML page, made of nothing but the records; twice the same, byte for byte."""

from __future__ import annotations

from pathlib import Path

from scoreprior._files import replace_file
from scoreprior.bench.catalogue import published
from scoreprior.bench.cell import Budget
from scoreprior.bench.report.bookkeeping import cost_table, failure_table, provenance_table, tuning_table
from scoreprior.bench.report.figures import figures
from scoreprior.bench.report.findings import findings
from scoreprior.bench.report.latex import latex
from scoreprior.bench.report.markdown import markdown, markdown_table, wrapped
from scoreprior.bench.report.page import page
from scoreprior.bench.report.results import Results
from scoreprior.bench.report.significance import NAME
from scoreprior.bench.report.splits import split_table
from scoreprior.bench.report.tables import all_tables

_TITLE = "Scoreprior: benchmark"
_OPEN, _CLOSE = "<!-- tables -->", "<!-- /tables -->"


def write_report(
    out: Path,
    *,
    budget: Budget = "full",
    split: int = 0,
    paper_protocol: bool = False,
    into: Path | None = None,
) -> tuple[list[Path], list[str]]:
    """Write report.md, report.tex and report.html into `out`; the paths, and the findings.

    Args:
        paper_protocol: also report the best configurations on test, in columns of their own.
        into: a Markdown page that gets findings and tables between its <!-- tables --> markers.
    """
    results = Results.load(out, budget, split)
    found = findings(results)
    paragraphs = [*found, *_reading(results)]
    by_split = split_table(results)
    tables = [*all_tables(results, paper_protocol), *([by_split] if by_split else []), cost_table(results)]
    tables.append(tuning_table(results))
    folded = [failure_table(results), provenance_table(results)]
    contents = {
        "report.md": markdown(_TITLE, paragraphs, [*tables, *folded]),
        "report.tex": latex(paragraphs, tables),
        "report.html": page(_TITLE, paragraphs, tables, figures(results), folded),
    }
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / name for name in contents]
    for path, text in zip(paths, contents.values()):
        replace_file(path, text.encode())
    if into is not None:
        replace_file(into, _filled(into, paragraphs, [markdown_table(table) for table in tables]).encode())
        paths.append(into)
    return paths, found


def _reading(results: Results) -> list[str]:
    cells = sum(len(entry.records) for configs in results.entries.values() for entry in configs.values())
    failed = sum(map(len, results.errors.values()))
    cut = "" if results.budget == "full" else " Quick budget: a twentieth of the iterations, only to see that all runs."
    return [
        "Mean over test tasks, then mean ± standard deviation over seeds; the paper's figure below ours where it has "
        f"one. Bold: best, or not significantly worse than the best ({NAME}; for the pooled calibration error on its "
        f"jackknife pseudo-values). Figures have {results.usual_seeds} seeds where nothing else is said; those of one "
        "seed, or with failed ones, do not compete where others have more. Configurations were selected on "
        "meta-validation tasks where the table of tuning says so, and are the defaults elsewhere; the paper names no "
        "validation tasks. The oracle knows the truth and does not compete.",
        f"Data split {results.split}; {cells} cells done, {failed} failed.{cut} Published figures: "
        f"{published()['source']}",
    ]


def _filled(page: Path, paragraphs: list[str], tables: list[str]) -> str:
    text = page.read_text(encoding="utf-8")
    if text.count(_OPEN) != 1 or text.count(_CLOSE) != 1:
        raise ValueError(f"{page} needs the lines {_OPEN} and {_CLOSE}, once each, for the tables to go between.")
    before, rest = text.split(_OPEN)
    after = rest.split(_CLOSE)[1]
    return "\n\n".join([before + _OPEN, *map(wrapped, paragraphs), *tables, _CLOSE + after])
