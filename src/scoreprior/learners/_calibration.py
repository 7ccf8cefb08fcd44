"""Choose what inference uses by how well it predicts: meta-training tasks are split, their later points predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.special import logsumexp

from scoreprior.learners._base import bare, evaluate_many, infer_in_chunks
from scoreprior.learners.mars_prior import MARSPrior
from scoreprior.tasks import PaddedTasks, bucket

Hyper = Literal["noise_std", "bandwidth", "temperature"]
_FACTORS: dict[str, tuple[float, ...]] = {
    "noise_std": (0.5, 0.7, 1.0, 1.4, 2.0),
    "bandwidth": (0.1, 0.3, 1.0, 3.0, 10.0),
    "temperature": (0.3, 1.0, 3.0),
}
_SHARES = (0.5, 0.25, 0.75)
_MOST_SPLITS = 20


def learn_hyper(
    prior: MARSPrior, tasks: PaddedTasks, names: tuple[Hyper, ...], key: PRNGKeyArray
) -> tuple[MARSPrior, float]:
    """The prior with the named settings changed, one after the other, to what predicts best; and the NLL there.

    Candidates are factors of the present value; settings are arrays, so all candidates share one compiled inference.
    """
    best, hyper = float("inf"), prior.hyper
    for name in names:
        present, found = getattr(hyper, name), hyper
        for factor in _FACTORS[name]:
            candidate = replace(hyper, **{name: present * factor})
            value = float(np.mean(predictive_nll(eqx.tree_at(lambda p: p.hyper, prior, candidate), tasks, key)))
            if value < best:
                found, best = candidate, value
        hyper = found
    if not np.isfinite(best):
        raise FloatingPointError("No candidate gave finite predictions on the meta-training tasks.")
    return eqx.tree_at(lambda p: p.hyper, prior, hyper), best


def predictive_nll(prior: MARSPrior, tasks: PaddedTasks, key: PRNGKeyArray) -> Float[np.ndarray, " s"]:
    """Mean negative log density of the later points of tasks given the earlier ones, one figure for every split.

    A task's first half, quarter or three quarters (in the order of its rows) is the context. There are as many splits
    as fill whole chunks: the inference compiled here is the one that will be used.
    """
    sizes = np.asarray(tasks.mask).sum(axis=1)
    usable = np.flatnonzero(sizes >= 2)
    if not len(usable):
        raise ValueError("No meta-training task has two points: nothing can be predicted from its own context.")
    pick_key, run_key = jax.random.split(key)
    splits = np.asarray(
        [(task, share) for share in _SHARES for task in np.asarray(jax.random.permutation(pick_key, usable))]
    )
    chunk = prior.chunk or len(splits)
    count = min(_MOST_SPLITS, -(-len(splits) // chunk) * chunk)
    splits = np.resize(splits, (count, 2))
    rows = splits[:, 0].astype(int)
    length = bucket(tasks.mask.shape[1])
    x, y, mask = (_lengthened(np.asarray(leaf)[rows], length) for leaf in tasks)
    seen = mask & (np.arange(length) < np.clip(np.round(splits[:, 1] * sizes[rows]), 1, sizes[rows] - 1)[:, None])
    context = PaddedTasks(*map(jnp.asarray, (x, np.where(seen, y, 0.0), seen)))
    stripped = bare(prior)
    state = infer_in_chunks(stripped, context, jax.random.split(run_key, count), chunk)
    mixture = evaluate_many(stripped, state, jnp.asarray(x))
    locs, scales = np.asarray(mixture.locs, np.float64), np.asarray(mixture.scales, np.float64)
    parts = -0.5 * ((y[:, None] - locs) / scales) ** 2 - np.log(scales) - 0.5 * np.log(2 * np.pi)
    log_prob = logsumexp(parts, axis=1) - np.log(locs.shape[1])
    target = mask & ~seen
    return -np.sum(np.where(target, log_prob, 0.0), axis=1) / target.sum(axis=1)


def _lengthened(leaf: np.ndarray, length: int) -> np.ndarray:
    return np.pad(leaf, [(0, 0), (0, length - leaf.shape[1])] + [(0, 0)] * (leaf.ndim - 2))
