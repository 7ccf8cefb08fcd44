"""Coordinates in which samples have unit covariance, and any estimator in them.

    s(f) = R^T estimate(R (f - m)),   R = S^-1/2

Function values at close-by inputs are nearly equal, so a marginal's variances differ by orders of magnitude between
directions, and so does its score. A kernel with one bandwidth, or a network with a bounded slope, sees the wide
directions only; after whitening all are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from scoreprior.scores.gaussian import Gaussian
from scoreprior.scores.regression import eigh
from scoreprior.scores.sampled import Estimator


class Whitening(eqx.Module):
    """z = R (f - mean); the symmetric root R = S^-1/2 treats all coordinates alike."""

    mean: Float[Array, " d"]
    root: Float[Array, "d d"]

    def __call__(self, f: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Whitened points."""
        return (f - self.mean) @ self.root

    def pull_back(self, score: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The score of f, given that of z: R^T s."""
        return score @ self.root


def whitening(mean: Float[Array, " d"], covariance: Float[Array, "d d"]) -> Whitening:
    """To mean zero and unit covariance; directions of no variance at all get 1e-7 of the average one."""
    values, vectors = eigh(covariance)
    average = jnp.mean(values)
    values = jnp.maximum(values, jnp.where(average > 0, 1e-7 * average, 1.0))
    return Whitening(mean, (vectors / jnp.sqrt(values)) @ vectors.T)


@dataclass(frozen=True)
class Whitened:
    """An estimator applied to whitened samples."""

    estimator: Estimator

    def fit(self, samples: Float[Array, "n d"]) -> WhitenedScore:
        """The score of the distribution that the samples (n, d) come from."""
        change = whitening(jnp.mean(samples, axis=0), Gaussian().covariance(samples))
        return WhitenedScore(change, self.estimator.fit(change(samples)))


class WhitenedScore(eqx.Module):
    """R^T s(R (f - mean)): points (m, d) -> (m, d)."""

    change: Whitening
    score: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]

    def __call__(self, points: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return self.change.pull_back(self.score(self.change(points)))
