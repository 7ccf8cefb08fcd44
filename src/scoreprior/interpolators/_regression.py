"""Regression by small networks: one per task, all tasks trained in one batch.

The loop is not the package's general one: every task has its own optimiser and its own length of an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior import networks
from scoreprior._budget import share_of
from scoreprior._settings import check_counts, check_hidden, check_positive
from scoreprior.networks import MLP
from scoreprior.space import Choice, Space
from scoreprior.tasks import PaddedTasks

Config = TypeVar("Config", bound="RegressionConfig")


@dataclass(frozen=True, kw_only=True)
class RegressionConfig:
    """How one network is trained on one task; `space` has the values the paper selects from (Appx. A.4)."""

    learning_rate: float = 5e-3
    weight_decay: float = 1e-3
    batch_size: int = 8
    epochs: int = 100
    hidden: tuple[int, ...] = (32, 32, 32)

    space: ClassVar[Space] = {
        "learning_rate": Choice((1e-2, 5e-3, 1e-3, 5e-4, 1e-4)),
        "weight_decay": Choice((0.0, 1e-2, 5e-3, 1e-3, 5e-4, 1e-4)),
        "batch_size": Choice((1, 2, 4, 8, 16)),
    }

    def __post_init__(self) -> None:
        check_counts(self, "batch_size", "epochs")
        check_positive(self, "learning_rate")
        check_hidden(self.hidden)
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay must not be negative, not {self.weight_decay}.")

    def with_budget(self: Config, share: float) -> Config:
        """The same with this share of the epochs."""
        return replace(self, epochs=share_of(self.epochs, share))


def dropout_factors(uniform: Float[Array, "*k"], rate: Float[Array, ""]) -> Float[Array, "*k"]:
    """Factors of the hidden units from uniform numbers: 0 with probability `rate`, else 1 / (1 - rate)."""
    return jnp.where(uniform < rate, 0.0, 1 / (1 - rate))


def train(tasks: PaddedTasks, config: RegressionConfig, dropout: float | None, keys: PRNGKeyArray) -> MLP:
    """Networks that minimise the squared error of their own task; keys and result with axis n."""
    # The rates are arrays, so that searching over them does not compile again.
    rates = (config.learning_rate, config.weight_decay, dropout)
    rates = jax.tree.map(lambda rate: jnp.asarray(rate, jnp.float32), rates)
    return _train(tasks, keys, rates, config.hidden, config.epochs, config.batch_size)


@eqx.filter_jit
def _train(
    tasks: PaddedTasks,
    keys: PRNGKeyArray,
    rates: tuple[Array, Array, Array | None],
    hidden: tuple[int, ...],
    epochs: int,
    batch_size: int,
) -> MLP:
    learning_rate, weight_decay, dropout = rates
    optimiser = optax.adamw(learning_rate, weight_decay=weight_decay)
    units = 0 if dropout is None else sum(hidden)

    def step(carry: tuple, batch: tuple) -> tuple[tuple, None]:
        network, opt_state = carry
        points, uniform = batch
        keep = None if dropout is None else dropout_factors(uniform, dropout)
        updates, new_state = optimiser.update(jax.grad(_loss)(network, points, keep), opt_state, network)
        new = (optax.apply_updates(network, updates), new_state)
        # A task smaller than the padded size runs out of points within an epoch; its network then waits.
        return jax.tree.map(lambda a, b: jnp.where(points.mask.any(), a, b), new, carry), None

    def one_task(task: PaddedTasks, key: PRNGKeyArray) -> MLP:
        init_key, train_key = jax.random.split(key)
        network = networks.truncated_normal((task.x.shape[-1], *hidden, 1), "leaky_relu", init_key)
        steps = -(-len(task.mask) // batch_size)

        def epoch(carry: tuple, number: Array) -> tuple[tuple, None]:
            # A row for each place in the epoch: the first column orders the points, the others drop units.
            shape = (steps * batch_size, 1 + units)
            uniform = jax.random.uniform(jax.random.fold_in(train_key, number), shape)
            batches = _batches(task, uniform[:, 0], steps)
            return jax.lax.scan(step, carry, (batches, uniform[:, 1:].reshape(steps, batch_size, units)))

        (network, _), _ = jax.lax.scan(epoch, (network, optimiser.init(network)), jnp.arange(epochs))
        return network

    return jax.vmap(one_task)(tasks, keys)


def _batches(task: PaddedTasks, priority: Float[Array, " p"], steps: int) -> PaddedTasks:
    """The task's points ordered by priority, real ones first, padded to p and cut into `steps` batches."""
    more = len(priority) - len(task.mask)
    padded = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, more)] + [(0, 0)] * (leaf.ndim - 1)), task)
    order = jnp.argsort(jnp.where(padded.mask, priority, 2.0))
    return jax.tree.map(lambda leaf: leaf[order].reshape(steps, -1, *leaf.shape[1:]), padded)


def _loss(network: MLP, batch: PaddedTasks, keep: Float[Array, "b u"] | None) -> Float[Array, ""]:
    """Mean squared error over the real points of a batch."""
    errors = jnp.where(batch.mask, network(batch.x, keep)[:, 0] - batch.y, 0.0)
    return jnp.sum(errors**2) / jnp.maximum(batch.mask.sum(), 1)
