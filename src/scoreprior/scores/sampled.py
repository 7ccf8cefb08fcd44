"""Score estimation at the measurement set of the moment: SSGE in the place of a trained network (the paper's ablation).

    s(f, x, noise) = estimator.fit(f_1(x), ..., f_n(x))(f),   f_i ~ p(f | D_i) + noise, meta-training tasks i

Nothing is trained: whenever inference asks for the score at a measurement set x, functions are drawn there from the
tasks' interpolators and an estimator is fitted to their values. That costs a fit per step, sees n points in k
dimensions with no help from other measurement sets, and forgets everything afterwards: the reasons for a network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.interpolators._base import FittedInterpolator


@runtime_checkable
class Estimator(Protocol):
    """An estimator of a score that needs samples alone; a frozen dataclass."""

    def fit(self, samples: Float[Array, "n d"]) -> Callable[[Float[Array, "m d"]], Float[Array, "m d"]]: ...


class SampledScore(eqx.Module):
    """The hinge s(f, x, noise) over an estimator that knows samples only; usable wherever a trained score is.

    The draws at x are a fixed function of x: the key is mixed with x's bits. The same set gives the same score, as
    a score must, and other sets give independent draws although inference passes no key.

    Args:
        fitted: the meta-training tasks' interpolators.
        key: of the draws.
        estimator: fitted at every measurement set.
        draws: functions per task; more cost a larger fit, and only help where interpolators are uncertain.
    """

    fitted: FittedInterpolator
    key: PRNGKeyArray
    estimator: Estimator = eqx.field(static=True)
    draws: int = eqx.field(static=True, default=1)

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, " k"]:
        """The score at f (k,) on the measurement set x (k, d); under `vmap` over f the fit is made once.

        No noise is the paper's, but draws at close-by points are nearly degenerate.
        """
        return self.estimator.fit(self.sample(x, noise))(f[None])[0]

    def sample(self, x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, "n k"]:
        """Noised function values at x, `draws` of every task: the samples that the estimator sees."""
        draw_key, noise_key = jax.random.split(_mixed(self.key, x))
        count = len(jax.tree.leaves(self.fitted.states)[0])
        keys = jax.random.split(draw_key, (self.draws, count))
        one_each = jax.vmap(lambda state, key: self.fitted.draw(state, x, key))
        f = jax.vmap(lambda each: one_each(self.fitted.states, each))(keys).reshape(-1, len(x))
        return f + noise * jax.random.normal(noise_key, f.shape, f.dtype)


def _mixed(key: PRNGKeyArray, x: Float[Array, "k d"]) -> PRNGKeyArray:
    """The key with the bits of x mixed in; the sum is the same in any order of the points."""
    bits = jax.lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)
    # Multiples that depend on the column tell (a, b) from (b, a); a multiplicative hash spreads nearby floats.
    weights = jnp.uint32(2654435761) * (2 * jnp.arange(x.shape[1], dtype=jnp.uint32) + 1)
    hashed = (bits ^ (bits >> 15)) * weights
    return jax.random.fold_in(key, jnp.sum(hashed ^ (hashed >> 13), dtype=jnp.uint32))
