"""Bayesian MAML (Yoon, Kim et al. 2018): MAML whose inner loop is SVGD and whose meta-loss chases the posterior.

Particles Theta_0 are learned. On a task, n SVGD steps theta_l <- theta_l + alpha phi_l along the log posterior of the
context give the chaser; s more steps on context and target give the leader; the meta-loss is their squared distance
sum_l |theta_l^n - stop(theta_l^(n+s))|^2, gradients stopped in the leader (eq. 6 and Alg. 3). A particle is a network
with its own noise level: y ~ N(h(x), noise^2), weights ~ N(0, prior_std^2), log noise ~ N(log noise_std, 1). The
likelihood is a sum over points.
Departures: that log-normal prior replaces Gamma priors of both precisions; the kernel's bandwidth is fixed, not the
median heuristic; a direction's norm is capped; and numbers of steps are chosen on held-out tasks, as for `maml.MAML`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from scoreprior._settings import check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.inference.bnn import BNNConfig, Network, init_particles
from scoreprior.inference.likelihood import log_likelihood
from scoreprior.inference.measurement import Box
from scoreprior.inference.svgd import svgd_direction
from scoreprior.learners._base import Prior
from scoreprior.learners._episodes import STEP_GRID, Cut, MetaLoss, check_episodes, meta_train, mixture_nll
from scoreprior.predictive import Mixture
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig


class Particle(eqx.Module):
    """A network and the logarithm of its observation noise; or L of them with a leading axis."""

    network: Network
    log_noise: Float[Array, "..."]


class Hyper(eqx.Module):
    """Hyper-parameters of the inner loop as arrays."""

    rate: Float[Array, ""]
    bandwidth: Float[Array, ""]
    prior_std: Float[Array, ""]
    noise_std: Float[Array, ""]
    clip: Float[Array, ""]


def log_posterior(particle: Particle, task: PaddedTasks, hyper: Hyper) -> Float[Array, ""]:
    """log p(y | h, noise) + log p(weights) + log p(log noise), the priors up to a constant."""
    x = jnp.where(task.mask[:, None], task.x, 0.0)
    squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(particle.network))
    log_prior = -0.5 * squares / hyper.prior_std**2 - 0.5 * (particle.log_noise - jnp.log(hyper.noise_std)) ** 2
    return log_likelihood(particle.network(x), task.y, task.mask, jnp.exp(particle.log_noise)) + log_prior


def svgd_step(particles: Particle, task: PaddedTasks, hyper: Hyper) -> Particle:
    """theta_l + rate * phi_l for all particles, with phi_l scaled down to a norm of at most `clip`."""
    scores = jax.vmap(jax.grad(log_posterior), in_axes=(0, None, None))(particles, task, hyper)
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], particles))
    flat, slopes = (jax.vmap(lambda one: ravel_pytree(one)[0])(tree) for tree in (particles, scores))
    direction = svgd_direction(flat, slopes, hyper.bandwidth)
    squares = jnp.sum(direction**2, axis=1, keepdims=True)
    factor = hyper.rate * jax.lax.rsqrt(jnp.maximum(squares / hyper.clip**2, 1.0))
    return jax.vmap(unravel)(flat + factor * direction)


def svgd(particles: Particle, task: PaddedTasks, hyper: Hyper, steps: int) -> Particle:
    """`steps` SVGD steps, differentiable."""
    return jax.lax.scan(lambda now, _: (svgd_step(now, task, hyper), None), particles, None, steps)[0]


def chaser_loss(chaser: Particle, leader: Particle) -> Float[Array, ""]:
    """sum_l |chaser_l - stop(leader_l)|^2."""
    gaps = jax.tree.map(lambda a, b: jnp.sum((a - jax.lax.stop_gradient(b)) ** 2), chaser, leader)
    return jnp.sum(jnp.stack(jax.tree.leaves(gaps)))


def predict(particles: Particle, x: Float[Array, "q d"]) -> tuple[Float[Array, "L q"], Float[Array, "L q"]]:
    """Means and standard deviations of the particles' Gaussians at x."""
    locs = jax.vmap(lambda network: network(x))(particles.network)
    return locs, jnp.broadcast_to(jnp.exp(particles.log_noise)[:, None], locs.shape)


