"""Learn a scale calibration (`scale.py`) from leave-one-task-out predictions (`predictive_tuning.py`).

The process stays as it is. Five times a fifth of the tasks is left out, and if the calibration learned from the others
does not predict those significantly better there is none. The process itself was fitted to all tasks, which favours
the calibration a little; hence two standard errors.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.evidence import minimise
from scoreprior.gp.model import Parameters, PooledTasks, tail_scales
from scoreprior.gp.predictive_tuning import (
    WEIGHT,
    LeftOutPredictions,
    Recorded,
    left_out_predictions,
    proximal_penalty,
)
from scoreprior.gp.scale import ScaleCalibration
from scoreprior.gp.significance import FEWEST_TASKS, is_significant

_LEVELS = 5
_FOLDS = 5
_EVALUATIONS = 60


def fit_scale_calibration(
    pool: PooledTasks, parameters: Parameters, config: ProcessConfig, recorded: Recorded | None = None
) -> ScaleCalibration | None:
    """The calibration, or None where left-out tasks do not gain by it; targets may stand for intervals."""
    used = pool.used
    low, high = np.quantile(np.asarray(pool.tasks.y)[np.asarray(pool.tasks.mask)], [0.02, 0.98])
    if used.sum() < FEWEST_TASKS or low == high:
        return None
    levels, tails = np.linspace(low, high, _LEVELS), tail_scales(parameters)
    predictions = left_out_predictions(pool, parameters, config)
    middle, half_width = (pool.tasks.y, None) if recorded is None else recorded
    problem = _Problem(middle, predictions, jnp.asarray(tails), jnp.asarray(levels), half_width)
    start = {"level": jnp.zeros(_LEVELS), "surprise": jnp.zeros(())}

    def fit(included: np.ndarray) -> Parameters:
        return minimise(lambda each: _loss_and_gradient(each, start, problem, included), start, _EVALUATIONS)[0]

    fold = (np.cumsum(used) - 1) % _FOLDS  # those without a point are in some fold, and change nothing
    after = np.zeros(len(used))
    for out in range(_FOLDS):
        after = np.where(fold == out, _losses(fit(fold != out), problem), after)
    gain = np.asarray(_losses(start, problem)) - after
    return problem.calibration(fit(fold >= 0)) if is_significant(gain[used]) else None


class _Problem(eqx.Module):
    """What a calibration is learned from."""

    y: Float[Array, "n m"]
    predictions: LeftOutPredictions
    tails: Float[Array, " c"]
    levels: Float[Array, " k"]
    half_width: Float[Array, "n m"] | None = None

    def calibration(self, parameters: Parameters) -> ScaleCalibration:
        return ScaleCalibration(self.levels, parameters["level"], parameters["surprise"])

    def losses(self, parameters: Parameters) -> Float[Array, " n"]:
        """One per task.

        The tails stay as they are. Learned here they gain likelihood where values repeat exactly, by narrow spikes on
        very wide error bars, and lose it in every other respect.
        """
        log_prob = self.predictions.log_prob(self.y, self.tails, self.calibration(parameters), self.half_width)
        return self.predictions.losses(log_prob)


_losses = eqx.filter_jit(lambda parameters, problem: problem.losses(parameters), **LEVEL_1_NO_FUSION)


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
@jax.value_and_grad
def _loss_and_gradient(
    parameters: Parameters, start: Parameters, problem: _Problem, included: Bool[Array, " n"]
) -> Float[Array, ""]:
    losses = jnp.where(included, problem.losses(parameters), 0.0)
    return WEIGHT * jnp.sum(losses) + proximal_penalty(parameters, start)
