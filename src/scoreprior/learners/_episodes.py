"""Episodes: training tasks cut into context and target, and meta-training on them with held-out tasks to judge by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._types import as_generator
from scoreprior.tasks import PaddedTasks
from scoreprior.training import TrainingConfig, train

Model = TypeVar("Model")
EpisodeLoss: TypeAlias = Callable[[Any, PaddedTasks, PaddedTasks, PRNGKeyArray], Float[Array, "*g"]]
"""loss(model, context, target, key) of one task; a curve has an entry for each of g variants to compare."""

STEP_GRID = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50)
"""Numbers of inner steps for a new task to choose from, where adapting to it is a number of steps."""

_HELD_OUT_EPISODES = 64
_MOST_POINTS = 200  # of a task in one episode: long tasks are seen in parts, other ones at every step


class Episodes(NamedTuple):
    """Tasks cut in two by their masks; x and y are shared."""

    context: PaddedTasks
    target: PaddedTasks


class Cut(eqx.Module):
    """How tasks are cut: least and largest share of points that are context, and how often these are the first ones.

    A context of first points makes the rest a forecast, where rows are in order of time; a context of random ones makes
    it an interpolation.
    """

    low: Float[Array, ""]
    high: Float[Array, ""]
    forward: Float[Array, ""]

    def __init__(self, context: tuple[float, float], forward: float):
        if not 0 <= context[0] <= context[1] <= 1:
            raise ValueError(f"context holds two shares between 0 and 1, the smaller first, not {context}.")
        if not 0 <= forward <= 1:
            raise ValueError(f"forward is a share between 0 and 1, not {forward}.")
        self.low, self.high, self.forward = (jnp.float32(value) for value in (*context, forward))


def split_task(task: PaddedTasks, cut: Cut, key: PRNGKeyArray) -> Episodes:
    """Some of one task's points (m,) as context, the rest as target, which is never empty."""
    uniform = jax.random.uniform(key, (len(task.mask) + 2,))
    size = jnp.sum(task.mask)
    wanted = jnp.round(size * (cut.low + uniform[0] * (cut.high - cut.low)))
    place = jnp.arange(len(task.mask)) / len(task.mask)
    priority = jnp.where(task.mask, jnp.where(uniform[1] < cut.forward, place, uniform[2:]), 2.0)
    rank = jnp.sum(priority[None, :] < priority[:, None], axis=1)  # no sort: it compiles slowly
    chosen = task.mask & (rank < jnp.minimum(wanted, size - 1))
    return Episodes(task._replace(mask=chosen), task._replace(mask=task.mask & ~chosen))


def sample_episodes(tasks: PaddedTasks, count: int, cut: Cut, key: PRNGKeyArray) -> Episodes:
    """`count` of the tasks without replacement, up to 200 points of each, split at random; empty tasks come last."""
    task_key, split_key = jax.random.split(key)
    empty = ~tasks.mask.any(axis=1)
    order = jnp.argsort(empty + jax.random.uniform(task_key, empty.shape))[:count]
    return _split_rows(tasks, order, cut, split_key)


@jax.jit
def _split_rows(tasks: PaddedTasks, rows: Int[Array, " e"], cut: Cut, key: PRNGKeyArray) -> Episodes:
    chosen = tasks.take(rows).at_most(_MOST_POINTS, jax.random.fold_in(key, 0))
    return jax.vmap(split_task, in_axes=(0, None, 0))(chosen, cut, jax.random.split(key, len(rows)))


def mean_over_tasks(values: Float[Array, " n"], episodes: Episodes) -> Float[Array, ""]:
    """The mean over the episodes that have a target point."""
    real = episodes.target.mask.any(axis=1)
    return jnp.sum(jnp.where(real, values, 0.0)) / jnp.maximum(jnp.sum(real), 1)


