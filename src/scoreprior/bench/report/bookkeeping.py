"""What stands behind the figures: what they cost, where they are from, what failed."""

from __future__ import annotations

from collections.abc import Mapping

from scoreprior.bench.catalogue import GROUPS
from scoreprior.bench.report.results import Results
from scoreprior.bench.report.table import Row, Table, Value
from scoreprior.bench.report.tables import ABLATION_GROUPS, INTERPOLATOR_GROUPS


def cost_table(results: Results) -> Table:
    """Seconds per cell, medians over seeds, and what tuning took."""
    groups = (*GROUPS.values(), *ABLATION_GROUPS.values(), *INTERPOLATOR_GROUPS.values())
    methods = [name for group in groups for name in group]

    def value(method: str, environment: str) -> Value:
        entry = results.get(environment, method)
        if entry is None:
            return Value(results.why_missing(environment, method))
        fit, condition, cpu = (entry.seconds(kind) for kind in ("fit", "condition", "cpu"))
        selection = results.selection(environment, method)
        tuned = "" if selection is None else f"tuning: {len(selection.trials)} trials, {selection.seconds:.0f} s"
        return Value(
            " / ".join(f"{each:.1f}" if each is not None else "-" for each in (fit, condition, cpu)), origin=tuned
        )

    rows = []
    for name in dict.fromkeys(methods):
        values = tuple(value(name, environment) for environment in results.environments)
        tuned = [results.selection(environment, name) for environment in results.environments]
        trials = sum(len(each.trials) for each in tuned if each is not None)
        spent = sum(each.seconds for each in tuned if each is not None)
        total = Value(f"{trials} trials, {spent:.0f} s" if trials else "untuned")
        if any(each.text not in ("not run", "n/a") for each in values):
            rows.append(Row(name, (*values, total)))
    caption = (
        "Seconds to fit / to condition on and predict all test tasks / of processor time in all; medians over seeds."
    )
    return Table("cost", "Cost", caption, ("method", *results.environments, "tuning, all environments"), tuple(rows))


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
    caption = "The records themselves are beside this report: one JSON line per cell, in records/."
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
