"""Deep ensembles: a draw is one of several networks that differ in initialisation and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._settings import check_counts
from scoreprior._types import KeyLike, as_key
from scoreprior.interpolators._base import FittedInterpolator, task_keys
from scoreprior.interpolators._regression import RegressionConfig, train
from scoreprior.networks import MLP
from scoreprior.space import Choice, Space
from scoreprior.tasks import PaddedTasks


@dataclass(frozen=True, kw_only=True)
class EnsembleInterpolator(RegressionConfig):
    """`members` networks per task ("Comparison of Interpolation Methods")."""

    members: int = 10

    space: ClassVar[Space] = {**RegressionConfig.space, "members": Choice((5, 10, 20))}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "members")

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedEnsemble:
        """Train all members on every task; takes seconds and shows no progress."""
        # Member by member: 20 n networks side by side leave the cache and are no faster.
        member_keys = jax.random.split(as_key(key), self.members)
        networks = [train(tasks, self, None, task_keys(k, len(tasks.mask))) for k in member_keys]
        return FittedEnsemble(jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *networks))


class FittedEnsemble(FittedInterpolator):
    """Networks with leading axes (n, members)."""

    states: MLP

    def draw(self, state: MLP, x: Float[Array, "k d"], key: PRNGKeyArray) -> Float[Array, " k"]:
        """f(x) of one member picked at random."""
        member = jax.random.randint(key, (), 0, len(state.biases[0]))
        return jax.tree.map(lambda leaf: leaf[member], state)(x)[:, 0]
