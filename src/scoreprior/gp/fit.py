"""Fit the pooled process to all tasks, and where it helps a simple one to average with.

The stages are in `evidence.py`, `predictive_tuning.py` and `scale_calibration.py`; the model is in `model.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import logsumexp

from scoreprior._budget import share_of
from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior.gp.amplitude import amplitude_of, constant_amplitude, inputs_with_room
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.evidence import maximise_evidence, vary_amplitude
from scoreprior.gp.model import (
    AMPLITUDE,
    MOST_AXES,
    Parameters,
    PooledTasks,
    centre_count,
    find_centres,
    has_constant_amplitude,
    new_task_process,
    parameters_of,
    start,
    tail_scales,
)
from scoreprior.gp.predictive_tuning import (
    LeftOutPredictions,
    Recorded,
    left_out_predictions,
    predictive_loss,
    predictive_losses,
    tune,
)
from scoreprior.gp.process import GaussianProcess
from scoreprior.gp.scale import ScaleCalibration
from scoreprior.gp.scale_calibration import fit_scale_calibration
from scoreprior.gp.significance import FEWEST_TASKS, is_significant
from scoreprior.stacking import stacking_weights
from scoreprior.tasks import PaddedTasks

_CONTINUED = 0.25
"""Share of the evaluations of predictive tuning that starts at the end of another one."""

Intervals = Callable[[Float[np.ndarray, "n m"]], tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]]
"""From targets to what they stand for: middles and half widths of intervals (`Standardizer.intervals`)."""


def fit_process(
    tasks: PaddedTasks,
    config: ProcessConfig,
    key: PRNGKeyArray,
    intervals: Intervals | None = None,
    init: GaussianProcess | None = None,
) -> GaussianProcess:
    """The prior of a new task's function, fitted to standardised tasks (n, m).

    With `intervals`, its scale is calibrated by the probabilities of what targets stand for, not by densities: where
    many values lie on a bound, a density there can be made as high as one dares. With `init`, a process that was fitted
    to some of these tasks, its parts stay and the predictive tuning starts at its hyper-parameters.
    """
    return _fit(tasks, config, key, intervals, init).process(tasks)


class ProcessAverage(NamedTuple):
    """A process, and where that helps a simple one that has this weight in the average of both."""

    process: GaussianProcess
    simple: GaussianProcess | None = None
    weight: float = 0.0


def fit_average(
    tasks: PaddedTasks,
    config: ProcessConfig,
    key: PRNGKeyArray,
    intervals: Intervals | None = None,
    init: ProcessAverage | None = None,
) -> ProcessAverage:
    """The process, and the simple one (`ProcessConfig.simple`) where the average of both predicts better.

    The weight of the simple one is that of `stacking_weights` on leave-one-task-out predictions. Better means: later
    points of the training tasks, by more than two standard errors over tasks. Both processes were fitted to all of
    these tasks, which favours whichever is more flexible; hence two. With `init` the weight is as it is there.
    """
    full = _fit(tasks, config, key, intervals, None if init is None else init.process)
    if init is not None:
        if init.simple is None:
            return ProcessAverage(full.process(tasks))
        simple = _fit(tasks, config.simple(), key, intervals, init.simple)
        return ProcessAverage(full.process(tasks), simple.process(tasks), init.weight)
    if not config.tuning_evaluations or full.pool.used.sum() < FEWEST_TASKS:
        return ProcessAverage(full.process(tasks))
    simple = _fit(tasks, config.simple(), key, intervals)
    with jax.enable_x64(True):
        middle, half_width = full.recorded or (full.pool.tasks.y, None)
        found = _log_probs(full.predictions(), simple.predictions(), middle, half_width)
    log_prob, point_weights = (np.asarray(each)[..., full.pool.used, :, :] for each in found)
    weights = stacking_weights(log_prob, point_weights)
    gained = logsumexp(log_prob, axis=0, b=weights[:, None, None, None]) - log_prob[0]
    if not is_significant(np.sum(point_weights * gained, axis=(1, 2))):
        return ProcessAverage(full.process(tasks))
    return ProcessAverage(full.process(tasks), simple.process(tasks), float(weights[1]))


class _Predictions(NamedTuple):
    """What was predicted of the training tasks, and the tails and scale calibration of that."""

    left_out: LeftOutPredictions
    tails: Float[Array, " c"]
    scale: ScaleCalibration | None


class _Fitted(NamedTuple):
    """Hyper-parameters, and what they were fitted to."""

    pool: PooledTasks
    parameters: Parameters
    config: ProcessConfig  # with the parts that were chosen
    scale: ScaleCalibration | None
    recorded: Recorded | None

    def predictions(self) -> _Predictions:
        left_out = left_out_predictions(self.pool, self.parameters, self.config)
        return _Predictions(left_out, jnp.asarray(tail_scales(self.parameters)), self.scale)

    def process(self, tasks: PaddedTasks) -> GaussianProcess:
        """The prior of a new task, in single precision; the shared mean is that of all tasks' points."""
        with jax.enable_x64(True):
            pool = PooledTasks(tasks, np.asarray(self.pool.centres), self.pool.amplitude)
            parameters = dict(self.parameters)
            if has_constant_amplitude(parameters):
                del parameters[AMPLITUDE]
            process = new_task_process(parameters, pool, self.config)
        process = replace(process, tails=tail_scales(self.parameters), scale=self.scale)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), process)


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def _log_probs(
    full: _Predictions, simple: _Predictions, y: Float[Array, "n m"], half_width: Float[Array, "n m"] | None
) -> tuple[Float[Array, "2 n s m"], Float[Array, "n s m"]]:
    """Log densities of every task's points given each share of its first ones, and what each counts in its task."""
    both = [each.left_out.log_prob(y, each.tails, each.scale, half_width) for each in (full, simple)]
    return jnp.swapaxes(jnp.stack(both), 1, 2), jnp.swapaxes(full.left_out.point_weights, 0, 1)


