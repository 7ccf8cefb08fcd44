"""The pooled model: from hyper-parameters to Gram matrices, features and the process of a new task.

The model of task i is  y_i = g(x) + h_i(x) + noise,  with a mean function g that all tasks share and a deviation
h_i ~ GP(0, k_h) of each task's own. With g(x) = Phi(x) w and w ~ N(0, I), w is integrated out in closed form, so
its uncertainty (there are only n tasks) stays in the prior of a new task:

    f_new ~ GP( Phi(x) m_w,  k_h(x, z) + Phi(x) S_w Phi(z)^T ),    w | D_1..n ~ N(m_w, S_w).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._linalg import mask_gram, shared_evidence, whitener
from scoreprior.gp.amplitude import Amplitude, Modulated
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.kernels import Basis, BasisMean, Kernel, Linear, Matern, SpectralComponent, Sum
from scoreprior.gp.process import GaussianProcess, point_variance
from scoreprior.tasks import PaddedTasks, PointNoise

AMPLITUDE = "amplitude"
SPECTRAL = ("spectral_std", "spectral_length", "spectral_frequency")
LEAST_LOG_STD = -7.0
"""The least logarithm of a standard deviation: a part this small is absent."""
LARGEST_LOG_STD = {"mean_std": np.log(5.0), "mean_linear": np.log(5.0)}
"""A mean of five standard deviations of all targets only fits by cancelling itself."""
MOST_AXES = 3
"""Inputs up to which shapes are searched: a spectral component along every axis, and a mean that is not linear."""
_TAIL_COMPONENTS = 8


Parameters = dict[str, Array]
"""Logarithms of standard deviations and lengthscales; the spectral frequency and the tails."""


class PooledTasks(eqx.Module):
    """The tasks in double precision, the centres that span g, and where the deviation's amplitude has knots."""

    tasks: PaddedTasks
    centres: Float[Array, "c d"]
    amplitude: Amplitude | None

    def __init__(
        self, tasks: PaddedTasks, centres: Float[np.ndarray, "c d"], amplitude: Amplitude | None = None
    ) -> None:
        self.tasks = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), bool if a.dtype == bool else float), tasks)
        self.centres = jnp.asarray(centres)
        self.amplitude = jax.tree.map(jnp.asarray, amplitude)

    @property
    def used(self) -> Bool[np.ndarray, " n"]:
        """Which tasks have a point: held-out ones have none, and count for nothing."""
        return np.sum(np.asarray(self.tasks.mask), axis=1) > 0


def centre_count(config: ProcessConfig, dim: int) -> int:
    """More inputs have room for more shapes; a linear g has none."""
    return config.centres * (min(dim, MOST_AXES) if _is_smooth(config, dim) else 1)


def find_centres(tasks: PaddedTasks, count: int) -> Float[np.ndarray, "c d"]:
    """All inputs, or their k-means where there are more than `count`."""
    from scipy.cluster.vq import kmeans2  # here, since it brings scipy.spatial

    points = np.unique(np.asarray(tasks.x, np.float64)[np.asarray(tasks.mask)], axis=0)
    if len(points) <= count:
        return points
    return kmeans2(points, count, minit="++", seed=0)[0]


def start(key: PRNGKeyArray, dim: int, config: ProcessConfig) -> Parameters:
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
        elif part != "spectral":
            parameters[f"{part}_length"] = jnp.full(dim, scale)
    # The spectral component is always there, so that one compiled function serves with and without it.
    direction = jax.random.normal(next(keys), (dim,), jnp.float64)
    speed = jax.random.uniform(next(keys), (), jnp.float64, 1.0, 6.0)
    parameters["spectral_frequency"] = direction / jnp.linalg.norm(direction) * speed
    parameters["spectral_length"] = jnp.full(dim, jnp.log(5.0))
    parameters.setdefault("spectral_std", jnp.asarray(LEAST_LOG_STD, jnp.float64))
    return parameters


def with_amplitude(parameters: Parameters, pool: PooledTasks) -> Parameters:
    """The same with a constant amplitude of the deviation, where the tasks have room for another."""
    return parameters if pool.amplitude is None else parameters | {AMPLITUDE: pool.amplitude.log_values}


