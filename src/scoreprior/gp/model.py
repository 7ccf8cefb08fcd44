"""The model of `pooling`: from hyper-parameters to Gram matrices, features and the process of a new task.

The model of task i is  y_i = g(x) + h_i(x) + noise,  with a mean function g that all tasks share and a deviation
h_i ~ GP(0, k_h) of each task's own. With g(x) = Phi(x) w and w ~ N(0, I), w is integrated out in closed form, so
its uncertainty (there are only n tasks) stays in the prior of a new task:

    f_new ~ GP( Phi(x) m_w,  k_h(x, z) + Phi(x) S_w Phi(z)^T ),    w | D_1..n ~ N(m_w, S_w).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.cluster.vq import kmeans2
from scipy.stats import invgamma

from scoreprior._compilation import BRIEFLY
from scoreprior._linalg import mask_gram, shared_evidence, whitener
from scoreprior.gp.kernels import Basis, BasisMean, Kernel, Linear, Matern, Sum, Wave
from scoreprior.gp.process import GaussianProcess
from scoreprior.tasks import PaddedTasks

Part = Literal["linear", "rough", "smooth", "wave"]
WAVE = ("wave_std", "wave_length", "wave_frequency")
NO_WAVE = -7.0
"""The least logarithm of a standard deviation: a wave this small is none."""
MOST_STD = {"mean_std": np.log(5.0), "mean_linear": np.log(5.0)}
"""Largest logarithms: a mean of five standard deviations of all targets only fits by cancelling itself."""
MOST_AXES = 3
"""Inputs up to which shapes are looked for: waves along every axis, and a mean that is more than linear."""
_WIDTHS = 8


@dataclass(frozen=True)
class PoolingConfig:
    """What the pooled process is made of and how it is fitted.

    Args:
        deviation: parts of k_h: "linear" (random offset and slopes), "rough" (Matern-1/2), "smooth" (Matern-5/2),
            "wave" (one damped random wave).
        either: k_h is not the sum of these parts but the one that predicts later points of the tasks best.
        mean: g is "linear", or "smooth": linear plus a smooth function. "auto" is smooth for up to three inputs:
            in more dimensions the centres span too little of the space.
        waves: a wave is looked for at all frequencies that the tasks can tell apart; from so many of the most promising
            the likeliest is climbed from, and joins the deviation if its evidence exceeds its cost (BIC and the
            number of frequencies). 0 does not look; with more than three axes there are too many directions.
        centres: number of centres that span the smooth part of g, for each of up to three inputs.
        candidates: random starting points; the most likely one is climbed from.
        evaluations: most evaluations of the marginal likelihood on the climb (L-BFGS).
        foresight: most evaluations of a second climb that tunes the process, and the tails of its predictive, to
            predict the later points of every task from its earlier ones; 0 leaves the type-II fit.
        widths: after foresight, learn widths that depend on the level predicted and on how surprising the task has
            been; they stay if tasks left out are predicted better by two standard errors, and need ten tasks.
        second: hear a second opinion, that of the plainest process (`plain`): it is half of every predictive if later
            points of the tasks are so predicted better by two standard errors, and needs ten tasks.
        most_tasks: with more tasks than this, hyper-parameters are fitted to a random subset of this size.
        most_points: and with more points in a task, to as many of them. The shared mean is that of all points.
    """

    deviation: tuple[Part, ...] = ("linear", "rough", "smooth")
    either: bool = False
    mean: Literal["auto", "linear", "smooth"] = "auto"
    waves: int = 24
    centres: int = 48
    candidates: int = 8
    evaluations: int = 80
    foresight: int = 40
    widths: bool = True
    second: bool = True
    most_tasks: int = 200
    most_points: int = 100
    noise_floor: float = 0.003

    def plain(self) -> PoolingConfig:
        """The plainest process, fitted in the same way: a linear mean and one ARD Matern kernel."""
        return replace(
            self, deviation=("rough", "smooth"), either=True, mean="linear", waves=0, widths=False, second=False
        )


Parameters = dict[str, Array]
"""Logarithms of standard deviations and lengthscales, the wave's frequency, the tails."""


