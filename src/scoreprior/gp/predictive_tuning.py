"""Predictive tuning: hyper-parameters that predict each task's later points from its earlier ones and the OTHER tasks.

The evidence rewards a model of all points at once; where the model is wrong (a bounded scale, sudden jumps) that is
not the model that predicts best. Here a task's first points, or none, are its context, the rest are predicted one by
one with a Student-t of the Gaussian process's mean and scale, and what is known of the shared mean comes from the other
tasks alone, as it will for a new one. Rows are taken in the order given, so with tasks in order of time this is
forecasting.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._interval import mixture_interval_log_prob
from scoreprior._linalg import cholesky, mask_gram, solve_lower, whitener
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.evidence import minimise
from scoreprior.gp.model import (
    AMPLITUDE,
    LEAST_LOG_STD,
    SPECTRAL,
    Parameters,
    PooledTasks,
    degrees_of_freedom,
    has_constant_amplitude,
    leave_one_out,
)
from scoreprior.gp.scale import ScaleCalibration, explained_fraction, surprise

_CONTEXTS = {0.0: 0.3, 0.25: 1.0, 0.5: 1.0, 0.75: 1.0}
"""Shares of a task's points that are context, none first, and weights: without any, too, the spread must be honest."""
_TAILS = {"tails": np.log(9.0)}
"""Where their fit starts: a Student-t of ten degrees of freedom."""
WEIGHT = 5.0
"""How many independent points the later part of a task is worth, against the type-II fit."""

Recorded = tuple[Float[Array, "n m"], Float[Array, "n m"]]
"""What targets stand for: middles and half widths of intervals, as in `mixture_interval_log_prob`."""


def tune(pool: PooledTasks, start: Parameters, config: ProcessConfig, evaluations: int) -> Parameters:
    """The hyper-parameters, tails included, that predict the later parts of tasks best, by so many evaluations."""
    start = start | _TAILS
    # A spectral component that the evidence did not ask for stays out, and a constant amplitude constant.
    frozen: tuple[str, ...] = SPECTRAL if start["spectral_std"] <= LEAST_LOG_STD else ()
    if has_constant_amplitude(start):
        frozen = (*frozen, AMPLITUDE)

    def objective(parameters: Parameters) -> tuple[Array, Parameters]:
        (loss, _), gradient = _loss_and_gradient(parameters, start, pool, config)
        return loss, gradient

    return minimise(objective, start, evaluations, frozen)[0]


def predictive_loss(pool: PooledTasks, parameters: Parameters, config: ProcessConfig) -> float:
    """How badly the later parts of tasks are predicted; to compare models, as the evidence is no judge of that."""
    parameters = parameters | _TAILS
    return float(_loss_and_gradient(parameters, parameters, pool, config)[0][0])


def predictive_losses(pool: PooledTasks, parameters: Parameters, config: ProcessConfig) -> Float[np.ndarray, " n"]:
    """The same of each task, in nats per point."""
    parameters = parameters | _TAILS
    return np.asarray(_loss_and_gradient(parameters, parameters, pool, config)[0][1][1])


def left_out_predictions(pool: PooledTasks, parameters: Parameters, config: ProcessConfig) -> LeftOutPredictions:
    """What these hyper-parameters predict of every task from its first points and from the other tasks."""
    # By the function that was compiled for the tuning: another would be compiled again.
    return _loss_and_gradient(parameters, parameters, pool, config)[0][1][0]


def _loss(
    parameters: Parameters, start: Parameters, pool: PooledTasks, config: ProcessConfig
) -> tuple[Float[Array, ""], tuple[LeftOutPredictions, Float[Array, " n"]]]:
    predictions = _predict_left_out(parameters, pool, config)
    log_prob = _student_t(predictions.mean, predictions.std, pool.tasks.y, degrees_of_freedom(parameters))
    losses = predictions.losses(log_prob)
    if pool.tasks.weight is not None:
        losses = pool.tasks.weight * losses
    return WEIGHT * jnp.sum(losses) + proximal_penalty(parameters, start), (predictions, losses)


_loss_and_gradient = eqx.filter_jit(jax.value_and_grad(_loss, has_aux=True), **LEVEL_1_NO_FUSION)


def proximal_penalty(parameters: Parameters, start: Parameters) -> Float[Array, ""]:
    """1/2 |parameters - start|^2: few tasks say little, and then the start stands."""
    return 0.5 * sum((jnp.sum((parameters[name] - start[name]) ** 2) for name in start), jnp.zeros(()))


