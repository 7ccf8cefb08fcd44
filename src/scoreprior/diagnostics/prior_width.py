"""Where a prior is wider than the targets that it should describe, before any point of a task is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scoreprior._types import KeyLike
from scoreprior.learners import Prior
from scoreprior.predictive import NoDistributionError
from scoreprior.tasks import TaskSet

WIDER = 1.5
"""From this ratio of widths on a prior is said to be wider than the data."""
_MOST_BINS = 10
_FEWEST_POINTS, _FEWEST_TASKS = 20, 8


class Stretch(NamedTuple):
    """A stretch of an input: from where to where, and how many times as wide as the data the prior is there."""

    low: float
    high: float
    ratio: float


def relative_width(prior: Prior, tasks: TaskSet, key: KeyLike, *, column: int = 0) -> list[Stretch]:
    """The prior's 90% interval over the range that holds 90% of the targets, along one of the inputs x.

    The input is cut into up to ten stretches with the same number of points; in each, the mean width of the prior's
    interval at the points is divided by the distance between the 5% and 95% quantiles of the targets around the
    prior's mean, so that a trend within a stretch is no spread.

    Args:
        prior: a fitted prior that predicts a distribution.
        tasks: tasks that it should describe, such as those of training.
        key: randomness of conditioning on nothing.
        column: of the inputs x.

    Returns:
        Stretches of at least 20 points of at least 8 tasks, from left to right; none where there are too few.
    """
    if prior.is_point:
        raise NoDistributionError("A prior that predicts points has no width.")
    x, y = tasks.x, tasks.y
    owner = np.repeat(np.arange(len(tasks)), tasks.sizes)
    predictive = prior.condition([], [], key).predict(x)
    low, high = predictive.interval(0.9)
    order = np.argsort(x[:, column], kind="stable")
    found = []
    for rows in np.array_split(order, min(_MOST_BINS, max(1, len(y) // _FEWEST_POINTS))):
        spread = np.ptp(np.quantile(y[rows] - predictive.mean[rows], [0.05, 0.95]))
        if len(rows) >= _FEWEST_POINTS and len(np.unique(owner[rows])) >= _FEWEST_TASKS and spread > 0:
            start, stop = float(x[rows[0], column]), float(x[rows[-1], column])
            found.append(Stretch(start, stop, float((high - low)[rows].mean() / spread)))
    return found
