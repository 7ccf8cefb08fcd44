"""The paper's tables with our figures, and those that the paper does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from scoreprior.bench.catalogue import (
    ABLATIONS,
    GROUPS,
    INTERPOLATORS,
    OTHER_ABLATIONS,
    PAPER_ENVIRONMENTS,
    STAND_INS,
    Figure,
    paper_figure,
    to_the_letter,
)
from scoreprior.bench.cell import ORACLE
from scoreprior.bench.report.ranking import bold
from scoreprior.bench.report.results import Entry, Results
from scoreprior.bench.report.table import Row, Table, Value, number, shown

Groups = Mapping[str, Sequence[str]]

ABLATION_GROUPS: Groups = {
    "MARS": ("mars-gp", "mars-ssge", *OTHER_ABLATIONS),
    "MARS to the letter of the paper": to_the_letter(("mars-gp", *ABLATIONS, *OTHER_ABLATIONS)),
}
INTERPOLATOR_GROUPS: Groups = {"MARS to the letter of the paper": to_the_letter(INTERPOLATORS)}
_PER_TASK = (
    "Per task, then averaged, as in the paper. The floor is what a perfectly calibrated predictor would get with so "
    "few points per task: figures near or below it say nothing."
)
_OLDER = "Nothing is bold where an older record does not keep the figure of every task."
_STAND_IN = (
    f"The paper's figures beside {' and '.join(STAND_INS)} are of the original recordings, for which these are "
    "simulated stand-ins: not comparable."
)


def groups_of(results: Results) -> Groups:
    """The groups of the main tables: the usual ones, and whatever else has records."""
    usual = {
        name for groups in (GROUPS, ABLATION_GROUPS, INTERPOLATOR_GROUPS) for each in groups.values() for name in each
    }
    others = sorted({method for _, method in results.entries} - usual)
    return {**GROUPS, "others": tuple(others)} if others else GROUPS


def all_tables(results: Results, paper_protocol: bool = False) -> list[Table]:
    """In the order of the report."""
    main = groups_of(results)
    tables = [
        _by_environment(results, "table1", "Table 1: RMSE", "rmse", main, ""),
        _by_environment(results, "table2", "Table 2: calibration error per task", "calibration_error", main, _PER_TASK),
        _by_environment(
            results,
            "pooled",
            "Calibration error pooled over tasks",
            "pooled_calibration_error",
            main,
            "Over the points of all tasks: the figure that says whether error bars can be trusted. Not in the paper.",
        ),
        _by_environment(
            results,
            "log-score",
            "Log score (rounding interval where targets are on a grid)",
            "log_score",
            main,
            "Negative log probability of the interval that is rounded to the observed value, where values are recorded "
            f"in steps; elsewhere the NLL. Mean over points, then tasks. {_OLDER} Not in the paper.",
        ),
        _by_environment(
            results,
            "crps",
            "Continuous ranked probability score",
            "crps",
            main,
            f"In the target's units. Mean over points, then tasks. {_OLDER} Not in the paper.",
        ),
        _by_environment(
            results, "nll", "Negative log likelihood", "nll", main, "Mean over points, then tasks. Not in the paper."
        ),
        _by_environment(
            results,
            "coverage",
            "Coverage of the 90% interval",
            "pooled_coverage90",
            main,
            "0.9 is right.",
            rank=False,
        ),
    ]
    for table, title, metric, groups in (
        ("table3", "Table 3: ablations, RMSE", "rmse", ABLATION_GROUPS),
        ("table4", "Table 4: ablations, calibration error per task", "calibration_error", ABLATION_GROUPS),
        ("ablation-pooled", "Ablations, pooled calibration error", "pooled_calibration_error", ABLATION_GROUPS),
        ("ablation-nll", "Ablations, negative log likelihood", "nll", ABLATION_GROUPS),
    ):
        tables.append(_by_environment(results, table, title, metric, groups, ""))
    tables.append(_berkeley(results))
    for table, title, metric in (
        ("table9", "Table 9: interpolators, RMSE", "rmse"),
        ("table10", "Table 10: interpolators, calibration error per task", "calibration_error"),
    ):
        tables.append(_by_environment(results, table, title, metric, INTERPOLATOR_GROUPS, ""))
    if paper_protocol:
        tables += [
            _best_on_test(results, "table1", "rmse", "RMSE"),
            _best_on_test(results, "table2", "calibration_error", "calibration error per task"),
        ]
    return tables


def _by_environment(
    results: Results, table: str, title: str, metric: str, groups: Groups, caption: str, *, rank: bool = True
) -> Table:
    methods = [name for group in groups.values() for name in group]
    columns = results.environments
    first = {name: bold(results, name, metric, methods) if rank else set() for name in columns}

    def value(method: str, column: str) -> Value:
        paper = paper_figure(table, method, column) if table.startswith("table") else None
        return _value(results, column, method, metric, method in first[column], paper)

    rows = _rows(groups, columns, value)
    if "calibration_error" in metric:
        floor = metric.replace("error", "floor")
        rows.append(Row("floor: perfect calibration", tuple(_floor(results, name, methods, floor) for name in columns)))
    notes = [caption, _STAND_IN if table.startswith("table") else ""]
    return Table(table, title, " ".join(filter(None, notes)), ("method", *columns), tuple(rows))


def _rows(groups: Groups, columns: Sequence[str], value: Callable[[str, str], Value]) -> list[Row]:
    rows: list[Row] = []
    for group, methods in groups.items():
        rows += [Row(group), *(Row(name, tuple(value(name, column) for column in columns)) for name in methods)]
    return rows


def _value(results: Results, environment: str, method: str, metric: str, is_bold: bool, paper: Figure | None) -> Value:
    entry = results.get(environment, method)
    papers = "" if paper is None else shown(paper)
    if entry is None:
        return Value(results.why_missing(environment, method), paper=papers)
    remark = results.remark(environment, method)
    text = shown(entry.figure(metric)) + (f" ({remark})" if remark else "")
    return Value(text, is_bold, papers, origin(entry))


def origin(entry: Entry) -> str:
    """Configuration, seeds and revisions behind a figure."""
    revisions = sorted({record["made"].get("revision", "unknown") for record in entry.records})
    seeds = ", ".join(map(str, entry.seeds))
    return f"configuration {entry.cells[0].config_hash}, seeds {seeds}, revision {', '.join(revisions)}"


def _floor(results: Results, environment: str, methods: Sequence[str], floor: str) -> Value:
    entries = (results.get(environment, name) for name in methods)
    figures = [entry.figure(floor) for entry in entries if entry is not None]
    return Value(number(figures[0].mean) if figures and figures[0] is not None else "not run")


def _berkeley(results: Results) -> Table:
    columns = {
        "rmse_full": ("berkeley-full", "rmse", "RMSE, all data"),
        "rmse_partial": ("berkeley", "rmse", "RMSE, partial"),
        "calibration_full": ("berkeley-full", "calibration_error", "calibration, all data"),
        "calibration_partial": ("berkeley", "calibration_error", "calibration, partial"),
    }
    groups = {name: members for name, members in groups_of(results).items() if ORACLE not in members}
    methods = [name for group in groups.values() for name in group]
    first = {key: bold(results, where, metric, methods) for key, (where, metric, _) in columns.items()}

    def value(method: str, key: str) -> Value:
        where, metric, _ = columns[key]
        return _value(results, where, method, metric, method in first[key], paper_figure("table6", method, key))

    head = ("method", *(title for _, _, title in columns.values()))
    caption = "All 36 training sensors with all their rows, or 10 of them with 30 rows each. Calibration is per task."
    return Table(
        "table6", "Table 6: Berkeley, all data and partial", caption, head, tuple(_rows(groups, list(columns), value))
    )


def _best_on_test(results: Results, table: str, metric: str, what: str) -> Table:
    """The paper's protocol, labelled as what it is: the configuration is chosen by the test tasks themselves."""
    groups = {name: members for name, members in groups_of(results).items() if ORACLE not in members}
    columns = [f"{name}|{kind}" for name in PAPER_ENVIRONMENTS for kind in ("selected", "best on test")]

    def value(method: str, column: str) -> Value:
        environment, _, kind = column.partition("|")
        if kind == "selected":
            return _value(results, environment, method, metric, False, paper_figure(table, method, environment))
        configs = results.entries.get((environment, method), {})
        found = [(figure, entry) for entry in configs.values() if (figure := entry.figure(metric)) is not None]
        if not found:
            return Value(results.why_missing(environment, method))
        figure, entry = min(found, key=lambda pair: pair[0].mean)
        return Value(f"{shown(figure)} (of {len(found)})", origin=origin(entry))

    caption = (
        "Best on test: the best of all configurations that were run on the test tasks, chosen by these same tasks (in "
        "brackets, of how many). That is too good to be true, and what a comparison without validation tasks reports."
    )
    head = ("method", *(column.replace("|", ": ") for column in columns))
    return Table(
        f"{table}-paper-protocol", f"The paper's protocol: {what}", caption, head, tuple(_rows(groups, columns, value))
    )
