"""A fitted process given further tasks: what these say of the shared mean, in closed form.

A new task is y = g(x) + h(x) + noise with a mean function g that all tasks share. Of g the process keeps the posterior
given its training tasks, m(x) + B(x) w with w ~ N(0, I), so further tasks are conditioned on by Bayes' rule, without
the old ones. The hyper-parameters stay.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._linalg import mask_gram, shared_evidence
from scoreprior.gp.kernels import Basis, BasisMean, Sum
from scoreprior.gp.model import PooledTasks, weighted
from scoreprior.gp.process import GaussianProcess
from scoreprior.tasks import PaddedTasks, PointNoise


def given_further(process: GaussianProcess, tasks: PaddedTasks) -> GaussianProcess:
    """The prior of a new task's function given standardised tasks (n, m) beside those that it was fitted to.

    Exact where the centres of the shared mean span its shape: they lie among the inputs of the first tasks.
    """
    # Small noise makes the normal equations of w ill-conditioned, as when the process is fitted.
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), process)
        updated = _given_further(double, PooledTasks(tasks, np.asarray(double.mean.centres)).tasks)
    updated = replace(process, mean=updated.mean, kernel=updated.kernel)
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), updated)


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def _given_further(process: GaussianProcess, tasks: PaddedTasks) -> GaussianProcess:
    mean, kernel = process.mean, process.kernel
    assert isinstance(mean, BasisMean)
    assert isinstance(kernel, Sum)
    *own, shared = kernel.parts
    assert isinstance(shared, Basis)
    eye = jnp.eye(tasks.x.shape[1])

    def block(x: Array, mask: Array, known: PointNoise | None) -> Array:
        return mask_gram(Sum(tuple(own))(x, x) + process.noise_variance(known) * eye, mask)

    blocks = weighted(jax.vmap(block)(tasks.x, tasks.mask, tasks.noise), tasks)
    features = jnp.where(tasks.mask[..., None], jax.vmap(shared.features)(tasks.x), 0.0)
    residual = jnp.where(tasks.mask, tasks.y - jax.vmap(mean)(tasks.x), 0.0)
    evidence = shared_evidence(blocks, features, residual, tasks.mask)
    return replace(
        process,
        mean=replace(mean, weights=mean.weights + shared.coefficients @ evidence.mean),
        kernel=Sum((*own, replace(shared, coefficients=shared.coefficients @ evidence.spread))),
    )