def has_constant_amplitude(parameters: Parameters) -> bool:
    """Whether the amplitude is among the hyper-parameters and the same everywhere."""
    return AMPLITUDE in parameters and not np.any(np.asarray(parameters[AMPLITUDE]))


def parameters_of(process: GaussianProcess) -> Parameters:
    """The hyper-parameters that a fitted process was made of, but for its tails."""
    mean, kernel = process.mean, process.kernel
    assert isinstance(mean, BasisMean)
    assert isinstance(kernel, Sum)
    found: dict[str, Any] = {"noise": process.noise_std}
    shared = mean.kernel.parts if isinstance(mean.kernel, Sum) else (mean.kernel,)
    for part in shared:
        if isinstance(part, Matern):
            found |= {"mean_std": part.std, "mean_length": part.lengthscale}
        elif isinstance(part, Linear):
            found |= {"mean_linear": part.offset_std}
    own, amplitude = kernel.parts, {}
    if isinstance(own[0], Modulated) and isinstance(own[0].kernel, Sum):
        amplitude = {AMPLITUDE: np.asarray(own[0].amplitude.log_values, np.float64)}
        own = own[0].kernel.parts
    for part in own:
        if isinstance(part, Linear):
            found |= {"linear_std": part.offset_std, "linear_slopes": part.slope_std}
        elif isinstance(part, Matern):
            name = "matern12" if part.order == 0.5 else "matern52"
            found |= {f"{name}_std": part.std, f"{name}_length": part.lengthscale}
        elif isinstance(part, SpectralComponent):
            found |= {"spectral_std": part.std, "spectral_length": part.lengthscale}
            frequency = part.frequency
    # Rounded, so that in single precision, too, a part that is absent has the least logarithm.
    logs: dict[str, Any] = {name: np.round(np.log(np.asarray(value, np.float64)), 6) for name, value in found.items()}
    return logs | amplitude | {"spectral_frequency": np.asarray(frequency, np.float64)}


def log_hyper_prior(parameters: Parameters) -> Float[Array, ""]:
    """Log-normal with a spread of a factor e^1.5: wide, but a part that is not needed cannot run away."""

    def log_normal(name: str, value: Array) -> Array:
        dim = value.size
        if name == "spectral_frequency":
            return jnp.zeros(())  # none is likelier than another; how many were tried is part of its cost
        if name == AMPLITUDE:
            return -0.5 * jnp.sum(value**2)
        centre = jnp.log(0.3) if name.endswith(("std", "slopes", "noise")) else 0.5 * jnp.log(dim)
        return -0.5 * jnp.sum(((value - centre) / 1.5) ** 2)

    return sum((log_normal(name, value) for name, value in parameters.items()), jnp.zeros(()))


def deviation(parameters: Parameters, amplitude: Amplitude | None) -> Sum:
    """The kernel k_h of the tasks' deviations; their amplitude varies along its knots if it has parameters."""
    p = {name: jnp.exp(value) for name, value in parameters.items() if name.endswith(("std", "slopes", "length"))}
    parts: list[Kernel] = []
    if "linear_std" in p:
        parts.append(Linear(p["linear_std"], p["linear_slopes"]))
    for name, order in (("matern12", 0.5), ("matern52", 2.5)):
        if f"{name}_std" in p:
            parts.append(Matern(p[f"{name}_std"], p[f"{name}_length"], order))
    parts.append(SpectralComponent(p["spectral_std"], p["spectral_length"], parameters["spectral_frequency"]))
    if AMPLITUDE not in parameters:
        return Sum(tuple(parts))
    assert amplitude is not None
    return Sum((Modulated(Sum(tuple(parts)), replace(amplitude, log_values=parameters[AMPLITUDE])),))


def _mean_kernel(parameters: Parameters, config: ProcessConfig) -> Kernel:
    p = {name: jnp.exp(value) for name, value in parameters.items() if name.startswith("mean")}
    linear = Linear(p["mean_linear"], p["mean_linear"] * jnp.ones(1))
    if not _is_smooth(config, p["mean_length"].size):
        return linear
    return Sum((linear, Matern(p["mean_std"], p["mean_length"], jnp.inf)))


