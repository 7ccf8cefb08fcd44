"""The records as tables want them: one entry per environment, method and configuration, over its seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from scoreprior.bench import counts
from scoreprior.bench.budget import QUICK, reduced
from scoreprior.bench.campaign import read_points, read_records
from scoreprior.bench.catalogue import CONTINUOUS, ENVIRONMENTS, TRUTH_KNOWN, Figure
from scoreprior.bench.cell import ORACLE, Budget, Cell, Part
from scoreprior.bench.runner import Record, does_not_apply
from scoreprior.bench.selected import Selection, load_selection, selected_overrides
from scoreprior.environments import environments


@dataclass(frozen=True)
class Entry:
    """The records of one configuration of a method on an environment, one per seed."""

    cells: list[Cell]
    records: list[Record]

    def only(self, seeds: Collection[int]) -> Entry:
        """The records of these seeds."""
        kept = [(cell, record) for cell, record in zip(self.cells, self.records) if cell.seed in seeds]
        return Entry(*map(list, zip(*kept)))

    def figure(self, metric: str) -> Figure | None:
        """Mean and standard deviation over seeds of a metric's mean over tasks; None where a record has none."""
        values = [record["summary"].get(self._named(metric, record)) for record in self.records]
        if any(value is None for value in values):
            return None
        return mean_and_spread([float(value) for value in values])  # "inf" is a string in JSON

    def values(self, metric: str) -> Float[np.ndarray, "s n"]:
        """The metric of every task with every seed: what a test compares.

        The pooled calibration error is no mean over tasks; its jackknife pseudo-values n C - (n - 1) C_(-i) stand in.
        """
        if metric == "calibration_error":
            return np.array([counts.calibration_error(each) for each in self.counts])
        if metric == "pooled_calibration_error":
            return np.array([_pseudo_values(each) for each in self.counts])
        tasks = [record["tasks"][self._named(metric, record)] for record in self.records]
        return np.array([[float(value) for value in values] for values in tasks])

    def has_values(self, metric: str) -> bool:
        """Whether there is something to test: older records keep neither CRPS nor log score of every task."""
        names = [self._named(metric, record) for record in self.records]
        return "calibration" in metric or all(name in each["tasks"] for name, each in zip(names, self.records))

    def _named(self, metric: str, record: Record) -> str:
        is_older = metric == "log_score" and metric not in record["summary"]
        return "nll" if is_older and self.cells[0].environment in CONTINUOUS else metric

    @cached_property
    def counts(self) -> list[Int[np.ndarray, "n gaps"]]:
        """PIT counts of every task, per seed; empty for a point predictor."""
        return [counts.decode(record["tasks"]["pit"]) for record in self.records if record["tasks"]["pit"] is not None]

    @property
    def seeds(self) -> list[int]:
        """Sorted."""
        return [cell.seed for cell in self.cells]

    def seconds(self, kind: str) -> float | None:
        """The median over seeds; the first has compilation in it."""
        values = [record["seconds"][kind] for record in self.records if record["seconds"][kind] is not None]
        return float(np.median(values)) if values else None


