"""A broad Gaussian process: for a task that is unlike all others, learned from its own points alone.

    y = c + f(x) + noise,  c ~ N(0, (2 b)^2),  f ~ GP(0, s^2 Matern(lengthscale)),  noise ~ N(0, (r s)^2)

b is the size of the task's targets and s a multiple of their spread, shrunk to that size: two points that are close
say little. s, the lengthscale and r are averaged over a grid, weighed by the evidence of the known points. Standardised
units: the training targets have variance 1.
"""

from __future__ import annotations

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.gp.kernels import Linear, Matern, Sum, ZeroMean
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, PointNoise

_GRID = np.array(list(product((0.25, 0.5, 1.0, 2.0), (0.3, 1.0, 3.0), (0.05, 0.4))), np.float32)
"""Signal over spread, lengthscale over sqrt(d), noise over signal."""


class BroadPosterior(eqx.Module):
    """The processes of the grid given a task's points, stacked, and their weights."""

    processes: GaussianProcess
    conditioned: Conditioned
    weights: Float[Array, " h"]


def condition_broad(context: PaddedTasks) -> BroadPosterior:
    """The posterior given one padded task; without a point, that of a task with the training targets' size."""
    count = jnp.maximum(jnp.sum(context.mask), 1)
    values = jnp.where(context.mask, context.y, 0.0)
    size = target_size(context)
    deviation = jnp.where(context.mask, context.y - jnp.sum(values) / count, 0.0)
    spread = jnp.sqrt((size**2 + jnp.sum(deviation**2)) / count)

    def one(setting: Float[Array, " 3"]) -> tuple[GaussianProcess, Conditioned, Float[Array, ""]]:
        signal, lengthscale, noise = setting[0] * spread, setting[1] * context.x.shape[-1] ** 0.5, setting[2]
        level = Linear(2 * size, jnp.zeros(1))
        kernel = Sum((Matern(signal, lengthscale[None], 1.5), level))
        process = GaussianProcess(ZeroMean(), kernel, noise * signal, jnp.ones(1))
        conditioned = process.condition(*context)
        # Masked rows of the factor are those of the identity; what all processes share of the evidence is left out.
        evidence = -0.5 * values @ conditioned.weights - jnp.sum(jnp.log(jnp.diagonal(conditioned.factor)))
        return process, conditioned, evidence

    processes, conditioned, evidence = jax.vmap(one)(jnp.asarray(_GRID))
    return BroadPosterior(processes, conditioned, jax.nn.softmax(evidence))


def target_size(context: PaddedTasks) -> Float[Array, ""]:
    """Root mean square of the known targets, at least that of the training targets, 1."""
    squares = jnp.sum(jnp.where(context.mask, context.y, 0.0) ** 2)
    return jnp.sqrt(jnp.maximum(squares / jnp.maximum(jnp.sum(context.mask), 1), 1.0))


def predict_broad(posterior: BroadPosterior, x: Float[Array, "q d"], noise: PointNoise | None = None) -> Mixture:
    """The marginals of y at x, of what is known of its noise."""

    def one(process: GaussianProcess, conditioned: Conditioned) -> tuple[Float[Array, " q"], ...]:
        mean, variance = process.predict_marginals(conditioned, x)
        return mean, jnp.sqrt(variance + process.noise_variance(noise)), jnp.sqrt(variance)

    locs, scales, function_scales = jax.vmap(one)(posterior.processes, posterior.conditioned)
    return Mixture(locs, scales, None, posterior.weights, function_scales)


def draw_broad(posterior: BroadPosterior, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
    """One joint draw of the noise-free function at x."""
    which_key, draw_key = jax.random.split(key)
    which = jax.random.categorical(which_key, jnp.log(posterior.weights))
    process, conditioned = jax.tree.map(lambda leaf: leaf[which], (posterior.processes, posterior.conditioned))
    return process.sample(conditioned, x, draw_key)
