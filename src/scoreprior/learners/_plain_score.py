"""What `PlainMARS` trains: a network as a score, with the scales that it needs from the tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._types import Score
from scoreprior.gp.kernels import Matern
from scoreprior.interpolators import FittedInterpolator, MaternInterpolator
from scoreprior.interpolators.draws import FunctionDraws
from scoreprior.interpolators.gp import FittedGP
from scoreprior.interpolators.mixture import LEVELS, TAUS, ProcessMixture, choose_bandwidths
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.scores.noised import NoisedScore, Tails
from scoreprior.scores.objectives import Denoising, ScoreMatching
from scoreprior.tasks import PaddedTasks

_DRAWS = 64
"""Measurement sets from which the moments of the functions' values are taken."""


@dataclass(frozen=True)
class Reference:
    """The Matern process that says how long, how large and how noisy functions are, where they are not Matern draws.

    An interpolator of another kind has no lengthscale and no noise: then the process is fitted beside it.
    """

    fitted: FittedInterpolator
    tasks: PaddedTasks
    key: PRNGKeyArray

    @cached_property
    def process(self) -> FittedGP:
        """The interpolator, or another fitted to the same tasks."""
        if isinstance(self.fitted, FittedGP) and isinstance(self.fitted.process.kernel, Matern):
            return self.fitted
        return MaternInterpolator.cross_validated().fit(self.tasks, self.key)

    @property
    def kernel(self) -> Matern:
        """Its kernel at unit variance."""
        kernel = self.process.process.kernel
        assert isinstance(kernel, Matern)
        return replace(kernel, std=jnp.ones(()))

    @property
    def noise_std(self) -> Float[Array, ""]:
        """Its observation noise."""
        return self.process.noise_std

    def bandwidths(self, objective: Denoising) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Level and tau of the noise, those that are not given by the likelihood of left-out tasks."""
        levels = LEVELS if objective.level is None else (objective.level,)
        taus = TAUS if objective.tau is None else (objective.tau,)
        if len(levels) == len(taus) == 1:
            return jnp.float32(levels[0]), jnp.float32(taus[0])
        candidates = (jnp.asarray(values, jnp.float32) for values in (levels, taus))
        return choose_bandwidths(self.process, self.tasks, *candidates)


def untrained(
    network: NetworkConfig | None,
    objective: ScoreMatching,
    reference: Reference,
    draws: FunctionDraws,
    key: PRNGKeyArray,
) -> tuple[Any, NoiseLevels]:
    """A score before training, or the exact one where no network is asked for, and the noise that it is for."""
    if network is None:
        return _exact(objective, reference)
    start_key, moment_key = jax.random.split(key)
    conditional = isinstance(objective, Denoising) and objective.coarse > 1
    lengthscale = reference.kernel.lengthscale[0] if network.frequencies else 1.0
    start = ScoreNetwork(draws.dim, network, start_key, noise_conditional=conditional, lengthscale=lengthscale)
    if not isinstance(objective, Denoising):
        return start, NoiseLevels(jnp.float32(0.0))
    level, tau = reference.bandwidths(objective)
    tails = Tails.of(_values(draws, moment_key)) if objective.tails else None
    score = NoisedScore(start, reference.kernel, level, tau, tails, objective.form)
    return score, NoiseLevels(level, objective.coarse * level if conditional else None)


def _exact(objective: ScoreMatching, reference: Reference) -> tuple[Score, NoiseLevels]:
    if not (isinstance(reference.fitted, FittedGP) and isinstance(objective, Denoising)):
        raise ValueError("The exact score (network=None) needs a Gaussian process as interpolator, and Denoising.")
    level, tau = reference.bandwidths(objective)
    coarse = objective.coarse * level if objective.coarse > 1 else None
    return ProcessMixture(reference.fitted, tau), NoiseLevels(level, coarse)


@eqx.filter_jit
def _values(draws: FunctionDraws, key: PRNGKeyArray) -> Float[Array, "s b k"]:
    """Values of drawn functions at many measurement sets."""
    return jax.lax.map(lambda one: draws.sample(one)[0], jax.random.split(key, _DRAWS))
