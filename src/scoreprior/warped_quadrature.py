"""Integrals over the range of a warped target: nodes, weights, and its CDF at the nodes.

Moments and the CRPS are integrals of functions of t and of F(t). Of a discrete target they are sums over its values. Of
others F is smooth on the scale of the components, so Gauss-Legendre panels of at most that width are accurate, and flat
where no component reaches and next to a bound that values within half a step are taken for.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scoreprior.predictive import Predictive
from scoreprior.tasks.warp import Warp

_MOST_VALUES = 500
"""Values of a discrete target that are summed one by one; beyond them rounding hardly matters."""
_MOST_PANELS = 300
_WIDEST = 0.5  # of a panel, in units of z, over which the map itself is smooth
_REACH = 9.0  # standard deviations beyond which nothing is left
_OFFSETS = np.linspace(-_REACH, _REACH, 25)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_LARGEST = 600.0  # of z: its exponential is still a number

Grid = Float[np.ndarray, "n q"]


def quadrature(latent: Predictive, warp: Warp, split: Float[np.ndarray, " q"] | None = None) -> tuple[Grid, Grid, Grid]:
    """Nodes t, weights, and F(t): sum_n weights g(t, F(t)) is the integral of g from the least value to the largest.

    Args:
        latent: the mixture of what the map sends the target to.
        warp: the map.
        split: of each point, a value where g may jump.
    """
    assert latent.scales is not None
    # A lognormal's second moment has its mass up to two variances above its mean.
    reach = (latent.locs - _REACH * latent.scales, latent.locs + (_REACH + 2 * latent.scales) * latent.scales)
    ends = reach[0].min(0), np.minimum(reach[1].max(0), _LARGEST)
    if not warp.discrete:
        return _panels(latent, warp, ends, split, warp.low)
    top = warp.high if np.isfinite(warp.high) else float(np.max(warp.inverse(ends[1])))
    count = int(min(np.ceil((top - warp.low) / warp.step), _MOST_VALUES))
    summed, rest = warp.low + count * warp.step, _sum(latent, warp, count)
    if count < _MOST_VALUES and (split is None or split.max() <= summed):
        return rest
    pieces = zip(rest, _panels(latent, warp, ends, split, summed))
    t, weights, below = (np.concatenate(pair) for pair in pieces)
    return t, weights, below


def _sum(latent: Predictive, warp: Warp, count: int) -> tuple[Grid, Grid, Grid]:
    """Over the values: between one and the next F is constant, and the mean of t is in the middle."""
    values = np.broadcast_to(warp.low + warp.step * np.arange(count)[:, None], (count, len(latent)))
    return values + 0.5 * warp.step, np.full(values.shape, warp.step), latent.cdf(warp.up_to(values))


def _panels(
    latent: Predictive,
    warp: Warp,
    ends: tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]],
    split: Float[np.ndarray, " q"] | None,
    start: float,
) -> tuple[Grid, Grid, Grid]:
    """From `start` on."""
    edges = warp.inverse(_edges(latent, *ends))
    highest = edges.max(0) if split is None else np.maximum(edges.max(0), split)
    half = 0.0 if warp.discrete else 0.5 * warp.step
    low, high = np.full(len(latent), start), np.maximum(np.minimum(highest, warp.high), start)
    further = [low, low + half, high, np.minimum(high, warp.high - half)] + ([] if split is None else [split])
    edges = np.sort(np.clip(np.concatenate([edges, further]), low, high), axis=0)
    width = 0.5 * np.diff(edges, axis=0)
    t = edges[:-1, None] + width[:, None] * (1 + _NODES[:, None])
    t = t.reshape(-1, len(latent))
    weights = (width[:, None] * _WEIGHTS[:, None]).reshape(t.shape)
    continuous = warp.forward(np.clip(t, warp.low + half, warp.high - half))
    return t, weights, latent.cdf(continuous)


def _edges(latent: Predictive, low: Float[np.ndarray, " q"], high: Float[np.ndarray, " q"]) -> Grid:
    """Ends of panels in z: evenly spaced, or around each component where some are very narrow."""
    assert latent.scales is not None
    spacing = np.minimum(latent.scales.min(0), _WIDEST)
    count = int(np.ceil(np.max((high - low) / spacing)))
    if count <= max(_MOST_PANELS, len(_OFFSETS) * len(latent.locs)):
        return low + (high - low) * np.linspace(0, 1, count + 1)[:, None]
    around = latent.locs + latent.scales * _OFFSETS[:, None, None]
    even = low + (high - low) * np.linspace(0, 1, _MOST_PANELS + 1)[:, None]
    return np.concatenate([around.reshape(-1, len(latent)), even])
