"""`FunctionPrior`: a prior that is an `Inference`, for all methods whose posterior is one of `inference/`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._types import KeyLike, as_key
from scoreprior.inference import Inference
from scoreprior.learners._base import Prior
from scoreprior.learners._methods import method_of
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, PointNoise, Standardizer, TaskSet
from scoreprior.tasks.checks import TaskError, check_query


class FunctionPrior(Prior):
    """A learned prior over functions, and how a task is inferred with it.

    Args:
        inference: the prior's score or process, and what makes predictions of it.
        notes: JSON with method, config, domain and metrics, for the prior's file.
    """

    standardizer: Standardizer
    inference: Inference
    notes: str | None = None

    @property
    def chunk(self) -> int | None:  # type: ignore[override]
        """Tasks inferred at once."""
        return self.inference.chunk

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> PyTree:
        return self.inference.infer(context, key)

    @property
    def uses_noise(self) -> bool:  # type: ignore[override]
        """If its inference does."""
        return self.inference.uses_noise

    def evaluate(self, state: PyTree, x: Float[Array, "q d"], noise: PointNoise | None = None) -> Mixture:
        known: Any = () if noise is None else (noise,)
        return self.inference.predict(state, x, *known)

    def draw(self, state: PyTree, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        return self.inference.draw(state, x, key)

    def sample(self, x: Any, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """n joint draws from the prior at x (q, d), in original units; of a denoiser they are observations."""
        query = jnp.asarray(self.standardizer.scale_x(check_query(x, self.dim)), jnp.float32)
        draws = _sample(self.inference, query, jax.random.split(as_key(key), n))
        return self.standardizer.unscale_y(np.asarray(draws, np.float64), check_query(x, self.dim))

    def update(self, tasks: TaskSet) -> FunctionPrior:
        """The prior given further tasks, in the units of the first ones."""
        if tasks.dim != self.dim:
            raise TaskError(f"{tasks[0].name} has {tasks.dim} input columns; this prior was fitted with {self.dim}.")
        padded = self.standardizer.apply(tasks, noise=True, weights=True).padded(dtype=np.float64)
        return FunctionPrior(self.standardizer, self.inference.update(padded), self.notes)

    def about(self) -> dict[str, Any]:
        return super().about() if self.notes is None else json.loads(self.notes)

    def bare(self) -> FunctionPrior:
        return eqx.tree_at(lambda p: (p.standardizer, p.notes), self, (None, None), is_leaf=lambda leaf: leaf is None)


@eqx.filter_jit
def _sample(inference: Inference, x: Float[Array, "q d"], keys: PRNGKeyArray) -> Float[Array, "n q"]:
    return jax.vmap(lambda key: inference.sample(x, key))(keys)


def notes_of(method: Any, tasks: TaskSet, metrics: dict[str, float]) -> str:
    """What a prior's file says of how it was made; the method is a dataclass of its settings."""
    inputs = tasks.x
    notes = {
        "method": method_of(method),
        "config": asdict(method),
        "domain": {"low": inputs.min(axis=0).tolist(), "high": inputs.max(axis=0).tolist()},
        "metrics": metrics,
        "tasks": len(tasks),
    }
    return json.dumps(notes, default=repr)
