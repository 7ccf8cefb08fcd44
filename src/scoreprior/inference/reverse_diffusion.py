"""Joint samples of a function by reverse diffusion, and of its values given a context by RePaint's sampler.

A sample starts from white noise y_T and takes T reverse steps (`scores/diffusion.py`). Given a context, at every step t
the context's values are their true ones noised anew, y_t^c ~ q(y_t | y_0^c), beside the others in the network; a
forward step then noises the others again, and the reverse step is repeated (Lugmayr et al., 2022; Dutordoir et al.,
2023, algorithm 1):
    R times:   y_{t-1} ~ p(. | y_t, y_t^c),     between two of them   y_t ~ q(. | y_{t-1})
One pass only would follow the context when it is too late for the other points. For any fixed y_t^c the repeats are
Gibbs sampling of p(y_t | y_t^c), but the law that a posterior needs is p(y_t | y_0^c): the sampler is approximate, and
nears the posterior as steps and repeats grow. With an exact predictor of a smooth Gaussian process, 8 known points, 100
steps and 5 repeats, means are off by 0.1 to 0.4 posterior standard deviations, which are themselves 2% to 10% too wide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from scoreprior.inference._base import Inference
from scoreprior.inference.particles import smooth
from scoreprior.predictive import Mixture
from scoreprior.scores.diffusion import Diffusion
from scoreprior.tasks import PaddedTasks

Predictor = Callable[
    [Float[Array, " k"], Float[Array, "k d"], Int[Array, ""], Bool[Array, " k"]],
    Float[Array, " k"],
]
"""predictor(y_t, x, t, mask): the noise in y_t at the points of the mask."""

_LEAST_SCALE = 1e-3


class Given(eqx.Module):
    """What a posterior is of: the context, and the key of all its samples."""

    context: PaddedTasks
    key: PRNGKeyArray


class ReverseDiffusion(Inference):
    """S joint samples of y at the queries, as a mixture with their mean and variance.

    Args:
        predictor: of the noise; a network, or exact.
        diffusion: the forward process that it belongs to.
        smoothing: share of the samples' variance that is within components (`particles.smooth`).
        samples: S.
        repeats: R reverse steps at each noise level where there is a context.
    """

    predictor: Predictor
    diffusion: Diffusion
    smoothing: Float[Array, ""]
    samples: int = eqx.field(static=True)
    repeats: int = eqx.field(static=True)

    chunk: ClassVar[int | None] = None

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Given:
        """Nothing is computed before the queries are known: they are sampled together."""
        return Given(context, key)

    def predict(self, state: Given, x: Float[Array, "q d"]) -> Mixture:
        """Samples of y, observation noise and all, at x; the same state and x give the same ones."""
        keys = jax.random.split(state.key, self.samples)
        # One after another: a batch of samples of many tasks would not stay in the cache.
        samples = jax.lax.map(lambda key: self.sample_given(state.context, x, key), keys)
        locs, scales = smooth(samples, jnp.zeros_like(samples), self.smoothing)
        return Mixture(locs, jnp.maximum(scales, _LEAST_SCALE), samples)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One draw of y at x from the prior, by plain ancestral sampling."""
        nothing = PaddedTasks(jnp.zeros((0, x.shape[1])), jnp.zeros(0), jnp.zeros(0, bool))
        return self._sample(nothing, x, key, 1)

    def sample_given(self, context: PaddedTasks, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of y at x given the context (m, d), (m,), (m,)."""
        return self._sample(context, x, key, self.repeats)

    def _sample(
        self, context: PaddedTasks, x: Float[Array, "q d"], key: PRNGKeyArray, repeats: int
    ) -> Float[Array, " q"]:
        m, steps = len(context.y), self.diffusion.steps
        everywhere = jnp.concatenate([jnp.where(context.mask[:, None], context.x, 0.0), x])
        known = jnp.where(context.mask, context.y, 0.0)
        mask = jnp.concatenate([context.mask, jnp.ones(len(x), bool)])

        def step(y: Float[Array, " q"], i: Int[Array, ""]) -> tuple[Float[Array, " q"], None]:
            t, last = steps - i // repeats, (i + 1) % repeats == 0
            noise = jax.random.normal(jax.random.fold_in(key, i), (m + 2 * len(x),))
            for_context, back, again = jnp.split(noise, [m, m + len(x)])
            values = jnp.concatenate([self.diffusion.noised(known, t, for_context), y])
            predicted = self.predictor(values, everywhere, t, mask)
            y = self.diffusion.reverse(y, predicted[m:], t, back)
            return jnp.where(last, y, self.diffusion.forward(y, t, again)), None

        start = jax.random.normal(jax.random.fold_in(key, steps * repeats), (len(x),))
        return jax.lax.scan(step, start, jnp.arange(steps * repeats))[0]

    def describe(self) -> str:
        """What it is."""
        return f"{self.samples} joint samples by reverse diffusion"
