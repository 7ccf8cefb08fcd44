"""Networks as particles from a random start, any score as the prior: fSVGD (Algorithm 2 of the paper), and fVI."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._types import Score
from scoreprior.inference import fsvgd, fvi
from scoreprior.inference._base import Inference
from scoreprior.inference.bnn import BNNConfig, Network, function_values, init_particles
from scoreprior.inference.fsvgd import FSVGDConfig, FSVGDHyper
from scoreprior.inference.fvi import FVIConfig, FVIHyper
from scoreprior.inference.langevin import langevin
from scoreprior.inference.measurement import Box, MeasurementDistribution
from scoreprior.predictive import Mixture
from scoreprior.scores.levels import NoiseLevels
from scoreprior.tasks import PaddedTasks


class Particles(Inference):
    """Networks moved by fSVGD along a score.

    Args:
        score: the prior, s(f, x, noise).
        levels: the noise that the score is asked for.
        measurement: nu, where functions are measured beside the context.
        box: where the networks' kinks start.
        smoothing: share of the particles' variance that the predictive puts between them; the paper: 0.
    """

    score: Score
    levels: NoiseLevels
    measurement: MeasurementDistribution
    box: Box
    hyper: FSVGDHyper
    smoothing: Float[Array, ""]
    bnn: BNNConfig = eqx.field(static=True)
    config: FSVGDConfig = eqx.field(static=True)

    chunk: ClassVar[int | None] = 10

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Network:
        """Particles of the posterior."""
        start_key, run_key = jax.random.split(key)
        dim = context.x.shape[-1]
        particles = init_particles(start_key, self.config.particles, dim, self.bnn, self.box.low, self.box.high)
        return fsvgd.run(
            self.score, self.levels, self.measurement, self.config, self.hyper, context, particles, run_key
        )

    def predict(self, state: Network, x: Float[Array, "q d"]) -> Mixture:
        """1/L sum_l N(h_l(x), noise_std^2), smoothed."""
        locs, scales = fsvgd.predict(state, x, self.hyper.noise_std)
        return Mixture(*smooth(locs, scales, self.smoothing), locs)

    def draw(self, state: Network, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One of the particles."""
        return one_of(function_values(state, x), key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw by Langevin steps along the score."""
        return langevin(self.score, self.levels.fine, x, key, jnp.zeros(len(x)), jnp.eye(len(x)))

    def describe(self) -> str:
        """What it is."""
        return f"fSVGD with {self.config.particles} particles"


class VariationalParticles(Inference):
    """Networks drawn from a mean-field Gaussian that was fitted by functional variational inference."""

    score: Score
    measurement: MeasurementDistribution
    box: Box
    hyper: FVIHyper
    bnn: BNNConfig = eqx.field(static=True)
    config: FVIConfig = eqx.field(static=True)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Network:
        """Draws from the fitted distribution."""
        start_key, run_key = jax.random.split(key)
        dim = context.x.shape[-1]
        particles = init_particles(start_key, self.config.particles, dim, self.bnn, self.box.low, self.box.high)
        return fvi.run(self.score, self.measurement, self.config, self.hyper, context, particles, run_key)

    def predict(self, state: Network, x: Float[Array, "q d"]) -> Mixture:
        """1/L sum_l N(h_l(x), noise_std^2)."""
        locs, scales = fsvgd.predict(state, x, self.hyper.noise_std)
        return Mixture(locs, scales, locs)

    def draw(self, state: Network, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One of the particles."""
        return one_of(function_values(state, x), key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw by Langevin steps along the score."""
        return langevin(self.score, self.hyper.function_noise, x, key, jnp.zeros(len(x)), jnp.eye(len(x)))

    def describe(self) -> str:
        """What it is."""
        return f"functional variational inference with {self.config.particles} draws"


def one_of(functions: Float[Array, "L q"], key: PRNGKeyArray) -> Float[Array, " q"]:
    """One of L functions, with equal chances."""
    return functions[jax.random.randint(key, (), 0, len(functions))]


def smooth(
    locs: Float[Array, "L q"], scales: Float[Array, "L q"], share: Float[Array, ""]
) -> tuple[Float[Array, "L q"], Float[Array, "L q"]]:
    """Every particle as a bump that holds this share of the particles' variance; mean and variance stay (West, 1993).

    A few particles stand for a continuum of functions: between them is no less plausible than on them.
    """
    centre = jnp.mean(locs, axis=0)
    variance = jnp.mean((locs - centre) ** 2, axis=0)
    return centre + jnp.sqrt(1 - share) * (locs - centre), jnp.sqrt(scales**2 + share * variance)
