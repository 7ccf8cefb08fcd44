"""Which methods are not significantly worse than the best one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy.stats import ttest_rel

LEVEL = 0.05
NAME = "one-sided paired t-test over test tasks, values averaged over seeds, Holm's correction over the column, 5%"


def worse(better: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]) -> float:
    """The p-value of "the other is no worse": one-sided paired t-test; lower values are better."""
    differences = other - better
    if not np.isfinite(differences).all():
        return 0.0  # an infinite error needs no test
    if np.ptp(differences) == 0:  # no spread, where the t statistic does not exist
        return 0.0 if differences.mean() > 0 else 1.0
    return float(ttest_rel(other, better, alternative="greater").pvalue) if len(differences) > 1 else 1.0


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
