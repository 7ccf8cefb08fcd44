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
from scoreprior.gp.process import GaussianProcess
from scoreprior.scores.network import ScoreNetwork


class AnchoredScore(eqx.Module):
    """Closed-form Gaussian score plus a bounded learned residual; without a process, the plain network of the paper."""

    network: ScoreNetwork | None
    process: GaussianProcess | None
    level: Float[Array, ""]  # noise of the denoising objective, standardised units
    reach: Float[Array, ""]  # standardised deviation beyond which the network sees no difference
    coarse: Float[Array, ""] | None = None  # the level that a noise-conditional network was trained up to

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"]) -> Float[Array, " k"]:
        """The score at f (k,) on the measurement set x (k, d)."""
        return self.prepare(x)(f)

    def at(self, level: Float[Array, ""]) -> AnchoredScore:
        """The score of the process with this much noise; the network must be noise-conditional, or absent."""
        return eqx.tree_at(lambda s: s.level, self, level)

    def annealed(self, progress: Float[Array, ""]) -> AnchoredScore:
        """The score for an iteration at `progress` in [0, 1]: from `coarse` down to `level`, there at two thirds."""
        if self.coarse is None:
            return self
        done = jnp.minimum(1.5 * progress, 1.0)
        return self.at(self.coarse ** (1 - done) * self.level**done)

    def prepare(self, x: Float[Array, "k d"]) -> Callable[[Float[Array, " k"]], Float[Array, " k"]]:
        """f -> s(f, x) with the work that depends on x alone done once."""
        network, process = self.network, self.process
        if process is None:
            if network is None:
                raise ValueError("A score needs a process, a network or both.")
            return lambda f: self._network(network, f, x)
        mean = process.mean(x)
        factor = cholesky(process.kernel(x, x) + self.level**2 * jnp.eye(len(x)))

        def score(f: Float[Array, " k"]) -> Float[Array, " k"]:
            deviation = f - mean
            base = -solve_cholesky(factor, deviation)
            if network is None:
                return base
            return base + self._network(network, mean + self.reach * jnp.tanh(deviation / self.reach), x)

        return score

    def _network(self, network: ScoreNetwork, f: Float[Array, " k"], x: Float[Array, "k d"]) -> Float[Array, " k"]:
        return network(f, x, self.level) if network.noise_conditional else network(f, x)
