"""The Gaussian likelihood y = h(x) + noise_std * eps in standardised units, and minibatches that keep its weight."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior.tasks import PaddedTasks


def likelihood_score(
    f: Float[Array, " k"], y: Float[Array, " k"], mask: Bool[Array, " k"], noise_std: Float[Array, ""]
) -> Float[Array, " k"]:
    """grad_f log p(y | f) = (y - f) / noise_std^2 where observed, 0 elsewhere."""
    return jnp.where(mask, (y - f) / noise_std**2, 0.0)


def log_likelihood(
    f: Float[Array, " k"], y: Float[Array, " k"], mask: Bool[Array, " k"], noise_std: Float[Array, ""]
) -> Float[Array, ""]:
    """log N(y; f, noise_std^2) summed over the observed points."""
    # The inner `where` keeps whatever the padding holds out of the gradient.
    white = (jnp.where(mask, y, 0.0) - jnp.where(mask, f, 0.0)) / noise_std
    return -0.5 * jnp.sum(white**2) - jnp.sum(mask) * jnp.log(noise_std * jnp.sqrt(2 * jnp.pi))


def minibatch(key: PRNGKeyArray, context: PaddedTasks, size: int | None) -> tuple[PaddedTasks, Float[Array, ""]]:
    """`size` of the m real context points without replacement, and m / size, the likelihood's weight.

    The whole context, with weight 1, where `size` is None or all slots fit. Slots beyond the real points are masked.
    """
    slots = context.y.shape[-1]
    if size is None or size >= slots:
        return context, jnp.ones(())
    priority = jnp.where(context.mask, jax.random.uniform(key, (slots,)), 2.0)
    chosen = jnp.argsort(priority)[:size]
    batch = jax.tree.map(lambda leaf: leaf[chosen], context)
    real = jnp.sum(context.mask)
    return batch, jnp.maximum(real / size, 1.0)
