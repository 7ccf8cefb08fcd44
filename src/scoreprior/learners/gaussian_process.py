"""Gaussian-process regression: one per task (`VanillaGP`) and one for all tasks (`PooledGP`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._types import KeyLike, as_key
from scoreprior.gp.fit import PoolingConfig, learn_opinions
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.learners._base import Prior
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet


class PooledGPPrior(Prior):
    """One process for all tasks, or two whose predictives are halves of one; conditioning is exact."""

    standardizer: Standardizer
    process: GaussianProcess
    second: GaussianProcess | None = None

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> tuple[Conditioned, Conditioned | None]:
        return self.process.condition(*context), None if self.second is None else self.second.condition(*context)

    def evaluate(self, state: tuple[Conditioned, Conditioned | None], x: Float[Array, "q d"]) -> Mixture:
        own = exact_predictive(self.process, state[0], x)
        if self.second is None or state[1] is None:
            return own
        return own.average_with(exact_predictive(self.second, state[1], x))


@dataclass(frozen=True)
class PooledGP:
    """One GP for all tasks by type-II maximum likelihood: linear mean, ARD Matern kernel, learned noise.

    The order of the kernel, 1/2 or 5/2, is the one that predicts later points of the training tasks best; then all
    hyper-parameters are tuned to that (`PoolingConfig.foresight`; 0 leaves them at their maximum likelihood).

    `PooledGP.hierarchical()` is its richer sibling and the base process of MARS: a smooth mean function shared by all
    tasks, deviations that add affine, rough, smooth and wavy parts, learned widths (`PoolingConfig.widths`), and where
    it helps the plain process as a second opinion (`PoolingConfig.second`).
    """

    pooling: PoolingConfig = field(default_factory=lambda: PoolingConfig().plain())

    @classmethod
    def hierarchical(cls) -> PooledGP:
        """Shared smooth mean, additive deviations."""
        return cls(PoolingConfig())

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> PooledGPPrior:
        """Learn mean, kernel and noise from all tasks together."""
        standardizer = Standardizer.fit(tasks)
        return PooledGPPrior(
            standardizer, *learn_opinions(standardizer.apply(tasks).padded(), self.pooling, as_key(key))
        )


class VanillaGPPrior(Prior):
    """No prior knowledge but the pooled standardisation: hyper-parameters are fitted to each new task."""

    standardizer: Standardizer
    steps: int
    learning_rate: Float[Array, ""]

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> tuple[GaussianProcess, Conditioned]:
        optimiser = optax.adam(self.learning_rate)

        def loss(parameters: Float[Array, " 3"]) -> Float[Array, ""]:
            return -_rbf_process(parameters).log_likelihood(*context)

        def step(carry: PyTree, _: None) -> tuple[PyTree, None]:
            parameters, state = carry
            updates, state = optimiser.update(jax.grad(loss)(parameters), state)
            return (jnp.clip(optax.apply_updates(parameters, updates), _LOW, _HIGH), state), None

        start = jnp.log(jnp.array([1.0, 1.0, 0.3]))
        (parameters, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), None, self.steps)
        # With no point to fit, the marginal likelihood is flat and the start is as good as anything.
        process = _rbf_process(jnp.where(context.mask.any(), parameters, start))
        return process, process.condition(*context)

    def evaluate(self, state: tuple[GaussianProcess, Conditioned], x: Float[Array, "q d"]) -> Mixture:
        return exact_predictive(*state, x)


# log of lengthscale, signal std and noise std in standardised units. The bounds keep the likelihood of a constant
# context finite: without a floor its noise goes to zero and its density to infinity.
_LOW = np.log(np.array([1e-2, 1e-2, 1e-2], np.float32))
_HIGH = np.log(np.array([1e2, 1e2, 1e1], np.float32))


def _rbf_process(parameters: Float[Array, " 3"]) -> GaussianProcess:
    lengthscale, std, noise = jnp.exp(parameters)
    return GaussianProcess(ZeroMean(), Matern(std, lengthscale[None], jnp.inf), noise)


@dataclass(frozen=True)
class VanillaGP:
    """An RBF-kernel GP per task, hyper-parameters by marginal likelihood; no meta-learning."""

    steps: int = 200
    learning_rate: float = 0.05

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> VanillaGPPrior:
        """Only the standardisation is taken from the meta-training tasks."""
        return VanillaGPPrior(Standardizer.fit(tasks), self.steps, jnp.float32(self.learning_rate))


def exact_predictive(process: GaussianProcess, state: Conditioned, x: Float[Array, "q d"]) -> Mixture:
    """The process's predictive of y at x: a Gaussian for each of its tails."""
    mean, variance = process.predict_marginals(state, x)
    scales = process.widen(state, x, mean) * jnp.sqrt(variance + process.noise_std**2)
    return Mixture(jnp.broadcast_to(mean, scales.shape), scales)
