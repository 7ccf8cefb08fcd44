"""`NoisedScore`: a network as the score of functions with correlated noise, in denoiser form and with Gaussian tails.

Denoising score matching learns the score of f + L eps, L L^T = Sigma = level^2 I + tau^2 R(X, X), R a correlation:

    1/2 E || L^T s(f + L eps, X) + eps ||^2

White noise (tau = 0) hides little of a function's broad modes: k points average it out, and the score there, of size
1 / level^2, is learned from a vanishing signal. Correlated noise hides them, too. In denoiser form (Tweedie's formula)
the network learns what is to be added to the noised function, a map with slopes between -1 and 0:

    s(f, X) = Sigma^-1 r(f, X),    r(f, X) = E[f_0 | f_0 + noise = f] - f = (level^2 + tau^2)^1/2 network(f, X)

With tails the network sees values clipped to [low, high], and a Gaussian's score pulls on what is beyond:

    s(f, X) = Sigma^-1 r(c, X) - (spread^2 R + Sigma)^-1 (f - c),    c = clip(f, low, high)

The first term is bounded whatever the weights, the second grows: far away the score points inwards.
"""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._linalg import cholesky, mask_gram, solve_cholesky, solve_lower
from scoreprior.gp.kernels import Kernel
from scoreprior.scores.network import ScoreNetwork

Form = Literal["denoiser", "score"]
CLIP = 3.0
"""Standard deviations of the functions' values within which the network sees them as they are."""


class Tails(eqx.Module):
    """Mean and standard deviation of the functions' values, beyond `CLIP` of which a Gaussian takes over."""

    centre: Float[Array, ""]
    spread: Float[Array, ""]

    @classmethod
    def of(cls, values: Float[Array, "..."]) -> Tails:
        """With the values' moments."""
        return cls(jnp.mean(values), jnp.std(values))

    def clip(self, f: Float[Array, "*b k"]) -> Float[Array, "*b k"]:
        """The values, none further than `CLIP` standard deviations from the centre."""
        return jnp.clip(f, self.centre - CLIP * self.spread, self.centre + CLIP * self.spread)


class NoisedScore(eqx.Module):
    """s(f, x, noise) of functions noised with covariance (noise / level)^2 (level^2 I + tau^2 R).

    Args:
        network: r in denoiser form, else the score itself; a noise-conditional one reads noise / level, another is for
            noise = level alone.
        correlation: R, a kernel of unit variance.
        tails: without them the network sees all values.
    """

    network: ScoreNetwork
    correlation: Kernel
    level: Float[Array, ""]
    tau: Float[Array, ""]
    tails: Tails | None
    form: Form = eqx.field(static=True)

    @property
    def noise_std(self) -> Float[Array, ""]:
        """Standard deviation of the noise at a point."""
        return jnp.sqrt(self.level**2 + self.tau**2)

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, ""]) -> Float[Array, " k"]:
        """The score at f (k,) on the measurement set x (k, d)."""
        factor = noise / self.level if self.network.noise_conditional else jnp.ones(())
        correlation = self.correlation(x, x)
        sigma = self._sigma(correlation, factor)
        seen = f if self.tails is None else self.tails.clip(f)
        score = self.network(seen, x, factor)
        if self.form == "denoiser":
            score = solve_cholesky(cholesky(sigma), factor * self.noise_std * score)
        if self.tails is not None:
            wide = cholesky(self.tails.spread**2 * correlation + sigma)
            score = score - solve_cholesky(wide, f - seen)
        return score

    def loss(
        self,
        f: Float[Array, "b k"],
        x: Float[Array, "k d"],
        there: Bool[Array, " k"],
        key: PRNGKeyArray,
        coarse: float,
    ) -> Float[Array, ""]:
        """1/2 E ||L^T s(f + L eps) + eps||^2 over the points that are there, per point; noise up to `coarse` times."""
        noise_key, factor_key = jax.random.split(key)
        factors = jnp.exp(jnp.log(coarse) * jax.random.uniform(factor_key, (len(f),)))
        lower = cholesky(mask_gram(self._sigma(self.correlation(x, x), jnp.ones(())), there))
        eps = jax.random.normal(noise_key, f.shape, f.dtype)
        noised = f + factors[:, None] * (eps @ lower.T)

        def one(noised: Array, eps: Array, factor: Array) -> Array:
            seen = noised if self.tails is None else self.tails.clip(noised)
            out = jnp.where(there, self.network(seen, x, factor, there), 0.0)
            white = solve_lower(lower, self.noise_std * out) if self.form == "denoiser" else factor * (lower.T @ out)
            return jnp.sum(jnp.where(there, white + eps, 0.0) ** 2)

        return 0.5 * jnp.mean(jax.vmap(one)(noised, eps, factors)) / jnp.sum(there)

    def _sigma(self, correlation: Float[Array, "k k"], factor: Float[Array, ""]) -> Float[Array, "k k"]:
        return factor**2 * (self.level**2 * jnp.eye(len(correlation)) + self.tau**2 * correlation)