class Pool(eqx.Module):
    """The tasks in double precision, and the centres that span g."""

    tasks: PaddedTasks
    centres: Float[Array, "c d"]

    def __init__(self, tasks: PaddedTasks, centres: Float[np.ndarray, "c d"]):
        self.tasks = PaddedTasks(*(jnp.asarray(np.asarray(a), bool if a.dtype == bool else float) for a in tasks))
        self.centres = jnp.asarray(centres)


def centre_count(config: PoolingConfig, dim: int) -> int:
    """More inputs have room for more shapes; a linear g has none."""
    return config.centres * (min(dim, MOST_AXES) if _is_smooth(config, dim) else 1)


def find_centres(tasks: PaddedTasks, count: int) -> Float[np.ndarray, "c d"]:
    points = np.unique(np.asarray(tasks.x, np.float64)[np.asarray(tasks.mask)], axis=0)
    if len(points) <= count:
        return points
    return kmeans2(points, count, minit="++", seed=0)[0]


def start(key: PRNGKeyArray, dim: int, config: PoolingConfig) -> Parameters:
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
        elif part != "wave":
            parameters[f"{part}_length"] = jnp.full(dim, scale)
    # The wave is always there, so that one compiled function serves with and without it.
    direction = jax.random.normal(next(keys), (dim,), jnp.float64)
    speed = jax.random.uniform(next(keys), (), jnp.float64, 1.0, 6.0)
    parameters["wave_frequency"] = direction / jnp.linalg.norm(direction) * speed
    parameters["wave_length"] = jnp.full(dim, jnp.log(5.0))
    parameters.setdefault("wave_std", jnp.asarray(NO_WAVE, jnp.float64))
    return parameters


def log_hyper_prior(parameters: Parameters) -> Float[Array, ""]:
    """Log-normal with a spread of a factor e^1.5: wide, but a part that is not needed cannot run away."""

    def log_normal(name: str, value: Array) -> Array:
        dim = value.size
        if name == "wave_frequency":
            return jnp.zeros(())  # none is likelier than another; that many were tried is part of a wave's cost
        centre = jnp.log(0.3) if name.endswith(("std", "slopes", "noise")) else 0.5 * jnp.log(dim)
        return -0.5 * jnp.sum(((value - centre) / 1.5) ** 2)

    return sum((log_normal(name, value) for name, value in parameters.items()), jnp.zeros(()))


def deviation(parameters: Parameters) -> Sum:
    p = {name: jnp.exp(value) for name, value in parameters.items() if name.endswith(("std", "slopes", "length"))}
    parts: list[Kernel] = []
    if "linear_std" in p:
        parts.append(Linear(p["linear_std"], p["linear_slopes"]))
    for name, order in (("rough", 0.5), ("smooth", 2.5)):
        if f"{name}_std" in p:
            parts.append(Matern(p[f"{name}_std"], p[f"{name}_length"], order))
    parts.append(Wave(p["wave_std"], p["wave_length"], parameters["wave_frequency"]))
    return Sum(tuple(parts))


def _mean_kernel(parameters: Parameters, config: PoolingConfig) -> Kernel:
    p = {name: jnp.exp(value) for name, value in parameters.items() if name.startswith("mean")}
    linear = Linear(p["mean_linear"], p["mean_linear"] * jnp.ones(1))
    if not _is_smooth(config, p["mean_length"].size):
        return linear
    return Sum((linear, Matern(p["mean_std"], p["mean_length"], jnp.inf)))


def _is_smooth(config: PoolingConfig, dim: int) -> bool:
    return config.mean == "smooth" or (config.mean == "auto" and dim <= MOST_AXES)


def noise(parameters: Parameters, config: PoolingConfig) -> Float[Array, ""]:
    return jnp.sqrt(jnp.exp(2 * parameters["noise"]) + config.noise_floor**2)


