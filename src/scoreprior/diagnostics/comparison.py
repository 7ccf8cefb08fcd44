"""`Comparison`: a method beside simple rules on held-out tasks, task by task."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scoreprior._types import KeyLike
from scoreprior.diagnostics.coverage import Coverage, Verdict, standard_error
from scoreprior.diagnostics.forecasts import one_row_per_task
from scoreprior.diagnostics.splits import HoldOut, hold_out
from scoreprior.evaluation import evaluate_pairs, summarise
from scoreprior.learners import MetaLearner, Prior, learner
from scoreprior.tasks import TaskSet
from scoreprior.tasks.checks import TaskError

if TYPE_CHECKING:
    import pandas

RULES = ("last-value", "context-mean", "newest-lag", "ridge", "pooled-gp")
"""Names of the simple methods that every method has to beat."""
LAG_RULES = frozenset({"newest-lag"})
"""Rules for inputs that are earlier values of the target; other inputs are a TaskError to them."""


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
    """A method beside simple rules on the same held-out tasks.

    Args:
        method: name of the method that is judged.
        rows: those of `evaluate_pairs` for the method and every rule, with a column `method`.
    """

    method: str
    rows: pandas.DataFrame

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules."""
        return tuple(name for name in self.rows["method"].unique() if name != self.method)

    @property
    def table(self) -> pandas.DataFrame:
        """One line per method: means over tasks with standard errors, and the share of all points in 90% intervals."""
        table = summarise(self.rows, by="method").set_index("method")[["rmse", "rmse_se", "nll", "nll_se"]]
        coverages = [Coverage.of(self.rows[self.rows["method"] == name]) for name in table.index]
        return table.assign(
            coverage90=[each.share for each in coverages], coverage90_se=[each.standard_error for each in coverages]
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

    @property
    def per_task(self) -> Comparison:
        """The same with one row per task, of pairs at rolling origins: origins of one task are not independent."""
        import pandas as pd

        names = self.rows["method"].unique()
        merged = [one_row_per_task(self.rows[self.rows["method"] == name]) for name in names]
        return Comparison(self.method, pd.concat(merged, ignore_index=True))

    def paired_difference(self, rule: str, metric: str = "rmse") -> PairedDifference:
        """The method's metric minus the rule's, over the same tasks."""
        return paired_difference(self.rows, self.method, rule, metric)


def compare(
    methods: Mapping[str, MetaLearner | Prior],
    split: HoldOut,
    key: KeyLike,
    *,
    optional: Collection[str] = (),
    progress: bool = False,
) -> Comparison:
    """Fit every method to the same training tasks, and predict the same held-out tasks; a prior is fitted already.

    Args:
        methods: by name; the first is judged, the others are its rules.
        split: training and held-out tasks, as of `hold_out`.
        key: randomness of every method.
        optional: names of rules to leave out where the tasks do not suit them (`TaskError`).
        progress: whether fits show their progress.

    Returns:
        A `Comparison` of the first method with the others.

    Example:
        ```python
        methods = {"mine": MyMethod(), "pooled-gp": sp.learner("pooled-gp")}
        compare(methods, sp.hold_out(tasks, key=0), key=1).paired_difference("pooled-gp", "nll")
        ```
    """
    if not methods:
        raise ValueError("There is no method to compare.")
    judged, frames = next(iter(methods)), []
    for name, method in methods.items():
        try:
            frame = evaluate_pairs(method, split.meta_test, key, meta_train=split.meta_train, progress=progress)
        except TaskError:
            if name in optional and name != judged:
                continue
            raise
        frames.append(frame.assign(method=name))
    import pandas as pd  # here, since it takes a quarter of a second

    return Comparison(judged, pd.concat(frames, ignore_index=True))


def compare_with_rules(
    method: str | MetaLearner,
    tasks: TaskSet,
    key: KeyLike,
    *,
    rules: Collection[str] = RULES,
    progress: bool = False,
) -> Comparison:
    """Hold out a fifth of the tasks, and compare a method with simple rules on them.

    Args:
        method: a name of `sp.methods()`, or a meta-learner; it is fitted to the other tasks here.
        tasks: at least five related tasks.
        key: which tasks are held out, and the randomness of every method.
        rules: names of methods to compare with; "newest-lag" is left out where no input is a lag of the target.
        progress: whether fits show their progress.

    Returns:
        A `Comparison`: `.table`, `.rules_as_good`, `.coverage`, `.verdict` and `.paired_difference(rule)`.

    Example:
        ```python
        comparison = sp.compare_with_rules("mars-gp", tasks, key=0)
        comparison.table
        comparison.rules_as_good  # () if the method beats every rule
        ```
    """
    if isinstance(method, Prior):
        raise TypeError("This prior is fitted, perhaps to the tasks that would be held out; give its meta-learner.")
    name = method if isinstance(method, str) else type(method).__name__
    judged = learner(method) if isinstance(method, str) else method
    methods = {name: judged} | {rule: learner(rule) for rule in rules if rule != name}
    return compare(methods, hold_out(tasks, key), key, optional=LAG_RULES, progress=progress)
