"""The average of two inferences: a mixture of their predictives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior.gp.fit import ProcessAverage
from scoreprior.inference._base import Inference
from scoreprior.inference.closed_form import ClosedForm
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, PointNoise


class Average(Inference):
    """Two inferences whose predictives are mixed; the second has this weight."""

    first: Inference
    second: Inference
    weight: Float[Array, ""] | float = 0.5  # what files have that are too old to name it

    @property
    def chunk(self) -> int | None:  # type: ignore[override]
        """The smaller of the two."""
        sizes = [each.chunk for each in (self.first, self.second) if each.chunk is not None]
        return min(sizes, default=None)

    @property
    def uses_noise(self) -> bool:  # type: ignore[override]
        """If both do."""
        return self.first.uses_noise and self.second.uses_noise

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        """The states of both."""
        return self.first.infer(context, key), self.second.infer(context, key)

    def predict(self, state: tuple[PyTree, PyTree], x: Float[Array, "q d"], noise: PointNoise | None = None) -> Mixture:
        """The mixture; function draws are the first's, shifted to the mean of both."""
        known: Any = () if noise is None else (noise,)
        first, second = (each.predict(one, x, *known) for each, one in zip((self.first, self.second), state))
        return first.average_with(second, self.weight)

    def draw(self, state: tuple[PyTree, PyTree], x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw from either, by their weights."""
        coin_key, draw_key = jax.random.split(key)
        draws = jnp.stack([each.draw(one, x, draw_key) for each, one in zip((self.first, self.second), state)])
        return draws[jax.random.bernoulli(coin_key, self.weight).astype(int)]

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw from either, by their weights."""
        coin_key, draw_key = jax.random.split(key)
        draws = jnp.stack([each.sample(x, draw_key) for each in (self.first, self.second)])
        return draws[jax.random.bernoulli(coin_key, self.weight).astype(int)]

    def update(self, tasks: PaddedTasks) -> Average:
        """Both given further tasks, the weight as it is."""
        return Average(self.first.update(tasks), self.second.update(tasks), self.weight)

    def describe(self) -> str:
        """What it is."""
        share = f"{float(self.weight):.0%}"
        return f"the average of {self.first.describe()} and, with weight {share}, {self.second.describe()}"


def average_of(first: Inference, fitted: ProcessAverage) -> Inference:
    """The first, averaged with the simple process if there is one."""
    if fitted.simple is None:
        return first
    return Average(first, ClosedForm(fitted.simple), jnp.float32(fitted.weight))
