"""Learn how wide a new task's predictives should be, by their level and by how surprising the task has been.

The process stays as it is, and what it foretold (`_foresight.py`) is what widths are learned from. Five times a fifth
of the tasks is left out, and if the widths learned from the others do not predict those clearly better there are none.
The process itself has seen all tasks, so this is a little too kind to widths; hence "clearly".
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from scoreprior._compilation import BRIEFLY
from scoreprior.gp.evidence import climb
from scoreprior.gp.model import Parameters, Pool, PoolingConfig, tail_widths
from scoreprior.gp.predictive_tuning import FEWEST_TASKS, WEIGHT, Foretold, clearly, foretold, strain
from scoreprior.gp.scale import Widths

_LEVELS = 5
_FOLDS = 5
_EVALUATIONS = 60


def learn_widths(pool: Pool, parameters: Parameters, config: PoolingConfig) -> Widths | None:
    """Widths, if they pay."""
    count = len(pool.tasks.y)
    low, high = np.quantile(np.asarray(pool.tasks.y)[np.asarray(pool.tasks.mask)], [0.02, 0.98])
    if count < FEWEST_TASKS or low == high:
        return None
    levels, tails = np.linspace(low, high, _LEVELS), tail_widths(parameters)
    task = _Widening(pool, foretold(pool, parameters, config), jnp.asarray(tails), jnp.asarray(levels))
    start = {"level": jnp.zeros(_LEVELS), "surprise": jnp.zeros(())}

    def learn(included: np.ndarray) -> Parameters:
        return climb(lambda each: _loss_and_gradient(each, start, task, included), start, _EVALUATIONS)[0]

    fold = np.arange(count) % _FOLDS
    after = np.zeros(count)
    for out in range(_FOLDS):
        after = np.where(fold == out, _losses(learn(fold != out), task), after)
    gain = np.asarray(_losses(start, task)) - after
    if not clearly(gain):
        return None
    return task.widths(learn(fold >= 0))


class _Widening(eqx.Module):
    """What widths are learned from."""

    pool: Pool
    told: Foretold
    tails: Float[Array, " c"]
    levels: Float[Array, " k"]

    def widths(self, parameters: Parameters) -> Widths:
        return Widths(self.levels, parameters["level"], parameters["surprise"])

    def losses(self, parameters: Parameters) -> Float[Array, " n"]:
        """One per task.

        The tails stay as they are. Learned here they gain likelihood where values repeat exactly, by narrow spikes on
        very wide bars, and lose it in every other respect.
        """
        return self.told.losses(self.told.log_prob(self.pool.tasks.y, self.tails, self.widths(parameters)))


_losses = eqx.filter_jit(lambda parameters, task: task.losses(parameters), **BRIEFLY)


@eqx.filter_jit(**BRIEFLY)
@jax.value_and_grad
def _loss_and_gradient(
    parameters: Parameters, start: Parameters, task: _Widening, included: Bool[Array, " n"]
) -> Float[Array, ""]:
    losses = jnp.where(included, task.losses(parameters), 0.0)
    return WEIGHT * jnp.sum(losses) + strain(parameters, start)
