"""Learn one Gaussian process from all tasks together (type-II maximum likelihood).

The model of task i is  y_i = g(x) + h_i(x) + noise,  with a mean function g that all tasks share and a deviation
h_i ~ GP(0, k_h) of each task's own. With g(x) = Phi(x) w and w ~ N(0, I), w is integrated out in closed form, so
its uncertainty (there are only n tasks) stays in the prior of a new task:

    f_new ~ GP( Phi(x) m_w,  k_h(x, z) + Phi(x) S_w Phi(z)^T ),    w | D_1..n ~ N(m_w, S_w).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.cluster.vq import kmeans2
from scipy.optimize import minimize

from scoreprior._linalg import cholesky, mask_gram, shared_evidence, shared_log_prob, solve_lower, solve_upper
from scoreprior.kernels import Basis, BasisMean, Kernel, Linear, Matern, Sum, Wave
from scoreprior.process import GaussianProcess
from scoreprior.tasks import PaddedTasks

Part = Literal["linear", "rough", "smooth", "wave"]


@dataclass(frozen=True)
class PoolingConfig:
    """What the pooled process is made of and how it is fitted.

    Args:
        deviation: parts of k_h: "linear" (random offset and slopes), "rough" (Matern-1/2), "smooth" (Matern-5/2),
            "wave" (one damped random wave).
        mean: g is "linear", or "smooth": linear plus a smooth function.
        centres: number of centres that span the smooth part of g.
        candidates: random starting points; the most likely one is climbed from.
        evaluations: most evaluations of the marginal likelihood on the climb (L-BFGS).
        most_tasks: with more tasks than this, hyper-parameters are fitted to a random subset of this size.
    """

    deviation: tuple[Part, ...] = ("linear", "rough", "smooth")
    mean: Literal["linear", "smooth"] = "smooth"
    centres: int = 48
    candidates: int = 8
    evaluations: int = 80
    most_tasks: int = 200
    noise_floor: float = 0.01


Parameters = dict[str, Array]
"""Logarithms of standard deviations and lengthscales, and the wave's frequency."""


def learn_process(tasks: PaddedTasks, config: PoolingConfig, key: PRNGKeyArray) -> GaussianProcess:
    """Fit the pooled process to standardised tasks: MAP under weak log-normal hyper-priors."""
    start_key, subset_key = jax.random.split(key)
    centres = _centres(tasks, config.centres)
    subset = tasks
    if len(tasks.x) > config.most_tasks:
        chosen = jax.random.choice(subset_key, len(tasks.x), (config.most_tasks,), replace=False)
        subset = jax.tree.map(lambda leaf: leaf[chosen], tasks)
    # Small noise makes the normal equations of w ill-conditioned: double precision here, and only here.
    with jax.enable_x64(True):
        starts = jax.vmap(lambda k: _start(k, centres.shape[1], config))(jax.random.split(start_key, config.candidates))
        parameters = _climb(_doubles(subset), jnp.asarray(centres), starts, config)
        process = _new_task_process(parameters, _doubles(tasks), jnp.asarray(centres), config)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), process)


def _doubles(tasks: PaddedTasks) -> PaddedTasks:
    return PaddedTasks(*(jnp.asarray(np.asarray(a), bool if a.dtype == bool else jnp.float64) for a in tasks))


def _climb(tasks: PaddedTasks, centres: Float[Array, "c d"], starts: Parameters, config: PoolingConfig) -> Parameters:
    """The most likely start, improved by L-BFGS; the line search makes single precision or a fixed rate moot."""
    _, restore = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], starts))
    candidates = np.asarray(jax.vmap(lambda start: ravel_pytree(start)[0])(starts))

    def value_and_gradient(values: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _loss_and_gradient(restore(jnp.asarray(values)), tasks, centres, config)
        flat_gradient = np.asarray(ravel_pytree(gradient)[0])
        if not (np.isfinite(value) and np.isfinite(flat_gradient).all()):
            return 1e10, np.zeros_like(flat_gradient)
        return float(value), flat_gradient

    found = minimize(
        value_and_gradient,
        min(candidates, key=lambda flat: value_and_gradient(flat)[0]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-7.0, 7.0)] * candidates.shape[1],
        options={"maxfun": config.evaluations},
    )
    return restore(jnp.asarray(found.x))


def _centres(tasks: PaddedTasks, count: int) -> Float[np.ndarray, "c d"]:
    points = np.unique(np.asarray(tasks.x, np.float64)[np.asarray(tasks.mask)], axis=0)
    if len(points) <= count:
        return points
    return kmeans2(points, count, minit="++", seed=0)[0]


