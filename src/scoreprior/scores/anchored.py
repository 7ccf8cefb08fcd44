"""A learned score that still points home far from the training functions.

    s(f, x) = -(K + level^2 I)^-1 (f - m) + network(m + squash(f - m), x)

The first term is the closed-form score of the pooled Gaussian process's noised marginal and grows with |f - m|; the
network sees a squashed function, so what it adds is bounded: far out the Gaussian wins and particles cannot run away.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from scoreprior._linalg import cholesky, solve_cholesky
from scoreprior.process import GaussianProcess
from scoreprior.scores.network import ScoreNetwork


class AnchoredScore(eqx.Module):
    """Closed-form Gaussian score plus a bounded learned residual; without a process, the plain network of the paper."""

    network: ScoreNetwork | None
    process: GaussianProcess | None
    level: Float[Array, ""]  # noise of the denoising objective, standardised units
    reach: Float[Array, ""]  # standardised deviation beyond which the network sees no difference

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"]) -> Float[Array, " k"]:
        """The score at f (k,) on the measurement set x (k, d)."""
        return self.prepare(x)(f)

    def prepare(self, x: Float[Array, "k d"]) -> Callable[[Float[Array, " k"]], Float[Array, " k"]]:
        """f -> s(f, x) with the work that depends on x alone done once."""
        network, process = self.network, self.process
        if process is None:
            if network is None:
                raise ValueError("A score needs a process, a network or both.")
            return lambda f: network(f, x)
        mean = process.mean(x)
        factor = cholesky(process.kernel(x, x) + self.level**2 * jnp.eye(len(x)))

        def score(f: Float[Array, " k"]) -> Float[Array, " k"]:
            deviation = f - mean
            base = -solve_cholesky(factor, deviation)
            if network is None:
                return base
            return base + network(mean + self.reach * jnp.tanh(deviation / self.reach), x)

        return score
