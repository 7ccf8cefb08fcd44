"""Gaussian processes: what a prior over functions looks like when its marginals are Gaussian. Standardised units."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._linalg import cholesky, gaussian_log_prob, mask_gram, solve_cholesky, solve_lower
from scoreprior.gp.kernels import Kernel, Mean
from scoreprior.gp.scale import ScaleCalibration, explained_fraction, surprise
from scoreprior.tasks import PointNoise


def point_variance(variance: Float[Array, ""], noise: PointNoise | None) -> Float[Array, "*m"]:
    """Noise variance of points: that of one measurement over their replicates, plus what is known beside."""
    return variance if noise is None else variance / noise.replicates + noise.variance


class Conditioned(eqx.Module):
    """What a process keeps of one task's points: inputs, factor of K + noise, K^-1 residual, their surprise."""

    x: Float[Array, "m d"]
    mask: Bool[Array, " m"]
    factor: Float[Array, "m m"]
    weights: Float[Array, " m"]
    surprise: Float[Array, ""]


class GaussianProcess(eqx.Module):
    """f ~ GP(mean, kernel), y = f(x) + noise_std * eps; predictives of y may have a Student-t's tails."""

    mean: Mean
    kernel: Kernel
    noise_std: Float[Array, ""]
    # Relative scales of the equally likely Gaussians that a predictive of y is made of; a single 1 is Gaussian.
    tails: Float[Array, " c"] = eqx.field(default_factory=lambda: np.ones(1, np.float32))
    scale: ScaleCalibration | None = None

    def condition(
        self,
        x: Float[Array, "m d"],
        y: Float[Array, " m"],
        mask: Bool[Array, " m"],
        noise: PointNoise | None = None,
        weight: Float[Array, ""] | None = None,  # in learning alone
    ) -> Conditioned:
        """The posterior given one padded task; no real point leaves the prior."""
        factor = cholesky(self._gram(x, mask, noise))
        residual = jnp.where(mask, y - self.mean(x), 0.0)
        squares = jnp.sum(solve_lower(factor, residual) ** 2)
        return Conditioned(x, mask, factor, solve_cholesky(factor, residual), surprise(squares, jnp.sum(mask)))

    def scale_factors(
        self,
        mean: Float[Array, " q"],
        variance: Float[Array, " q"],
        prior_variance: Float[Array, " q"],
        surprise: Float[Array, ""],
    ) -> Float[Array, "c q"]:
        """Factors on the scale of a predictive of y: one row for each Gaussian of its tails.

        The variances are those of the noise-free function, given the task's points and before them.
        """
        if self.scale is None:
            return self.tails[:, None] * jnp.ones_like(mean)
        noise = self.noise_std**2
        explained = explained_fraction(variance + noise, prior_variance + noise)
        return self.tails[:, None] * self.scale(mean, explained, surprise)

    def noise_variance(self, noise: PointNoise | None) -> Float[Array, "*m"]:
        """Of each point, given what is known of it."""
        return point_variance(self.noise_std**2, noise)

    def log_likelihood(
        self,
        x: Float[Array, "m d"],
        y: Float[Array, " m"],
        mask: Bool[Array, " m"],
        noise: PointNoise | None = None,
        weight: Float[Array, ""] | None = None,  # in learning alone
    ) -> Float[Array, ""]:
        """log p(y | x) of one padded task."""
        return gaussian_log_prob(jnp.where(mask, y - self.mean(x), 0.0), self._gram(x, mask, noise), mask)

    def predict(self, state: Conditioned, x: Float[Array, "q d"]) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
        """Posterior mean and covariance of the noise-free function at x."""
        cross, white = self._cross(state, x)
        return self.mean(x) + cross @ state.weights, self.kernel(x, x) - white.T @ white

    def predict_marginals(
        self, state: Conditioned, x: Float[Array, "q d"]
    ) -> tuple[Float[Array, " q"], Float[Array, " q"]]:
        """Posterior mean and variance of the noise-free function at each point of x."""
        cross, white = self._cross(state, x)
        variance = self.kernel.diagonal(x) - jnp.sum(white**2, axis=0)
        return self.mean(x) + cross @ state.weights, jnp.maximum(variance, 0.0)

    def sample(self, state: Conditioned, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of the noise-free function from the posterior."""
        mean, covariance = self.predict(state, x)
        # The jitter scales with the prior's variance: next to data the posterior's own is round-off.
        floor = 1e-5 * jnp.mean(self.kernel.diagonal(x))
        factor = cholesky(covariance + floor * jnp.eye(len(x)))
        return mean + factor @ jax.random.normal(key, (len(x),))

    def score(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, " k"]:
        """Score of the marginal of f + noise * eps at x: -(K + noise^2 I)^-1 (f - mean); one noise, or one a point."""
        gram = self.kernel(x, x) + noise**2 * jnp.eye(len(x))
        return -solve_cholesky(cholesky(gram), f - self.mean(x))

    def sample_prior(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of the noise-free function from the prior."""
        return self.mean(x) + cholesky(self.kernel(x, x)) @ jax.random.normal(key, (len(x),))

    def _gram(
        self, x: Float[Array, "m d"], mask: Bool[Array, " m"], noise: PointNoise | None = None
    ) -> Float[Array, "m m"]:
        return mask_gram(self.kernel(x, x) + self.noise_variance(noise) * jnp.eye(len(x)), mask)

    def _cross(self, state: Conditioned, x: Float[Array, "q d"]) -> tuple[Float[Array, "q m"], Float[Array, "m q"]]:
        cross = jnp.where(state.mask[None, :], self.kernel(x, state.x), 0.0)
        return cross, solve_lower(state.factor, cross.T)
