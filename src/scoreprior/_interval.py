"""log P(a < Z <= b) of a standard normal, accurate for narrow intervals and in far tails; of NumPy or JAX arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float

_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


def log_interval(middle: Any, width: Any, xp: Any = np) -> Any:
    """log [P(middle - width/2 < Z <= middle + width/2) / width] of Z ~ N(0, 1): the log density where width is 0.

    Divided by the width, it is smooth down to width 0 and differentiable there. `xp` is numpy or jax.numpy.
    """
    middle = xp.abs(middle)  # the upper tail of one sign is the lower tail of the other, which has digits to spare
    # Below this width the difference of two CDFs loses more digits than the expansion: half of what cancels.
    narrow = width < float(np.finfo(middle.dtype).eps) ** 0.25
    safe = xp.where(narrow, 1.0, width)
    log_ndtr = scipy.special.log_ndtr if xp is np else jax.scipy.special.log_ndtr
    low, high = log_ndtr(-middle - safe / 2), log_ndtr(-middle + safe / 2)
    difference = high + _log1mexp(high - low, xp) - xp.log(safe)
    expansion = -0.5 * middle**2 - _HALF_LOG_2PI + _log_sinhc(middle * width / 2, xp) - width**2 / 24
    return xp.where(narrow, expansion, difference)


def mixture_interval_log_prob(
    y: Float[Array, "*b q"], locs: Float[Array, "L q"], scales: Float[Array, "L q"], half_width: Float[Array, "*#b #q"]
) -> Float[Array, "*b q"]:
    """log P(y - half_width < Y <= y + half_width) of 1/L sum_l N(locs[l], scales[l]^2).

    At half_width 0 it is the log density. At inf it is log P(Y > y), at -inf log P(Y <= y): y is the only end of such
    an interval. For losses in standardised units: gradients are finite in far tails too.
    """
    half = jnp.asarray(half_width, scales.dtype)
    components = (slice(None), *(None,) * (jnp.ndim(y) - 1))  # (L, q) against (..., q)
    locs, scales = locs[components], scales[components]
    z, bounded = (y - locs) / scales, jnp.isfinite(half)
    finite = jnp.where(bounded, half, 1.0)
    between = log_interval(z, 2 * finite / scales, jnp) - jnp.log(scales)
    beyond = jax.scipy.special.log_ndtr(-jnp.sign(half) * z)
    width = jnp.where(bounded & (half > 0), 2 * finite, 1.0)
    return jax.nn.logsumexp(jnp.where(bounded, between, beyond), axis=0) - jnp.log(len(locs)) + jnp.log(width)


def _log1mexp(x: Any, xp: Any) -> Any:
    """log(1 - exp(-x)) for x > 0, with the digits of x where it is small."""
    small = x < np.log(2)
    return xp.where(small, xp.log(-xp.expm1(-xp.where(small, x, 1.0))), xp.log1p(-xp.exp(-xp.where(small, 1.0, x))))


def _log_sinhc(x: Any, xp: Any) -> Any:
    """log(sinh(x) / x) for x >= 0."""
    small = x < 0.1
    large = xp.where(small, 1.0, x)
    series = x**2 / 6 - x**4 / 180
    return xp.where(small, xp.where(small, series, 0.0), large + _log1mexp(2 * large, xp) - xp.log(2 * large))