def mixture_nll(locs: Float[Array, "L m"], scales: Float[Array, "L m"], task: PaddedTasks) -> Float[Array, ""]:
    """Mean over a task's real points of -log 1/L sum_l N(y; locs_l, scales_l^2); 0 if there are none."""
    z = jnp.where(task.mask, (task.y - locs) / scales, 0.0)
    components = -0.5 * z**2 - jnp.log(scales) - 0.5 * jnp.log(2 * jnp.pi)
    log_prob = jax.nn.logsumexp(components, axis=0) - jnp.log(len(locs))
    return -jnp.sum(jnp.where(task.mask, log_prob, 0.0)) / jnp.maximum(jnp.sum(task.mask), 1)


class MetaLoss(eqx.Module):
    """Mean of a model's episode loss over a batch of freshly split tasks; a method says what that loss is."""

    tasks: PaddedTasks
    cut: Cut
    batch: int = eqx.field(static=True)
    one: EpisodeLoss

    def __call__(self, model: Any, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        split_key, loss_key = jax.random.split(key)
        episodes = sample_episodes(self.tasks, self.batch, self.cut, split_key)
        values = jax.vmap(lambda context, target, one: self.one(model, context, target, one))(
            *episodes, jax.random.split(loss_key, self.batch)
        )
        return mean_over_tasks(values, episodes), {}


class HeldOut(eqx.Module):
    """Held-out loss of a model: the least entry of a method's curve, averaged over fixed episodes."""

    episodes: Episodes
    keys: PRNGKeyArray
    one: EpisodeLoss

    def __call__(self, model: Any) -> Float[Array, ""]:
        return jnp.min(self.curve(model))

    def curve(self, model: Any) -> Float[Array, " g"]:
        """The losses (g,) that the method wants compared, for instance after different numbers of inner steps."""
        curves = jax.vmap(lambda context, target, key: self.one(model, context, target, key))(*self.episodes, self.keys)
        return jax.vmap(mean_over_tasks, in_axes=(1, None))(curves, self.episodes)


def meta_train(
    loss: MetaLoss,
    curve: EpisodeLoss,
    start: Model,
    training: TrainingConfig,
    held_out: float,
    key: PRNGKeyArray,
    *,
    trainable: Any = eqx.is_inexact_array,
    progress: bool = False,
) -> tuple[Model, Float[Array, " g"]]:
    """The model trained on all tasks for as long as was best for a share of tasks held out before, and their curve.

    A held-out task is one with its points masked, so both trainings run the same compiled code.
    """
    hold_key, split_key, curve_key, first_key, final_key = jax.random.split(key, 5)
    n = len(loss.tasks.mask)
    held = as_generator(hold_key).permutation(n)[: min(max(1, round(held_out * n)), n - 1)]
    rows = np.resize(held, max(len(held), _HELD_OUT_EPISODES))
    judge = HeldOut(_split_rows(loss.tasks, rows, loss.cut, split_key), jax.random.split(curve_key, len(rows)), curve)
    rest = loss.tasks._replace(mask=loss.tasks.mask.at[held].set(False))
    first = eqx.tree_at(lambda one: one.tasks, loss, rest)
    model, history = train(
        first,
        start,
        training,
        first_key,
        trainable=trainable,
        validate=judge if training.patience is not None else None,
        progress=progress,
        description="Choosing the number of steps",
    )
    steps = training.steps
    if training.patience is not None:
        steps = min(history, key=lambda record: record.validation or 0.0).step
    final, _ = train(
        loss,
        start,
        replace(training, steps=steps, patience=None),
        final_key,
        trainable=trainable,
        progress=progress,
        description="Meta-training",
    )
    return final, _curve(judge, model)


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def _curve(judge: HeldOut, model: Any) -> Float[Array, " g"]:
    return judge.curve(model)


def check_episodes(context: tuple[float, float], forward: float, tasks_per_step: int | None, held_out: float) -> None:
    """Refuse settings under which a task cannot be cut, a meta-step has no task, or no task is left to train on."""
    Cut(context, forward)
    if tasks_per_step is not None and not (isinstance(tasks_per_step, int) and tasks_per_step >= 1):
        raise ValueError(f"tasks_per_step must be a whole number of at least 1, or None for all, not {tasks_per_step}.")
    if not 0 < held_out < 1:
        raise ValueError(f"held_out lies strictly between 0 and 1, not {held_out}.")
