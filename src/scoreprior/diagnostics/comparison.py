"""`Comparison`: a method beside simple rules on left-out tasks, task by task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scoreprior.diagnostics.coverage import Coverage, Verdict, standard_error
from scoreprior.evaluation import summarise

if TYPE_CHECKING:
    import pandas


class PairedDifference(NamedTuple):
    """Mean difference of a metric over tasks, one method minus another, and its standard error."""

    mean: float
    standard_error: float

    @property
    def is_lower(self) -> bool:
        """The first method's metric is lower by more than one standard error."""
        return bool(self.mean < -self.standard_error)

    @property
    def other_as_good(self) -> bool:
        """The other method's metric is lower, or higher by less than one standard error."""
        return bool(self.mean > -self.standard_error)


def paired_difference(rows: pandas.DataFrame, method: str, other: str, metric: str = "rmse") -> PairedDifference:
    """Two methods on the same tasks, task by task: tasks differ far more than methods do.

    Args:
        rows: those of `evaluate` or `evaluate_pairs` for both methods, with a column `method`.
        method: the name in that column to subtract from.
        other: the name to subtract.
        metric: a column of which less is better.

    Returns:
        The mean of the differences g_i over n tasks, and std(g) / sqrt(n).

    Example:
        ```python
        paired_difference(comparison.rows, "mars-gp", "pooled-gp", "nll").is_lower
        ```
    """
    first, second = (rows[rows["method"] == name].set_index("position")[metric] for name in (method, other))
    if first.empty or not first.index.is_unique or sorted(first.index) != sorted(second.index):
        raise ValueError(
            f"{method} and {other} need one row for each of the same tasks: they have {len(first)} and {len(second)}."
        )
    gaps = first - second
    return PairedDifference(float(gaps.mean(skipna=False)), standard_error(gaps))


@dataclass(frozen=True, eq=False)
class Comparison:
    """A method beside simple rules on the same left-out tasks.

    Args:
        method: name of the method that is judged.
        rows: those of `evaluate_pairs` for the method and every rule, with a column `method`; after a
            cross-validation also a column `fold`.
    """

    method: str
    rows: pandas.DataFrame

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules."""
        return tuple(name for name in self.rows["method"].unique() if name != self.method)

    @property
    def folds(self) -> int:
        """How many folds of tasks were left out in turn."""
        return int(self.rows["fold"].nunique()) if "fold" in self.rows else 1

    @property
    def table(self) -> pandas.DataFrame:
        """One line per method: means over tasks with standard errors, and the share of points in 90% intervals."""
        table = summarise(self.rows, by="method").set_index("method")[["rmse", "rmse_se", "nll", "nll_se"]]
        coverages = [Coverage.of(self.rows[self.rows["method"] == name]) for name in table.index]
        return table.assign(
            coverage90=[each.share for each in coverages],
            coverage90_se=[each.standard_error for each in coverages],
            coverage90_low=[each.interval[0] for each in coverages],
            coverage90_high=[each.interval[1] for each in coverages],
        )

    @property
    def coverage(self) -> Coverage:
        """Coverage of the method's 90% interval."""
        return Coverage.of(self.rows[self.rows["method"] == self.method])

    @property
    def verdict(self) -> Verdict:
        """What the coverage says of the method's error bars."""
        return self.coverage.verdict

    @property
    def rules_as_good(self) -> tuple[str, ...]:
        """Rules whose RMSE is lower than the method's, or higher by less than one standard error; best first."""
        means = self.rows.groupby("method")["rmse"].mean()
        found = (rule for rule in self.rules if self.paired_difference(rule).other_as_good)
        return tuple(sorted(found, key=lambda rule: means[rule]))

    def __repr__(self) -> str:
        found = self.coverage
        return f"Comparison({self.method!r} with {len(self.rules)} rules, tasks={found.tasks}, folds={self.folds})"

    def paired_difference(self, rule: str, metric: str = "rmse") -> PairedDifference:
        """The method's metric minus the rule's, over the same tasks."""
        return paired_difference(self.rows, self.method, rule, metric)
