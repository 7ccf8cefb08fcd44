"""Exact scores of Gaussian and Student-t process marginals: the truth that estimators are measured against.

`mean` maps x (k, d) to (k,), `kernel` maps x (k, d), x' (k', d) to (k, k'), as `tinygp.kernels` do. At
close-by points a Gram matrix is nearly singular; score, density and draws all use the same jittered factor:
they belong to one distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, logsumexp
from jaxtyping import Array, Float

from scoreprior._linalg import JITTER, cholesky, gaussian_log_prob, solve_cholesky, solve_lower
from scoreprior._types import KeyLike, as_key

Mean: TypeAlias = Callable[[Any], Any]
Kernel: TypeAlias = Callable[[Any, Any], Any]
Noise: TypeAlias = float | Float[Array, "*#k"]
"""Standard deviation of the noise: one for all points, or one for each."""


class GaussianProcessScore(eqx.Module):
    """The score of f^X + noise * eps for f ~ GP(mean, kernel)."""

    mean: Mean
    kernel: Kernel

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Noise = 0.0) -> Float[Array, " k"]:
        """-(K + noise^2 I)^-1 (f - m), (k,)."""
        return -solve_cholesky(cholesky(self._gram(x, noise)), f - self.mean(x))

    def log_prob(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Noise = 0.0) -> Float[Array, ""]:
        """log N(f; m, K + noise^2 I)."""
        return gaussian_log_prob(f - self.mean(x), self._gram(x, noise), jnp.ones(len(f), bool))

    def sample(self, x: Float[Array, "k d"], key: KeyLike, n: int, noise: Noise = 0.0) -> Float[Array, "n k"]:
        """Joint draws at x, (n, k)."""
        factor = cholesky(self._gram(x, noise))
        return self.mean(x) + jax.random.normal(as_key(key), (n, len(x)), factor.dtype) @ factor.T

    def _gram(self, x: Float[Array, "k d"], noise: Noise) -> Float[Array, "k k"]:
        return self.kernel(x, x) + jnp.asarray(noise, x.dtype) ** 2 * jnp.eye(len(x), dtype=x.dtype)


class StudentTProcessScore(eqx.Module):
    """The score of f^X + noise * eps for a Student-t process f with covariance K (Shah et al., 2014).

    f = m + sqrt(r) g, g ~ GP(0, K), r ~ InverseGamma(df / 2, (df - 2) / 2): the shape matrix is
    (df - 2) / df K. The noise is Gaussian, the same at all points, and does not scale with r, as in denoising score
    matching. Without noise (the number 0) the score is in closed form; with it r is integrated by the trapezoid rule in
    log r, which converges exponentially: `nodes` = 256 are plenty for df + k up to some hundreds.

    Args:
        df: degrees of freedom, more than 2.
        nodes: number of trapezoid nodes.
    """

    mean: Mean
    kernel: Kernel
    df: Float[Array, ""]
    nodes: int = eqx.field(static=True)

    def __init__(self, mean: Mean, kernel: Kernel, df: float | Array, *, nodes: int = 256):
        if isinstance(df, (int, float)) and not df > 2:
            raise ValueError(f"df must be more than 2 for the covariance to exist, not {df}.")
        self.mean = mean
        self.kernel = kernel
        self.df = jnp.asarray(df, float)
        self.nodes = nodes

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Noise = 0.0) -> Float[Array, " k"]:
        """-(df + k) / (df - 2 + delta) K^-1 (f - m) with delta = (f - m)^T K^-1 (f - m), (k,)."""
        residual = f - self.mean(x)
        if _is_zero(noise):
            direction = solve_cholesky(cholesky(self.kernel(x, x)), residual)
            return -(self.df + len(f)) / (self.df - 2 + residual @ direction) * direction
        log_joint, variances, basis = self._over_scales(residual, x, noise)
        # Fisher's identity: the score is the posterior mean over r of the Gaussian scores given r.
        precision = jax.nn.softmax(log_joint) @ (1 / variances)
        return -basis @ (precision * (basis.T @ residual))

    def log_prob(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Noise = 0.0) -> Float[Array, ""]:
        """Log density of the multivariate t with df degrees of freedom, mean m, covariance K (plus noise)."""
        residual = f - self.mean(x)
        if not _is_zero(noise):
            return logsumexp(self._over_scales(residual, x, noise)[0])
        df, k = self.df, len(f)
        factor = cholesky(self.kernel(x, x))
        delta = jnp.sum(solve_lower(factor, residual) ** 2)
        log_norm = gammaln((df + k) / 2) - gammaln(df / 2) - 0.5 * k * jnp.log(jnp.pi * (df - 2))
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor)))
        return log_norm - log_det - 0.5 * (df + k) * jnp.log1p(delta / (df - 2))

    def sample(self, x: Float[Array, "k d"], key: KeyLike, n: int, noise: Noise = 0.0) -> Float[Array, "n k"]:
        """Joint draws at x, (n, k); one r per draw."""
        scale_key, process_key, noise_key = jax.random.split(as_key(key), 3)
        factor = cholesky(self.kernel(x, x))
        r = 0.5 * (self.df - 2) / jax.random.gamma(scale_key, self.df / 2, (n, 1), factor.dtype)
        f = self.mean(x) + jnp.sqrt(r) * (jax.random.normal(process_key, (n, len(x)), factor.dtype) @ factor.T)
        return f if _is_zero(noise) else f + noise * jax.random.normal(noise_key, f.shape, f.dtype)

    def _over_scales(
        self, residual: Float[Array, " k"], x: Float[Array, "k d"], noise: Noise
    ) -> tuple[Float[Array, " nodes"], Float[Array, "nodes k"], Float[Array, "k k"]]:
        """log p(f, r) + log weight at the nodes, variances r lambda + noise^2, the eigenbasis of K."""
        gram = self.kernel(x, x)
        eigenvalues, basis = jnp.linalg.eigh(gram)
        eigenvalues = jnp.maximum(eigenvalues, 0.0) + JITTER * jnp.mean(jnp.diagonal(gram))
        white = basis.T @ residual
        shape, rate = self.df / 2, (self.df - 2) / 2
        # Below, the prior is negligible whatever the data; above, r exceeds any scale that noise-free data
        # could ask for by the range over which its prior, of tail r^-shape, falls by e^-20.
        low = jnp.log(rate) - jnp.log(2 * shape + len(x) + 60)
        high = jnp.log(rate + 0.5 * jnp.sum(white**2 / eigenvalues)) + 20 / shape
        log_r = jax.lax.stop_gradient(jnp.linspace(low, high, self.nodes))
        variances = jnp.exp(log_r)[:, None] * eigenvalues + jnp.asarray(noise) ** 2
        log_likelihood = -0.5 * jnp.sum(white**2 / variances + jnp.log(2 * jnp.pi * variances), axis=-1)
        log_prior = shape * jnp.log(rate) - gammaln(shape) - shape * log_r - rate * jnp.exp(-log_r)
        return log_likelihood + log_prior + jnp.log(log_r[1] - log_r[0]), variances, basis


def _is_zero(noise: Noise) -> bool:
    """Whether this is the number 0, and not an array whose value is not known when a function is compiled."""
    return isinstance(noise, (int, float)) and noise == 0