class LeftOutPredictions(eqx.Module):
    """Leave-one-task-out predictions of all points of all n tasks, from each share s of their first points."""

    mean: Float[Array, "s n m"]
    std: Float[Array, "s n m"]
    surprise: Float[Array, "s n"]
    later: Bool[Array, "s n m"]

    def log_prob(
        self,
        y: Float[Array, "n m"],
        tails: Float[Array, " c"],
        scale: ScaleCalibration | None,
        half_width: Float[Array, "n m"] | None = None,
    ) -> Float[Array, "s n m"]:
        """Of the very mixture that will predict: a Student-t has tails that eight Gaussians have not.

        With half widths, of the intervals around y that targets stand for, as in `mixture_interval_log_prob`.
        """
        std = self.std
        if scale is not None:
            explained = explained_fraction(std**2, std[:1] ** 2)  # the first share of points is none
            std = std * jax.vmap(jax.vmap(scale))(self.mean, explained, self.surprise)
        if half_width is not None:
            flat = (jnp.broadcast_to(each, std.shape).ravel() for each in (y, self.mean, std, half_width))
            middle, mean, one_std, half = flat
            scales = tails[:, None] * one_std
            locs = jnp.broadcast_to(mean, scales.shape)
            return mixture_interval_log_prob(middle, locs, scales, half).reshape(std.shape)
        each = jax.scipy.stats.norm.logpdf(y, self.mean, tails[:, None, None, None] * std)
        return jax.nn.logsumexp(each, axis=0) - jnp.log(len(tails))

    @property
    def point_weights(self) -> Float[Array, "s n m"]:
        """What each prediction counts in the loss of its task."""
        shares = jnp.asarray(list(_CONTEXTS.values()))[:, None, None]
        each = self.later / jnp.maximum(jnp.sum(self.later, axis=-1, keepdims=True), 1)
        return shares * each / jnp.sum(shares)

    def losses(self, log_prob: Float[Array, "s n m"]) -> Float[Array, " n"]:
        """Of each task: the mean negative log density of its later points, over the shares by their weights."""
        total = jnp.sum(jnp.where(self.later, log_prob, 0.0), axis=-1)
        losses = -total / jnp.maximum(jnp.sum(self.later, axis=-1), 1)
        weights = jnp.asarray(list(_CONTEXTS.values()))
        return weights @ losses / jnp.sum(weights)


def _predict_left_out(parameters: Parameters, pool: PooledTasks, config: ProcessConfig) -> LeftOutPredictions:
    tasks = pool.tasks

    def one(mean: Array, covariance: Array, y: Array, mask: Array, share: Array) -> LeftOutPredictions:
        size = jnp.sum(mask)
        least = jnp.where(share > 0, 1, 0)
        seen = mask & (jnp.arange(len(mask)) < jnp.clip(jnp.round(share * size), least, size - 1))
        mean, std, squares = _predict(mean, covariance, y, seen)
        return LeftOutPredictions(mean, std, surprise(squares, jnp.sum(seen)), mask & ~seen)

    over_tasks = jax.vmap(one, in_axes=(0, 0, 0, 0, None))
    over_shares = jax.vmap(over_tasks, in_axes=(None, None, None, None, 0))
    return over_shares(*leave_one_out(parameters, pool, config), tasks.y, tasks.mask, jnp.asarray(list(_CONTEXTS)))


def _predict(
    mean: Float[Array, " m"], covariance: Float[Array, "m m"], y: Float[Array, " m"], seen: Bool[Array, " m"]
) -> tuple[Float[Array, " m"], Float[Array, " m"], Float[Array, ""]]:
    """Mean and standard deviation of every point given those seen, and the sum of these ones' whitened squares."""
    residual = jnp.where(seen, y - mean, 0.0)
    # With the jitter of `GaussianProcess.condition`, which counts where there is little noise.
    squares = jnp.sum(solve_lower(cholesky(mask_gram(covariance, seen)), residual) ** 2)
    root = whitener(mask_gram(covariance, seen), 1e-10)
    half = root @ jnp.where(seen[:, None], covariance, 0.0)
    variance = jnp.einsum("mm->m", covariance) - jnp.sum(half**2, axis=0)
    return mean + half.T @ (root @ residual), jnp.sqrt(jnp.maximum(variance, 1e-8)), squares


def _student_t(mean: Array, scale: Array, y: Array, df: Array) -> Float[Array, " m"]:
    z = (y - mean) / scale
    above, at = gammaln(0.5 * (df + jnp.array([1.0, 0.0])))
    norm = above - at - 0.5 * jnp.log(jnp.pi * df) - jnp.log(scale)
    return norm - 0.5 * (df + 1) * jnp.log1p(z**2 / df)
