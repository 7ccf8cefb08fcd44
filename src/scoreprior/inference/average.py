"""The average of several inferences: a mixture with equal weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior.inference._base import Inference
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks


class Average(Inference):
    """Two inferences whose predictives are mixed half and half."""

    first: Inference
    second: Inference

    @property
    def chunk(self) -> int | None:  # type: ignore[override]
        """The smaller of the two."""
        sizes = [each.chunk for each in (self.first, self.second) if each.chunk is not None]
        return min(sizes, default=None)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        """The states of both."""
        return self.first.infer(context, key), self.second.infer(context, key)

    def predict(self, state: tuple[PyTree, PyTree], x: Float[Array, "q d"]) -> Mixture:
        """Half of each; function draws are the first's, shifted to the mean of both."""
        return self.first.predict(state[0], x).average_with(self.second.predict(state[1], x))

    def draw(self, state: tuple[PyTree, PyTree], x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw from either, with equal chances."""
        coin_key, draw_key = jax.random.split(key)
        draws = jnp.stack([each.draw(one, x, draw_key) for each, one in zip((self.first, self.second), state)])
        return draws[jax.random.randint(coin_key, (), 0, 2)]

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw from either, with equal chances."""
        coin_key, draw_key = jax.random.split(key)
        draws = jnp.stack([each.sample(x, draw_key) for each in (self.first, self.second)])
        return draws[jax.random.randint(coin_key, (), 0, 2)]

    def describe(self) -> str:
        """What it is."""
        return f"the average of {self.first.describe()} and {self.second.describe()}"


def average_of(first: Inference, second: Inference | None = None) -> Inference:
    """The first, averaged with the second if there is one."""
    return first if second is None else Average(first, second)
