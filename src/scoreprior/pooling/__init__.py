"""Learn one Gaussian process from all tasks together.

`_model.py` says what the process is made of, `_evidence.py` fits it by type-II maximum likelihood, `_waves.py` says at
which frequencies a wave may help, `_foresight.py` tunes the process to predict the later points of a task from the
earlier ones, `_widths.py` learns where predictives are wider.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from scoreprior.pooling._evidence import most_likely
from scoreprior.pooling._foresight import foresee, shortfall
from scoreprior.pooling._model import (
    Pool,
    PoolingConfig,
    centre_count,
    find_centres,
    new_task_process,
    start,
    tail_widths,
)
from scoreprior.pooling._widths import learn_widths
from scoreprior.process import GaussianProcess
from scoreprior.tasks import PaddedTasks


def learn_process(tasks: PaddedTasks, config: PoolingConfig, key: PRNGKeyArray) -> GaussianProcess:
    """Fit the pooled process to standardised tasks: MAP under weak log-normal hyper-priors."""
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
        tails, widths = np.ones(1), None
        if config.foresight:
            parameters = foresee(pool, parameters, config)
            tails = tail_widths(parameters)
            widths = learn_widths(pool, parameters, config) if config.widths else None
        process = new_task_process(parameters, Pool(tasks, centres), config)
        process = replace(process, tails=jnp.asarray(tails), widths=widths)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), process)


def _subset(tasks: PaddedTasks, config: PoolingConfig, key: PRNGKeyArray) -> PaddedTasks:
    """At most so many tasks, and of each at most so many points, in their order."""
    if len(tasks.x) > config.most_tasks:
        chosen = jax.random.choice(jax.random.fold_in(key, 1), len(tasks.x), (config.most_tasks,), replace=False)
        tasks = PaddedTasks(*(leaf[chosen] for leaf in tasks))
    return tasks.at_most(config.most_points, key)


__all__ = ["PoolingConfig", "learn_process"]
