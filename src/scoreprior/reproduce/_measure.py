"""Errors of estimators and of network variants over measurement sets."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scoreprior.reproduce.marginals import Sets, errors
from scoreprior.scores.fitted_network import NetworkEstimator, NetworkScore
from scoreprior.scores.sampled import Estimator

Errors = dict[str, np.ndarray]


def measure(estimator: Estimator, sets: Sets) -> Errors:
    """Errors (S,) of an estimator fitted to each set's samples; one compilation for all sets."""
    return {name: np.asarray(value) for name, value in _measure(estimator, sets).items()}


def measure_network(estimator: NetworkEstimator, sets: Sets, seeds: list[int], steps: int) -> Errors:
    """Errors (S,) of a network trained on each set's samples, the i-th with the i-th seed.

    Sets are trained one after the other by the same compiled loop: small networks side by side are no faster.
    """
    estimator = replace(estimator, training=replace(estimator.training, steps=steps))
    found = []
    for i, seed in enumerate(seeds):
        j = min(i, len(sets.x) - 1)  # one set with several seeds is one set, several times
        fitted = estimator.fit(jnp.asarray(sets.samples[j]), jnp.asarray(sets.x[j]), seed)
        found.append(_network_errors(fitted, sets.fresh[j], sets.scores[j]))
    return {name: np.asarray([float(each[name]) for each in found]) for name in found[0]}


@eqx.filter_jit
def _measure(estimator: Estimator, sets: Sets) -> dict[str, jax.Array]:
    def one(args: tuple) -> dict[str, jax.Array]:
        samples, fresh, scores = args
        return errors(estimator.fit(samples)(fresh), scores)

    return jax.lax.map(one, sets[1:])


@eqx.filter_jit
def _network_errors(fitted: NetworkScore, fresh: jax.Array, scores: jax.Array) -> dict[str, jax.Array]:
    return errors(fitted(fresh), scores)


def standard_error(values: np.ndarray) -> float:
    """Standard error of the mean over sets."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def zero_score_error(sets: Sets) -> np.ndarray:
    """RMSE (S,) of an estimate of zero: the size of the true score."""
    return np.sqrt(np.mean(sets.scores**2, axis=(1, 2)))
