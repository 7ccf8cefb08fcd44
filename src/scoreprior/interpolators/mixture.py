"""The exact score and posterior of the process that GP interpolation makes of the tasks.

A random task's interpolating process, noised with covariance Sigma, has marginals

    p(f^X) = 1/n sum_i N(f; m_i(X), C_i(X) + Sigma),    Sigma = noise^2 I + tau^2 R(X, X)

with m_i, C_i the posterior of task i and R the interpolator's kernel at unit variance. What a perfect score network
would learn is therefore known, and so is the posterior: it tells errors of interpolator, network and inference apart.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from scoreprior._linalg import cholesky, gaussian_log_prob, mask_gram, solve_cholesky, solve_lower
from scoreprior.interpolators.gp import FittedGP
from scoreprior.tasks import PaddedTasks

LEVELS = (0.05, 0.1, 0.2, 0.3)
TAUS = (0.0, 0.1, 0.2, 0.3, 0.5)
"""Candidates of the two bandwidths, standardised units."""


class ProcessMixture(eqx.Module):
    """The score s(f, x, noise) of the interpolated process, exactly.

    Args:
        fitted: a Gaussian process conditioned on every task.
        tau: standard deviation of the correlated part of the noise.
    """

    fitted: FittedGP
    tau: Float[Array, ""]

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, " k"]:
        """sum_i w_i (C_i + Sigma)^-1 (m_i - f), w_i the share of task i in the density at f."""
        means, factors = self._factors(x, noise)
        white = jax.vmap(lambda mean, factor: solve_lower(factor, f - mean))(means, factors)
        scores = jax.vmap(lambda mean, factor: solve_cholesky(factor, mean - f))(means, factors)
        return jax.nn.softmax(_log_density(white, factors)) @ scores

    def log_prob(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, ""]:
        """log p(f^X)."""
        means, factors = self._factors(x, noise)
        white = jax.vmap(lambda mean, factor: solve_lower(factor, f - mean))(means, factors)
        return logsumexp(_log_density(white, factors)) - jnp.log(len(means)) - 0.5 * len(f) * jnp.log(2 * jnp.pi)

    def moments(
        self, x: Float[Array, "k d"], noise: Float[Array, "*#k"]
    ) -> tuple[Float[Array, "n k"], Float[Array, "n k k"]]:
        """Mean and covariance of every component."""
        process = self.fitted.process
        means, covariances = jax.vmap(lambda state: process.predict(state, x))(self.fitted.states)
        added = noise**2 * jnp.eye(len(x)) + self.tau**2 * correlation(self.fitted, x)
        return means, covariances + added

    def evidences(self, task: PaddedTasks, noise: Float[Array, ""]) -> Float[Array, " n"]:
        """log N(y; m_i, C_i + Sigma) of one padded task under every component."""
        means, covariances = self.moments(task.x, noise)

        def one(mean: Array, covariance: Array) -> Array:
            gram = mask_gram(covariance, task.mask)
            return gaussian_log_prob(jnp.where(task.mask, task.y - mean, 0.0), gram, task.mask)

        return jax.vmap(one)(means, covariances)

    def condition(
        self, task: PaddedTasks, x: Float[Array, "q d"], noise_std: Float[Array, ""], level: Float[Array, ""]
    ) -> tuple[Float[Array, " n"], Float[Array, "n q"], Float[Array, "n q"]]:
        """Log weights, means and variances of y at x, given y at the task's points: Bayes' rule in every component."""
        known, noise = len(task.y), jnp.sqrt(noise_std**2 + level**2)
        means, covariances = self.moments(jnp.concatenate([task.x, x]), noise)

        def one(mean: Array, covariance: Array) -> tuple[Array, Array, Array]:
            gram = mask_gram(covariance[:known, :known], task.mask)
            residual = jnp.where(task.mask, task.y - mean[:known], 0.0)
            cross = jnp.where(task.mask[None, :], covariance[known:, :known], 0.0)
            factor = cholesky(gram)
            explained = jnp.sum(solve_lower(factor, cross.T) ** 2, axis=0)
            variance = jnp.maximum(jnp.diagonal(covariance)[known:] - explained, noise_std**2)
            evidence = gaussian_log_prob(residual, gram, task.mask)
            return evidence, mean[known:] + cross @ solve_cholesky(factor, residual), variance

        return jax.vmap(one)(means, covariances)

    def _factors(
        self, x: Float[Array, "k d"], noise: Float[Array, "*#k"]
    ) -> tuple[Float[Array, "n k"], Float[Array, "n k k"]]:
        means, covariances = self.moments(x, noise)
        return means, jax.vmap(cholesky)(covariances)


def correlation(fitted: FittedGP, x: Float[Array, "k d"]) -> Float[Array, "k k"]:
    """The interpolator's kernel at unit variance."""
    kernel = fitted.process.kernel
    scale = jnp.sqrt(kernel.diagonal(x))
    return kernel(x, x) / (scale[:, None] * scale[None, :])


@eqx.filter_jit
def choose_bandwidths(
    fitted: FittedGP,
    tasks: PaddedTasks,
    levels: Float[Array, " l"],
    taus: Float[Array, " t"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The level and tau under which left-out tasks are most likely: bandwidths of a density estimate over functions.

    The largest mean_j log 1/(n-1) sum_{i != j} N(y_j; m_i, C_i + (level^2 + noise_std^2) I + tau^2 R), in closed form.
    """
    chosen = jnp.arange(len(tasks.mask))

    def score(pair: Float[Array, "2"]) -> Float[Array, ""]:
        mixture, noise = ProcessMixture(fitted, pair[1]), jnp.sqrt(fitted.noise_std**2 + pair[0] ** 2)

        def left_out(j: Array) -> Array:
            task = jax.tree.map(lambda leaf: jnp.asarray(leaf)[j], tasks)
            return logsumexp(jnp.where(chosen == j, -jnp.inf, mixture.evidences(task, noise)))

        return jnp.mean(jax.lax.map(left_out, chosen))

    pairs = jnp.stack(jnp.meshgrid(levels, taus, indexing="ij"), axis=-1).reshape(-1, 2)
    best = pairs[jnp.nanargmax(jax.lax.map(score, pairs))]
    return best[0], best[1]


def _log_density(white: Float[Array, "n k"], factors: Float[Array, "n k k"]) -> Float[Array, " n"]:
    """log N up to the constant, from whitened residuals."""
    log_determinants = jnp.sum(jnp.log(jnp.diagonal(factors, axis1=1, axis2=2)), axis=1)
    return -0.5 * jnp.sum(white**2, axis=1) - log_determinants