def degrees_of_freedom(parameters: Parameters) -> Float[Array, ""]:
    """Of the Student-t predictive, above 1."""
    return 1 + jnp.exp(parameters["tails"])


def tail_widths(parameters: Parameters) -> Float[np.ndarray, " c"]:
    """Relative widths of equally likely Gaussians that together have the fitted tails.

    A Student-t is a Gaussian whose variance is inverse-gamma distributed; its quantiles stand for it.
    """
    if "tails" not in parameters:
        return np.ones(1)
    half = float(degrees_of_freedom(parameters)) / 2
    return np.sqrt(invgamma.ppf((np.arange(_WIDTHS) + 0.5) / _WIDTHS, half, scale=half))


def pieces(parameters: Parameters, pool: Pool, config: PoolingConfig) -> tuple[Array, Array, Array]:
    """Noisy Gram matrices of the deviations (n, m, m), features of g (n, m, c) and their whitener (c, c)."""
    tasks, centres = pool.tasks, pool.centres
    mean_kernel, own = _mean_kernel(parameters, config), deviation(parameters)
    white = noise(parameters, config) ** 2 * jnp.eye(tasks.x.shape[1])
    blocks = jax.vmap(lambda x, mask: mask_gram(own(x, x) + white, mask))(tasks.x, tasks.mask)
    # Phi(x) = k_g(x, centres) R^-T with R R^T = k_g(centres, centres), so that Phi Phi^T ~ k_g.
    root = whitener(mean_kernel(centres, centres), 1e-8)
    flat = tasks.x.reshape(-1, tasks.x.shape[-1])
    features = (root @ mean_kernel(centres, flat)).T.reshape(*tasks.mask.shape, len(centres))
    return blocks, jnp.where(tasks.mask[..., None], features, 0.0), root


def leave_one_out(
    parameters: Parameters, pool: Pool, config: PoolingConfig
) -> tuple[Float[Array, "n m"], Float[Array, "n m m"]]:
    """Mean and covariance of each task's noisy values given all OTHER tasks: their evidence on w is taken out."""
    blocks, features, _ = pieces(parameters, pool, config)
    whiteners = jax.vmap(lambda block: whitener(block, 0.0))(blocks)
    white = whiteners @ jnp.concatenate([features, pool.tasks.y[..., None]], axis=-1)
    white, target = white[..., :-1], white[..., -1]
    precisions = jnp.einsum("nmr,nms->nrs", white, white)
    pulls = jnp.einsum("nmr,nm->nr", white, target)
    precision = jnp.eye(features.shape[-1], dtype=features.dtype) + jnp.sum(precisions, axis=0)

    def one(block: Array, feature: Array, own: Array, pull: Array) -> tuple[Array, Array]:
        root = whitener(precision - own, 1e-10)
        spread = root @ feature.T
        return spread.T @ (root @ (jnp.sum(pulls, axis=0) - pull)), block + spread.T @ spread

    return jax.vmap(one)(blocks, features, precisions, pulls)


@eqx.filter_jit(**BRIEFLY)
def new_task_process(parameters: Parameters, pool: Pool, config: PoolingConfig) -> GaussianProcess:
    """The prior of a new task's function given all old ones."""
    blocks, features, root = pieces(parameters, pool, config)
    evidence = shared_evidence(blocks, features, pool.tasks.y, pool.tasks.mask)
    mean_kernel = _mean_kernel(parameters, config)
    gram = mean_kernel(pool.centres, pool.centres)
    # Smaller weights, nearly the same function: single precision cannot add up large ones that cancel.
    firmer = whitener(gram, 1e-6)
    weights = firmer.T @ (firmer @ (gram @ root.T))
    shared = Basis(mean_kernel, pool.centres, weights @ evidence.spread)
    return GaussianProcess(
        mean=BasisMean(mean_kernel, pool.centres, weights @ evidence.mean),
        kernel=Sum((*deviation(parameters).parts, shared)),
        noise_std=noise(parameters, config),
    )
