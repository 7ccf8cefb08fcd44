"""A Bayesian neural network with a zero-mean spherical Gaussian prior over weights, the yardstick of learned priors.

Weights are N(0, prior_std^2 I), inferred by SVGD (Liu & Wang, 2016, Algorithm 1):

    theta_l += rate * 1/L sum_i [ k(theta_i, theta_l) grad log p(theta_i, y) + grad_{theta_i} k(theta_i, theta_l) ].

Departures. The bandwidth is fixed instead of the median heuristic's, as in `inference/svgd.py`; the step is Adam's. The
noise is chosen on the meta-training tasks: of a few candidates the one under which their earlier points predict their
later points best. Nothing else but the standardisation is taken from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._settings import check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.inference import fsvgd, svgd
from scoreprior.inference.bnn import BNNConfig, Network, init_network
from scoreprior.inference.svgd import SVGDConfig, SVGDHyper, static_part
from scoreprior.learners._base import Prior
from scoreprior.learners._split_nll import split_nll
from scoreprior.predictive import Mixture
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet

_UNKNOWN_NOISE = 0.1  # standardised units, where no meta-training task can be split to choose one


@short_repr
@dataclass(frozen=True)
class VanillaBNN:
    """A Bayesian network with weights N(0, prior_std^2), SVGD over weights; no meta-learning but of the noise.

    Args:
        noise_std: observation noise, standardised units; None chooses among `noises` on the meta-training tasks.
        most_points: first points of a meta-training task that are used for that.
    """

    space: ClassVar[Space] = {
        "inference.learning_rate": Range(1e-3, 3e-2, log=True),
        "inference.bandwidth": Range(10.0, 10_000.0, log=True),
        "inference.prior_std": Range(0.1, 1.0, log=True),
        "bnn.skip": Choice(("none", "linear")),
    }

    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: SVGDConfig = field(
        default_factory=lambda: SVGDConfig(
            steps=600, learning_rate=1e-2, bandwidth=1000.0, prior_std=0.5, final_rate=0.01
        )
    )
    noise_std: float | None = None
    noises: Sequence[float] = (0.05, 0.1, 0.2, 0.4)
    most_points: int = 48

    def __post_init__(self) -> None:
        check_counts(self, "most_points")
        check_positive(self, "noise_std")
        if not self.noises or not min(self.noises) > 0:
            raise ValueError(f"noises needs at least one candidate, all of them positive, not {self.noises}.")

    def with_budget(self, share: float) -> VanillaBNN:
        """The same with this share of the steps of inference."""
        return replace(self, inference=self.inference.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> VanillaBNNPrior:
        """Take the standardisation, and the noise if it is not given, from the meta-training tasks."""
        standardizer = Standardizer.fit(tasks)
        splittable = any(len(task) >= 2 for task in tasks)
        noises = self.noises if self.noise_std is None and splittable else [self.noise_std or _UNKNOWN_NOISE]
        static = static_part(self.inference)
        priors = [VanillaBNNPrior(standardizer, self.inference.hyper(noise), self.bnn, static) for noise in noises]
        if len(priors) == 1:
            return priors[0]
        short = tasks.map(lambda task: task.take(slice(self.most_points)))
        # One key for all candidates: they differ by their noise, not by their luck.
        return min(priors, key=lambda candidate: float(np.mean(split_nll(candidate, short, as_key(key))[0])))


class VanillaBNNPrior(Prior):
    """A spherical Gaussian over weights, and how to infer with it."""

    standardizer: Standardizer
    hyper: SVGDHyper
    bnn: BNNConfig = eqx.field(static=True)
    inference: SVGDConfig = eqx.field(static=True)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Network:
        dim = context.x.shape[-1]
        # Only its structure is used: particles start as draws from the prior.
        template = init_network(jax.random.key(0), dim, self.bnn, jnp.zeros(dim), jnp.ones(dim))
        return weight_posterior(template, context, self.inference, self.hyper, key)

    def evaluate(self, state: Network, x: Float[Array, "q d"]) -> Mixture:
        locs, scales = fsvgd.predict(state, x, self.hyper.noise_std)
        return Mixture(locs, scales, locs)


def weight_posterior(
    template: PyTree, context: PaddedTasks, config: SVGDConfig, hyper: SVGDHyper, key: PRNGKeyArray
) -> PyTree:
    """Particles of p(weights | context), started as draws from N(0, prior_std^2); with no point, those draws."""
    start_key, run_key = jax.random.split(key)
    flat, unravel = ravel_pytree(template)
    draws = jax.vmap(unravel)(hyper.prior_std * jax.random.normal(start_key, (config.particles, len(flat))))
    moved = svgd.run(config, hyper, context, draws, run_key)
    return jax.tree.map(lambda new, old: jnp.where(context.mask.any(), new, old), moved, draws)
