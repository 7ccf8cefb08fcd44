"""PACOH-NN: a hyper-posterior over Gaussian priors on network weights (Rothfuss et al. 2021, "PACOH").

A regressor theta is a network and the logarithm of its noise; a prior P_phi has a mean and a log standard deviation for
each number in theta. Meta-training follows SVGD with K particles phi_k towards

    Q*(phi) ~ hyper-prior(phi) exp( sum_i w_i ln Z~(S_i, P_phi) ),
    ln Z~(S_i, P_phi) = ln 1/S sum_s p(y_i | X_i, theta_s),   theta_s = mean + std * eps_s,  eps_s ~ N(0, I),

with the weights w_i of `pacoh_gp.py` and a Gaussian hyper-prior; the S draws are fresh in every step and shared by the
tasks of a batch. Given a new task, SVGD moves L draws of every prior to p(y | X, theta) P_phi_k(theta), and the
predictive is the equal mixture of all K * L Gaussians.

Departures: lambda = confidence * n with a tuned factor. The target's SVGD runs in eps, where the prior is N(0, I) and
one bandwidth and rate fit all weights. With fewer particles than weights, p of them, SVGD loses nearly all variance:
under the median heuristic L particles of N(0, I_p) settle at squared distances 2 ln(L + 1) instead of 2 p. With
`calibrated` the repulsion is multiplied by the p / ln(L + 1) that makes draws of the prior stationary without data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._budget import share_of
from scoreprior._settings import check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.inference.bnn import BNNConfig, Network, init_network
from scoreprior.inference.likelihood import log_likelihood
from scoreprior.inference.measurement import Box
from scoreprior.inference.svgd import ascend, decayed, rbf_kernel_and_repulsion, start
from scoreprior.learners._base import Prior
from scoreprior.learners._pacoh import Gaussian, Tree, median_bandwidth, stein_loss, task_batch, task_weights
from scoreprior.predictive import Mixture
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train


@short_repr
@dataclass(frozen=True)
class PACOHNN:
    """The meta-learner.

    Args:
        particles: K, number of weight priors.
        samples: S, draws per prior and step that estimate ln Z.
        confidence: lambda / n; 1 is the paper's, large is type-II maximum a posteriori.
        mean_std: hyper-prior N(0, mean_std^2) of the prior means of all weights.
        weight_std: hyper-prior's centre of the prior standard deviations, where they start.
        noise_std: hyper-prior's centre of the noise, standardised units.
        scale_std: hyper-prior's spread of the logarithms of noise and standard deviations.
        tasks_per_step: tasks in a step's estimate of the sum over tasks; None takes all.
        target_particles: L, networks per prior given a new task.
        target_rate: learning rate on the new task, in units of the prior's standard deviations.
        calibrated: whether the repulsion keeps the prior's variance; False is plain SVGD.
    """

    particles: int = 4
    samples: int = 10
    confidence: float = 100.0
    mean_std: float = 0.5
    weight_std: float = 0.05
    noise_std: float = 0.1
    scale_std: float = 1.0
    tasks_per_step: int | None = 8
    target_particles: int = 5
    target_steps: int = 300
    target_rate: float = 0.1
    calibrated: bool = True
    bnn: BNNConfig = field(default_factory=BNNConfig)
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=3000, learning_rate=3e-3, schedule="cosine")
    )

    space: ClassVar[Space] = {
        "confidence": Range(1.0, 1000.0, log=True),
        "weight_std": Range(0.01, 0.5, log=True),
        "mean_std": Range(0.1, 2.0, log=True),
        "training.learning_rate": Range(5e-4, 1e-2, log=True),
        "training.steps": Choice((3000, 6000)),
        "tasks_per_step": Choice((4, 8, 16)),
        "target_steps": Choice((300, 1000)),
        "target_rate": Range(0.01, 0.3, log=True),
        "bnn.skip": Choice(("none", "linear")),
    }

    def __post_init__(self) -> None:
        check_counts(self, "particles", "samples", "tasks_per_step", "target_particles", "target_steps")
        check_positive(self, "confidence", "mean_std", "weight_std", "noise_std", "scale_std", "target_rate")

    def with_budget(self, share: float) -> PACOHNN:
        """The same with this share of the steps, of meta-training and on a new task."""
        target_steps = share_of(self.target_steps, share)
        return replace(self, training=self.training.with_budget(share), target_steps=target_steps)

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> PACOHNNPrior:
        """Approximate the hyper-posterior given all tasks."""
        start_key, train_key = jax.random.split(as_key(key))
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        box = Box.around(padded)

        def first(one: PRNGKeyArray) -> WeightPrior:
            network = init_network(one, tasks.dim, self.bnn, box.low, box.high)
            mean = Regressor(network, jnp.float32(math.log(self.noise_std)))
            return WeightPrior(mean, _filled(mean, math.log(self.weight_std)))

        priors = jax.vmap(first)(jax.random.split(start_key, self.particles))
        batch = len(tasks) if self.tasks_per_step is None else min(self.tasks_per_step, len(tasks))
        loss = _Loss(
            padded,
            task_weights(padded.mask, jnp.float32(self.confidence)),
            hyper_prior(jax.tree.map(lambda leaf: leaf[0], priors), self),
            batch,
            self.samples,
        )
        priors, _ = train(loss, priors, self.training, train_key, progress=progress, description="Learning the prior")
        gain = repulsion_gain(priors.size, self.target_particles) if self.calibrated else 1.0
        hyper = jnp.array([self.target_rate, gain], jnp.float32)
        return PACOHNNPrior(standardizer, priors, hyper[0], hyper[1], self.target_particles, self.target_steps)


class Regressor(eqx.Module):
    """theta: y = network(x) + exp(log_noise) * eps; many of them with leading axes."""

    network: Network
    log_noise: Float[Array, "..."]

    def log_likelihood(self, tasks: PaddedTasks) -> Float[Array, "*n"]:
        """ln p(y | x, theta) of every padded task of a batch, or of one."""
        # Padding may hold anything, but a network's gradient at a non-finite input is not finite.
        x = jnp.where(tasks.mask[..., None], tasks.x, 0.0)
        f = self.network(x.reshape(-1, x.shape[-1])).reshape(tasks.y.shape)
        each = jnp.vectorize(log_likelihood, signature="(m),(m),(m),()->()")
        return each(f, tasks.y, tasks.mask, jnp.exp(self.log_noise))


class WeightPrior(eqx.Module):
    """phi: an independent Gaussian for each number of a regressor; K of them with a leading axis."""

    mean: Regressor
    log_std: Regressor

    @property
    def size(self) -> int:
        """p, the number of Gaussians in one prior."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.mean)) // max(1, self.mean.log_noise.size)

    def place(self, eps: Float[Array, " p"]) -> Regressor:
        """theta = mean + std * eps."""
        mean, restore = ravel_pytree(self.mean)
        return restore(mean + jnp.exp(ravel_pytree(self.log_std)[0]) * eps)


