"""Inference by one pass of a denoiser: known points are points of noise 0, queries are points without a value."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.inference._base import Inference
from scoreprior.predictive import Mixture
from scoreprior.scores.denoiser import Denoiser, Points
from scoreprior.tasks import PaddedTasks


class Denoised(Inference):
    """The denoiser's mixture at every query; the posterior state is the context itself."""

    denoiser: Denoiser

    chunk: ClassVar[int | None] = 50

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PaddedTasks:
        """The context: there is nothing to iterate."""
        return context

    def predict(self, state: PaddedTasks, x: Float[Array, "q d"]) -> Mixture:
        """Marginals of y at x; queries do not see each other."""
        m, q = len(state.y), len(x)
        points = Points(
            jnp.concatenate([state.x, x]),
            jnp.concatenate([state.y, jnp.zeros(q)]),
            jnp.zeros(m + q),
            jnp.concatenate([state.mask, jnp.zeros(q, bool)]),
        )
        locs, scales, *_ = self.denoiser(points, observed=m)
        return Mixture(locs[:, m:], scales[:, m:])  # type: ignore[index]

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One draw of y at x, point after point in a random order, each given those before."""
        order_key, draw_key = jax.random.split(key)
        order = jax.random.permutation(order_key, len(x))

        def add(points: Points, step: tuple[Array, PRNGKeyArray]) -> tuple[Points, None]:
            at, one = step
            component_key, value_key = jax.random.split(one)
            locs, scales, *_ = self.denoiser(points)
            component = jax.random.randint(component_key, (), 0, len(locs))
            value = locs[component, at] + scales[component, at] * jax.random.normal(value_key)  # type: ignore[index]
            return points._replace(values=points.values.at[at].set(value), there=points.there.at[at].set(True)), None

        nothing = Points(x, jnp.zeros(len(x)), jnp.zeros(len(x)), jnp.zeros(len(x), bool))
        return jax.lax.scan(add, nothing, (order, jax.random.split(draw_key, len(x))))[0].values

    def describe(self) -> str:
        """What it is."""
        return "a denoising network around a Gaussian process"
