"""The score of a Gaussian with the samples' mean and covariance: the estimator that any other has to beat.

    s(f) = -S^-1 (f - m)

`Gaussian` takes S = n / (n - d - 2) C, with C the samples' covariance: the factor makes the precision S^-1, and so the
score, unbiased for Gaussian samples. It is equivariant to affine maps: directions in which the samples hardly
vary, as function values at close-by inputs have them, are estimated as well as others. It needs n well above d.

`ShrunkGaussian` takes S = (1 - w) C + w tr(C) / d I with Ledoit and Wolf's (2004) weight w: no tuning, 0 with many
samples, and defined for any n; but w of the average variance swamps directions with little of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from scoreprior._linalg import cholesky, solve_cholesky

_JITTER = 1e-7
"""Of the average variance; a process's marginals have directions with a hundred thousandth of that."""


class GaussianScore(eqx.Module):
    """-(L L^T)^-1 (f - mean)."""

    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]

    def __call__(self, points: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return -solve_cholesky(self.factor, (points - self.mean).T).T


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian with the samples' own moments."""

    def covariance(self, samples: Float[Array, "n d"]) -> Float[Array, "d d"]:
        """The samples' covariance, scaled to an unbiased precision."""
        count, d = samples.shape
        centred = samples - jnp.mean(samples, axis=0)
        return centred.T @ centred / max(count - d - 2, 1)

    def fit(self, samples: Float[Array, "n d"]) -> GaussianScore:
        """The score of the Gaussian fitted to samples (n, d)."""
        return _fitted(samples, self.covariance(samples))


@dataclass(frozen=True)
class ShrunkGaussian:
    """A Gaussian with the samples' moments, the covariance shrunk to a multiple of the identity."""

    def covariance(self, samples: Float[Array, "n d"]) -> Float[Array, "d d"]:
        """The samples' shrunk covariance."""
        return shrunk_covariance(samples)

    def fit(self, samples: Float[Array, "n d"]) -> GaussianScore:
        """The score of the Gaussian fitted to samples (n, d)."""
        return _fitted(samples, self.covariance(samples))


def _fitted(samples: Float[Array, "n d"], covariance: Float[Array, "d d"]) -> GaussianScore:
    # Samples that all coincide have no scale of their own: unit variance keeps the score finite.
    degenerate = jnp.where(jnp.trace(covariance) > 0, 0.0, 1.0) * jnp.eye(len(covariance), dtype=samples.dtype)
    return GaussianScore(jnp.mean(samples, axis=0), cholesky(covariance + degenerate, _JITTER))


def shrunk_covariance(samples: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """(1 - w) C + w tr(C) / d I with w estimated from the samples."""
    count, d = samples.shape
    centred = samples - jnp.mean(samples, axis=0)
    covariance = centred.T @ centred / count
    mean_variance = jnp.trace(covariance) / d
    total = jnp.sum(covariance**2)
    spread = total - d * mean_variance**2
    error = (jnp.mean(jnp.sum(centred**2, axis=1) ** 2) - total) / count
    weight = jnp.clip(error / jnp.maximum(spread, 1e-12 * total + jnp.finfo(samples.dtype).tiny), 0.0, 1.0)
    return (1 - weight) * covariance + weight * mean_variance * jnp.eye(d, dtype=samples.dtype)


def gaussian_score(
    points: Float[Array, "S k"], draws: Float[Array, "S k"], noise: Float[Array, ""]
) -> Float[Array, "S k"]:
    """-(C + noise^2 I)^-1 (point - mean) with the draws' mean and their shrunk covariance C."""
    covariance = shrunk_covariance(draws) + noise**2 * jnp.eye(draws.shape[1], dtype=draws.dtype)
    return GaussianScore(jnp.mean(draws, axis=0), cholesky(covariance))(points)