class _Chaser(eqx.Module):
    """The meta-loss of one task."""

    hyper: Hyper
    inner_steps: int = eqx.field(static=True)
    leader_steps: int = eqx.field(static=True)

    def __call__(
        self, start: Particle, context: PaddedTasks, target: PaddedTasks, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        chaser = svgd(start, context, self.hyper, self.inner_steps)
        everything = context._replace(mask=context.mask | target.mask)
        # Stopped before it moves on: nothing of the leader's steps needs to be kept for a gradient.
        leader = svgd(jax.lax.stop_gradient(chaser), everything, self.hyper, self.leader_steps)
        return chaser_loss(chaser, leader)


class _Curve(eqx.Module):
    """Negative log predictive density of the target after each number of inner steps in STEP_GRID."""

    hyper: Hyper

    def __call__(
        self, start: Particle, context: PaddedTasks, target: PaddedTasks, key: PRNGKeyArray
    ) -> Float[Array, " g"]:
        x = jnp.where(target.mask[:, None], target.x, 0.0)

        def step(particles: Particle, _: None) -> tuple[Particle, Array]:
            return svgd_step(particles, context, self.hyper), mixture_nll(*predict(particles, x), target)

        _, losses = jax.lax.scan(step, start, None, STEP_GRID[-1] + 1)
        return losses[jnp.array(STEP_GRID)]


class BMAMLPrior(Prior):
    """Particles, and how many SVGD steps to make from them."""

    standardizer: Standardizer
    particles: Particle
    hyper: Hyper
    steps: Int[Array, ""]

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Particle:
        """Particles of the task's posterior; without a context point they are the learned ones, the prior's."""
        step = lambda _, particles: svgd_step(particles, context, self.hyper)  # noqa: E731
        return jax.lax.fori_loop(0, jnp.where(context.mask.any(), self.steps, 0), step, self.particles)

    def evaluate(self, state: Particle, x: Float[Array, "q d"]) -> Mixture:
        locs, scales = predict(state, x)
        return Mixture(locs, scales, locs)


@short_repr
@dataclass(frozen=True)
class BMAML:
    """Bayesian MAML with the chaser loss.

    Args:
        particles: number of particles L.
        inner_steps: SVGD steps n of the chaser; new tasks take as many of STEP_GRID as suit held-out tasks.
        leader_steps: further steps s of the leader.
        inner_rate: step size alpha. It is not learned: a step size of 0 would make the meta-loss 0.
        inner_clip: largest norm of a particle's direction.
        noise_std: centre of the log-normal prior of the noise, standardised units; particles start there.
        context, tasks_per_step, held_out: as for `maml.MAML`.
    """

    particles: int = 10
    network: BNNConfig = field(default_factory=lambda: BNNConfig(hidden=(32, 32)))
    inner_steps: int = 2
    leader_steps: int = 2
    inner_rate: float = 1e-3
    bandwidth: float = 100.0
    prior_std: float = 1.0
    noise_std: float = 0.2
    inner_clip: float = 100.0
    context: tuple[float, float] = (0.25, 0.9)
    forward: float = 0.5
    tasks_per_step: int | None = 4
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(steps=3000, chunk=250, patience=4))
    held_out: float = 0.25

    space: ClassVar[Space] = {
        "particles": Choice((5, 10, 20)),
        "inner_rate": Range(1e-4, 1e-1, log=True),
        "inner_steps": Range(1, 5),
        "leader_steps": Range(1, 10),
        "bandwidth": Range(1.0, 1000.0, log=True),
        "noise_std": Range(0.05, 0.5, log=True),
        "training.learning_rate": Range(1e-4, 1e-2, log=True),
    }

    def __post_init__(self) -> None:
        check_counts(self, "particles", "inner_steps", "leader_steps")
        check_positive(self, "inner_rate", "bandwidth", "prior_std", "noise_std", "inner_clip")
        check_episodes(self.context, self.forward, self.tasks_per_step, self.held_out)

    def with_budget(self, share: float) -> BMAML:
        """The same with this share of the meta-training steps."""
        return replace(self, training=self.training.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> BMAMLPrior:
        """Learn the particles that SVGD starts from."""
        start_key, train_key = jax.random.split(as_key(key))
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        box = Box.around(padded)
        networks = eqx.filter_jit(init_particles)(start_key, self.particles, tasks.dim, self.network, box.low, box.high)
        start = Particle(networks, jnp.full(self.particles, jnp.log(self.noise_std)))
        hyper = self.hyper()
        batch = len(tasks) if self.tasks_per_step is None else min(self.tasks_per_step, len(tasks))
        chaser = _Chaser(hyper, self.inner_steps, self.leader_steps)
        loss = MetaLoss(padded, Cut(self.context, self.forward), batch, chaser)
        particles, curve = meta_train(
            loss, _Curve(hyper), start, self.training, self.held_out, train_key, progress=progress
        )
        return BMAMLPrior(standardizer, particles, hyper, jnp.array(STEP_GRID)[jnp.argmin(curve)])

    def hyper(self) -> Hyper:
        """What may change without retracing, as arrays."""
        values = (self.inner_rate, self.bandwidth, self.prior_std, self.noise_std, self.inner_clip)
        return Hyper(*(jnp.asarray(value, jnp.float32) for value in values))
