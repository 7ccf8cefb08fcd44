"""How good a `Predictive` is, given what was observed: all in original units, all means over the q points."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import betaln, ndtr, xlog1py, xlogy

from scoreprior.predictive import NoDistributionError, Predictive
from scoreprior.warped_predictive import WarpedPredictive

LEVELS = 20
"""Number of confidence levels of the calibration error, equally spaced in [0, 1] with both ends."""


def rmse(predictive: Predictive, y: Any) -> float:
    """Root mean squared error of the mean prediction at y (q,)."""
    return float(np.sqrt(np.mean((_observed(predictive, y) - predictive.mean) ** 2)))


def nll(predictive: Predictive, y: Any) -> float:
    """Mean negative log density of y (q,), in nats."""
    return float(-np.mean(predictive.log_prob(_observed(predictive, y))))


def log_score(predictive: Predictive, y: Any, resolution: float = 0.0) -> float:
    """Mean negative log probability of the rounding interval (y - h/2, y + h/2] of targets y (q,) recorded in steps h.

    In nats, and not divided by h, so never below 0: a density at values that recur can be made as high as one dares,
    a probability cannot. For continuous targets, h = 0, it is the `nll`. `scoreprior.tasks.resolution` finds h.
    """
    if not (resolution >= 0 and np.isfinite(resolution)):
        raise ValueError(f"The resolution is a recording step, or 0 for continuous targets, not {resolution}.")
    if resolution == 0:
        return nll(predictive, y)
    observed = _observed(predictive, y)
    return float(-np.mean(predictive.log_prob_interval(observed - resolution / 2, observed + resolution / 2)))


_FEW = 32
"""Components up to which the closed form over all pairs is the quicker way to a CRPS."""


def crps(predictive: Predictive, y: Any) -> float:
    """Mean continuous ranked probability score at y (q,): int (F(t) - 1[t >= y])^2 dt of the mixture."""
    observed = _observed(predictive, y)
    if predictive.scales is None:
        raise NoDistributionError("This method predicts a point, not a distribution: it has no CRPS.")
    if isinstance(predictive, WarpedPredictive):
        return float(np.mean(predictive.crps(observed)))
    count = len(predictive.locs)
    weights = np.full(count, 1 / count) if predictive.weights is None else predictive.weights
    of_mixture = _crps_of_many if count > _FEW else _crps_of_few
    return float(np.mean(of_mixture(predictive.locs, predictive.scales, weights, observed)))


def _crps_of_few(
    locs: Float[np.ndarray, "L q"],
    scales: Float[np.ndarray, "L q"],
    weights: Float[np.ndarray, " L"],
    y: Float[np.ndarray, " q"],
) -> Float[np.ndarray, " q"]:
    """The closed form over all pairs of components."""
    import scoringrules  # here, since it brings scipy.stats

    shares = np.broadcast_to(weights[:, None], locs.shape)
    return scoringrules.crps_mixnorm(y, locs, scales, shares, m_axis=0, backend="numpy")


def _crps_of_many(
    locs: Float[np.ndarray, "L q"],
    scales: Float[np.ndarray, "L q"],
    weights: Float[np.ndarray, " L"],
    y: Float[np.ndarray, " q"],
) -> Float[np.ndarray, " q"]:
    """E|Y - y| - int F (1 - F) dt: the closed form's L^2 pairs become a sum over a grid, L terms a node.

    The integrand is smooth on the scale of the narrowest component, so the trapezoidal rule at half that spacing is
    accurate to many digits; where components are so narrow that this needs too many nodes, all pairs it is.
    """
    low, high = (locs - 8 * scales).min(0), (locs + 8 * scales).max(0)
    nodes = int(np.ceil(np.max(2 * (high - low) / scales.min(0)))) + 2
    if nodes > 10 * len(locs):
        blocks = [slice(i, i + 1) for i in range(len(y))]  # one point at a time bounds the memory
        return np.concatenate([_crps_of_few(locs[:, b], scales[:, b], weights, y[b]) for b in blocks])
    z = (y - locs) / scales
    distance = weights @ (scales * (2 * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) + z * (2 * ndtr(z) - 1)))
    step = (high - low) / (nodes - 1)
    spread = np.zeros(len(y))
    for node in range(1, nodes - 1):  # F (1 - F) vanishes at both ends
        below = weights @ ndtr((low + node * step - locs) / scales)
        spread += below * (1 - below)
    return distance - spread * step


def coverage(predictive: Predictive, y: Any, level: float = 0.9) -> float:
    """Fraction of y (q,) inside the central interval that should hold `level` of them.

    Where values have probabilities, the interval holds more than `level`, as its ends do not come in parts: a value
    counts by the part of its probability that lies in the middle `level` of all.
    """
    observed = _observed(predictive, y)
    if isinstance(predictive, WarpedPredictive):
        return float(np.mean(_share_within(*predictive.pit_ends(observed), 0.5 - level / 2, 0.5 + level / 2)))
    low, high = predictive.interval(level)
    return float(np.mean((low <= observed) & (observed <= high)))


def _share_within(low: np.ndarray, high: np.ndarray, start: float, end: float) -> np.ndarray:
    """Of each interval from low to high, which may be a point, the share that lies between start and end."""
    common = np.minimum(high, end) - np.maximum(low, start)
    return np.where(high > low, np.maximum(common, 0.0) / np.where(high > low, high - low, 1.0), common >= 0)


def interval_width(predictive: Predictive, level: float = 0.9) -> float:
    """Mean width of the central interval that holds probability `level`."""
    low, high = predictive.interval(level)
    return float(np.mean(high - low))


def sharpness(predictive: Predictive) -> float:
    """Mean standard deviation of the predictive."""
    return float(np.mean(predictive.std))


def pit(
    predictive: Predictive, y: Any, resolution: float = 0.0, rng: np.random.Generator | None = None
) -> Float[np.ndarray, " q"]:
    """Probability integral transforms at y (q,): uniform on [0, 1] when the predictive is calibrated.

    For continuous targets F(y). Of targets recorded in steps h a value stands for (y - h/2, y + h/2], and its PIT is
    drawn evenly between F(y - h/2) and F(y + h/2) (randomised PIT): ties would look like a lack of calibration. So it
    is where a value has a probability of its own, as bounds and counts have.
    """
    observed = _observed(predictive, y)
    low, high = predictive.pit_ends(observed, resolution)
    if (low == high).all():
        return high
    return low + (high - low) * (rng or np.random.default_rng(0)).uniform(size=len(observed))


def calibration_error(pits: Any, levels: int = LEVELS) -> float:
    """Mean absolute gap 1/H sum_h |#{F(y) < q_h} / m - q_h| over equally spaced levels q_h in [0, 1].

    The paper's figure is this of one task's PITs, averaged over tasks; the pooled one is this of the PITs of
    all tasks. Neither is zero for a perfect predictor: see `calibration_floor`.
    """
    values = np.asarray(pits, np.float64).ravel()
    if len(values) == 0 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("Calibration needs at least one PIT, and all PITs in [0, 1].")
    grid = _grid(levels)
    # A Gaussian mixture's CDF is below 1 everywhere; far above the mean it is rounded up to 1.
    below = np.minimum(values, np.nextafter(1.0, 0.0))[:, None] < grid
    return float(np.mean(np.abs(below.mean(0) - grid)))


def calibration_floor(sizes: Any, levels: int = LEVELS, *, pooled: bool = False) -> float:
    """The expected calibration error of a perfectly calibrated predictor on tasks of these many test points.

    Mean over levels q and tasks of E|Binomial(m, q) / m - q| = 2 (1 - q) v / m P(Binomial(m, q) = v) with
    v = floor(m q) + 1 (de Moivre); `pooled` is for one calibration error over the points of all tasks. The
    PITs are taken as independent; those of one task share what is unknown of its function, which raises the
    true floor.
    """
    counts = np.atleast_1d(np.asarray(sizes))
    if counts.size == 0 or not np.issubdtype(counts.dtype, np.integer) or (counts < 1).any():
        raise ValueError(f"Task sizes are positive whole numbers, not {sizes!r}.")
    m = (counts.sum(keepdims=True) if pooled else counts.ravel())[:, None]
    q = _grid(levels)[1:-1]  # at the end levels 0 and 1 nothing can deviate
    v = np.floor(m * q) + 1
    log_pmf = xlogy(v, q) + xlog1py(m - v, -q) - betaln(v + 1, m - v + 1) - np.log1p(m)
    return float(np.sum(2 * (1 - q) * v / m * np.exp(log_pmf)) / (len(m) * levels))


def _grid(levels: int) -> np.ndarray:
    if levels < 2:
        raise ValueError(f"At least two levels are needed, not {levels}.")
    return np.linspace(0, 1, levels)


def _observed(predictive: Predictive, y: Any) -> np.ndarray:
    # Without this check a (q, 1) column would be broadcast against all q predictions.
    values = np.asarray(y, np.float64)
    if values.shape != (len(predictive),):
        raise ValueError(f"y has shape {values.shape}, but there are {len(predictive)} predictions.")
    if len(values) == 0 or not np.isfinite(values).all():
        raise ValueError("A metric needs at least one observation, and only finite ones.")
    return values
