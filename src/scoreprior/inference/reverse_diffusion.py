"""Joint samples of a function by reverse diffusion, and of its values given a context by RePaint's sampler.

A sample starts from white noise y_T and takes T reverse steps (`scores/diffusion.py`). Given a context, at every step t
the context's values are their true ones noised anew, y_t^c ~ q(y_t | y_0^c), beside the others in the network; a
forward step then noises the others again, and the reverse step is repeated (Lugmayr et al., 2022; Dutordoir et al.,
2023, algorithm 1):
    R times:   y_{t-1} ~ p(. | y_t, y_t^c),     between two of them   y_t ~ q(. | y_{t-1})
For any fixed y_t^c the repeats are Gibbs sampling of p(y_t | y_t^c), but a posterior needs p(y_t | y_0^c): the sampler
is approximate. The more points are drawn together the worse: many noised points agree on a function before a few
noised known ones object. So by default queries are drawn in rounds, in random order, each as many as are known by
then, and what was drawn is context of the next round: the sample stays a joint one. With the exact predictor of a
Gaussian process (kernel exp(-r^2 / 2), noise 0.1), 8 known points and 50 others uniform on [-2, 2], T = 50 and R = 5,
means are off by 0.79 posterior standard deviations (root mean square) and standard deviations 1.43 times the true ones
when all are drawn in one pass; in rounds these are 0.26 and 0.99. Fewer repeats are wider, and with R = 3 in rounds
means are off by 0.38.
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
_FIRST_ROUND = 8


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
        in_rounds: whether queries are drawn in rounds; all in one pass is the paper's sampler.
    """

    predictor: Predictor
    diffusion: Diffusion
    smoothing: Float[Array, ""]
    samples: int = eqx.field(static=True)
    repeats: int = eqx.field(static=True)
    in_rounds: bool = eqx.field(static=True)

    chunk: ClassVar[int | None] = None
    draws_observations: ClassVar[bool] = True

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

    def draw(self, state: Given, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of y at x given the context."""
        return self.sample_given(state.context, x, key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One draw of y at x from the prior, by plain ancestral sampling."""
        nothing = PaddedTasks(jnp.zeros((0, x.shape[1])), jnp.zeros(0), jnp.zeros(0, bool))
        return self._sample(nothing, x, key, 1)

    def sample_given(self, context: PaddedTasks, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of y at x given the context (m, d), (m,), (m,)."""
        if not self.in_rounds:
            return self._sample(context, x, key, self.repeats)
        order = jax.random.permutation(jax.random.fold_in(key, 0), len(x))
        known, done = context, 0
        for i, size in enumerate(round_sizes(len(context.y), len(x))):
            at = x[order[done : done + size]]
            y = self._sample(known, at, jax.random.fold_in(key, i + 1), self.repeats)
            drawn = PaddedTasks(at, y, jnp.ones(size, bool))
            known = jax.tree.map(lambda *pair: jnp.concatenate(pair), known, drawn)
            done += size
        return jnp.zeros(len(x)).at[order].set(known.y[len(context.y) :])

    def _sample(
        self, context: PaddedTasks, x: Float[Array, "q d"], key: PRNGKeyArray, repeats: int
    ) -> Float[Array, " q"]:
        """One pass of the sampler for all of x."""
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


def round_sizes(known: int, queries: int) -> list[int]:
    """How many points each round draws: as many as are known by then, at least 8."""
    sizes: list[int] = []
    while sum(sizes) < queries:
        sizes.append(min(max(_FIRST_ROUND, known + sum(sizes)), queries - sum(sizes)))
    return sizes
