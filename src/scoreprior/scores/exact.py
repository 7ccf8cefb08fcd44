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


class GaussianProcessScore(eqx.Module):
    """The score of f^X + noise_std * eps for f ~ GP(mean, kernel)."""

    mean: Mean
    kernel: Kernel
    noise_std: Float[Array, ""]

    def __init__(self, mean: Mean, kernel: Kernel, noise_std: float | Array = 0.0):
        self.mean = mean
        self.kernel = kernel
        self.noise_std = jnp.asarray(noise_std, float)

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"]) -> Float[Array, " k"]:
        """-(K + noise_std^2 I)^-1 (f - m), (k,)."""
        return -solve_cholesky(cholesky(self._gram(x)), f - self.mean(x))

    def log_prob(self, f: Float[Array, " k"], x: Float[Array, "k d"]) -> Float[Array, ""]:
        """log N(f; m, K + noise_std^2 I)."""
        return gaussian_log_prob(f - self.mean(x), self._gram(x), jnp.ones(len(f), bool))

    def sample(self, x: Float[Array, "k d"], key: KeyLike, n: int) -> Float[Array, "n k"]:
        """Joint draws at x, (n, k)."""
        factor = cholesky(self._gram(x))
        return self.mean(x) + jax.random.normal(as_key(key), (n, len(x)), factor.dtype) @ factor.T

    def _gram(self, x: Float[Array, "k d"]) -> Float[Array, "k k"]:
        return self.kernel(x, x) + self.noise_std**2 * jnp.eye(len(x), dtype=x.dtype)


class StudentTProcessScore(eqx.Module):
    """The score of f^X + noise_std * eps for a Student-t process f with covariance K (Shah et al., 2014).

    f = m + sqrt(r) g, g ~ GP(0, K), r ~ InverseGamma(df / 2, (df - 2) / 2): the shape matrix is
    (df - 2) / df K. The noise is Gaussian and does not scale with r, as in denoising score matching at level
    `noise_std`. Without it the score is in closed form; with it r is integrated by the trapezoid rule in
    log r, which converges exponentially: `nodes` = 256 are plenty for df + k up to some hundreds.

    Args:
        df: degrees of freedom, more than 2.
        noise_std: standard deviation of the noise; 0 is the process itself.
        nodes: number of trapezoid nodes.
    """

    mean: Mean
    kernel: Kernel
    df: Float[Array, ""]
    noise_std: Float[Array, ""] | None
    nodes: int = eqx.field(static=True)

    def __init__(
        self,
        mean: Mean,
        kernel: Kernel,
        df: float | Array,
        noise_std: float | Array = 0.0,
        *,
        nodes: int = 256,
    ):
        if isinstance(df, (int, float)) and not df > 2:
            raise ValueError(f"df must be more than 2 for the covariance to exist, not {df}.")
        self.mean = mean
        self.kernel = kernel
        self.df = jnp.asarray(df, float)
        noiseless = isinstance(noise_std, (int, float)) and noise_std == 0
        self.noise_std = None if noiseless else jnp.asarray(noise_std, float)
        self.nodes = nodes

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"]) -> Float[Array, " k"]:
        """-(df + k) / (df - 2 + delta) K^-1 (f - m) with delta = (f - m)^T K^-1 (f - m), (k,)."""
        residual = f - self.mean(x)
        if self.noise_std is None:
            direction = solve_cholesky(cholesky(self.kernel(x, x)), residual)
            return -(self.df + len(f)) / (self.df - 2 + residual @ direction) * direction
        log_joint, variances, basis = self._over_scales(residual, x)
        # Fisher's identity: the score is the posterior mean over r of the Gaussian scores given r.
        precision = jax.nn.softmax(log_joint) @ (1 / variances)
        return -basis @ (precision * (basis.T @ residual))

    def log_prob(self, f: Float[Array, " k"], x: Float[Array, "k d"]) -> Float[Array, ""]:
        """Log density of the multivariate t with df degrees of freedom, mean m, covariance K (plus noise)."""
        residual = f - self.mean(x)
        if self.noise_std is not None:
            return logsumexp(self._over_scales(residual, x)[0])
        df, k = self.df, len(f)
        factor = cholesky(self.kernel(x, x))
        delta = jnp.sum(solve_lower(factor, residual) ** 2)
        log_norm = gammaln((df + k) / 2) - gammaln(df / 2) - 0.5 * k * jnp.log(jnp.pi * (df - 2))
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor)))
        return log_norm - log_det - 0.5 * (df + k) * jnp.log1p(delta / (df - 2))

    def sample(self, x: Float[Array, "k d"], key: KeyLike, n: int) -> Float[Array, "n k"]:
        """Joint draws at x, (n, k); one r per draw."""
        scale_key, process_key, noise_key = jax.random.split(as_key(key), 3)
        factor = cholesky(self.kernel(x, x))
        r = 0.5 * (self.df - 2) / jax.random.gamma(scale_key, self.df / 2, (n, 1), factor.dtype)
        f = self.mean(x) + jnp.sqrt(r) * (jax.random.normal(process_key, (n, len(x)), factor.dtype) @ factor.T)
        if self.noise_std is None:
            return f
        return f + self.noise_std * jax.random.normal(noise_key, f.shape, f.dtype)

    def _over_scales(
        self, residual: Float[Array, " k"], x: Float[Array, "k d"]
    ) -> tuple[Float[Array, " nodes"], Float[Array, "nodes k"], Float[Array, "k k"]]:
        """log p(f, r) + log weight at the nodes, variances r lambda + noise_std^2, the eigenbasis of K."""
        assert self.noise_std is not None
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
        variances = jnp.exp(log_r)[:, None] * eigenvalues + self.noise_std**2
        log_likelihood = -0.5 * jnp.sum(white**2 / variances + jnp.log(2 * jnp.pi * variances), axis=-1)
        log_prior = shape * jnp.log(rate) - gammaln(shape) - shape * log_r - rate * jnp.exp(-log_r)
        return log_likelihood + log_prior + jnp.log(log_r[1] - log_r[0]), variances, basis