def _start(key: PRNGKeyArray, dim: int, config: PoolingConfig) -> Parameters:
    """A random start around the middle of the hyper-priors."""
    keys = iter(jax.random.split(key, 12))
    scale = jnp.log(dim) / 2  # distances between standardised points grow with sqrt(d)

    def around(centre: float | Array, spread: float) -> Array:
        return centre + spread * jax.random.normal(next(keys), (), jnp.float64)

    parameters = {
        "noise": around(jnp.log(0.2), 0.5),
        "mean_linear": around(0.0, 0.0),
        "mean_std": around(jnp.log(0.5), 0.3),
        "mean_length": around(scale, 0.7) * jnp.ones(dim),
    }
    for part in config.deviation:
        parameters[f"{part}_std"] = around(jnp.log(0.3), 0.5)
        if part == "linear":
            parameters["linear_slopes"] = jnp.full(dim, jnp.log(0.3))
        else:
            parameters[f"{part}_length"] = jnp.full(dim, scale + 1.0 * (part == "wave"))
        if part == "wave":
            direction = jax.random.normal(next(keys), (dim,), jnp.float64)
            speed = jax.random.uniform(next(keys), (), jnp.float64, 1.0, 6.0)
            parameters["wave_frequency"] = direction / jnp.linalg.norm(direction) * speed
    return parameters


def _log_hyper_prior(parameters: Parameters) -> Float[Array, ""]:
    """Log-normal with a spread of a factor e^1.5: wide, but a part that is not needed cannot run away."""

    def log_normal(name: str, value: Array) -> Array:
        dim = value.size
        centre = jnp.log(0.3) if name.endswith(("std", "slopes", "noise")) else 0.5 * jnp.log(dim)
        if name == "wave_frequency":
            return -0.5 * jnp.sum((value / 4.0) ** 2)
        return -0.5 * jnp.sum(((value - centre) / 1.5) ** 2)

    return sum((log_normal(name, value) for name, value in parameters.items()), jnp.zeros(()))


def _deviation(parameters: Parameters) -> Sum:
    p = {name: jnp.exp(value) for name, value in parameters.items() if name != "wave_frequency"}
    parts: list[Kernel] = []
    if "linear_std" in p:
        parts.append(Linear(p["linear_std"], p["linear_slopes"]))
    if "rough_std" in p:
        parts.append(Matern(p["rough_std"], p["rough_length"], 0.5))
    if "smooth_std" in p:
        parts.append(Matern(p["smooth_std"], p["smooth_length"], 2.5))
    if "wave_std" in p:
        parts.append(Wave(p["wave_std"], p["wave_length"], parameters["wave_frequency"]))
    return Sum(tuple(parts))


def _mean_kernel(parameters: Parameters, config: PoolingConfig) -> Kernel:
    p = {name: jnp.exp(value) for name, value in parameters.items() if name.startswith("mean")}
    linear = Linear(p["mean_linear"], p["mean_linear"] * jnp.ones(1))
    if config.mean == "linear":
        return linear
    return Sum((linear, Matern(p["mean_std"], p["mean_length"], jnp.inf)))


def _noise(parameters: Parameters, config: PoolingConfig) -> Float[Array, ""]:
    return jnp.sqrt(jnp.exp(2 * parameters["noise"]) + config.noise_floor**2)


def _pieces(
    parameters: Parameters, tasks: PaddedTasks, centres: Float[Array, "c d"], config: PoolingConfig
) -> tuple[Array, Array, Array]:
    """Noisy Gram matrices of the deviations (n, m, m), features of g (n, m, c) and their root (c, c)."""
    mean_kernel, deviation, noise = (
        _mean_kernel(parameters, config),
        _deviation(parameters),
        _noise(parameters, config),
    )
    eye = jnp.eye(tasks.x.shape[1])
    blocks = jax.vmap(lambda x, mask: mask_gram(deviation(x, x) + noise**2 * eye, mask))(tasks.x, tasks.mask)
    # Phi(x) = k_g(x, centres) R^-T with R R^T = k_g(centres, centres), so that Phi Phi^T ~ k_g.
    root = cholesky(mean_kernel(centres, centres), 1e-8)
    flat = tasks.x.reshape(-1, tasks.x.shape[-1])
    features = solve_lower(root, mean_kernel(centres, flat)).T.reshape(*tasks.mask.shape, len(centres))
    return blocks, jnp.where(tasks.mask[..., None], features, 0.0), root


def _loss(parameters: Parameters, tasks: PaddedTasks, centres: Float[Array, "c d"], config: PoolingConfig) -> Array:
    blocks, features, _ = _pieces(parameters, tasks, centres, config)
    return -shared_log_prob(blocks, features, tasks.y, tasks.mask) - _log_hyper_prior(parameters)


_loss_and_gradient = eqx.filter_jit(jax.value_and_grad(_loss))


@eqx.filter_jit
def _new_task_process(
    parameters: Parameters, tasks: PaddedTasks, centres: Float[Array, "c d"], config: PoolingConfig
) -> GaussianProcess:
    """The prior of a new task's function given all old ones."""
    blocks, features, root = _pieces(parameters, tasks, centres, config)
    evidence = shared_evidence(blocks, features, tasks.y, tasks.mask)
    mean_kernel = _mean_kernel(parameters, config)
    return GaussianProcess(
        mean=BasisMean(mean_kernel, centres, solve_upper(root, evidence.mean)),
        kernel=Sum((*_deviation(parameters).parts, Basis(mean_kernel, centres, solve_upper(root, evidence.spread)))),
        noise_std=_noise(parameters, config),
    )
