"""`Predictive`: what every method answers with, in ORIGINAL units; inside, methods have a `Mixture`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from scoreprior._extras import extra
from scoreprior._interval import log_interval
from scoreprior._types import KeyLike, as_generator
from scoreprior.mixture import Mixture as Mixture
from scoreprior.mixture import mix as mix

if TYPE_CHECKING:
    import pandas
    import xarray


_ROUNDING = 1e-4


class NoDistributionError(TypeError):
    """A point predictor was asked for a distribution."""


@dataclass(frozen=True, eq=False)
class Predictive:
    """p(y | x, D) = sum_l weights[l] N(y; locs[l], scales[l]^2) at each of q query points.

    Args:
        locs: component means, (L, q), or (q,) for one component.
        scales: component standard deviations, broadcast to (L, q), or None where there is only a point.
        draws: joint draws of the noise-free function at the query points, (S, q), where the method has them.
        weights: of the components, (L,), which sum to one and are the same at all points; None for equal ones.
        function_scales: standard deviations of the noise-free function in each component, (L, q), where they are known.
    """

    locs: Float[np.ndarray, "L q"]
    scales: Float[np.ndarray, "L q"] | None
    draws: Float[np.ndarray, "S q"] | None
    weights: Float[np.ndarray, " L"] | None
    function_scales: Float[np.ndarray, "L q"] | None

    def __init__(self, locs: Any, scales: Any, draws: Any = None, weights: Any = None, function_scales: Any = None):
        means = np.atleast_2d(np.asarray(locs, np.float64))
        if means.ndim != 2 or len(means) == 0:
            raise ValueError(f"The means have shape {means.shape}; expected (L, q) with at least one component.")
        if not np.isfinite(means).all():
            raise ValueError("A predictive needs finite means.")
        if scales is not None:
            scales = _broadcast(np.asarray(scales, np.float64), means.shape)
            if not (np.isfinite(scales).all() and (scales > 0).all()):
                raise ValueError("A predictive needs finite, positive standard deviations.")
        if draws is not None:
            draws = np.asarray(draws, np.float64)
            if draws.ndim != 2 or draws.shape[1] != means.shape[1]:
                raise ValueError(f"draws have shape {draws.shape}; expected (S, {means.shape[1]}).")
        object.__setattr__(self, "locs", means)
        object.__setattr__(self, "scales", scales)
        object.__setattr__(self, "draws", draws)
        object.__setattr__(self, "weights", None if weights is None else _checked_weights(weights, len(means)))
        if function_scales is not None:
            function_scales = _broadcast(np.asarray(function_scales, np.float64), means.shape)
        object.__setattr__(self, "function_scales", function_scales)

    def __len__(self) -> int:
        return self.locs.shape[1]

    @property
    def is_point(self) -> bool:
        """Whether this is a point prediction without a distribution."""
        return self.scales is None

    @property
    def mean(self) -> Float[np.ndarray, " q"]:
        """Mixture mean."""
        return self._average(self.locs)

    @property
    def std(self) -> Float[np.ndarray, " q"]:
        """Standard deviation of the mixture: spread within and between components."""
        return self._spread(self._scales("std"))

    @property
    def function_std(self) -> Float[np.ndarray, " q"]:
        """Standard deviation of the noise-free function: how well it is known, however noisy observations are."""
        if self.function_scales is not None:
            return self._spread(self.function_scales)
        if self.draws is not None:
            return self.draws.std(0)
        raise NoDistributionError("This method does not tell its function from the noise; std is that of y.")

    @property
    def functions(self) -> Float[np.ndarray, "S q"]:
        """Joint draws of the noise-free function, where the method has particles."""
        if self.draws is None:
            raise NoDistributionError("This method gives no joint function draws; use .sample for pointwise draws.")
        return self.draws

    def cdf(self, y: Any) -> Float[np.ndarray, "*b q"]:
        """P(Y <= y); y broadcasts against the q points from the right."""
        # Weights sum to one but for rounding.
        return np.minimum(self._average(ndtr(self._standardised(y, "cdf"))), 1.0)

    def log_prob(self, y: Any) -> Float[np.ndarray, "*b q"]:
        """Log density at y."""
        z = self._standardised(y, "log_prob")
        scales = self._components(self._scales("log_prob"), z.ndim - 1)
        log_components = -0.5 * z**2 - np.log(scales) - 0.5 * np.log(2 * np.pi)
        return self._log_average(log_components)

    def log_tail(self, y: Any, sign: float) -> Float[np.ndarray, "*b q"]:
        """log P(Y <= y) for sign 1 and log P(Y > y) for sign -1, accurate in far tails."""
        return self._log_average(log_ndtr(sign * self._standardised(y, "log_tail")))

    def log_prob_interval(self, low: Any, high: Any) -> Float[np.ndarray, "*b q"]:
        """log P(low < Y <= high), accurate in far tails; low < high, both finite."""
        low, high = np.broadcast_arrays(np.asarray(low, np.float64), np.asarray(high, np.float64))
        if not ((low < high) & np.isfinite(low) & np.isfinite(high)).all():
            raise ValueError("An interval needs finite ends, the lower below the upper.")
        middle = self._standardised(0.5 * low + 0.5 * high, "log_prob_interval")
        width = (high - low) / self._components(self._scales("log_prob_interval"), middle.ndim - 1)
        return self._log_average(log_interval(middle, width) + np.log(width))

    def pit_ends(self, y: Any, resolution: float = 0.0) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """P(Y < a) and P(Y <= b) of the interval [a, b] that targets y (q,) recorded in steps stand for (0: exact)."""
        values = np.asarray(y, np.float64)
        if resolution == 0:
            at = self.cdf(values)
            return at, at
        return self.cdf(values - resolution / 2), self.cdf(values + resolution / 2)

    def quantile(self, q: Any) -> Float[np.ndarray, "*levels q"]:
        """Inverse CDF at level(s) q in [0, 1]; an array of levels comes first in the result's shape."""
        levels = np.asarray(q, np.float64)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"Quantile levels lie in [0, 1], not {q!r}.")
        scales = self._scales("quantile")
        shape = (*levels.shape, len(self))
        target = np.broadcast_to(levels[..., None], shape)
        # The mixture's quantile lies between the smallest and largest component quantile: bisect there.
        locs, scales = self._components(self.locs, len(shape)), self._components(scales, len(shape))
        components = locs + scales * ndtri(target)
        low, high = components.min(0), components.max(0)
        inner = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(inner, low, 0.0), np.where(inner, high, 0.0)
        for _ in range(200):
            middle = 0.5 * (low + high)
            if not ((middle > low) & (middle < high)).any():
                break
            below = self.cdf(middle) < target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        edge = np.where(target < 0.5, -np.inf, np.inf)
        return np.where(inner, 0.5 * (low + high), edge)

    def interval(self, level: float) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """Lower and upper end of the central interval that holds probability `level`."""
        if not 0 < level < 1:
            raise ValueError(f"An interval's level lies strictly between 0 and 1, not {level}.")
        low, high = self.quantile(np.array([0.5 - level / 2, 0.5 + level / 2]))
        return low, high

    def sample(self, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """Draws of y, (n, q); independent between points (joint draws of the function: `.functions`)."""
        scales = self._scales("sample")
        generator = as_generator(key)
        if self.weights is None:
            pick = generator.integers(len(self.locs), size=(n, len(self)))
        else:
            pick = generator.choice(len(self.locs), size=(n, len(self)), p=self.weights)
        columns = np.arange(len(self))
        return self.locs[pick, columns] + scales[pick, columns] * generator.normal(size=pick.shape)

    def to_frame(
        self, levels: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95), *, level: float | None = None
    ) -> pandas.DataFrame:
        """One row per query point: mean, std and quantiles (a point predictor: mean only).

        Args:
            levels: of the quantiles.
            level: in their place, that of one central interval, with columns `lower` and `upper`.
        """
        import pandas as pd  # here, since it takes a quarter of a second

        if self.is_point:
            return pd.DataFrame({"mean": self.mean})
        moments = {"mean": self.mean, "std": self.std}
        if level is not None:
            return pd.DataFrame(moments | dict(zip(("lower", "upper"), self.interval(level))))
        quantiles = self.quantile(np.array(levels))
        return pd.DataFrame(moments | {f"q{100 * each:g}": column for each, column in zip(levels, quantiles)})

    def to_xarray(self, x: Any = None) -> xarray.Dataset:
        """Mean, std and joint draws as a data set; draws have ArviZ's dimensions `chain` and `draw`.

        Args:
            x: the query points, (q, d) or (q,), to keep beside the predictions.
        """
        with extra("xarray"):
            import xarray as xr
        values: dict[str, Any] = {"mean": ("point", self.mean)}
        if not self.is_point:
            values["std"] = ("point", self.std)
        if self.draws is not None:
            values["f"] = (("chain", "draw", "point"), self.draws[None])
        if self.function_scales is not None or self.draws is not None:
            values["f_std"] = ("point", self.function_std)
        if x is not None:
            inputs = np.asarray(x, np.float64).reshape(len(self), -1)
            values["x"] = (("point", "input"), inputs)
        return xr.Dataset(values)

    def take(self, points: Any) -> Predictive:
        """The predictive at only these query points (an index array, a slice or a boolean mask)."""
        scales, draws, function_scales = (
            None if each is None else each[:, points] for each in (self.scales, self.draws, self.function_scales)
        )
        return Predictive(self.locs[:, points], scales, draws, self.weights, function_scales)

    def joined_with(self, others: Sequence[Predictive]) -> Predictive:
        """This one and others of the same components, at more query points, without draws."""
        pieces = [self, *others]
        scales = [piece.scales for piece in pieces if piece.scales is not None]
        locs = np.concatenate([piece.locs for piece in pieces], axis=1)
        return Predictive(locs, np.concatenate(scales, axis=1) if scales else None, weights=self.weights)

    def affine(self, scale: Any, shift: Any) -> Predictive:
        """The predictive of scale * y + shift, numbers or one for each point (q,); scale > 0."""
        if not np.all(np.asarray(scale) > 0):
            raise ValueError(f"The scale must be positive, not {scale}.")
        return Predictive(
            self.locs * scale + shift,
            None if self.scales is None else self.scales * scale,
            None if self.draws is None else self.draws * scale + shift,
            self.weights,
            None if self.function_scales is None else self.function_scales * scale,
        )

    def __repr__(self) -> str:
        kind = "point" if self.is_point else f"mixture of {len(self.locs)}"
        return f"Predictive({kind}, q={len(self)})"

    def _log_average(self, log_components: np.ndarray) -> np.ndarray:
        """log sum_l weights[l] exp(log_components[l]), over the first axis."""
        if self.weights is None:
            return logsumexp(log_components, axis=0) - np.log(len(self.locs))
        return logsumexp(log_components, axis=0, b=self.weights.reshape(-1, *[1] * (log_components.ndim - 1)))

    def _average(self, values: np.ndarray) -> np.ndarray:
        """Over the components, the first axis, by their weights."""
        return values.mean(0) if self.weights is None else np.tensordot(self.weights, values, 1)

    def _spread(self, scales: np.ndarray) -> np.ndarray:
        """The standard deviation of a mixture: spread within and between components."""
        return np.sqrt(self._average(scales**2) + self._average((self.locs - self.mean) ** 2))

    def _scales(self, asked: str) -> np.ndarray:
        if self.scales is None:
            raise NoDistributionError(f"This method predicts a point, not a distribution: it has no .{asked}.")
        return self.scales

    def _standardised(self, y: Any, asked: str) -> np.ndarray:
        scales = self._scales(asked)
        values = np.asarray(y, np.float64)
        ndim = max(1, values.ndim)
        return (values - self._components(self.locs, ndim)) / self._components(scales, ndim)

    def _components(self, array: np.ndarray, ndim: int) -> np.ndarray:
        """(L, q) with axes inserted so that it broadcasts against arrays (..., q) of `ndim` axes."""
        return array.reshape(len(self.locs), *([1] * (ndim - 1)), len(self))


def _broadcast(scales: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(scales, shape)
    except ValueError:
        raise ValueError(f"The standard deviations have shape {scales.shape}; the means have {shape}.") from None


def _checked_weights(weights: Any, count: int) -> np.ndarray:
    values = np.asarray(weights, np.float64)
    if values.shape != (count,):
        raise ValueError(f"The weights have shape {values.shape}; expected ({count},), one for each component.")
    if not (np.isfinite(values).all() and (values >= 0).all() and abs(values.sum() - 1) < _ROUNDING):
        raise ValueError("The weights of a predictive's components are not negative and sum to one.")
    return values / values.sum()  # of single precision they sum to one but for rounding