class PACOHNNPrior(Prior):
    """Particles of the hyper-posterior, and how a new task's networks are inferred with each."""

    standardizer: Standardizer
    priors: WeightPrior
    rate: Float[Array, ""]
    gain: Float[Array, ""]
    particles: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Regressor:
        """K * L regressors."""
        count = len(self.priors.mean.log_noise)
        eps = jax.random.normal(key, (count, self.particles, self.priors.size))

        def one(prior: WeightPrior, eps: Float[Array, "L p"]) -> Regressor:
            moved = target_svgd(prior, context, eps, self.rate, self.gain, self.steps)
            return jax.vmap(prior.place)(moved)

        regressors = jax.vmap(one)(self.priors, eps)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), regressors)

    def evaluate(self, state: Regressor, x: Float[Array, "q d"]) -> Mixture:
        locs = jax.vmap(lambda theta: theta.network(x))(state)
        return Mixture(locs, jnp.broadcast_to(jnp.exp(state.log_noise)[:, None], locs.shape), locs)


def hyper_prior(phi: WeightPrior, config: PACOHNN) -> Gaussian:
    """Means N(0, mean_std^2); logarithms of noise and standard deviations N(centre, scale_std^2)."""
    noise = jnp.float32(math.log(config.noise_std))
    centre = WeightPrior(
        Regressor(_filled(phi.mean.network, 0.0), noise), _filled(phi.log_std, math.log(config.weight_std))
    )
    mean_std = Regressor(_filled(phi.mean.network, config.mean_std), jnp.float32(config.scale_std))
    return Gaussian(centre, WeightPrior(mean_std, _filled(phi.log_std, config.scale_std)))