@dataclass
class Results:
    """All records of a directory, of one budget and data split, of one part of the unseen tasks.

    Only those that learned from the environment's default number of tasks: others are in no table.
    """

    out: Path
    budget: Budget = "full"
    split: int = 0
    part: Part = "test"
    entries: dict[tuple[str, str], dict[str, Entry]] = field(default_factory=dict)
    errors: dict[tuple[str, str], list[tuple[Cell, Record]]] = field(default_factory=dict)
    _selections: dict[tuple[str, str], Selection | None] = field(default_factory=dict)
    _chosen: dict[tuple[str, str], Entry | None] = field(default_factory=dict)

    @classmethod
    def load(cls, out: Path, budget: Budget = "full", split: int = 0, part: Part = "test") -> Results:
        """Read the records; those of another part, of other budgets and of other splits are left out."""
        found: dict[tuple[str, str], dict[str, list[tuple[Cell, Record]]]] = defaultdict(lambda: defaultdict(list))
        errors = defaultdict(list)
        for cell, record in _of_budget(out, budget, part):
            if cell.split != split:
                continue
            where = (cell.environment, cell.method)
            if record["status"] == "done":
                found[where][cell.config_hash].append((cell, record))
            else:
                errors[where].append((cell, record))
        entries = {
            where: {config: Entry(*map(list, zip(*sorted(pairs, key=_by_seed)))) for config, pairs in configs.items()}
            for where, configs in found.items()
        }
        return cls(out, budget, split, part, entries, dict(errors))

    @cached_property
    def environments(self) -> list[str]:
        """Columns: the usual ones, and whatever else has records."""
        seen = {environment for environment, _ in (*self.entries, *self.errors)}
        return [*ENVIRONMENTS, *(name for name in environments() if name in seen and name not in ENVIRONMENTS)]

    @cached_property
    def other_splits(self) -> list[int]:
        """Data splits that have such records, but for the reported one."""
        return sorted({cell.split for cell, _ in _of_budget(self.out, self.budget, self.part)} - {self.split})

    def of_split(self, split: int) -> Results:
        """The same of another data split."""
        return Results.load(self.out, self.budget, split, self.part)

    def selection(self, environment: str, method: str) -> Selection | None:
        """What tuning chose."""
        where = (environment, method)
        if where not in self._selections:
            self._selections[where] = load_selection(self.out, environment, method, self.split)
        return self._selections[where]

    def get(self, environment: str, method: str) -> Entry | None:
        """The entry to report: the selected configuration if it was run, else the defaults, never another one."""
        if (environment, method) not in self._chosen:
            self._chosen[environment, method] = self._choose(environment, method)
        return self._chosen[environment, method]

    def _choose(self, environment: str, method: str) -> Entry | None:
        configs = self.entries.get((environment, method), {})
        if not configs:
            return None
        selected = selected_overrides(self.out, environment, method, self.split)
        for overrides in [{}] if selected is None else [selected, {}]:
            config = self._config(environment, method, overrides)
            if config in configs:
                return configs[config]
        return None

    def log_metric(self, environment: str, methods: Sequence[str]) -> Literal["log_score", "nll"]:
        """What ranks these methods' distributions: the log score, or the NLL where one's records have nothing else."""
        entries = [self.get(environment, method) for method in methods]
        lacking = (
            e for e in entries if e is not None and e.figure("nll") is not None and e.figure("log_score") is None
        )
        return "log_score" if next(lacking, None) is None else "nll"

    @cached_property
    def usual_seeds(self) -> int:
        """How many seeds the figures have that say nothing else of it."""
        return max((len(entry.seeds) for configs in self.entries.values() for entry in configs.values()), default=0)

    def failed_seeds(self, environment: str, method: str) -> list[int]:
        """Seeds of the reported configuration that have no figure, since their cells failed."""
        entry = self.get(environment, method)
        if entry is None:
            return []
        errors = self.errors.get((environment, method), [])
        return sorted(cell.seed for cell, _ in errors if cell.settings == entry.cells[0].settings)

    def remark(self, environment: str, method: str) -> str:
        """What sets a figure apart from others: fewer seeds, failures, or settings that are not the selected ones."""
        entry = self.get(environment, method)
        if entry is None or method == ORACLE:
            return ""
        count, failed = len(entry.seeds), len(self.failed_seeds(environment, method))
        selected = selected_overrides(self.out, environment, method, self.split)
        is_selected = selected is None or entry.cells[0].config_hash == self._config(environment, method, selected)
        remarks = [
            f"{count} seed{'s' if count > 1 else ''}" if count < self.usual_seeds else "",
            f"{failed} failed" if failed else "",
            "" if is_selected else "defaults",
        ]
        return ", ".join(filter(None, remarks))

    def _config(self, environment: str, method: str, overrides: dict[str, Any]) -> str:
        """The hash of these settings under the budget."""
        wanted = overrides if self.budget == "full" else reduced(method, overrides, QUICK)
        return Cell.of(environment, method, 0, wanted).config_hash

    def why_missing(self, environment: str, method: str) -> str:
        """ "not run", "failed", or "n/a" where the method says that it does not apply to such tasks."""
        errors = self.errors.get((environment, method), [])
        if method == ORACLE and environment not in TRUTH_KNOWN:
            return "n/a"
        if not errors:
            return "not run"
        return "n/a" if all(does_not_apply(record) for _, record in errors) else "failed"

    def points(self, environment: str, method: str) -> dict[str, Any] | None:
        """Predictions of seed 0 of the reported configuration, to plot."""
        entry = self.get(environment, method)
        return None if entry is None else read_points(self.out, entry.cells[0])


def mean_and_spread(values: Sequence[float]) -> Figure:
    """Mean and standard deviation; 0 for the latter where it is not known."""
    known = len(values) > 1 and bool(np.isfinite(values).all())
    return Figure(float(np.mean(values)), float(np.std(values, ddof=1)) if known else 0.0)


def _of_budget(out: Path, budget: Budget, part: Part) -> list[tuple[Cell, Record]]:
    return [
        (cell, record)
        for cell, record in read_records(out)
        if cell.part == part and cell.tasks is None and _within(cell, budget)
    ]


def _within(cell: Cell, budget: Budget) -> bool:
    return cell.budget == budget or (
        budget == "quick" and cell.settings == "{}" and not reduced(cell.method, {}, QUICK)
    )


def _by_seed(pair: tuple[Cell, Record]) -> int:
    return pair[0].seed


def _pseudo_values(task_counts: Int[np.ndarray, "n gaps"]) -> Float[np.ndarray, " n"]:
    total, n = task_counts.sum(0), len(task_counts)
    if n == 1:
        return counts.calibration_error(task_counts)
    return n * counts.calibration_error(total) - (n - 1) * counts.calibration_error(total - task_counts)