def _fit(
    tasks: PaddedTasks,
    config: ProcessConfig,
    key: PRNGKeyArray,
    intervals: Intervals | None,
    init: GaussianProcess | None = None,
) -> _Fitted:
    start_key, subset_key = jax.random.split(key)
    if config.mean == "auto" and len(inputs_with_room(tasks)) <= MOST_AXES:  # however many inputs categories add
        config = replace(config, mean="smooth")
    centres = find_centres(tasks, centre_count(config, tasks.x.shape[-1]))
    # A process that is fitted further keeps its knots.
    fresh = constant_amplitude(tasks, config.amplitude_knots, MOST_AXES)
    amplitude = fresh if init is None else amplitude_of(init)
    # Small noise makes the normal equations of w ill-conditioned: double precision here, and only here.
    with jax.enable_x64(True):
        pool = PooledTasks(_subset(tasks, config.evidence_tasks, config.most_points, subset_key), centres, amplitude)
        options = [replace(config, deviation=(part,)) for part in config.deviation] if config.one_part else [config]
        if init is None:
            parameters, config = _best(pool, options, jax.random.split(start_key, config.starts))
            parameters = _amplitude_that_pays(pool, parameters, config)
        else:
            parameters, config = _continued(init, options, centres.shape[1], start_key)
        scale, recorded = None, None
        if config.tuning_evaluations:
            pool = PooledTasks(_subset(tasks, config.most_tasks, config.most_points, subset_key), centres, amplitude)
            share = 1.0 if init is None else _CONTINUED
            parameters = tune(pool, parameters, config, share_of(config.tuning_evaluations, share, least=1))
            if intervals is not None:
                middle, half_width = intervals(np.asarray(pool.tasks.y))
                recorded = (jnp.asarray(middle), jnp.asarray(half_width))
            scale = fit_scale_calibration(pool, parameters, config, recorded) if config.scale_calibration else None
    return _Fitted(pool, parameters, config, scale, recorded)


def _best(pool: PooledTasks, options: list[ProcessConfig], keys: PRNGKeyArray) -> tuple[Parameters, ProcessConfig]:
    """The maximum of the evidence of the option that predicts best."""
    dim = pool.centres.shape[1]
    fits = [maximise_evidence(pool, [start(one, dim, each) for one in keys], each) for each in options]
    if len(options) == 1:
        return fits[0], options[0]
    best = int(np.argmin([predictive_loss(pool, fit, each) for fit, each in zip(fits, options)]))
    return fits[best], options[best]


def _amplitude_that_pays(pool: PooledTasks, parameters: Parameters, config: ProcessConfig) -> Parameters:
    """With an amplitude that varies, if that predicts later points of tasks better to which it was not fitted.

    The evidence alone is no judge: it asks for one on most tables of patients, whose forecasts gain nothing. Fewer than
    ten tasks cannot tell how much others differ.
    """
    if pool.amplitude is None or pool.used.sum() < FEWEST_TASKS:
        return parameters
    varied = vary_amplitude(pool, parameters, config)
    if varied is None or not is_significant(_two_fold_gains(pool, parameters, config)):
        return parameters
    return varied


def _two_fold_gains(pool: PooledTasks, parameters: Parameters, config: ProcessConfig) -> Float[np.ndarray, " n"]:
    """What each task gains, in nats per later point, by an amplitude that was fitted to the other half of the tasks."""
    halves = np.array_split(np.flatnonzero(pool.used), 2)
    gains = []
    for own, others in zip(halves, reversed(halves)):
        varied = vary_amplitude(replace(pool, tasks=pool.tasks.without(own)), parameters, config)
        there = replace(pool, tasks=pool.tasks.without(others))
        before, after = (predictive_losses(there, each, config) for each in (parameters, varied or parameters))
        gains.append((before - after)[own])
    return np.concatenate(gains)


def _continued(
    init: GaussianProcess, options: list[ProcessConfig], dim: int, key: PRNGKeyArray
) -> tuple[Parameters, ProcessConfig]:
    """The hyper-parameters of a fitted process, and the option that it was made by."""
    known = parameters_of(init)
    for config in options:
        fresh = start(key, dim, config) | {name: known[name] for name in (AMPLITUDE,) if name in known}
        both = {name: jnp.asarray(known.get(name, value)) for name, value in fresh.items()}
        own = {name for name in fresh if not name.startswith("mean")}  # a linear mean has but one of these
        if own <= set(known) <= set(fresh) and all(both[name].shape == fresh[name].shape for name in fresh):
            return both, config
    raise ValueError("init is a process of other parts or inputs than these settings ask for; fit without it.")


def _subset(tasks: PaddedTasks, most_tasks: int, most_points: int, key: PRNGKeyArray) -> PaddedTasks:
    """At most so many tasks, those without a point last, and of each at most so many points, in their order."""
    if len(tasks.x) > most_tasks:
        shuffled = np.asarray(jax.random.permutation(jax.random.fold_in(key, 1), len(tasks.x)))
        empty = np.sum(np.asarray(tasks.mask), axis=1) == 0
        chosen = shuffled[np.argsort(empty[shuffled], kind="stable")][:most_tasks]
        tasks = tasks.take(chosen)
    return tasks.at_most(most_points, key)
