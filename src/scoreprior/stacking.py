"""Weights of several predictives from how each predicted tasks that it had not seen.

Bayesian stacking (Yao, Vehtari, Simpson and Gelman, Bayesian Analysis 2018) weighs them by the log score of their
mixture; `squared_error_weights` does so by the squared error of the mixture's mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

PSEUDO_COUNT = 1.0
"""Tasks' worth of prior, which pulls to equal weights: five tasks say little."""

_GAP = 1e-6  # nats per task
_MOST_ITERATIONS = 20_000


def stacking_weights(
    log_prob: Any, point_weights: Any = None, *, pseudo_count: float = PSEUDO_COUNT
) -> Float[np.ndarray, " k"]:
    """Weights (k,) on the simplex that maximise the log score of the mixture on n left-out tasks.

    They maximise  sum_tasks mean_points log sum_k w_k p_k(y) + pseudo_count mean_k log w_k:  every task counts once,
    and the last term is a weak Dirichlet prior, without which few tasks would leave all weight to one member. EM runs
    until the gap of the Karush-Kuhn-Tucker conditions, which bounds what is missing from the maximum, is at most 1e-6
    nats per task.

    Args:
        log_prob: log densities of the left-out tasks' points, (k, n, ...), -inf where a member excludes a point.
        point_weights: how much each point counts within its task, (n, ...), by default all alike; what has weight zero
            is never looked at, nor is a task without any weight.
        pseudo_count: how many tasks the prior is worth: its parameters are 1 + pseudo_count / k; 0 leaves it out.
    """
    scores, shares, tasks = _flat(log_prob, point_weights, "log_prob", pseudo_count)
    if not (scores < math.inf).all():
        raise ValueError("log_prob has entries that are nan or infinite: give log densities, -inf for a density of 0.")
    best = scores.max(0)
    if not np.isfinite(best).all():
        raise ValueError("No member has a positive density at some point: there are no weights that predict it.")
    density = np.exp(scores - best)
    k = len(density)
    each, total = pseudo_count / k, tasks + pseudo_count
    weights = np.full(k, 1 / k)
    for _ in range(_MOST_ITERATIONS):
        # d/dw_k of the log score; weights @ gain = 1 whatever the weights.
        gain = density @ (shares / (weights @ density))
        slope = tasks * gain + (each / weights if each else 0.0)
        if slope.max() - total <= _GAP * tasks:
            break
        weights = (tasks * weights * gain + each) / total
    return weights / weights.sum()


def squared_error_weights(
    means: Any, y: Any, point_weights: Any = None, *, pseudo_count: float = PSEUDO_COUNT
) -> Float[np.ndarray, " k"]:
    """Weights (k,) on the simplex that minimise the squared error of the weighted mean on n left-out tasks.

    They minimise  sum_tasks mean_points (y - sum_k w_k m_k)^2 + pseudo_count s^2 |w|^2,  s^2 the mean squared error of
    the best member: as if so many more tasks had been seen in which all members made independent errors of that size.

    Args:
        means: predicted means of the left-out tasks' points, (k, n, ...).
        y: what was observed, (n, ...).
        point_weights: how much each point counts within its task, (n, ...), by default all alike.
        pseudo_count: how many tasks the pull towards equal weights is worth; 0 leaves it out.
    """
    from scipy.optimize import nnls  # here, since it takes a while to import

    predicted, observed = np.asarray(means, np.float64), np.asarray(y, np.float64)
    if predicted.ndim < 2 or predicted.shape[1:] != observed.shape:
        raise ValueError(
            f"means have shape {predicted.shape} and y {observed.shape}; expected (k, n, ...) and (n, ...)."
        )
    errors, shares, tasks = _flat(predicted - observed, point_weights, "means - y", pseudo_count)
    if not np.isfinite(errors).all():
        raise ValueError("Squared errors need finite means and finite y.")
    gram = (errors * shares) @ errors.T
    squares = np.diag(gram)
    # The least bit of the pull stays, so that members that make the same errors share their weight.
    pull = pseudo_count / tasks * squares.min() + 1e-10 * (squares.max() or 1.0)
    root = np.linalg.cholesky(gram + pull * np.eye(len(gram))).T
    # w sums to one, so the error of the mean is w @ errors, and the quadratic is homogeneous: minimising it plus
    # (1 - sum v)^2 over v >= 0 gives a multiple of the minimiser on the simplex.
    design = np.vstack([root / np.linalg.norm(root), np.ones(len(root))])
    found, _ = nnls(design, np.r_[np.zeros(len(root)), 1.0])
    return found / found.sum()


def _flat(
    values: Any, point_weights: Any, name: str, pseudo_count: float
) -> tuple[Float[np.ndarray, "k p"], Float[np.ndarray, " p"], int]:
    """Values of all points that count, their shares of the mean over tasks, and the number of tasks."""
    if not 0 <= pseudo_count < math.inf:
        raise ValueError(f"pseudo_count must be finite and not negative, not {pseudo_count}.")
    array = np.asarray(values, np.float64)
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}; expected (members, tasks, ...), none of them 0.")
    array = array.reshape(*array.shape[:2], -1)
    shape = np.shape(values)[1:]
    counts = np.ones(shape) if point_weights is None else np.asarray(point_weights, np.float64)
    if counts.shape != shape or not (np.isfinite(counts).all() and (counts >= 0).all()):
        raise ValueError(f"point_weights must be finite, not negative and of shape {shape}, not {counts.shape}.")
    counts = counts.reshape(array.shape[1:])
    totals = counts.sum(1, keepdims=True)
    tasks = int((totals > 0).sum())
    if tasks == 0:
        raise ValueError("point_weights leave no point: there is nothing to learn weights from.")
    used = counts > 0
    return array[:, used], (counts / np.where(totals > 0, totals, 1.0) / tasks)[used], tasks
