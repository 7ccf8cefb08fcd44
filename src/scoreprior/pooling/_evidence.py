"""Climb the evidence of the pooled model (type-II MAP), and look for a wave."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from scoreprior._compilation import BRIEFLY
from scoreprior._linalg import shared_log_prob
from scoreprior.pooling._model import (
    MOST_AXES,
    MOST_STD,
    NO_WAVE,
    WAVE,
    Parameters,
    Pool,
    PoolingConfig,
    log_hyper_prior,
    pieces,
)


def most_likely(pool: Pool, starts: list[Parameters], config: PoolingConfig) -> Parameters:
    """The MAP hyper-parameters, climbed to from the likeliest start; with a wave if it pays."""

    def objective(parameters: Parameters) -> tuple[Array, Parameters]:
        # Plain double-precision arrays, whatever they came from: another type would compile again.
        plain = {name: np.asarray(value, np.float64) for name, value in parameters.items()}
        return _loss_and_gradient(plain, pool, config)

    def likeliest(starts: list[Parameters]) -> tuple[Parameters, float]:
        losses = [float(objective(start)[0]) for start in starts]
        best = int(np.nanargmin(losses))
        return starts[best], losses[best]

    waving = "wave" in config.deviation
    parameters, loss = climb(objective, likeliest(starts)[0], config.evaluations, frozen=() if waving else WAVE)
    dim = pool.centres.shape[1]
    if waving or not config.waves or dim > MOST_AXES:
        return parameters
    start, there = likeliest(_with_waves(parameters, dim, config.waves))
    cost = 0.5 * (1 + 2 * dim) * np.log(np.sum(np.asarray(pool.tasks.mask)))
    if there > loss + cost:
        return parameters  # not even close: spare the climb
    with_wave, better = climb(objective, start, config.evaluations)
    return with_wave if better + cost < loss else parameters


def climb(
    objective: Callable[[Parameters], tuple[Array, Parameters]],
    start: Parameters,
    evaluations: int,
    frozen: tuple[str, ...] = (),
) -> tuple[Parameters, float]:
    """L-BFGS from the start by value and gradient, and the loss there; the line search makes a learning rate moot."""
    # By NumPy: every operation of JAX on parameters of another shape is a program to compile.
    shapes = {name: np.shape(start[name]) for name in sorted(start)}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])

    def flatten(tree: Mapping[str, Any]) -> np.ndarray:
        return np.concatenate([np.ravel(tree[name]) for name in shapes])

    def restore(values: np.ndarray) -> dict[str, Any]:
        parts = zip(shapes.items(), np.split(values, ends[:-1]))
        return {name: part.reshape(shape) for (name, shape), part in parts}

    def value_and_gradient(values: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(restore(values))
        flat_gradient = flatten(gradient | {name: np.zeros(shapes[name]) for name in frozen})
        if not (np.isfinite(value) and np.isfinite(flat_gradient).all()):
            return 1e10, np.zeros_like(flat_gradient)
        return float(value), flat_gradient

    most = {name: np.full(np.shape(value), MOST_STD.get(name, -NO_WAVE)) for name, value in start.items()}
    found: Any = minimize(
        value_and_gradient,
        flatten(start),
        jac=True,
        method="L-BFGS-B",
        bounds=[(NO_WAVE, upper) for upper in flatten(most)],
        options={"maxfun": evaluations},
    )
    return restore(found.x), float(found.fun)


def _with_waves(parameters: Parameters, dim: int, count: int) -> list[Parameters]:
    """Starts with a wave of many frequencies along every axis, two amplitudes of each.

    The evidence has a narrow peak at every frequency: a climb from a random start misses the right one.
    """
    # The wave explains what the other parts had to: they start small beside it.
    others = {name: value - 1.0 * (name in ("rough_std", "smooth_std")) for name, value in parameters.items()}
    return [
        others | {"wave_std": jnp.log(jnp.asarray(std)), "wave_frequency": jnp.asarray(speed * axis)}
        for std in (0.1, 0.5)
        for speed in np.linspace(0.5, 12.0, count)
        for axis in np.eye(dim)
    ]


def _loss(parameters: Parameters, pool: Pool, config: PoolingConfig) -> Float[Array, ""]:
    blocks, features, _ = pieces(parameters, pool, config)
    return -shared_log_prob(blocks, features, pool.tasks.y, pool.tasks.mask) - log_hyper_prior(parameters)


_loss_and_gradient = eqx.filter_jit(jax.value_and_grad(_loss), **BRIEFLY)
