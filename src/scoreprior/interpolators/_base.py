"""What an interpolator is: per-task posteriors p(f_i | D_i) that give joint function draws at any points."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from scoreprior._types import KeyLike, as_generator, as_key
from scoreprior.space import Space, override, sample
from scoreprior.tasks import PaddedTasks


class FittedInterpolator(eqx.Module):
    """The posteriors p(f_i | D_i) of all n meta-training tasks."""

    states: eqx.AbstractVar[PyTree]
    """Posterior state of every task; all leaves have the leading axis n."""

    @abstractmethod
    def draw(self, state: PyTree, x: Float[Array, "k d"], key: PRNGKeyArray) -> Float[Array, " k"]:
        """One function drawn from one task's posterior (`states` without the axis n), evaluated at x."""

    @property
    def noise_std(self) -> Float[Array, ""] | None:
        """The observation noise that was learned with the posteriors, if any was; standardised units."""
        return None


@runtime_checkable
class Interpolator(Protocol):
    """Fits p(f_i | D_i) for every task of a padded batch in standardised units."""

    def fit(self, tasks: PaddedTasks, key: KeyLike, *, progress: bool = False) -> FittedInterpolator:
        """The posteriors of all tasks."""

    def with_budget(self, share: float) -> Interpolator:
        """The same with this share of everything that iterates."""


class TunableInterpolator(Interpolator, Protocol):
    """An interpolator that says what of it may vary."""

    space: ClassVar[Space]


Tunable = TypeVar("Tunable", bound=TunableInterpolator)


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


def tune(base: Tunable, tasks: PaddedTasks, key: KeyLike, trials: int) -> Tunable:
    """The best of `trials` random configurations by held-out CRPS; `base` itself is the first of them.

    Settings in the `space` of `base` vary over it; the others stay. All trials share their held-out points and seeds,
    so that they differ by the configuration alone.
    """
    trial_key, score_key = jax.random.split(as_key(key))
    generator = as_generator(trial_key)
    candidates = [base, *(override(base, sample(base.space, generator)) for _ in range(trials - 1))]
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
