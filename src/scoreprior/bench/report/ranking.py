"""Who competes in a column of figures, who is first there, and who is not significantly worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scoreprior.bench.cell import ORACLE
from scoreprior.bench.report.results import Entry, Results
from scoreprior.bench.report.significance import not_worse


def known_metric(metric: str, entries: Iterable[Entry]) -> str:
    """The metric itself, or the NLL in place of the log score where a record is older than that."""
    records = [record for entry in entries for record in entry.records if record["summary"]["nll"] is not None]
    is_older = metric == "log_score" and not all(metric in record["tasks"] for record in records)
    return "nll" if is_older else metric


def competitors(results: Results, environment: str, metric: str, methods: Sequence[str]) -> dict[str, Entry]:
    """The entries of these methods that have the figure and can be compared.

    One who knows the truth does not compete. A method some of whose seeds failed has only its lucky ones left; and of
    the luck of a single seed nothing is known, unless all have only one.
    """
    entries = {name: entry for name in methods if (entry := results.get(environment, name)) is not None}
    whole = {
        name: entry
        for name, entry in entries.items()
        if name != ORACLE and entry.figure(metric) is not None and not results.failed_seeds(environment, name)
    }
    several = {name: entry for name, entry in whole.items() if len(entry.seeds) > 1}
    return several or whole


def bold(results: Results, environment: str, metric: str, methods: Sequence[str]) -> set[str]:
    """Methods that share the first place; none where a competitor's records keep nothing to test."""
    entries = competitors(results, environment, metric, methods)
    if not all(entry.has_values(metric) for entry in entries.values()):
        return set()
    means = {name: entry.figure(metric).mean for name, entry in entries.items()}  # type: ignore[union-attr]
    return not_worse(means, {name: entry.values(metric) for name, entry in entries.items()})


def best_of(entries: Mapping[str, Entry], metric: str, methods: Sequence[str]) -> tuple[float, str] | None:
    """Mean and name of the best of these methods among competitors."""
    means = ((entries[name].figure(metric).mean, name) for name in methods if name in entries)  # type: ignore[union-attr]
    return min(means, default=None)
