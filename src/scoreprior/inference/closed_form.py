"""The closed form: a Gaussian process conditioned on a task's points."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.gp.update import given_further
from scoreprior.inference._base import Inference
from scoreprior.predictive import Mixture
from scoreprior.tasks import PaddedTasks, PointNoise


class ClosedForm(Inference):
    """Exact inference with a Gaussian process."""

    process: GaussianProcess
    uses_noise: ClassVar[bool] = True

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Conditioned:
        """The process conditioned on the task's points."""
        return self.process.condition(*context)

    def predict(self, state: Conditioned, x: Float[Array, "q d"], noise: PointNoise | None = None) -> Mixture:
        """A Gaussian for each of the process's tails."""
        return gaussian_mixture(self.process, state, x, noise)

    def draw(self, state: Conditioned, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """An exact draw from the conditioned process."""
        return self.process.sample(state, x, key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """An exact draw from the process."""
        return self.process.sample_prior(x, key)

    def update(self, tasks: PaddedTasks) -> ClosedForm:
        """The process given further tasks, its hyper-parameters as they are."""
        return ClosedForm(given_further(self.process, tasks))

    def describe(self) -> str:
        """What it is."""
        return "a Gaussian process in closed form"


def gaussian_mixture(
    process: GaussianProcess, state: Conditioned, x: Float[Array, "q d"], noise: PointNoise | None = None
) -> Mixture:
    """The predictive of y at x: Gaussians of one mean, with the scales of the process's tails and its calibration."""
    mean, variance = process.predict_marginals(state, x)
    factors = process.scale_factors(mean, variance, process.kernel.diagonal(x), state.surprise)
    scales = factors * jnp.sqrt(variance + process.noise_variance(noise))
    locs = jnp.broadcast_to(mean, scales.shape)
    return Mixture(locs, scales, function_scales=factors * jnp.sqrt(variance))
