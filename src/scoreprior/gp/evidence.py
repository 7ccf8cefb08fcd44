"""Type-II maximum a posteriori: maximise the evidence of the pooled model, with a spectral component if it pays.

It pays if its evidence exceeds its cost, and if tasks share it: the evidence of one task with odd values would do, for
the model is Gaussian. So every task is also predicted from the others, with the component and without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._linalg import cholesky, gaussian_log_prob, mask_gram, shared_log_prob
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.model import (
    AMPLITUDE,
    LARGEST_LOG_STD,
    LEAST_LOG_STD,
    MOST_AXES,
    SPECTRAL,
    Parameters,
    PooledTasks,
    leave_one_out,
    log_hyper_prior,
    pieces,
    weighted,
    with_amplitude,
)
from scoreprior.gp.significance import FEWEST_TASKS, is_significant
from scoreprior.gp.spectrum import frequencies, spectral_starts


def maximise_evidence(pool: PooledTasks, starts: list[Parameters], config: ProcessConfig) -> Parameters:
    """The MAP hyper-parameters from the likeliest start; with a spectral component if its evidence exceeds its cost."""
    objective = _objective(pool, config)
    # A constant amplitude is there from the start, so that one compiled function serves with and without another.
    start = _likeliest(objective, [with_amplitude(each, pool) for each in starts])[0]
    absent = (AMPLITUDE,) if "spectral" in config.deviation else (AMPLITUDE, *SPECTRAL)
    return _add_component(objective, minimise(objective, start, config.evidence_evaluations, absent), pool, config)


def vary_amplitude(pool: PooledTasks, parameters: Parameters, config: ProcessConfig) -> Parameters | None:
    """The MAP hyper-parameters, from these, with an amplitude that varies; None if its cost exceeds its evidence."""
    assert pool.amplitude is not None
    objective = _objective(pool, config)
    frozen = SPECTRAL if parameters["spectral_std"] <= LEAST_LOG_STD else ()
    found, loss = minimise(objective, parameters, config.evidence_evaluations, frozen)
    cost = _information_cost(pool.amplitude.knots.size, pool)
    return found if loss + cost < float(objective(parameters)[0]) else None


Objective = Callable[[Parameters], tuple[Array, Parameters]]


def _likeliest(objective: Objective, starts: list[Parameters]) -> tuple[Parameters, float]:
    losses = [float(objective(start)[0]) for start in starts]
    best = int(np.nanargmin(losses))
    return starts[best], losses[best]


def _objective(pool: PooledTasks, config: ProcessConfig) -> Objective:
    def objective(parameters: Parameters) -> tuple[Array, Parameters]:
        # Plain double-precision arrays, whatever they came from: another type would compile again.
        plain = {name: np.asarray(value, np.float64) for name, value in parameters.items()}
        return _loss_and_gradient(plain, pool, config)

    return objective


def _add_component(
    objective: Objective, found: tuple[Parameters, float], pool: PooledTasks, config: ProcessConfig
) -> Parameters:
    """With a spectral component if that pays."""
    parameters, loss = found
    dim = pool.centres.shape[1]
    if "spectral" in config.deviation or not config.frequencies or dim > MOST_AXES:
        return parameters
    tried = frequencies(pool.tasks)
    if not len(tried):
        return parameters
    start, there = _likeliest(objective, spectral_starts(parameters, pool, config, tried))
    cost = _information_cost(1 + 2 * dim, pool) + np.log(len(tried))
    if there > loss + cost:
        return parameters  # no start comes close: the optimisation is not worth its time
    with_component, better = minimise(objective, start, config.evidence_evaluations, (AMPLITUDE,))
    if better + cost >= loss:
        return parameters
    without, there = (_left_out_log_probs(each, pool, config) for each in (parameters, with_component))
    gain = np.asarray(there - without)[pool.used]
    return with_component if len(gain) < FEWEST_TASKS or is_significant(gain) else parameters


def _information_cost(count: int, pool: PooledTasks) -> float:
    """What so many more hyper-parameters cost in evidence (BIC)."""
    return 0.5 * count * float(np.log(np.sum(np.asarray(pool.tasks.mask))))


def minimise(
    objective: Objective,
    start: Parameters,
    evaluations: int,
    frozen: tuple[str, ...] = (),
) -> tuple[Parameters, float]:
    """L-BFGS from the start by value and gradient, and the loss there; parameters named in `frozen` stay."""
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
        flat_gradient = flatten(gradient | {name: np.zeros(shapes[name]) for name in frozen if name in shapes})
        if not (np.isfinite(value) and np.isfinite(flat_gradient).all()):
            return 1e10, np.zeros_like(flat_gradient)
        return float(value), flat_gradient

    from scipy.optimize import minimize  # here, since it takes a while

    bounds = [_bounds(name) for name, shape in shapes.items() for _ in range(math.prod(shape))]
    found: Any = minimize(
        value_and_gradient,
        flatten(start),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxfun": evaluations},
    )
    return restore(found.x), float(found.fun)


def _bounds(name: str) -> tuple[float, float]:
    """Of logarithms, and of a frequency, which is none."""
    return (
        (-np.inf, np.inf)
        if name == "spectral_frequency"
        else (LEAST_LOG_STD, LARGEST_LOG_STD.get(name, -LEAST_LOG_STD))
    )


def _loss(parameters: Parameters, pool: PooledTasks, config: ProcessConfig) -> Float[Array, ""]:
    blocks, features, _ = pieces(parameters, pool, config)
    tasks = pool.tasks
    log_prob = shared_log_prob(weighted(blocks, tasks), features, tasks.y, tasks.mask)
    if tasks.weight is not None:
        # w log N(y; m, K) = log N(y; m, K / w) - (w - 1) / 2 log det K, but for a constant.
        roots = jax.vmap(lambda block: cholesky(block, 0.0))(blocks)
        log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(roots, axis1=1, axis2=2)), axis=1)
        log_prob = log_prob - 0.5 * jnp.sum((tasks.weight - 1) * log_det)
    return -log_prob - log_hyper_prior(parameters)


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def _left_out_log_probs(parameters: Parameters, pool: PooledTasks, config: ProcessConfig) -> Float[Array, " n"]:
    """Of each task's points given all other tasks."""

    def one(mean: Array, covariance: Array, y: Array, mask: Array) -> Array:
        residual = jnp.where(mask, y - mean, 0.0)
        return gaussian_log_prob(residual, mask_gram(covariance, mask), mask, 1e-10)

    return jax.vmap(one)(*leave_one_out(parameters, pool, config), pool.tasks.y, pool.tasks.mask)


_loss_and_gradient = eqx.filter_jit(jax.value_and_grad(_loss), **LEVEL_1_NO_FUSION)
