"""Spectrum search: frequencies at which a spectral component would explain what the rest of the pooled model does not.

The evidence has a narrow peak at every frequency that fits, far too many to optimise from each. But a component adds
two shapes to a task, a cosine and a sine with random weights, and what two shapes add to a Gaussian likelihood is known
in closed form. The most promising of hundreds of frequencies are then compared by the evidence (`evidence.py`).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._linalg import mask_gram, whitener
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.model import Parameters, PooledTasks, leave_one_out
from scoreprior.tasks import PaddedTasks

_STEP = 1.5
"""Between two frequencies, in radians over the longest task: half of it is little beside a peak's width of 2 pi."""
_MOST = 500
_AMPLITUDES = np.array([0.05, 0.1, 0.2, 0.5, 1.0])


def frequencies(tasks: PaddedTasks) -> Float[np.ndarray, "f d"]:
    """From a quarter of a period in the longest task to half a period between neighbours, along every axis.

    Neighbours are as far apart as half of all are: where points are spaced evenly, faster ones look like slower ones.
    """
    found = []
    for axis in range(tasks.x.shape[-1]):
        ordered = [np.unique(x[mask, axis]) for x, mask in zip(np.asarray(tasks.x), np.asarray(tasks.mask))]
        gaps = np.concatenate([np.diff(values) for values in ordered])
        if not len(gaps):  # no task has two different values
            continue
        step = _STEP / max(np.ptp(values) for values in ordered if len(values))
        count = min(int(np.pi / np.median(gaps) / step), _MOST)
        found.append(step * np.arange(1, count + 1)[:, None] * np.eye(tasks.x.shape[-1])[axis])
    return np.concatenate([np.zeros((0, tasks.x.shape[-1])), *found])


def spectral_starts(
    parameters: Parameters, pool: PooledTasks, config: ProcessConfig, tried: Float[np.ndarray, "f d"]
) -> list[Parameters]:
    """Starts with a component at the frequencies that would explain most, at most `config.frequencies` of them.

    It may explain all that the other parts had to, which then start small beside it, or only some of it.
    """
    small = {name: value - 1.0 * (name in ("matern12_std", "matern52_std")) for name, value in parameters.items()}
    found = []
    for others in (small, parameters):
        gains = np.asarray(_gains(others, pool, config, tried))
        stds = np.log(_AMPLITUDES[np.argmax(gains, axis=0)])
        promising = np.argsort(-np.max(gains, axis=0), kind="stable")[: -(-config.frequencies // 2)]
        found += [others | {"spectral_std": stds[one], "spectral_frequency": tried[one]} for one in promising]
    return found


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def _gains(
    parameters: Parameters, pool: PooledTasks, config: ProcessConfig, tried: Float[np.ndarray, "f d"]
) -> Float[Array, "a f"]:
    """How much likelier all tasks are with a component, each given the others, for every amplitude and frequency."""
    means, covariances = leave_one_out(parameters, pool, config)
    one = lambda each: _gains_of_task(*each, tried=tried)  # noqa: E731
    return jnp.sum(jax.lax.map(one, (means, covariances, *pool.tasks[:3])), axis=0)


def _gains_of_task(
    mean: Float[Array, " m"],
    covariance: Float[Array, "m m"],
    x: Float[Array, "m d"],
    y: Float[Array, " m"],
    mask: Bool[Array, " m"],
    *,
    tried: Float[np.ndarray, "f d"],
) -> Float[Array, "a f"]:
    """With whitened residual r and shapes W (m, 2), M = W^T W, v = W^T r and weights of variance a^2:

    gain = (v^T (I / a^2 + M)^-1 v - log det(I + a^2 M)) / 2.
    """
    phase = x @ jnp.asarray(tried).T
    shapes = jnp.concatenate([jnp.cos(phase), jnp.sin(phase), (y - mean)[:, None]], axis=1)
    white = whitener(mask_gram(covariance, mask), 1e-10) @ jnp.where(mask[:, None], shapes, 0.0)
    cosine, sine, residual = white[:, : len(tried)], white[:, len(tried) : -1], white[:, -1]
    variances = jnp.asarray(_AMPLITUDES)[:, None] ** 2
    cc, ss = (1 + variances * jnp.sum(part**2, axis=0) for part in (cosine, sine))
    cs = variances * jnp.sum(cosine * sine, axis=0)
    determinant = cc * ss - cs**2
    vc, vs = residual @ cosine, residual @ sine
    explained = variances * (ss * vc**2 - 2 * cs * vc * vs + cc * vs**2) / determinant
    return 0.5 * (explained - jnp.log(determinant))
