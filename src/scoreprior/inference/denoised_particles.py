"""fSVGD with a denoiser: networks that move along the score of the posterior itself (Algorithm 2 with a better score).

The denoiser knows the context as points of noise 0, so its score at the measured values h = h_theta(x),

    s = (D(h, x, level | context) - h) / level^2,

is that of the posterior, likelihood included. The level goes down from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._budget import share_of
from scoreprior._settings import check_counts
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference import fsvgd
from scoreprior.inference._base import Inference
from scoreprior.inference.anchored import ScaledNetwork, WarmStart
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.denoised import Denoised, with_known
from scoreprior.inference.fsvgd import FSVGDConfig, FSVGDHyper
from scoreprior.inference.measurement import Box, MeasurementDistribution
from scoreprior.inference.particles import one_of, smooth
from scoreprior.inference.svgd import static_part
from scoreprior.predictive import Mixture
from scoreprior.scores.denoiser import DenoiserEnsemble, Points
from scoreprior.scores.levels import NoiseLevels
from scoreprior.tasks import PaddedTasks


@dataclass(frozen=True)
class ParticleConfig:
    """fSVGD along a denoiser's score.

    Args:
        bnn: the particles' networks.
        fsvgd: particles, steps, rate, bandwidth and measurement points.
        levels: noise of the score at the first step and from two thirds of the steps on, standardised units.
        warm_start: steps of the regression that starts particles as draws of the anchor's posterior.
        smoothing: share of the particles' variance that the predictive puts between them. The default is the square of
            the normal reference bandwidth of ten points, (4 / (3 * 10))^(2/5).
    """

    bnn: BNNConfig = field(default_factory=BNNConfig)
    fsvgd: FSVGDConfig = field(
        default_factory=lambda: FSVGDConfig(steps=500, measurement_points=None, learning_rate=3e-3, bandwidth=10.0)
    )
    levels: tuple[float, float] = (1.0, 0.1)
    warm_start: int = 300
    smoothing: float = 0.45

    def __post_init__(self) -> None:
        check_counts(self, "warm_start")
        if not 0 < self.levels[1] <= self.levels[0]:
            raise ValueError(f"levels are two positive noises, the larger first, not {self.levels}.")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing is a share in [0, 1), not {self.smoothing}.")

    def with_budget(self, share: float) -> ParticleConfig:
        """A share of the steps."""
        return replace(self, fsvgd=self.fsvgd.with_budget(share), warm_start=share_of(self.warm_start, share))


class PosteriorScore(eqx.Module):
    """The score of noised function values given a task's known points."""

    denoiser: DenoiserEnsemble
    context: PaddedTasks

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, " k"]:
        """(D(f, x, noise | context) - f) / noise^2, for a noise above 0."""
        level = jnp.broadcast_to(noise, f.shape)
        there = jnp.ones(len(f), bool)
        mixture = self.denoiser(with_known(self.context, Points(x, f, level, there)))
        return (jnp.mean(mixture.locs, axis=0)[len(self.context.y) :] - f) / level**2


class DenoisedParticles(Inference):
    """Networks, started as draws of the anchor's posterior, moved by fSVGD along the denoiser's posterior score.

    Args:
        levels: the noise that the score is asked for.
        smoothing: share of the particles' variance that the predictive puts between them.
        warm_start: steps of the regression that starts the particles.
    """

    denoiser: DenoiserEnsemble
    levels: NoiseLevels
    measurement: MeasurementDistribution
    box: Box
    hyper: FSVGDHyper
    smoothing: Float[Array, ""]
    bnn: BNNConfig = eqx.field(static=True)
    config: FSVGDConfig = eqx.field(static=True)
    warm_start: int = eqx.field(static=True)

    chunk: ClassVar[int | None] = 10
    draws_observations: ClassVar[bool] = True

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> ScaledNetwork:
        """Particles of the posterior."""
        start_key, warm_key, run_key = jax.random.split(key, 3)
        points = 2 * self.config.points(context.x.shape[-1])
        start = WarmStart(
            self.anchor, self.measurement, self.box, self.bnn, self.config.particles, points, self.warm_start
        )
        particles = start(context, start_key, warm_key).particles
        # The score knows the data already: an infinite noise leaves the likelihood out. Distances between functions
        # scale with their size; a fixed bandwidth would couple small ones rigidly.
        bandwidth = self.hyper.bandwidth * particles.size[0] ** 2
        hyper = replace(self.hyper, noise_std=jnp.float32(jnp.inf), bandwidth=bandwidth)
        score = PosteriorScore(self.denoiser, context)
        return fsvgd.run(
            score, self.levels, self.measurement, self.config, hyper, context, particles, run_key, self.anchor.mean
        )

    @property
    def anchor(self) -> GaussianProcess:
        """The process whose posterior draws start the particles."""
        return self.denoiser.anchor

    def predict(self, state: ScaledNetwork, x: Float[Array, "q d"]) -> Mixture:
        """1/L sum_l N(h_l(x), noise_std^2), smoothed."""
        locs = fsvgd.functions(state, x, self.anchor.mean)
        noise = jnp.broadcast_to(self.hyper.noise_std, locs.shape)
        return Mixture(*smooth(locs, noise, self.smoothing), locs)

    def draw(self, state: ScaledNetwork, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One of the particles."""
        return one_of(fsvgd.functions(state, x, self.anchor.mean), key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One joint draw of observations y at x, given nothing."""
        return Denoised(self.denoiser).sample(x, key)

    def describe(self) -> str:
        """What it is."""
        return f"fSVGD with {self.config.particles} particles along a denoising network's score"


def particles_along(
    denoiser: DenoiserEnsemble,
    measurement: MeasurementDistribution,
    box: Box,
    config: ParticleConfig,
) -> DenoisedParticles:
    """fSVGD along the denoiser's score."""
    coarse, fine = map(jnp.float32, config.levels)
    return DenoisedParticles(
        denoiser=denoiser,
        levels=NoiseLevels(fine, coarse),
        measurement=measurement,
        box=box,
        hyper=config.fsvgd.hyper(denoiser.anchor.noise_std),
        smoothing=jnp.float32(config.smoothing),
        bnn=config.bnn,
        config=static_part(config.fsvgd),
        warm_start=config.warm_start,
    )
