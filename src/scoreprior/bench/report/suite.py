"""On how many environments and data splits a method is first, not significantly worse than the first, or worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from scoreprior.bench.catalogue import GROUPS
from scoreprior.bench.cell import ORACLE, Budget, Part
from scoreprior.bench.report.ranking import bold, competitors, known_metric
from scoreprior.bench.report.results import Results
from scoreprior.bench.report.significance import NAME
from scoreprior.bench.report.table import Row, Table, Value, shown

METRICS = {"rmse": "RMSE", "log_score": "log score", "pooled_calibration_error": "pooled calibration"}
Standing = Literal["first", "not worse", "worse"]
_STANDINGS: tuple[Standing, ...] = ("first", "not worse", "worse")
_LEVEL = 1e-4  # relative: two ways to one prediction differ by round-off, and share the first place


class Pair(NamedTuple):
    """An environment and a split of its data, with the results there."""

    environment: str
    results: Results

    def __str__(self) -> str:
        return f"{self.environment}, split {self.results.split}"


def pairs_of(
    out: Path,
    environments: Sequence[str],
    *,
    splits: Sequence[int] | None = None,
    budget: Budget = "full",
    part: Part = "test",
) -> list[Pair]:
    """The pairs that have records; by default of all splits."""
    canonical = Results.load(out, budget, 0, part)
    wanted = [0, *canonical.other_splits] if splits is None else splits
    loaded = [canonical if split == 0 else canonical.of_split(split) for split in wanted]
    seen = {(results.split, environment) for results in loaded for environment, _ in results.entries}
    return [Pair(name, each) for name in environments for each in loaded if (each.split, name) in seen]


def methods_of(pairs: Sequence[Pair]) -> list[str]:
    """Methods that have records there, in the order of the tables; one who knows the truth does not compete."""
    seen = {method for pair in pairs for name, method in pair.results.entries if name == pair.environment}
    usual = [name for group in GROUPS.values() for name in group]
    return [name for name in (*usual, *sorted(seen - set(usual))) if name in seen and name != ORACLE]


def standings(pair: Pair, metric: str, methods: Sequence[str]) -> dict[str, Standing]:
    """How every method stands that can be compared there."""
    found = competitors(pair.results, pair.environment, metric, methods)
    means = {name: entry.figure(metric).mean for name, entry in found.items()}  # type: ignore[union-attr]
    best = min(means.values(), default=0.0)
    level = bold(pair.results, pair.environment, metric, methods)
    return {
        name: "first" if mean - best <= _LEVEL * abs(best) else "not worse" if name in level else "worse"
        for name, mean in means.items()
    }


def suite_tables(pairs: Sequence[Pair], methods: Sequence[str]) -> list[Table]:
    """The counts, and for every metric the figures that they count."""
    return [_count_table(pairs, methods), *(_figure_table(pairs, methods, metric) for metric in METRICS)]


def count_standings(pairs: Sequence[Pair], methods: Sequence[str], metric: str) -> dict[str, Counter[Standing]]:
    """For every method on how many pairs it stands how."""
    counts: dict[str, Counter[Standing]] = {method: Counter() for method in methods}
    for pair in pairs:
        for method, standing in standings(pair, _known(pair, metric, methods), methods).items():
            counts[method][standing] += 1
    return counts


def _count_table(pairs: Sequence[Pair], methods: Sequence[str]) -> Table:
    counts = {metric: count_standings(pairs, methods, metric) for metric in METRICS}

    def cell(method: str, metric: str) -> Value:
        found = counts[metric][method]
        return Value(" / ".join(str(found[each]) for each in _STANDINGS) if found else "-")

    rows = []
    for method in methods:
        compared = max(sum(counts[metric][method].values()) for metric in METRICS)
        rows.append(Row(method, (*(cell(method, metric) for metric in METRICS), Value(f"{compared} of {len(pairs)}"))))
    caption = (
        "On how many pairs of environment and data split a method is first / not significantly worse than the first / "
        f"significantly worse ({NAME}). Level with the first is first. Splits of one environment share tasks, so their "
        "outcomes are not independent. Compared: where the method has as many seeds as the others and none failed."
    )
    return Table("suite", "First, not worse, worse", caption, ("method", *METRICS.values(), "compared"), tuple(rows))


def _figure_table(pairs: Sequence[Pair], methods: Sequence[str], metric: str) -> Table:
    rows = []
    for pair in pairs:
        known = _known(pair, metric, methods)
        level = bold(pair.results, pair.environment, known, methods)
        label = str(pair) if known == metric else f"{pair} (NLL)"
        rows.append(Row(label, tuple(_value(pair, method, known, method in level) for method in methods)))
    caption = "Mean ± standard deviation over seeds. Bold: best, or not significantly worse."
    return Table(f"suite-{metric}", METRICS[metric], caption, ("environment, split", *methods), tuple(rows))


def _value(pair: Pair, method: str, metric: str, is_bold: bool) -> Value:
    entry = pair.results.get(pair.environment, method)
    if entry is None:
        return Value(pair.results.why_missing(pair.environment, method))
    remark = pair.results.remark(pair.environment, method)
    return Value(shown(entry.figure(metric)) + (f" ({remark})" if remark else ""), is_bold)


def _known(pair: Pair, metric: str, methods: Sequence[str]) -> str:
    entries = (pair.results.get(pair.environment, method) for method in methods)
    return known_metric(metric, [entry for entry in entries if entry is not None])
