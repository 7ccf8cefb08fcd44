"""Which methods are not significantly worse than the best one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student_t

LEVEL = 0.05
NAME = (
    "paired t-test over test tasks and seeds: the variance between tasks plus that between seeds, with Satterthwaite's "
    "degrees of freedom; two-sided, since the best one was chosen by the same figures; Holm's correction over the "
    "column, 5%"
)


def worse(better: Float[np.ndarray, "s n"], other: Float[np.ndarray, "r n"]) -> float:
    """The p-value of "the other is no worse", from values of n tasks with s and r seeds; lower values are better.

    Tasks are the same for both, seeds are not: what a task adds to both cancels, what luck a seed had does not. With
    one seed of each only tasks are a source of chance.
    """
    differences = other.mean(0) - better.mean(0)
    if not np.isfinite(differences).all():
        return 0.0  # an infinite error needs no test
    gap = differences.mean()
    if gap <= 0:
        return 1.0
    parts = [_variance_of_mean(each) for each in (differences, better.mean(1), other.mean(1))]
    variance = sum(part for part, _ in parts)
    if variance <= (1e-12 * gap) ** 2:  # no spread, where the t statistic does not exist
        return 0.0 if len(differences) > 1 else 1.0
    freedom = variance**2 / sum(part**2 / (count - 1) for part, count in parts if part > 0)
    return float(2 * student_t.sf(gap / np.sqrt(variance), freedom))


def standard_error(values: Float[np.ndarray, "s n"]) -> float:
    """Of the mean over n tasks and s seeds: the variance between tasks plus that between seeds, as in the test."""
    return sum(_variance_of_mean(each)[0] for each in (values.mean(0), values.mean(1))) ** 0.5


def paired_difference(one: Float[np.ndarray, "s n"], other: Float[np.ndarray, "r n"]) -> tuple[float, float]:
    """The mean of one minus that of the other on the same n tasks, and its standard error as in the test."""
    differences = one.mean(0) - other.mean(0)
    variance = sum(_variance_of_mean(each)[0] for each in (differences, one.mean(1), other.mean(1)))
    return float(differences.mean()), variance**0.5


def _variance_of_mean(values: Float[np.ndarray, " n"]) -> tuple[float, int]:
    """Zero where a single value says nothing of it."""
    count = len(values)
    return (float(np.var(values, ddof=1)) / count if count > 1 else 0.0), count


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjusted p-values."""
    adjusted, running = {}, 0.0
    for rank, name in enumerate(sorted(p, key=lambda each: (p[each], each))):
        running = max(running, min(1.0, (len(p) - rank) * p[name]))
        adjusted[name] = running
    return adjusted


def not_worse(means: Mapping[str, float], values: Mapping[str, np.ndarray], level: float = LEVEL) -> set[str]:
    """The method with the lowest mean, and all that are not significantly worse than it."""
    if not means:
        return set()
    best = min(means, key=lambda name: (means[name], name))
    p = holm({name: worse(values[best], values[name]) for name in means if name != best})
    return {best} | {name for name, value in p.items() if value >= level}
