"""Learn one Gaussian process from all tasks together, and hear a second opinion.

`_model.py` says what the process is made of, `_evidence.py` fits it by type-II maximum likelihood, `_waves.py` says at
which frequencies a wave may help, `_foresight.py` tunes the process to predict the later points of a task from the
earlier ones, `_widths.py` learns where predictives are wider.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._compilation import BRIEFLY
from scoreprior.gp.evidence import most_likely
from scoreprior.gp.model import (
    Parameters,
    Pool,
    PoolingConfig,
    centre_count,
    find_centres,
    new_task_process,
    start,
    tail_widths,
)
from scoreprior.gp.predictive_tuning import FEWEST_TASKS, Foretold, clearly, foresee, foretold, shortfall
from scoreprior.gp.process import GaussianProcess
from scoreprior.gp.scale import Widths
from scoreprior.gp.scale_calibration import learn_widths
from scoreprior.tasks import PaddedTasks


def learn_process(tasks: PaddedTasks, config: PoolingConfig, key: PRNGKeyArray) -> GaussianProcess:
    """Fit the pooled process to standardised tasks: MAP under weak log-normal hyper-priors."""
    return _learn(tasks, config, key).process(tasks)


def learn_opinions(
    tasks: PaddedTasks, config: PoolingConfig, key: PRNGKeyArray
) -> tuple[GaussianProcess, GaussianProcess | None]:
    """The pooled process, and a plain one where the two together predict better than the first alone.

    Both have seen all tasks, so this is a little too kind to whichever fits more; hence "clearly".
    """
    first = _learn(tasks, config, key)
    if not config.second or not config.foresight or len(first.pool.tasks.y) < FEWEST_TASKS:
        return first.process(tasks), None
    second = _learn(tasks, config.plain(), key)
    with jax.enable_x64(True):
        gain = _gain(first.foretold(), second.foretold(), first.pool.tasks.y)
    return first.process(tasks), second.process(tasks) if clearly(np.asarray(gain)) else None


class _Learned(NamedTuple):
    """Hyper-parameters, and what they were learned from."""

    pool: Pool
    parameters: Parameters
    config: PoolingConfig  # with the parts that were chosen
    widths: Widths | None

    def foretold(self) -> tuple[Foretold, Float[np.ndarray, " c"], Widths | None]:
        """What was predicted of the tasks' points, with the tails and the widths of that."""
        return foretold(self.pool, self.parameters, self.config), tail_widths(self.parameters), self.widths

    def process(self, tasks: PaddedTasks) -> GaussianProcess:
        """The prior of a new task, in single precision; the shared mean is that of all tasks' points."""
        with jax.enable_x64(True):
            process = new_task_process(self.parameters, Pool(tasks, np.asarray(self.pool.centres)), self.config)
        process = replace(process, tails=tail_widths(self.parameters), widths=self.widths)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), process)


@eqx.filter_jit(**BRIEFLY)
def _gain(
    first: tuple[Foretold, Array, Widths | None], second: tuple[Foretold, Array, Widths | None], y: Float[Array, "n m"]
) -> Float[Array, " n"]:
    """How much better every task's later points are predicted by halves of both than by the first alone."""
    alone, other = (told.log_prob(y, tails, widths) for told, tails, widths in (first, second))
    told = first[0]
    return told.losses(alone) - told.losses(jnp.logaddexp(alone, other) - jnp.log(2.0))


def _learn(tasks: PaddedTasks, config: PoolingConfig, key: PRNGKeyArray) -> _Learned:
    start_key, subset_key = jax.random.split(key)
    centres = find_centres(tasks, centre_count(config, tasks.x.shape[-1]))
    subset = _subset(tasks, config, subset_key)
    # Small noise makes the normal equations of w ill-conditioned: double precision here, and only here.
    with jax.enable_x64(True):
        pool = Pool(subset, centres)
        keys = jax.random.split(start_key, config.candidates)
        options = [replace(config, deviation=(part,)) for part in config.deviation] if config.either else [config]
        fits = [most_likely(pool, [start(one, centres.shape[1], each) for one in keys], each) for each in options]
        best = 0
        if config.either:
            best = int(np.argmin([shortfall(pool, fit, each) for fit, each in zip(fits, options)]))
        parameters, config = fits[best], options[best]
        widths = None
        if config.foresight:
            parameters = foresee(pool, parameters, config)
            widths = learn_widths(pool, parameters, config) if config.widths else None
    return _Learned(pool, parameters, config, widths)


def _subset(tasks: PaddedTasks, config: PoolingConfig, key: PRNGKeyArray) -> PaddedTasks:
    """At most so many tasks, and of each at most so many points, in their order."""
    if len(tasks.x) > config.most_tasks:
        chosen = jax.random.choice(jax.random.fold_in(key, 1), len(tasks.x), (config.most_tasks,), replace=False)
        tasks = PaddedTasks(*(leaf[chosen] for leaf in tasks))
    return tasks.at_most(config.most_points, key)


__all__ = ["PoolingConfig", "learn_opinions", "learn_process"]
