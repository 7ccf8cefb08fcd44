"""Gaussian-process regression: one per task (`VanillaGP`) and one for all tasks (`PooledGP`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._budget import share_of
from scoreprior._settings import check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.fit import ProcessAverage, fit_average, fit_process
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.inference.average import Average, average_of
from scoreprior.inference.closed_form import ClosedForm, gaussian_mixture
from scoreprior.learners._base import Prior
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, PointNoise, Standardizer, TaskSet, resolution


@short_repr
@dataclass(frozen=True)
class PooledGP:
    """One Gaussian process for all tasks, fitted to all of them together; inference is exact.

    `PooledGP()` has a linear mean and one ARD Matern kernel of order 1/2 or 5/2, whichever predicts later points of the
    training tasks better. `PooledGP.hierarchical()` is the anchor of MARS: a smooth mean function shared by all tasks,
    deviations that add affine and Matern parts and a spectral component, a scale calibration, and where it helps the
    average with the first.

    Args:
        process: what the process is made of and how it is fitted.
        average: mix it with the simple process, by the weights of stacking, where training tasks are so predicted
            better (`gp.fit_average`).
    """

    process: ProcessConfig = field(default_factory=lambda: ProcessConfig().simple())
    average: bool = False

    @classmethod
    def hierarchical(cls) -> PooledGP:
        """Shared smooth mean, additive deviations, averaged with the simple process where that helps."""
        return cls(ProcessConfig(), average=True)

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True, init: Prior | None = None) -> FunctionPrior:
        """Fit mean, kernel and noise to all tasks together.

        Args:
            init: a prior that this method learned from some of these tasks, to start from: the search for the parts of
                the process is left out, which takes most of the time.
        """
        known_average = None if init is None else average_in(init)
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks, noise=True, weights=True).padded(dtype=np.float64)
        # Published results of real targets are by densities, whatever the step in which they were recorded.
        known = None if standardizer.warp.is_identity else partial(standardizer.intervals, step=resolution(tasks.y))
        if self.average:
            fitted = fit_average(padded, self.process, as_key(key), known, known_average)
        else:
            process = None if known_average is None else known_average.process
            fitted = ProcessAverage(fit_process(padded, self.process, as_key(key), known, process))
        inference = average_of(ClosedForm(fitted.process), fitted)
        return FunctionPrior(standardizer, inference, notes_of(self, tasks, {}))

    def with_budget(self, share: float) -> PooledGP:
        """A share of the process's evaluations."""
        return replace(self, process=self.process.with_budget(share))


def average_in(prior: Prior) -> ProcessAverage:
    """The processes that a prior is made of."""
    inference = getattr(prior.unguarded, "inference", None)
    if isinstance(inference, ClosedForm):
        return ProcessAverage(inference.process)
    if isinstance(inference, Average) and isinstance(inference.first, ClosedForm):
        assert isinstance(inference.second, ClosedForm)
        return ProcessAverage(inference.first.process, inference.second.process, float(inference.weight))
    raise ValueError("init must be a prior of a pooled process, in closed form.")


class VanillaGPPrior(Prior):
    """No prior knowledge but the pooled standardisation: hyper-parameters are fitted to each new task."""

    standardizer: Standardizer
    steps: int
    learning_rate: Float[Array, ""]
    uses_noise: ClassVar[bool] = True

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

    def evaluate(
        self, state: tuple[GaussianProcess, Conditioned], x: Float[Array, "q d"], noise: PointNoise | None = None
    ) -> Mixture:
        return gaussian_mixture(*state, x, noise)

    def draw(
        self, state: tuple[GaussianProcess, Conditioned], x: Float[Array, "q d"], key: PRNGKeyArray
    ) -> Float[Array, " q"]:
        process, conditioned = state
        return process.sample(conditioned, x, key)


# log of lengthscale, signal std and noise std in standardised units. The bounds keep the likelihood of a constant
# context finite: without a floor its noise goes to zero and its density to infinity.
_LOW = np.log(np.array([1e-2, 1e-2, 1e-2], np.float32))
_HIGH = np.log(np.array([1e2, 1e2, 1e1], np.float32))


def _rbf_process(parameters: Float[Array, " 3"]) -> GaussianProcess:
    lengthscale, std, noise = jnp.exp(parameters)
    return GaussianProcess(ZeroMean(), Matern(std, lengthscale[None], jnp.inf), noise)


@short_repr
@dataclass(frozen=True)
class VanillaGP:
    """An RBF-kernel GP per task, hyper-parameters by marginal likelihood; no meta-learning.

    Args:
        steps: of Adam, for each new task.
        learning_rate: of Adam, in the logarithms of the hyper-parameters.
    """

    steps: int = 200
    learning_rate: float = 0.05

    def __post_init__(self) -> None:
        check_counts(self, "steps")
        check_positive(self, "learning_rate")

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> VanillaGPPrior:
        """Only the standardisation is taken from the meta-training tasks."""
        standardizer = Standardizer.fit(tasks)
        standardizer.apply(tasks, noise=True)  # refuses what it cannot use
        return VanillaGPPrior(standardizer, self.steps, jnp.float32(self.learning_rate))

    def with_budget(self, share: float) -> VanillaGP:
        """A share of the steps."""
        return replace(self, steps=share_of(self.steps, share))
