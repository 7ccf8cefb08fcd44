"""Simple rules that every method has to beat, and the comparison with them."""

from __future__ import annotations

from collections.abc import Collection

from scoreprior._types import KeyLike
from scoreprior.diagnostics.comparison import Comparison
from scoreprior.diagnostics.cross_validation import cross_validate
from scoreprior.learners import MetaLearner, Prior, learner
from scoreprior.tasks import TaskSet

RULES = ("last-value", "context-mean", "newest-lag", "ridge", "pooled-gp")
"""Names of the simple methods that every method has to beat."""
LAG_RULES = frozenset({"newest-lag"})
"""Rules for inputs that are earlier values of the target; other inputs are a TaskError to them."""


def compare_with_rules(
    method: str | MetaLearner,
    tasks: TaskSet,
    key: KeyLike,
    *,
    rules: Collection[str] = RULES,
    folds: int | None = None,
    progress: bool = False,
) -> Comparison:
    """Compare a method with simple rules by cross-validation over tasks.

    Args:
        method: a name of `sp.methods()`, or a meta-learner; it is fitted here, without the tasks that it predicts.
        tasks: at least five related tasks.
        key: which tasks are left out together, and the randomness of every method.
        rules: names of methods to compare with; "newest-lag" is left out where no input is a lag of the target.
        folds: from 1 to 5, each a fifth of the tasks; by default 5, and 3 where networks are trained.
        progress: whether to show what is being fitted.

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
        raise TypeError("This prior is fitted, perhaps to the tasks that would be left out; give its meta-learner.")
    name = method if isinstance(method, str) else type(method).__name__
    judged = learner(method) if isinstance(method, str) else method
    methods = {name: judged} | {rule: learner(rule) for rule in rules if rule != name}
    return cross_validate(methods, tasks, key, folds=folds, optional=LAG_RULES, progress=progress).comparison()
