"""What an interpolator is: per-task posteriors p(f_i | D_i) that give joint function draws at any points."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from scoreprior._types import KeyLike, as_key
from scoreprior.tasks import PaddedTasks


class FittedInterpolator(eqx.Module):
    """The posteriors p(f_i | D_i) of all n meta-training tasks."""

    states: eqx.AbstractVar[PyTree]
    """Posterior state of every task; all leaves have the leading axis n."""

    @abstractmethod
    def draw(self, state: PyTree, x: Float[Array, "k d"], key: PRNGKeyArray) -> Float[Array, " k"]:
        """One function drawn from one task's posterior (`states` without the axis n), evaluated at x."""


@runtime_checkable
class Interpolator(Protocol):
    """Fits p(f_i | D_i) for every task of a padded batch in standardised units."""

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedInterpolator: ...


AnyInterpolator = TypeVar("AnyInterpolator", bound=Interpolator)


def task_keys(key: KeyLike, n: int) -> PRNGKeyArray:
    """A key per task; task i's does not depend on n."""
    return jax.vmap(lambda i: jax.random.fold_in(as_key(key), i))(jnp.arange(n))


def shuffled_rank(mask: Bool[Array, " m"], key: PRNGKeyArray) -> Int[Array, " m"]:
    """Position of every point in a random order of the real points; padded points come last."""
    priority = jax.random.uniform(key, mask.shape)
    return jnp.argsort(jnp.argsort(jnp.where(mask, priority, 2.0)))


def folds(mask: Bool[Array, " m"], key: PRNGKeyArray, count: int = 4) -> Bool[Array, "count m"]:
    """Random folds of near-equal size that cover the real points; small tasks leave some empty."""
    fold = shuffled_rank(mask, key) % count
    return (fold[None, :] == jnp.arange(count)[:, None]) & mask


def heldout_crps(interpolator: Interpolator, tasks: PaddedTasks, key: KeyLike, draws: int = 32) -> float:
    """Mean over tasks of the CRPS of a quarter of the points under functions drawn given the rest.

    CRPS = E|f - y| - E|f - f'| / 2 in standardised units; without spread it is the absolute error.
    Tasks of a single point hold nothing out and do not count.
    """
    split_key, fit_key, draw_key = jax.random.split(as_key(key), 3)
    held = jax.vmap(lambda mask, k: folds(mask, k)[0])(tasks.mask, task_keys(split_key, len(tasks.mask)))
    held = held & (tasks.mask.sum(-1, keepdims=True) > 1)
    fitted = interpolator.fit(tasks._replace(mask=tasks.mask & ~held), fit_key)
    return float(_crps(fitted, tasks.x, tasks.y, held, jax.random.split(draw_key, (len(held), draws))))


def tune(base: AnyInterpolator, tasks: PaddedTasks, key: KeyLike, trials: int) -> AnyInterpolator:
    """The best of `trials` random configurations by held-out CRPS; `base` itself is the first of them.

    Fields of `base` with a "grid" in their metadata vary over it; the others stay. All trials share their
    held-out points and seeds, so that they differ by the configuration alone.
    """
    trial_key, score_key = jax.random.split(as_key(key))
    generator = np.random.default_rng(np.asarray(jax.random.key_data(trial_key)).tolist())
    grids = {f.name: f.metadata["grid"] for f in dataclasses.fields(base) if "grid" in f.metadata}  # type: ignore[arg-type]
    candidates = [base]
    for _ in range(trials - 1):
        choice = {name: grid[generator.integers(len(grid))] for name, grid in grids.items()}
        candidates.append(dataclasses.replace(base, **choice))  # type: ignore[type-var]
    scores = [heldout_crps(candidate, tasks, score_key) for candidate in candidates]
    return candidates[int(np.argmin(scores))]


@eqx.filter_jit
def _crps(
    fitted: FittedInterpolator,
    x: Float[Array, "n m d"],
    y: Float[Array, "n m"],
    held: Bool[Array, "n m"],
    keys: PRNGKeyArray,
) -> Float[Array, ""]:
    def one(state: PyTree, x: Array, y: Array, held: Array, keys: PRNGKeyArray) -> Array:
        f = jax.vmap(lambda key: fitted.draw(state, x, key))(keys)
        error = jnp.abs(f - y).mean(0)
        pairs = len(keys) * (len(keys) - 1)
        spread = jnp.abs(f[:, None] - f[None, :]).sum((0, 1)) / pairs
        return jnp.sum(jnp.where(held, error - 0.5 * spread, 0.0)) / jnp.maximum(held.sum(), 1)

    scored = held.any(-1)
    return jnp.sum(jax.vmap(one)(fitted.states, x, y, held, keys)) / jnp.maximum(scored.sum(), 1)
