"""Monte-Carlo dropout: a draw is the network under one random mask (Gal and Ghahramani, 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._types import KeyLike
from scoreprior.interpolators._base import FittedInterpolator, task_keys
from scoreprior.interpolators._regression import RegressionConfig, dropout_factors, train
from scoreprior.networks import MLP
from scoreprior.space import Choice, Space
from scoreprior.tasks import PaddedTasks


@dataclass(frozen=True, kw_only=True)
class DropoutInterpolator(RegressionConfig):
    """The interpolator of MARS-BNN (Appx. A.4): a network per task, trained and sampled with dropout."""

    dropout: float = 0.1

    space: ClassVar[Space] = {**RegressionConfig.space, "dropout": Choice((0.1, 0.25, 0.5, 0.7, 0.8))}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a probability below 1, not {self.dropout}.")

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedDropout:
        """Train a network on every task; takes seconds and shows no progress."""
        networks = train(tasks, self, self.dropout, task_keys(key, len(tasks.mask)))
        return FittedDropout(networks, jnp.asarray(self.dropout, jnp.float32))


class FittedDropout(FittedInterpolator):
    """Networks with dropout, one per task."""

    states: MLP
    rate: Float[Array, ""]

    def draw(self, state: MLP, x: Float[Array, "k d"], key: PRNGKeyArray) -> Float[Array, " k"]:
        """f(x) under one mask for all k points: a mask per point would be noise, not a function."""
        uniform = jax.random.uniform(key, (1, sum(len(bias) for bias in state.biases[:-1])))
        return state(x, dropout_factors(uniform, self.rate))[:, 0]
