"""Inference with a denoiser: known points are points of noise 0, queries are points without a value.

Marginals take one pass. Joint draws are made by reverse diffusion: from no value at all down a ladder of noise levels,

    y0 ~ D(v, x, now),    v' = r v + (1 - r) y0 + next sqrt(1 - r) eps,    r = (next / now)^2

where D is the denoiser's mixture at every point. Given y0 the step is exact; y0 is drawn point by point, which misses
correlations of the order of the step.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

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

        def refine(v: Float[Array, " q"], step: tuple[Array, Array, PRNGKeyArray]) -> tuple[Float[Array, " q"], None]:
            now, following, one = step
            there = jnp.broadcast_to(jnp.isfinite(now), (q,))
            level = jnp.where(there, now, 0.0)
            locs, scales, *_ = self.denoiser(known_beside(state, Points(x, v, level, there)))
            component_key, value_key, noise_key = jax.random.split(one, 3)
            component = jax.random.randint(component_key, (q,), 0, len(locs))
            at = (component, m + jnp.arange(q))
            clean = locs[at] + scales[at] * jax.random.normal(value_key, (q,))  # type: ignore[index]
            ratio = (following / now) ** 2
            noise = following * jnp.sqrt(1 - ratio) * jax.random.normal(noise_key, (q,))
            return ratio * v + (1 - ratio) * clean + noise, None

        now = jnp.concatenate([jnp.full(1, jnp.inf), self.ladder])
        following = jnp.concatenate([self.ladder, jnp.zeros(1)])
        return jax.lax.scan(refine, jnp.zeros(q), (now, following, jax.random.split(key, len(now))))[0]

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of observations y at x, given nothing."""
        nothing = PaddedTasks(x[:0], jnp.zeros(0), jnp.zeros(0, bool))
        return self.draw(nothing, x, key)

    def describe(self) -> str:
        """What it is."""
        return "a denoising network around a Gaussian process"


def known_beside(context: PaddedTasks, points: Points) -> Points:
    """The context's points, known exactly, before others."""
    known = Points(context.x, context.y, jnp.zeros(len(context.y)), context.mask)
    return Points(*(jnp.concatenate(pair) for pair in zip(known, points)))