def log_evidence(phi: WeightPrior, tasks: PaddedTasks, eps: Float[Array, "S p"]) -> Float[Array, " n"]:
    """ln Z~(S_i, P_phi) = ln 1/S sum_s p(y_i | X_i, mean + std * eps_s) of every task."""
    each = jax.vmap(lambda one: phi.place(one).log_likelihood(tasks))(eps)
    return jax.nn.logsumexp(each, axis=0) - math.log(len(eps))


def repulsion_gain(size: int, particles: int) -> float:
    """p / ln(L + 1): with it and the median heuristic, particles of N(0, I_p) settle at squared distances 2 p."""
    return size / math.log(particles + 1)


def target_svgd(
    prior: WeightPrior,
    context: PaddedTasks,
    eps: Float[Array, "L p"],
    rate: Float[Array, ""],
    gain: Float[Array, ""],
    steps: int,
) -> Float[Array, "L p"]:
    """SVGD on ln p(y | X, theta(eps)) - |eps|^2 / 2 from L starts: median heuristic, the repulsion times `gain`."""

    def log_posterior(one: Float[Array, " p"]) -> Float[Array, ""]:
        return prior.place(one).log_likelihood(context) - 0.5 * jnp.sum(one**2)

    def step(carry: tuple, count: Array) -> tuple[tuple, None]:
        eps, optimiser = carry
        gram, repulsion = rbf_kernel_and_repulsion(eps, median_bandwidth(eps))
        direction = (gram @ jax.vmap(jax.grad(log_posterior))(eps) + gain * repulsion) / len(eps)
        return ascend(eps, direction, optimiser, decayed(rate, count, steps, 0.0)), None

    return jax.lax.scan(step, (eps, start(eps)), jnp.arange(steps))[0][0]


class _Loss(eqx.Module):
    """-ln Q*(phi_k) / n, its sum over tasks estimated on a batch, averaged over particles."""

    tasks: PaddedTasks
    weights: Float[Array, " n"]
    hyper_prior: Gaussian
    batch: int = eqx.field(static=True)
    samples: int = eqx.field(static=True)

    def __call__(self, priors: WeightPrior, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        batch_key, particle_key = jax.random.split(key)
        tasks, weights = task_batch(batch_key, self.tasks, self.weights, self.batch)
        keys = jax.random.split(particle_key, len(priors.mean.log_noise))
        value = stein_loss(priors, lambda phi, one: self.log_density(phi, tasks, weights, one), keys)
        return value / len(self.weights), {}

    def log_density(
        self, phi: WeightPrior, tasks: PaddedTasks, weights: Float[Array, " h"], key: PRNGKeyArray
    ) -> Float[Array, ""]:
        """ln Q*(phi) up to a constant: ln hyper-prior(phi) + sum_i w_i ln Z~(S_i, P_phi)."""
        evidence = log_evidence(phi, tasks, jax.random.normal(key, (self.samples, phi.size)))
        return self.hyper_prior.log_prob(phi) + jnp.sum(weights * evidence)


def _filled(tree: Tree, value: float) -> Tree:
    return jax.tree.map(lambda leaf: jnp.full(leaf.shape, value, jnp.float32), tree)
