"""What PACOH's two base learners share: the hyper-prior, the tasks' weights, and SVGD on a hyper-posterior.

The hyper-posterior of Rothfuss et al. (2021, Prop. 1) is hyper-prior(phi) exp(sum_i w_i ln Z(S_i, P_phi));
`pacoh_gp.py` derives its weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from scoreprior.inference.svgd import svgd_direction
from scoreprior.tasks import PaddedTasks

Tree = TypeVar("Tree")


class Gaussian(eqx.Module):
    """Independent Gaussians over the leaves of a tree: a mean and a standard deviation for each."""

    mean: PyTree
    std: PyTree

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """One draw."""
        mean, restore = ravel_pytree(self.mean)
        return restore(mean + ravel_pytree(self.std)[0] * jax.random.normal(key, mean.shape))

    def log_prob(self, tree: PyTree) -> Float[Array, ""]:
        """Log density up to a constant."""
        squares = jax.tree.map(lambda v, m, s: jnp.sum(((v - m) / s) ** 2), tree, self.mean, self.std)
        return -0.5 * sum(jax.tree.leaves(squares), jnp.zeros(()))


def task_weights(mask: Bool[Array, "n m"], confidence: Float[Array, ""]) -> Float[Array, " n"]:
    """w_i = lambda m~ / ((n m~ + lambda) m_i) with lambda = confidence * n and m~ the harmonic mean of sizes m_i."""
    sizes = jnp.sum(mask, axis=1)
    harmonic = 1 / jnp.mean(1 / sizes)
    return confidence * harmonic / ((harmonic + confidence) * sizes)


def task_batch(
    key: PRNGKeyArray, tasks: PaddedTasks, weights: Float[Array, " n"], size: int
) -> tuple[PaddedTasks, Float[Array, " h"]]:
    """`size` of the n tasks without replacement, with weights times n / size: sums over them are unbiased."""
    count = len(weights)
    if size >= count:
        return tasks, weights
    chosen = jax.random.choice(key, count, (size,), replace=False)
    return jax.tree.map(lambda leaf: leaf[chosen], tasks), weights[chosen] * (count / size)


def stein_loss(
    particles: Tree, log_density: Callable[[Tree, PRNGKeyArray], Float[Array, ""]], keys: PRNGKeyArray
) -> Float[Array, ""]:
    """-mean_l log_density(phi_l), with minus the SVGD direction in place of its gradient.

    So a descent on this "loss" is SVGD (Liu & Wang 2016); with one particle it is plain gradient ascent on the density.
    """
    _, restore = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], particles))
    flat = jax.vmap(lambda one: ravel_pytree(one)[0])(particles)
    fixed = jax.lax.stop_gradient(flat)
    values, scores = jax.vmap(jax.value_and_grad(lambda phi, key: log_density(restore(phi), key)))(fixed, keys)
    direction = svgd_direction(fixed, scores, median_bandwidth(fixed))
    surrogate = jnp.sum(flat * direction)
    return -(jnp.mean(values) + surrogate - jax.lax.stop_gradient(surrogate))


def median_bandwidth(particles: Float[Array, "L p"]) -> Float[Array, ""]:
    """median |phi_i - phi_l|^2 / (2 log(L + 1)) over pairs: at the median distance the kernel is 1 / (L + 1)."""
    count = len(particles)
    if count == 1:
        return jnp.ones(())
    centred = particles - jnp.mean(particles, axis=0)
    inner = centred @ centred.T
    squared = jnp.diagonal(inner)[:, None] + jnp.diagonal(inner)[None, :] - 2 * inner
    return jnp.maximum(jnp.median(squared[np.triu_indices(count, 1)]) / (2 * math.log(count + 1)), 1e-8)
