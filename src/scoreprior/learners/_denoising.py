"""What a denoiser learns from: the observed points of tasks, of which a random part is known."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._interval import mixture_interval_log_prob
from scoreprior.gp import GaussianProcess
from scoreprior.inference.measurement import MeasurementDistribution
from scoreprior.scores.denoiser import Denoiser, Points
from scoreprior.tasks import PaddedTasks
from scoreprior.tasks.padding import points_at


class Recorded(NamedTuple):
    """Tasks, and what their targets stand for: the intervals middle - half_width to middle + half_width.

    Half widths of intervals with one end only are as in `mixture_interval_log_prob`.
    """

    tasks: PaddedTasks
    middle: Float[Array, "*n m"]
    half_width: Float[Array, "*n m"]

    def at_most(self, points: int, key: PRNGKeyArray) -> Recorded:
        """With at most so many points of each task."""
        kept = self.tasks.some_points(points, key)
        return jax.tree.map(lambda leaf: points_at(leaf, kept), self)


class DenoisingLoss(eqx.Module):
    """Mean negative log probability of the points that are not known, over a batch of tasks that are split at random.

    Targets recorded in steps count by their rounding interval: a density could be made as high as one dares.
    """

    recorded: Recorded
    noised: Float[Array, ""]
    ordered: Float[Array, ""]
    log_low: Float[Array, ""]
    log_high: Float[Array, ""]
    interpolated: Float[Array, ""]
    places: MeasurementDistribution | None
    batch: int = eqx.field(static=True)
    points: int = eqx.field(static=True)
    further: int = eqx.field(static=True)

    def __call__(self, denoiser: Denoiser, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        row_key, point_key, split_key, further_key = jax.random.split(key, 4)
        rows = jax.random.randint(row_key, (self.batch,), 0, len(self.recorded.middle))
        some = jax.tree.map(lambda leaf: leaf[rows], self.recorded).at_most(self.points, point_key)
        if self.places is not None:
            further = jax.random.split(further_key, self.batch)
            some = jax.vmap(lambda task, one: self.with_further(denoiser.anchor, task, one))(some, further)
        losses = jax.vmap(lambda task, one: self.of_task(denoiser, task, one))(
            some, jax.random.split(split_key, self.batch)
        )
        return jnp.mean(losses), {}

    def with_further(self, anchor: GaussianProcess, recorded: Recorded, key: PRNGKeyArray) -> Recorded:
        """The task and, with some chance, points drawn from the anchor given it; these are as exact as any recorded."""
        assert self.places is not None
        coin_key, place_key, draw_key, noise_key = jax.random.split(key, 4)
        x = self.places.sample(place_key, self.further)
        y = anchor.sample(anchor.condition(*recorded.tasks), x, draw_key)
        y = y + anchor.noise_std * jax.random.normal(noise_key, y.shape)
        there = jnp.broadcast_to(jax.random.bernoulli(coin_key, self.interpolated), y.shape)
        y = jax.lax.stop_gradient(y)
        exact = jnp.where(self.recorded.tasks.mask, jnp.abs(self.recorded.half_width), jnp.inf)
        drawn = Recorded(PaddedTasks(x, y, there), y, jnp.full_like(y, jnp.min(exact)))
        return jax.tree.map(lambda *pair: jnp.concatenate(pair), recorded, drawn)

    def of_task(self, denoiser: Denoiser, recorded: Recorded, key: PRNGKeyArray) -> Float[Array, ""]:
        """Of one task with a random number of known points, up to all but one."""
        task = recorded.tasks
        uniform_key, noise_key = jax.random.split(key)
        size = len(task.mask)
        uniform = jax.random.uniform(uniform_key, (size + 4,))
        count, height, is_noised, is_ordered = uniform[:4]
        order = jnp.where(is_ordered < self.ordered, jnp.arange(size) / size, uniform[4:])
        order = jnp.where(task.mask, order, 2.0)
        rank = jnp.sum(order[None, :] < order[:, None], axis=1)
        known = task.mask & (rank < jnp.floor(count * jnp.sum(task.mask)))
        level = jnp.exp(self.log_low + height * (self.log_high - self.log_low))
        noise = jnp.where(known, 0.0, level)
        there = known | (task.mask & (is_noised < self.noised))
        values = task.y + noise * jax.random.normal(noise_key, task.y.shape)
        locs, scales, *_ = denoiser(Points(task.x, values, noise, there))
        assert scales is not None
        log_prob = mixture_interval_log_prob(recorded.middle, locs, scales, recorded.half_width)
        asked: Bool[Array, " m"] = task.mask & ~known
        return -jnp.sum(jnp.where(asked, log_prob, 0.0)) / jnp.maximum(jnp.sum(asked), 1)


class HeldOutLoss(eqx.Module):
    """The loss of held-out tasks over fixed splits."""

    loss: DenoisingLoss
    key: PRNGKeyArray

    def __call__(self, denoiser: Denoiser) -> Float[Array, " n"]:
        point_key, split_key = jax.random.split(self.key)
        some = self.loss.recorded.at_most(self.loss.points, point_key)
        keys = jax.random.split(split_key, len(some.middle))
        return jax.vmap(lambda task, key: self.loss.of_task(denoiser, task, key))(some, keys)
