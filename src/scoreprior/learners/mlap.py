"""MLAP, meta-learning by adjusting priors (Amit & Meir, 2018): a Gaussian prior over network weights, PAC-Bayes.

The prior P = prod_k N(mu_k, sigma_k^2) has parameters theta = (mu, log sigma^2). With a hyper-prior N(0, kappa_P^2 I)
and a hyper-posterior N(theta, kappa_Q^2 I) over them, and a Gaussian posterior Q_i over the weights of every
meta-training task, theta and all Q_i minimise together (their Theorem 2)

    1/n sum_i { er_i(Q_i) + U_i } + U,
    U_i = sqrt( (D + D_i + log(2 n m_i / delta)) / (2 (m_i - 1)) ),    U = sqrt( (D + log(2 n / delta)) / (2 (n - 1)) ),

with D_i = E KL(Q_i || P) over the hyper-posterior and D = |theta|^2 / (2 kappa_P^2). A new task minimises
er(Q) + sqrt((KL(Q || P) + log(2 m / delta)) / (2 (m - 1))) over Q, started at the prior. Expectations are single draws
by reparametrisation. bound="variational" is the paper's MLAP-VB, U_i = (D_i + D / n) / m_i and U = 0: the negative
evidence lower bound per point, in which the data weigh as Bayes' rule has it.

Departures. The bounds are for losses in [0, 1]; for regression the loss er is the mean negative log likelihood of a
Gaussian with one noise level, learned with theta. The part of D that does not depend on theta is left out: it alone
would make the square roots flat. m - 1 is at least 1, so that a task may have one point. A new task's prior is the one
at the hyper-posterior's mean: kappa_Q is tiny.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._budget import share_of
from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.inference.bnn import BNNConfig, Network, function_values, init_network
from scoreprior.inference.likelihood import log_likelihood
from scoreprior.inference.measurement import Box
from scoreprior.inference.svgd import ascend, decayed, start
from scoreprior.learners._base import Prior
from scoreprior.predictive import Mixture
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train

Bound = Literal["mcallester", "variational"]
_NOISE_FLOOR = 0.01  # standardised units; a network can fit a few tasks exactly


@short_repr
@dataclass(frozen=True)
class MLAP:
    """The meta-learner.

    Args:
        bound: "mcallester" (the paper's MLAP-M) or "variational" (MLAP-VB).
        initial_std: of every weight before training, in the prior and in the tasks' posteriors.
        hyper_prior_std: kappa_P.
        hyper_posterior_std: kappa_Q.
        delta: the bound holds with probability 1 - delta.
        samples: draws of the weights per task and step.
        tasks_per_step: tasks of a training step, chosen at random; None takes all.
        steps: of the posterior of a new task.
        learning_rate: of the posterior of a new task; it falls to a hundredth by the last step.
        draws: components of the predictive.
    """

    space: ClassVar[Space] = {
        "training.learning_rate": Range(1e-3, 3e-2, log=True),
        "learning_rate": Range(3e-3, 0.1, log=True),
        "bound": Choice(get_args(Bound)),
        "initial_std": Range(1e-2, 0.2, log=True),
        "hyper_prior_std": Range(1.0, 2000.0, log=True),
    }

    bnn: BNNConfig = field(default_factory=BNNConfig)
    bound: Bound = "mcallester"
    initial_std: float = 0.05
    hyper_prior_std: float = 2000.0
    hyper_posterior_std: float = 1e-3
    delta: float = 0.1
    samples: int = 2
    tasks_per_step: int | None = None
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=3000, learning_rate=1e-2, schedule="cosine")
    )
    steps: int = 500
    learning_rate: float = 3e-2
    draws: int = 30

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, get_args(Bound))
        check_counts(self, "samples", "tasks_per_step", "steps", "draws")
        check_positive(self, "initial_std", "hyper_prior_std", "hyper_posterior_std", "learning_rate")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is a probability strictly between 0 and 1, not {self.delta}.")

    def with_budget(self, share: float) -> MLAP:
        """The same with this share of the steps, of meta-training and on a new task."""
        return replace(self, training=self.training.with_budget(share), steps=share_of(self.steps, share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> MLAPPrior:
        """Learn the prior over weights, and the noise, with the posteriors of all tasks."""
        start_key, train_key = jax.random.split(as_key(key))
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        box = Box.around(padded)
        centre = init_network(start_key, tasks.dim, self.bnn, box.low, box.high)
        prior = WeightGaussian.around(centre, self.initial_std)
        posteriors = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], len(tasks), 0), prior)
        constants = Constants(*map(jnp.float32, (self.hyper_prior_std, self.hyper_posterior_std, self.delta)))
        batch = len(tasks) if self.tasks_per_step is None else min(self.tasks_per_step, len(tasks))
        learned, _ = train(
            MetaBound(padded, constants, self.bound, self.samples, batch),
            Joint(prior, posteriors, jnp.float32(math.log(0.2))),
            self.training,
            train_key,
            progress=progress,
            description="Learning the prior",
        )
        noise, rate = noise_std(learned.log_noise), jnp.float32(self.learning_rate)
        sizes = (self.samples, self.steps, self.draws)
        return MLAPPrior(standardizer, learned.prior, noise, rate, constants.delta, self.bound, *sizes)


class WeightGaussian(eqx.Module):
    """Independent Gaussians over a network's weights: N(mean, exp(log_variance)), two networks in structure."""

    mean: Network
    log_variance: Network

    @classmethod
    def around(cls, centre: Network, std: float) -> WeightGaussian:
        """One standard deviation for all weights."""
        return cls(centre, jax.tree.map(lambda leaf: jnp.full_like(leaf, 2 * math.log(std)), centre))

    def sample(self, key: PRNGKeyArray, number: int) -> Network:
        """Reparametrised draws, every leaf with a leading axis `number`."""
        mean, unravel = ravel_pytree(self.mean)
        std = jnp.exp(0.5 * ravel_pytree(self.log_variance)[0])
        return jax.vmap(unravel)(mean + std * jax.random.normal(key, (number, len(mean)), mean.dtype))

    def shifted(self, key: PRNGKeyArray, std: Float[Array, ""]) -> WeightGaussian:
        """A draw of the hyper-posterior: both parameters moved by N(0, std^2)."""
        flat, unravel = ravel_pytree(self)
        return unravel(flat + std * jax.random.normal(key, flat.shape, flat.dtype))

    def squared_norm(self) -> Float[Array, ""]:
        """|theta|^2 of both parameters."""
        return jnp.sum(ravel_pytree(self)[0] ** 2)


def divergence(q: WeightGaussian, p: WeightGaussian) -> Float[Array, ""]:
    """KL(q || p) = 1/2 sum_k [ v_q / v_p + (mu_q - mu_p)^2 / v_p - 1 - log(v_q / v_p) ]."""
    q_mean, q_log, p_mean, p_log = (ravel_pytree(part)[0] for part in (q.mean, q.log_variance, p.mean, p.log_variance))
    gap = q_log - p_log
    return 0.5 * jnp.sum(jnp.expm1(gap) - gap + (q_mean - p_mean) ** 2 * jnp.exp(-p_log))


def empirical_loss(
    q: WeightGaussian, task: PaddedTasks, noise: Float[Array, ""], key: PRNGKeyArray, samples: int
) -> Float[Array, ""]:
    """er(Q): mean over a task's points of -log N(y; h(x), noise^2), h drawn from q; 0 without a point."""
    # Padding may hold anything, but a network's gradient at a non-finite input is not finite.
    x = jnp.where(task.mask[:, None], task.x, 0.0)
    f = function_values(q.sample(key, samples), x)
    logs = jax.vmap(lambda one: log_likelihood(one, task.y, task.mask, noise))(f)
    return -jnp.mean(logs) / jnp.maximum(jnp.sum(task.mask), 1)


class Constants(eqx.Module):
    """Numbers of the bound as arrays."""

    hyper_prior_std: Float[Array, ""]
    hyper_posterior_std: Float[Array, ""]
    delta: Float[Array, ""]


class Joint(eqx.Module):
    """What meta-training learns: the prior, the posteriors of all tasks (leading axis n), the noise."""

    prior: WeightGaussian
    posteriors: WeightGaussian
    log_noise: Float[Array, ""]


class MetaBound(eqx.Module):
    """The meta-training objective on a batch of tasks; its expectation does not depend on the batch's size."""

    tasks: PaddedTasks
    constants: Constants
    bound: Bound = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)

    def __call__(self, model: Joint, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        task_key, prior_key, draw_key = jax.random.split(key, 3)
        n = len(self.tasks.y)
        posteriors, tasks = model.posteriors, self.tasks
        if self.batch < n:
            chosen = jax.random.choice(task_key, n, (self.batch,), replace=False)
            posteriors, tasks = jax.tree.map(lambda leaf: leaf[chosen], (posteriors, tasks))
        prior = model.prior.shifted(prior_key, self.constants.hyper_posterior_std)
        hyper = model.prior.squared_norm() / (2 * self.constants.hyper_prior_std**2)

        def one(q: WeightGaussian, task: PaddedTasks, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
            kl, points = divergence(q, prior), jnp.sum(task.mask)
            loss = empirical_loss(q, task, noise_std(model.log_noise), key, self.samples)
            if self.bound == "variational":
                return loss, (kl + hyper / n) / jnp.maximum(points, 1), kl
            return loss, complexity(kl + hyper, points, n, self.constants.delta), kl

        losses, complexities, kls = jax.vmap(one)(posteriors, tasks, jax.random.split(draw_key, self.batch))
        environment = jnp.zeros(())
        if self.bound == "mcallester":
            environment = jnp.sqrt((hyper + jnp.log(2 * n / self.constants.delta)) / (2 * (n - 1)))
        total = jnp.mean(losses + complexities) + environment
        return total, {"loss_on_tasks": jnp.mean(losses), "divergence": jnp.mean(kls)}


def complexity(divergence: Float[Array, ""], points: Array, n: int, delta: Float[Array, ""]) -> Float[Array, ""]:
    """sqrt( (divergence + log(2 n m / delta)) / (2 (m - 1)) ); m counts as 1, m - 1 as 1 at least."""
    log_term = jnp.log(2 * n * jnp.maximum(points, 1) / delta)
    return jnp.sqrt((divergence + log_term) / (2 * jnp.maximum(points - 1, 1)))


def noise_std(log_noise: Float[Array, ""]) -> Float[Array, ""]:
    """sqrt(exp(log_noise)^2 + floor^2)."""
    return jnp.sqrt(jnp.exp(2 * log_noise) + _NOISE_FLOOR**2)


class MLAPPrior(Prior):
    """The learned Gaussian over weights, and how to adjust it to a new task."""

    standardizer: Standardizer
    weights: WeightGaussian
    noise: Float[Array, ""]
    learning_rate: Float[Array, ""]
    delta: Float[Array, ""]
    bound: Bound = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    draws: int = eqx.field(static=True)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Network:
        """Draws from the posterior that minimises the single-task bound; with no point, from the prior."""
        draw_key, run_key = jax.random.split(key)

        def step(carry: PyTree, count: Array) -> tuple[PyTree, None]:
            q, optimiser = carry
            uphill = jax.grad(lambda q: -self.objective(q, context, jax.random.fold_in(run_key, count)))(q)
            rate = decayed(self.learning_rate, count, self.steps, 0.01)
            return ascend(q, uphill, optimiser, rate), None

        (q, _), _ = jax.lax.scan(step, (self.weights, start(self.weights)), jnp.arange(self.steps))
        return q.sample(draw_key, self.draws)

    def evaluate(self, state: Network, x: Float[Array, "q d"]) -> Mixture:
        locs = function_values(state, x)
        return Mixture(locs, jnp.broadcast_to(self.noise, locs.shape), locs)

    def objective(self, q: WeightGaussian, context: PaddedTasks, key: PRNGKeyArray) -> Float[Array, ""]:
        """er(q) + the single-task complexity."""
        kl, points = divergence(q, self.weights), jnp.sum(context.mask)
        loss = empirical_loss(q, context, self.noise, key, self.samples)
        if self.bound == "variational":
            return loss + kl / jnp.maximum(points, 1)
        return loss + complexity(kl, points, 1, self.delta)
