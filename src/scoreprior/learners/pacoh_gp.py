"""PACOH-GP: a hyper-posterior over Gaussian-process priors (Rothfuss et al. 2021, "PACOH").

A GP prior P_phi has a network for its mean, and an SE kernel on the outputs of a second network. The bound of the
paper's Theorem 2, with a temperature beta_i for every task and their harmonic mean beta~, is

    -1/n sum_i E_Q[ln Z(S_i, P)] / beta_i + (1 / lambda + 1 / (n beta~)) KL(Q || hyper-prior) + constant,

and the hyper-posterior that minimises it (Prop. 1) is, with Z the marginal likelihood for beta_i = m_i,

    Q*(phi) ~ hyper-prior(phi) exp( sum_i w_i ln p(y_i | X_i, phi) ),  w_i = lambda beta~ / ((n beta~ + lambda) beta_i).

For equal sizes m and lambda = n that is the paper's w = 1 / (m + 1). Q* is represented by L particles that follow SVGD
(Liu & Wang 2016, median heuristic); one particle is the mode of Q*. A new task's predictive is the equal mixture of
the L exact GP posteriors.

Departures: lambda = confidence * n with a tuned factor; the kernel's amplitude is learned too, with an ARD length
scale for each feature; `skip` adds a linear term to the mean and the inputs themselves to the features, so that the
prior with all weights at zero is an ordinary SE-kernel GP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior import networks
from scoreprior._settings import check_counts, check_hidden, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.gp.kernels import Kernel, Mean, squared_distances
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.learners._base import Prior
from scoreprior.learners._pacoh import Gaussian, stein_loss, task_batch, task_weights
from scoreprior.networks import MLP
from scoreprior.predictive import Mixture
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train

_NOISE_FLOOR = 1e-2  # standardised units; keeps single-precision factors away from singular ones


@short_repr
@dataclass(frozen=True)
class PACOHGP:
    """The meta-learner; `PACOHGP.map()` keeps only the mode of the hyper-posterior.

    Args:
        particles: L, number of GP priors; 1 is the mode.
        hidden: widths of the tanh networks of mean and features.
        features: number of outputs of the feature network.
        skip: whether inputs also enter the mean linearly, and the kernel as they are.
        confidence: lambda / n; 1 is the paper's, large is type-II maximum a posteriori.
        weight_std: hyper-prior N(0, weight_std^2) of every weight.
        bias_std: hyper-prior N(0, bias_std^2) of every bias.
        scale_std: hyper-prior's spread of the logarithms of noise, amplitude and length scales.
        noise_std: hyper-prior's centre of the noise, standardised units; amplitude and length scales centre on 1.
        tasks_per_step: tasks in a step's estimate of the sum over tasks; None takes all.
        most_points: of longer tasks, so many random points are learned from: the cost grows with the cube of their
            number.
    """

    particles: int = 10
    hidden: tuple[int, ...] = (32, 32, 32, 32)
    features: int = 2
    skip: bool = True
    confidence: float = 100.0
    weight_std: float = 0.5
    bias_std: float = 3.0
    scale_std: float = 1.0
    noise_std: float = 0.1
    tasks_per_step: int | None = 16
    most_points: int = 200
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=2000, learning_rate=5e-3, schedule="cosine")
    )

    space: ClassVar[Space] = {
        "confidence": Range(1.0, 1000.0, log=True),
        "training.learning_rate": Range(5e-4, 1e-2, log=True),
        "training.steps": Choice((1000, 2000, 4000)),
        "tasks_per_step": Choice((4, 16, 64)),
        "features": Choice((1, 2, 4)),
        "skip": Choice((True, False)),
    }

    def __post_init__(self) -> None:
        check_counts(self, "particles", "features", "tasks_per_step", "most_points")
        check_positive(self, "confidence", "weight_std", "bias_std", "scale_std", "noise_std")
        check_hidden(self.hidden)

    @classmethod
    def map(cls) -> PACOHGP:
        """The mode of the hyper-posterior: one GP prior."""
        return cls(particles=1)

    def with_budget(self, share: float) -> PACOHGP:
        """The same with this share of the meta-training steps."""
        return replace(self, training=self.training.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> PACOHGPPrior:
        """Approximate the hyper-posterior given all tasks."""
        start_key, train_key = jax.random.split(as_key(key))
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded().at_most(self.most_points, jax.random.fold_in(train_key, 0))
        prior = hyper_prior(tasks.dim, self)
        particles = jax.vmap(lambda one: _start(prior, one))(jax.random.split(start_key, self.particles))
        batch = len(tasks) if self.tasks_per_step is None else min(self.tasks_per_step, len(tasks))
        loss = _Loss(padded, task_weights(padded.mask, jnp.float32(self.confidence)), prior, batch)
        particles, _ = train(
            loss, particles, self.training, train_key, progress=progress, description="Learning the prior"
        )
        return PACOHGPPrior(standardizer, particles)


class NetworkMean(Mean):
    """m(x) = network(x) + slope . x."""

    network: MLP
    slope: Float[Array, " d"] | None

    def __call__(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        mean = self.network(x)[:, 0]
        return mean if self.slope is None else mean + x @ self.slope


class FeatureKernel(Kernel):
    """std^2 exp(-|(u(x) - u(z)) / lengthscale|^2 / 2), u(x) the network's outputs, followed by x itself with `skip`."""

    network: MLP
    std: Float[Array, ""]
    lengthscale: Float[Array, " p"]
    skip: bool = eqx.field(static=True)

    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        return self.std**2 * jnp.exp(-0.5 * squared_distances(self.embed(x), self.embed(z)))

    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return jnp.broadcast_to(self.std**2, (len(x),))

    def embed(self, x: Float[Array, "a d"]) -> Float[Array, "a p"]:
        """u(x) / lengthscale."""
        features = self.network(x)
        return (jnp.concatenate([features, x], axis=1) if self.skip else features) / self.lengthscale


