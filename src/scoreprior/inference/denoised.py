"""Inference with a denoiser: known points are points of noise 0, queries are points without a value.

Marginals take one pass. A joint draw goes point after point in a random order, each given those before: the chain rule,
with the denoiser's mixture as every conditional. Reverse diffusion needs fewer passes, but was seen to blur jumps, for
it asks for many noised points at once, where the network has learned less.
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

_STAGE = 16
"""Points of a draw that are added at one size of the arrays."""


class Denoised(Inference):
    """The denoiser's mixture at every query; the posterior state is the context itself."""

    denoiser: Denoiser | DenoiserEnsemble

    chunk: ClassVar[int | None] = 50
    draws_observations: ClassVar[bool] = True

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PaddedTasks:
        """The context: there is nothing to iterate."""
        return context

    def predict(self, state: PaddedTasks, x: Float[Array, "q d"]) -> Mixture:
        """Marginals of y at x; queries do not see each other."""
        m = len(state.y)
        locs, scales, *_ = self.denoiser(with_known(state, _unknown(x)), observed=m)
        asked = scales[:, m:]  # type: ignore[index]
        noise = self.denoiser.anchor.noise_std  # what observations have beside the function
        return Mixture(locs[:, m:], asked, function_scales=jnp.sqrt(jnp.maximum(asked**2 - noise**2, 0.0)))

    def draw(self, state: PaddedTasks, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of observations y at x."""
        order_key, draw_key = jax.random.split(key)
        order, keys = jax.random.permutation(order_key, len(x)), jax.random.split(draw_key, len(x))
        m, points = len(state.y), with_known(state, _unknown(x[order]))

        def add(points: Points, step: tuple[Array, PRNGKeyArray]) -> tuple[Points, None]:
            at, one = step
            component_key, value_key = jax.random.split(one)
            locs, scales, *_ = self.denoiser(points)
            component = jax.random.randint(component_key, (), 0, len(locs))
            value = locs[component, at] + scales[component, at] * jax.random.normal(value_key)  # type: ignore[index]
            return points._replace(values=points.values.at[at].set(value), there=points.there.at[at].set(True)), None

        drawn = Points(*(leaf[:m] for leaf in points))
        for first in range(0, len(x), _STAGE):  # points whose turn comes later need no computation
            last = min(first + _STAGE, len(x))
            new = Points(*(leaf[m + first : m + last] for leaf in points))
            start = Points(*(jnp.concatenate(pair) for pair in zip(drawn, new)))
            drawn, _ = jax.lax.scan(add, start, (m + jnp.arange(first, last), keys[first:last]))
        return drawn.values[m:][jnp.argsort(order)]

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of observations y at x, given nothing."""
        return self.draw(PaddedTasks(x[:0], jnp.zeros(0), jnp.zeros(0, bool)), x, key)

    def describe(self) -> str:
        """What it is."""
        return "a denoising network around a Gaussian process"


def with_known(context: PaddedTasks, points: Points) -> Points:
    """The context's points, known exactly, before others."""
    known = Points(context.x, context.y, jnp.zeros(len(context.y)), context.mask)
    return Points(*(jnp.concatenate(pair) for pair in zip(known, points)))


def _unknown(x: Float[Array, "q d"]) -> Points:
    return Points(x, jnp.zeros(len(x)), jnp.zeros(len(x)), jnp.zeros(len(x), bool))
