"""Inference with a denoiser: known points are points of noise 0, queries are points without a value.

Marginals take one pass. Joint draws are made by reverse diffusion: from no value at all down a ladder of noise levels,

    y0 ~ p(y | v, known),    v' = r v + (1 - r) y0 + next sqrt(1 - r) eps,    r = (next / now)^2

Given y0 a step is exact. y0 has the denoiser's mean and standard deviation at every point and the anchor's correlation
between points: a network that says nothing gives exact draws of the anchor, and errors of the others shrink with the
square of the step.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._linalg import cholesky, solve_cholesky
from scoreprior.inference._base import Inference
from scoreprior.predictive import Mixture
from scoreprior.scores.denoiser import Denoiser, DenoiserEnsemble, Points
from scoreprior.tasks import PaddedTasks


class Denoised(Inference):
    """The denoiser's mixture at every query; the posterior state is the context itself.

    Args:
        ladder: noise levels of joint draws, from the largest to the least that the network was trained at.
    """

    denoiser: Denoiser | DenoiserEnsemble
    ladder: Float[Array, " t"]

    chunk: ClassVar[int | None] = 50
    draws_observations: ClassVar[bool] = True

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PaddedTasks:
        """The context: there is nothing to iterate."""
        return context

    def predict(self, state: PaddedTasks, x: Float[Array, "q d"]) -> Mixture:
        """Marginals of y at x; queries do not see each other."""
        m, q = len(state.y), len(x)
        unknown = Points(x, jnp.zeros(q), jnp.zeros(q), jnp.zeros(q, bool))
        locs, scales, *_ = self.denoiser(known_beside(state, unknown), observed=m)
        return Mixture(locs[:, m:], scales[:, m:])  # type: ignore[index]

    def draw(self, state: PaddedTasks, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of observations y at x by reverse diffusion."""
        m, q = len(state.y), len(x)
        anchor = self.denoiser.anchor
        covariance = anchor.predict(anchor.condition(*state), x)[1] + anchor.noise_std**2 * jnp.eye(q)

        def refine(v: Float[Array, " q"], step: tuple[Array, Array, PRNGKeyArray]) -> tuple[Float[Array, " q"], None]:
            now, following, one = step
            there = jnp.broadcast_to(jnp.isfinite(now), (q,))
            mixture = self.denoiser(known_beside(state, Points(x, v, jnp.where(there, now, 0.0), there)))
            mean, std = (each[m:] for each in _moments(mixture))
            clean_key, noise_key = jax.random.split(one)
            root = _correlation_root(covariance, now)
            clean = mean + std * (root @ jax.random.normal(clean_key, (q,)))
            ratio = (following / now) ** 2
            noise = following * jnp.sqrt(1 - ratio) * jax.random.normal(noise_key, (q,))
            return ratio * v + (1 - ratio) * clean + noise, None

        now = jnp.concatenate([jnp.full(1, jnp.inf), self.ladder])
        following = jnp.concatenate([self.ladder, jnp.zeros(1)])
        return jax.lax.scan(refine, jnp.zeros(q), (now, following, jax.random.split(key, len(now))))[0]

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of observations y at x, given nothing."""
        nothing = PaddedTasks(x[:1], jnp.zeros(1), jnp.zeros(1, bool))  # one point that is not there
        return self.draw(nothing, x, key)

    def describe(self) -> str:
        """What it is."""
        return "a denoising network around a Gaussian process"


def known_beside(context: PaddedTasks, points: Points) -> Points:
    """The context's points, known exactly, before others."""
    known = Points(context.x, context.y, jnp.zeros(len(context.y)), context.mask)
    return Points(*(jnp.concatenate(pair) for pair in zip(known, points)))


def _moments(mixture: Mixture) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Mean and standard deviation of a mixture at each of its points."""
    mean = jnp.mean(mixture.locs, axis=0)
    variance = jnp.mean((mixture.locs - mean) ** 2 + mixture.scales**2, axis=0)  # type: ignore[operator]
    return mean, jnp.sqrt(variance)


def _correlation_root(covariance: Float[Array, "q q"], level: Float[Array, ""]) -> Float[Array, "q q"]:
    """A root of the correlation of y ~ N(., covariance) given y + level eps; of y alone for an infinite level."""
    size = len(covariance)
    # C - C (C + level^2)^-1 C = level^2 C (C + level^2)^-1, here with 1 / level^2, which may be 0.
    precision = 1 / level**2
    factor = cholesky(jnp.eye(size) + precision * covariance)
    left = covariance @ solve_cholesky(factor, jnp.eye(size))
    posterior = 0.5 * (left + left.T)
    scale = jnp.sqrt(jnp.maximum(jnp.diagonal(posterior), 1e-12))
    return cholesky(posterior / (scale[:, None] * scale))
