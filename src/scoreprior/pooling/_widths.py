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
from scoreprior.pooling._evidence import climb
from scoreprior.pooling._foresight import WEIGHT, Foretold, foretold, strain
from scoreprior.pooling._model import Parameters, Pool, PoolingConfig, tail_widths
from scoreprior.widths import Widths, known

_LEVELS = 5
_FOLDS = 5
_FEWEST_TASKS = 10
"""With fewer tasks than this, none of which may be like the next, nothing is learned of widths."""
_EVALUATIONS = 60


def learn_widths(pool: Pool, parameters: Parameters, config: PoolingConfig) -> Widths | None:
    """Widths, if they pay."""
    count = len(pool.tasks.y)
    low, high = np.quantile(np.asarray(pool.tasks.y)[np.asarray(pool.tasks.mask)], [0.02, 0.98])
    if count < _FEWEST_TASKS or low == high:
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
    if not gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(count):
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
        """One per task, of the very mixture that will predict: a Student-t has tails that eight Gaussians have not.

        The tails stay as they are. Learned here they gain likelihood where values repeat exactly, by narrow spikes on
        very wide bars, and lose it in every other respect.
        """
        told = self.told
        share = known(told.std**2, told.std[:1] ** 2)  # the first share of points is none
        std = told.std * jax.vmap(jax.vmap(self.widths(parameters)))(told.mean, share, told.surprise)
        log_prob = jax.scipy.stats.norm.logpdf(self.pool.tasks.y, told.mean, self.tails[:, None, None, None] * std)
        return told.losses(jax.nn.logsumexp(log_prob, axis=0) - jnp.log(len(self.tails)))


_losses = eqx.filter_jit(lambda parameters, task: task.losses(parameters), **BRIEFLY)


@eqx.filter_jit(**BRIEFLY)
@jax.value_and_grad
def _loss_and_gradient(
    parameters: Parameters, start: Parameters, task: _Widening, included: Bool[Array, " n"]
) -> Float[Array, ""]:
    losses = jnp.where(included, task.losses(parameters), 0.0)
    return WEIGHT * jnp.sum(losses) + strain(parameters, start)
