"""What stands behind the figures: what they cost, where they are from, what failed."""

from __future__ import annotations

from collections.abc import Mapping

from scoreprior.bench.report.results import Results
from scoreprior.bench.report.table import Row, Table, Value
from scoreprior.bench.report.tables import ABLATION_GROUPS, INTERPOLATOR_GROUPS, groups_of


def _methods(results: Results) -> tuple[str, ...]:
    """Every method of the tables, once."""
    all_groups = (groups_of(results), ABLATION_GROUPS, INTERPOLATOR_GROUPS)
    return tuple(dict.fromkeys(name for groups in all_groups for group in groups.values() for name in group))


def cost_table(results: Results) -> Table:
    """Seconds per cell, medians over seeds."""

    def value(method: str, environment: str) -> Value:
        entry = results.get(environment, method)
        if entry is None:
            return Value(results.why_missing(environment, method))
        seconds = (entry.seconds(kind) for kind in ("fit", "condition", "cpu"))
        return Value(" / ".join(f"{each:.1f}" if each is not None else "-" for each in seconds))

    rows = [Row(name, tuple(value(name, each) for each in results.environments)) for name in _methods(results)]
    run = [row for row in rows if any(each.text not in ("not run", "n/a") for each in row.values)]
    caption = (
        "Seconds to fit / to condition on and predict all test tasks / of processor time in all; medians over seeds."
    )
    return Table("cost", "Cost", caption, ("method", *results.environments), tuple(run))


def tuning_table(results: Results) -> Table:
    """What was tuned, with how many trials of which length, in how many seconds."""

    def value(method: str, environment: str) -> Value:
        selection = results.selection(environment, method)
        if selection is None:
            return Value("-")
        share = selection.protocol.get("iterations", 1)
        won = "" if selection.settings else "; defaults"
        return Value(f"{len(selection.trials)} x {share:g}, {selection.seconds:.0f} s{won}")

    rows = [Row(name, tuple(value(name, each) for each in results.environments)) for name in _methods(results)]
    tuned = [row for row in rows if any(each.text != "-" for each in row.values)]
    caption = (
        "Trials x share of the iterations that each had, and seconds of all of them and of the run-off with all "
        "iterations; on meta-validation tasks. The first trial is the defaults; where they won, that is said. What is "
        "not here has its defaults in all tables."
    )
    return Table("tuning", "Tuning", caption, ("method", *results.environments), tuple(tuned))


def provenance_table(results: Results) -> Table:
    """Where every number is from: a line per entry that is reported."""
    rows = []
    for (environment, method), _ in sorted(results.entries.items()):
        entry = results.get(environment, method)
        if entry is None:
            continue
        made = [record["made"] for record in entry.records]
        dates = sorted(each["date"] for each in made)
        settings = entry.cells[0].settings
        rows.append(
            Row(
                f"{environment}, {method}",
                (
                    Value(entry.cells[0].config_hash),
                    Value("defaults" if settings == "{}" else settings),
                    Value(", ".join(map(str, entry.seeds))),
                    Value(", ".join(sorted({each["revision"] for each in made}))),
                    Value(dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"),
                    Value(", ".join(sorted({each["machine"] for each in made}))),
                    Value("; ".join(sorted({_versions(each["versions"]) for each in made}))),
                ),
            )
        )
    head = ("entry", "configuration", "settings", "seeds", "revision", "date", "machine", "versions")
    caption = "The records are beside this report, one JSON line per cell: in records/ or in published/*.zip."
    return Table("provenance", "Provenance of every number", caption, head, tuple(rows))


def failure_table(results: Results) -> Table:
    """Cells that failed, and how; those of methods that do not apply to an environment included."""
    rows = [
        Row(str(cell), (Value(record["error"]["type"]), Value(record["error"]["message"])))
        for _, failed in sorted(results.errors.items())
        for cell, record in failed
    ]
    caption = "A TaskError says that the method does not apply to such tasks (n/a in the tables)."
    return Table("failures", "Cells that failed", caption, ("cell", "error", "message"), tuple(rows))


def _versions(versions: Mapping[str, str]) -> str:
    return " ".join(f"{name} {versions[name]}" for name in sorted(versions))
