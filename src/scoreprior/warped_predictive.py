"""`WarpedPredictive`: a Gaussian mixture seen through the inverse of a target's monotone map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from scoreprior._types import KeyLike
from scoreprior.predictive import Predictive
from scoreprior.tasks.warp import Warp
from scoreprior.warped_quadrature import quadrature

_MOST_TERMS = 4_000_000
"""Components times nodes times points that are held at once, about."""
_NODES = 2000
"""Nodes of a point, about."""

Integrand = Callable[[Float[np.ndarray, "n b"], Float[np.ndarray, "n b"], Int[np.ndarray, " b"]], np.ndarray]
"""Of nodes, the CDF there, and the positions of the b points among all."""


def through(latent: Predictive, warp: Warp) -> Predictive:
    """The predictive of the target, given that of its image under the map."""
    return latent if warp.is_identity else WarpedPredictive(latent, warp)


@dataclass(frozen=True, eq=False)
class WarpedPredictive(Predictive):
    """The predictive of a target that is not real: every recorded value, a bound above all, may have a probability.

    `locs` and `scales` are those of `latent`; everything else is in original units. Quantiles, intervals and samples
    are values that can occur. Where values have probabilities, `log_prob` is the logarithm of these.

    Args:
        latent: the mixture of what the map sends the target to.
        warp: the map.
    """

    latent: Predictive
    warp: Warp

    def __init__(self, latent: Predictive, warp: Warp):
        for name in ("locs", "scales", "weights"):
            object.__setattr__(self, name, getattr(latent, name))
        object.__setattr__(self, "draws", None if latent.draws is None else warp.clipped(latent.draws))
        object.__setattr__(self, "function_scales", None)  # a function that is mapped has no noise of one size
        object.__setattr__(self, "latent", latent)
        object.__setattr__(self, "warp", warp)

    @property
    def mean(self) -> Float[np.ndarray, " q"]:
        """Mean; of a point predictor the point."""
        if self.is_point:
            return self.warp.clipped(self.latent.mean)
        return self.warp.low + self._integral(lambda t, below, columns: 1 - below)

    @property
    def std(self) -> Float[np.ndarray, " q"]:
        """Standard deviation."""
        self._scales("std")
        mean = self.mean
        # E (Y - m)^2 = (low - m)^2 + int 2 (t - m) P(Y > t) dt
        beyond = self._integral(lambda t, below, columns: 2 * (t - mean[columns]) * (1 - below))
        return np.sqrt(np.maximum((self.warp.low - mean) ** 2 + beyond, 0.0))

    def cdf(self, y: Any) -> Float[np.ndarray, "*b q"]:
        """P(Y <= y); y broadcasts against the q points from the right."""
        return self.latent.cdf(self.warp.up_to(np.asarray(y, np.float64)))

    def log_prob(self, y: Any) -> Float[np.ndarray, "*b q"]:
        """Log density at y; the log probability of what y stands for where that is more than a point.

        That is the rounding interval of y if the target is discrete, and all that lies on or beyond a bound.
        """
        warp, values = self.warp, np.asarray(y, np.float64)
        if warp.discrete:
            return self._log_between(*warp.interval(values))
        inside = (values > warp.low + 0.5 * warp.step) & (values < warp.high - 0.5 * warp.step)
        low, high = warp.below(values), warp.up_to(values)
        somewhere = np.where(inside, values, warp.clipped(np.zeros(())))
        density = self.latent.log_prob(warp.forward(somewhere)) + warp.log_slope(somewhere)
        possible = (values >= warp.low) & (values <= warp.high)
        return np.where(inside, density, np.where(possible, self._log_between(low, high), -np.inf))

    def log_prob_interval(self, low: Any, high: Any) -> Float[np.ndarray, "*b q"]:
        """log P(low < Y <= high), accurate in far tails; low < high."""
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        if not (low < high).all():
            raise ValueError("An interval needs its lower end below the upper.")
        return self._log_between(self.warp.up_to(low), self.warp.up_to(high))

    def pit_ends(self, y: Any, resolution: float = 0.0) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """P(Y < a) and P(Y <= b) of the interval [a, b] that targets y (q,) stand for."""
        values, half = np.asarray(y, np.float64), 0.5 * max(resolution, self.warp.step)
        return self.latent.cdf(self.warp.below(values - half)), self.cdf(values + half)

    def quantile(self, q: Any) -> Float[np.ndarray, "*levels q"]:
        """Inverse CDF at level(s) q in [0, 1]: the least value that can occur and reaches the level."""
        return self.warp.recorded(self.latent.quantile(q))

    def sample(self, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """Draws of y, (n, q); independent between points (joint draws of the function: `.functions`)."""
        return self.warp.recorded(self.latent.sample(key, n))

    def crps(self, y: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        """int (F(t) - 1[t >= y])^2 dt at each point."""
        self._scales("crps")
        observed = self.warp.recorded(self.warp.forward(y))
        return self._integral(lambda t, below, columns: (below - (t >= observed[columns])) ** 2, observed)

    def take(self, points: Any) -> WarpedPredictive:
        """The predictive at only these query points."""
        return WarpedPredictive(self.latent.take(points), self.warp)

    def joined_with(self, others: Sequence[Predictive]) -> WarpedPredictive:
        """This one and others of the same map and components, at more query points, without draws."""
        latents = [each.latent for each in others if isinstance(each, WarpedPredictive)]
        return WarpedPredictive(self.latent.joined_with(latents), self.warp)

    def affine(self, scale: float, shift: float) -> Predictive:
        """Refused: the values that can occur would change."""
        raise TypeError("The predictive of a bounded, positive or counted target has no affine image.")

    def _log_between(self, low: np.ndarray, high: np.ndarray) -> Float[np.ndarray, "*b q"]:
        """log P(low < Z <= high) of the latent variable; ends may be infinite, and -inf where low >= high."""
        low, high = np.broadcast_arrays(low, high)
        finite = np.isfinite(low) & np.isfinite(high)
        ends = np.where(finite & (low < high), low, 0.0), np.where(finite & (low < high), high, 1.0)
        result = self.latent.log_prob_interval(*ends)
        for end, sign, other in ((low, -1.0, high == np.inf), (high, 1.0, low == -np.inf)):
            tail = self.latent.log_tail(np.where(np.isfinite(end), end, 0.0), sign)
            result = np.where(other & np.isfinite(end), tail, result)
        result = np.where((low == -np.inf) & (high == np.inf), 0.0, result)
        return np.where(low < high, result, -np.inf)

    def _integral(self, integrand: Integrand, split: Float[np.ndarray, " q"] | None = None) -> Float[np.ndarray, " q"]:
        """The integral of integrand(t, F(t)) over the range of the target at each point; it may jump at `split`."""
        result = np.empty(len(self))
        for columns in self._blocks():
            block = self.latent.take(columns)
            jump = None if split is None else split[columns]
            t, weights, below = quadrature(block, self.warp, jump)
            result[columns] = np.sum(weights * integrand(t, below, columns), axis=0)
        return result

    def _blocks(self) -> Iterator[Int[np.ndarray, " b"]]:
        """Points in groups that are integrated at once: of similar scales, and not too many."""
        order = np.argsort(self._scales("cdf").max(0), kind="stable")
        size = max(1, _MOST_TERMS // (len(self.locs) * _NODES))
        return (order[start : start + size] for start in range(0, len(order), size))
