"""MAML (Finn et al. 2017): one initialisation from which a few gradient steps on a context predict the rest.

With L(theta; D) the mean squared error, K inner steps theta <- theta - alpha grad L(theta; context) lead from theta to
theta_i, and the meta-loss is the mean over tasks of L(theta_i; target_i) (eq. 1 and Alg. 2), differentiated through the
inner steps. Departures: context and target are a fresh cut of a training task at every meta-step (`_episodes.py`); an
inner gradient's norm is capped, so that no context can throw the weights away; alpha may be learned (as in Meta-SGD, Li
et al. 2017, but one for all weights); the network has a linear skip connection, and meta-steps decay its weights, which
spares some initialisations from getting stuck; the number of inner steps for new tasks is chosen on held-out
meta-training tasks, after which all of them are trained on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from scoreprior._settings import check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.inference.bnn import BNNConfig, Network, init_network
from scoreprior.inference.measurement import Box
from scoreprior.learners._base import Prior
from scoreprior.learners._episodes import STEP_GRID, Cut, MetaLoss, check_episodes, meta_train
from scoreprior.predictive import Mixture
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig


class Initialisation(eqx.Module):
    """What MAML learns: where gradient descent starts, and the logarithm of its step size."""

    network: Network
    log_rate: Float[Array, ""]


def squared_error(network: Network, task: PaddedTasks) -> Float[Array, ""]:
    """Mean squared error over the real points; 0 if there are none."""
    x = jnp.where(task.mask[:, None], task.x, 0.0)
    errors = jnp.where(task.mask, network(x) - task.y, 0.0)
    return jnp.sum(errors**2) / jnp.maximum(jnp.sum(task.mask), 1)


def inner_step(network: Network, context: PaddedTasks, rate: Float[Array, ""], clip: Float[Array, ""]) -> Network:
    """theta - rate * g, with g = grad L(theta; context) scaled down to a norm of at most `clip`."""
    gradient = jax.grad(squared_error)(network, context)
    squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))
    # The root of the maximum, not the maximum of roots: a gradient of zero has no derivative of its norm.
    factor = rate * jax.lax.rsqrt(jnp.maximum(squares / clip**2, 1.0))
    return jax.tree.map(lambda leaf, slope: leaf - factor * slope, network, gradient)


class _Adapted(eqx.Module):
    """L(theta_i; target) after a fixed number of inner steps."""

    clip: Float[Array, ""]
    steps: int = eqx.field(static=True)

    def __call__(
        self, model: Initialisation, context: PaddedTasks, target: PaddedTasks, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        rate = jnp.exp(model.log_rate)
        step = lambda network, _: (inner_step(network, context, rate, self.clip), None)  # noqa: E731
        network, _ = jax.lax.scan(step, model.network, None, self.steps)
        return squared_error(network, target)


class _Curve(eqx.Module):
    """L(theta_i; target) after each number of inner steps in STEP_GRID."""

    clip: Float[Array, ""]

    def __call__(
        self, model: Initialisation, context: PaddedTasks, target: PaddedTasks, key: PRNGKeyArray
    ) -> Float[Array, " g"]:
        def step(network: Network, _: None) -> tuple[Network, Array]:
            return inner_step(network, context, jnp.exp(model.log_rate), self.clip), squared_error(network, target)

        _, losses = jax.lax.scan(step, model.network, None, STEP_GRID[-1] + 1)
        return losses[jnp.array(STEP_GRID)]


class MAMLPrior(Prior):
    """An initialisation, and how many gradient steps to make from it."""

    standardizer: Standardizer
    model: Initialisation
    steps: Int[Array, ""]
    clip: Float[Array, ""]

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Network:
        """theta_i; without a context point no gradient moves theta."""
        rate = jnp.exp(self.model.log_rate)
        step = lambda _, network: inner_step(network, context, rate, self.clip)  # noqa: E731
        return jax.lax.fori_loop(0, self.steps, step, self.model.network)

    def evaluate(self, state: Network, x: Float[Array, "q d"]) -> Mixture:
        return Mixture(state(x)[None])


@short_repr
@dataclass(frozen=True)
class MAML:
    """Second-order MAML, a point predictor.

    Args:
        inner_steps: gradient steps K of the meta-loss; new tasks take as many of STEP_GRID as suit held-out tasks.
        inner_rate: their step size alpha, the first value of it if `learn_rate`.
        inner_clip: largest norm of an inner gradient.
        context: least and largest share of a training task's points that are context, drawn uniformly.
        forward: how often the context is a task's first points, in the order of its rows, instead of random ones.
        tasks_per_step: tasks per meta-step; None takes all.
        held_out: share of the meta-training tasks that choose the numbers of steps.
    """

    network: BNNConfig = field(default_factory=lambda: BNNConfig(hidden=(40, 40), skip="linear"))
    inner_steps: int = 5
    inner_rate: float = 0.05
    learn_rate: bool = True
    inner_clip: float = 10.0
    context: tuple[float, float] = (0.25, 0.9)
    forward: float = 0.5
    tasks_per_step: int | None = 8
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=6000, learning_rate=5e-3, schedule="cosine", weight_decay=1e-2)
    )
    held_out: float = 0.25

    space: ClassVar[Space] = {
        "inner_rate": Range(1e-3, 0.3, log=True),
        "inner_steps": Range(1, 10),
        "learn_rate": Choice((False, True)),
        "network.hidden": Choice(((32, 32, 32), (40, 40), (64, 64))),
        "training.learning_rate": Range(1e-4, 1e-2, log=True),
        "training.weight_decay": Choice((0.0, 1e-3, 1e-2)),
    }

    def __post_init__(self) -> None:
        check_counts(self, "inner_steps")
        check_positive(self, "inner_rate", "inner_clip")
        check_episodes(self.context, self.forward, self.tasks_per_step, self.held_out)

    def with_budget(self, share: float) -> MAML:
        """The same with this share of the meta-training steps."""
        return replace(self, training=self.training.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> MAMLPrior:
        """Learn the initialisation."""
        start_key, train_key = jax.random.split(as_key(key))
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        box = Box.around(padded)
        network = eqx.filter_jit(init_network)(start_key, tasks.dim, self.network, box.low, box.high)
        start = Initialisation(network, jnp.log(jnp.float32(self.inner_rate)))
        clip = jnp.float32(self.inner_clip)
        batch = len(tasks) if self.tasks_per_step is None else min(self.tasks_per_step, len(tasks))
        loss = MetaLoss(padded, Cut(self.context, self.forward), batch, _Adapted(clip, self.inner_steps))
        trainable = eqx.tree_at(lambda m: m.log_rate, jax.tree.map(eqx.is_inexact_array, start), self.learn_rate)
        model, curve = meta_train(
            loss,
            _Curve(clip),
            start,
            self.training,
            self.held_out,
            train_key,
            trainable=trainable,
            progress=progress,
        )
        return MAMLPrior(standardizer, model, jnp.array(STEP_GRID)[jnp.argmin(curve)], clip)