class GPPrior(eqx.Module):
    """phi, one GP prior, in coordinates without bounds; L of them with a leading axis."""

    mean: MLP
    slope: Float[Array, "... d"] | None
    features: MLP
    log_noise: Float[Array, "..."]
    log_std: Float[Array, "..."]
    log_lengthscale: Float[Array, "... p"]

    def process(self) -> GaussianProcess:
        """P_phi."""
        kernel = FeatureKernel(
            self.features, jnp.exp(self.log_std), jnp.exp(self.log_lengthscale), self.slope is not None
        )
        noise = jnp.sqrt(jnp.exp(2 * self.log_noise) + _NOISE_FLOOR**2)
        return GaussianProcess(NetworkMean(self.mean, self.slope), kernel, noise)


class PACOHGPPrior(Prior):
    """Particles of the hyper-posterior; conditioning each is exact."""

    standardizer: Standardizer
    particles: GPPrior

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Conditioned:
        return jax.vmap(lambda phi: phi.process().condition(*context))(self.particles)

    def evaluate(self, state: Conditioned, x: Float[Array, "q d"]) -> Mixture:
        def one(phi: GPPrior, conditioned: Conditioned) -> tuple[Array, Array, Array]:
            process = phi.process()
            mean, variance = process.predict_marginals(conditioned, x)
            return mean, jnp.sqrt(variance + process.noise_std**2), jnp.sqrt(variance)

        locs, scales, function_scales = jax.vmap(one)(self.particles, state)
        return Mixture(locs, scales, function_scales=function_scales)

    def draw(self, state: Conditioned, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw from the process of one of the particles."""
        which_key, draw_key = jax.random.split(key)
        which = jax.random.randint(which_key, (), 0, len(self.particles.log_noise))
        phi, conditioned = jax.tree.map(lambda leaf: leaf[which], (self.particles, state))
        return phi.process().sample(conditioned, x, draw_key)


def hyper_prior(dim: int, config: PACOHGP) -> Gaussian:
    """N(0, weight_std^2) on weights and slopes, N(0, bias_std^2) on biases, log-normals on the scales."""

    def network(outputs: int, weight: float, bias: float) -> MLP:
        return networks.constant((dim, *config.hidden, outputs), "tanh", weight, bias)

    def prior(weight: float, bias: float, noise: float, scale: float) -> GPPrior:
        return GPPrior(
            mean=network(1, weight, bias),
            slope=jnp.full(dim, weight) if config.skip else None,
            features=network(config.features, weight, bias),
            log_noise=jnp.asarray(noise),
            log_std=jnp.asarray(scale),
            log_lengthscale=jnp.full(config.features + dim * config.skip, scale),
        )

    centre = prior(0.0, 0.0, math.log(config.noise_std), 0.0)
    return Gaussian(centre, prior(config.weight_std, config.bias_std, config.scale_std, config.scale_std))


def _start(prior: Gaussian, key: PRNGKeyArray) -> GPPrior:
    """Networks drawn from the hyper-prior, scales at its centre: a wild amplitude or noise would explain everything."""
    drawn, centre = prior.sample(key), prior.mean
    return replace(drawn, log_noise=centre.log_noise, log_std=centre.log_std, log_lengthscale=centre.log_lengthscale)


class _Loss(eqx.Module):
    """-ln Q*(phi_l) / n, its sum over tasks estimated on a batch, averaged over particles."""

    tasks: PaddedTasks
    weights: Float[Array, " n"]
    hyper_prior: Gaussian
    batch: int = eqx.field(static=True)

    def __call__(self, particles: GPPrior, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        batch_key, particle_key = jax.random.split(key)
        tasks, weights = task_batch(batch_key, self.tasks, self.weights, self.batch)
        keys = jax.random.split(particle_key, len(particles.log_noise))
        value = stein_loss(particles, lambda phi, _: self.log_density(phi, tasks, weights), keys)
        return value / len(self.weights), {}

    def log_density(self, phi: GPPrior, tasks: PaddedTasks, weights: Float[Array, " h"]) -> Float[Array, ""]:
        """ln Q*(phi) up to a constant: ln hyper-prior(phi) + sum_i w_i ln p(y_i | X_i, phi)."""
        evidence = jax.vmap(phi.process().log_likelihood)(*tasks)
        return self.hyper_prior.log_prob(phi) + jnp.sum(weights * evidence)