def _is_smooth(config: ProcessConfig, dim: int) -> bool:
    return config.mean == "smooth" or (config.mean == "auto" and dim <= MOST_AXES)


def noise(parameters: Parameters, config: ProcessConfig) -> Float[Array, ""]:
    """Standard deviation of the noise."""
    return jnp.sqrt(jnp.exp(2 * parameters["noise"]) + config.noise_floor**2)


def degrees_of_freedom(parameters: Parameters) -> Float[Array, ""]:
    """Of the Student-t predictive, above 1."""
    return 1 + jnp.exp(parameters["tails"])


def tail_scales(parameters: Parameters) -> Float[np.ndarray, " c"]:
    """Relative scales of equally likely Gaussians that together have the fitted tails.

    A Student-t is a Gaussian whose variance is inverse-gamma distributed; its quantiles stand for it.
    """
    from scipy.stats import invgamma  # here, since it takes a third of a second

    if "tails" not in parameters:
        return np.ones(1)
    half = float(degrees_of_freedom(parameters)) / 2
    return np.sqrt(invgamma.ppf((np.arange(_TAIL_COMPONENTS) + 0.5) / _TAIL_COMPONENTS, half, scale=half))


def pieces(parameters: Parameters, pool: PooledTasks, config: ProcessConfig) -> tuple[Array, Array, Array]:
    """Noisy Gram matrices of the deviations (n, m, m), features of g (n, m, c) and their whitener (c, c)."""
    tasks, centres = pool.tasks, pool.centres
    mean_kernel, own = _mean_kernel(parameters, config), deviation(parameters, pool.amplitude)
    variance, eye = noise(parameters, config) ** 2, jnp.eye(tasks.x.shape[1])

    def block(x: Array, mask: Array, known: PointNoise | None) -> Array:
        return mask_gram(own(x, x) + point_variance(variance, known) * eye, mask)

    blocks = jax.vmap(block)(tasks.x, tasks.mask, tasks.noise)
    # Phi(x) = k_g(x, centres) R^-T with R R^T = k_g(centres, centres), so that Phi Phi^T ~ k_g.
    root = whitener(mean_kernel(centres, centres), 1e-8)
    flat = tasks.x.reshape(-1, tasks.x.shape[-1])
    features = (root @ mean_kernel(centres, flat)).T.reshape(*tasks.mask.shape, len(centres))
    return blocks, jnp.where(tasks.mask[..., None], features, 0.0), root


def weighted(blocks: Float[Array, "n m m"], tasks: PaddedTasks) -> Float[Array, "n m m"]:
    """Gram matrices over the weights of tasks: with these a task says as much of w as so many copies of it would."""
    if tasks.weight is None:
        return blocks
    over = blocks / tasks.weight[:, None, None]
    return jax.vmap(mask_gram)(over, tasks.mask)


def leave_one_out(
    parameters: Parameters, pool: PooledTasks, config: ProcessConfig
) -> tuple[Float[Array, "n m"], Float[Array, "n m m"]]:
    """Mean and covariance of each task's noisy values given all OTHER tasks: their evidence on w is taken out."""
    blocks, features, _ = pieces(parameters, pool, config)
    whiteners = jax.vmap(lambda block: whitener(block, 0.0))(weighted(blocks, pool.tasks))
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


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def new_task_process(parameters: Parameters, pool: PooledTasks, config: ProcessConfig) -> GaussianProcess:
    """The prior of a new task's function given all old ones."""
    blocks, features, root = pieces(parameters, pool, config)
    evidence = shared_evidence(weighted(blocks, pool.tasks), features, pool.tasks.y, pool.tasks.mask)
    mean_kernel = _mean_kernel(parameters, config)
    gram = mean_kernel(pool.centres, pool.centres)
    # Smaller weights, nearly the same function: single precision cannot add up large ones that cancel.
    regularised = whitener(gram, 1e-6)
    weights = regularised.T @ (regularised @ (gram @ root.T))
    shared = Basis(mean_kernel, pool.centres, weights @ evidence.spread)
    return GaussianProcess(
        mean=BasisMean(mean_kernel, pool.centres, weights @ evidence.mean),
        kernel=Sum((*deviation(parameters, pool.amplitude).parts, shared)),
        noise_std=noise(parameters, config),
    )
