"""Learning curves: a metric over the number of meta-training tasks, from records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scoreprior.bench.cell import ORACLE, Cell
from scoreprior.bench.report.ranking import known_metric
from scoreprior.bench.report.results import Entry
from scoreprior.bench.report.significance import not_worse, paired_difference, standard_error
from scoreprior.bench.report.table import Row, Table, Value, number
from scoreprior.bench.runner import Record
from scoreprior.environments import environment

METRICS = {
    "rmse": "RMSE",
    "log_score": "log score",
    "nll": "NLL",
    "crps": "CRPS",
    "pooled_calibration_error": "pooled calibration error",
}
"""What a curve can show; the lower, the better."""


class Place(NamedTuple):
    """A point of a curve: a method on an environment with so many tasks to learn from."""

    environment: str
    method: str
    tasks: int


@dataclass(frozen=True)
class Curves:
    """Entries by place, over their seeds, and those of the oracles by environment."""

    entries: dict[Place, Entry]
    oracles: dict[str, Entry]

    @classmethod
    def of(cls, pairs: Iterable[tuple[Cell, Record]]) -> Curves:
        """The curves of cells with records, one configuration of each method; what failed is left out."""
        found: dict[Place, list[tuple[Cell, Record]]] = defaultdict(list)
        oracles = {}
        for cell, record in sorted(pairs, key=lambda pair: pair[0].seed):
            if record["status"] != "done":
                continue
            if cell.method == ORACLE:
                oracles[cell.environment] = Entry([cell], [record])
            else:
                tasks = cell.tasks or _usual_tasks(cell.environment, cell.split)
                found[Place(cell.environment, cell.method, tasks)].append((cell, record))
        return cls({place: Entry(*map(list, zip(*each))) for place, each in found.items()}, oracles)

    @property
    def environments(self) -> list[str]:
        """In the order of the records."""
        return list(dict.fromkeys(place.environment for place in self.entries))

    @property
    def methods(self) -> list[str]:
        """In the order of the records."""
        return list(dict.fromkeys(place.method for place in self.entries))

    def tasks(self, environment: str | None = None) -> list[int]:
        """Numbers of tasks that have records, on an environment or on any."""
        return sorted({each.tasks for each in self.entries if environment in (None, each.environment)})

    def known(self, environment: str, metric: str) -> str:
        """The metric that all distributions there have: the NLL where some records are older than the log score."""
        here = [entry for place, entry in self.entries.items() if place.environment == environment]
        here += [self.oracles[environment]] if environment in self.oracles else []
        return known_metric(metric, here)

    def values(self, entry: Entry | None, metric: str) -> np.ndarray | None:
        """The metric of every seed and task, (s, n); None where records do not have it."""
        if entry is None:
            return None
        kept = "pit" if "calibration" in metric else metric
        if any(record["tasks"].get(kept) is None for record in entry.records):
            return None
        return entry.values(metric)


@lru_cache(maxsize=64)
def _usual_tasks(name: str, split: int) -> int:
    return len(environment(name, split=split).meta_train)


def curve_tables(curves: Curves, metrics: Sequence[str], seeds: int) -> list[Table]:
    """For every metric its values, and the differences to the first method."""
    tables = []
    for metric in metrics:
        tables.append(_value_table(curves, metric, seeds))
        if len(curves.methods) > 1:
            tables.append(_difference_table(curves, metric))
    return tables


def _value_table(curves: Curves, metric: str, seeds: int) -> Table:
    numbers = curves.tasks()
    rows: list[Row] = []
    for name in curves.environments:
        known = curves.known(name, metric)
        rows.append(_heading(name, metric, known))
        first = {each: _first(curves, name, each, known) for each in numbers}
        for method in curves.methods:
            shown = [_told(curves, Place(name, method, each), known, method in first[each], seeds) for each in numbers]
            rows.append(Row(method, (*shown, _trend(curves, name, method, known))))
        truth = curves.values(curves.oracles.get(name), known)
        if truth is not None:
            shown = [
                Value(number(float(truth.mean()))) if each in curves.tasks(name) else Value("-") for each in numbers
            ]
            rows.append(Row(ORACLE, (*shown, Value("-"))))
    caption = (
        f"Mean over tasks and {seeds} seeds ± standard error over both, by the number of tasks to learn from. Bold: "
        "best of the column, or not significantly worse. Last column: with most tasks minus with fewest, on the same "
        "test tasks."
    )
    head = ("method", *map(str, numbers), "most - fewest")
    return Table(metric, METRICS[metric], caption, head, tuple(rows))


def _difference_table(curves: Curves, metric: str) -> Table:
    numbers = curves.tasks()
    reference, *others = curves.methods
    rows: list[Row] = []
    for name in curves.environments:
        known = curves.known(name, metric)
        rows.append(_heading(name, metric, known))
        for method in others:
            pairs = [
                [curves.values(curves.entries.get(Place(name, each, n)), known) for each in (method, reference)]
                for n in numbers
            ]
            rows.append(Row(method, tuple(_difference(*pair) for pair in pairs)))
    caption = "Differences on the same test tasks ± standard error; below zero is better."
    title = f"{METRICS[metric]} minus that of {reference}"
    return Table(f"{metric}-difference", title, caption, ("method", *map(str, numbers)), tuple(rows))


def _heading(name: str, metric: str, known: str) -> Row:
    return Row(name if known == metric else f"{name} ({METRICS[known]})")


def _first(curves: Curves, name: str, tasks: int, metric: str) -> set[str]:
    found = {each: curves.values(curves.entries.get(Place(name, each, tasks)), metric) for each in curves.methods}
    values = {method: each for method, each in found.items() if each is not None}
    return not_worse({method: float(each.mean()) for method, each in values.items()}, values)


def _told(curves: Curves, place: Place, metric: str, is_bold: bool, seeds: int) -> Value:
    entry = curves.entries.get(place)
    values = curves.values(entry, metric)
    if entry is None or values is None:
        return Value("-")
    fewer = f" ({len(entry.seeds)} of {seeds} seeds)" if len(entry.seeds) < seeds else ""
    return Value(f"{_figure(float(values.mean()), standard_error(values))}{fewer}", is_bold)


def _trend(curves: Curves, name: str, method: str, metric: str) -> Value:
    numbers = [each for each in curves.tasks(name) if Place(name, method, each) in curves.entries]
    if len(numbers) < 2:
        return Value("-")
    return _difference(
        *(curves.values(curves.entries[Place(name, method, each)], metric) for each in (numbers[-1], numbers[0]))
    )


def _difference(one: np.ndarray | None, other: np.ndarray | None) -> Value:
    return Value("-") if one is None or other is None else Value(_figure(*paired_difference(one, other)))


def _figure(mean: float, error: float) -> str:
    return f"{number(mean)} ± {number(error, mean)}" if np.isfinite([mean, error]).all() else number(mean)
