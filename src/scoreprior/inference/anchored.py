"""The warm start: networks that start as draws of a Gaussian process's posterior; and what MARS was up to version 0.2.

`AnchoredParticles`, `CentredParticles` and `ClosedFormDraws` are in prior files of these versions, and no method makes
them any more. The first moves the networks by fSVGD along a score. Where that score is the anchor's own, its posterior
has a closed form, which the other two use instead of ten particles' mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._linalg import cholesky
from scoreprior._types import Score
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.inference import fsvgd
from scoreprior.inference._base import Inference
from scoreprior.inference.bnn import BNNConfig, Network, init_particles
from scoreprior.inference.closed_form import gaussian_mixture
from scoreprior.inference.fsvgd import FSVGDConfig, FSVGDHyper
from scoreprior.inference.langevin import langevin
from scoreprior.inference.measurement import Box, MeasurementDistribution
from scoreprior.inference.particles import one_of, smooth
from scoreprior.predictive import Mixture
from scoreprior.scores.exact import GaussianProcessScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.tasks import PaddedTasks


class ScaledNetwork(eqx.Module):
    """A network times a fixed size: where tasks differ by a hundredth of their spread, steps must be as small."""

    network: Network
    size: Float[Array, "..."]

    def __call__(self, x: Float[Array, "k d"]) -> Float[Array, " k"]:
        return jax.lax.stop_gradient(self.size) * self.network(x)


class AnchoredState(eqx.Module):
    """Particles of a task's posterior, deviations from the anchor's mean; and the anchor conditioned on the task."""

    particles: ScaledNetwork
    conditioned: Conditioned


class WarmStart(eqx.Module):
    """Particles by regression on joint draws of the anchor's posterior: a start that has its mean and spread.

    Args:
        points: measurement points that the draws are made at, beside the context.
        steps: of the regression.
    """

    anchor: GaussianProcess
    measurement: MeasurementDistribution
    box: Box
    bnn: BNNConfig = eqx.field(static=True)
    particles: int = eqx.field(static=True)
    points: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)

    def __call__(self, context: PaddedTasks, start_key: PRNGKeyArray, key: PRNGKeyArray) -> AnchoredState:
        """The start for one padded task."""
        dim, anchor = context.x.shape[-1], self.anchor
        networks = init_particles(start_key, self.particles, dim, self.bnn, self.box.low, self.box.high)
        set_key, draw_key = jax.random.split(key)
        x = fsvgd.measurement_set(set_key, context, self.measurement, self.points, None).x
        conditioned = anchor.condition(*context)
        draw = jax.vmap(lambda one: anchor.sample(conditioned, x, one))
        wanted = draw(jax.random.split(draw_key, self.particles)) - anchor.mean(x)
        size = jnp.maximum(jnp.sqrt(jnp.mean(wanted**2)), 1e-3)
        start = ScaledNetwork(networks, jnp.full(len(wanted), size))
        optimiser = optax.adam(optax.cosine_decay_schedule(1e-2, self.steps, 0.05))

        def loss(particles: ScaledNetwork) -> Float[Array, ""]:
            # A sum over particles: each has its own weights, so each sees the gradient of its own mean squared error.
            return jnp.sum(jnp.mean(((fsvgd.functions(particles, x) - wanted) / size) ** 2, axis=1))

        def step(carry: PyTree, _: None) -> tuple[PyTree, None]:
            particles, moments = carry
            updates, moments = optimiser.update(jax.grad(loss)(particles), moments)
            return (optax.apply_updates(particles, updates), moments), None

        particles = jax.lax.scan(step, (start, optimiser.init(start)), None, self.steps)[0][0]
        return AnchoredState(particles, conditioned)

    def functions(self, state: AnchoredState, x: Float[Array, "q d"]) -> Float[Array, "L q"]:
        """The particles' functions at x: the anchor's mean plus the networks."""
        return fsvgd.functions(state.particles, x, self.anchor.mean)


class AnchoredParticles(Inference):
    """fSVGD from a warm start; the predictive has the tails and the scale calibration of the anchor."""

    warm_start: WarmStart
    score: Score
    levels: NoiseLevels
    hyper: FSVGDHyper
    smoothing: Float[Array, ""]
    config: FSVGDConfig = eqx.field(static=True)

    chunk: ClassVar[int | None] = 10

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> AnchoredState:
        """Particles of the posterior, and the anchor's own."""
        start_key, warm_key, run_key = jax.random.split(key, 3)
        state = self.warm_start(context, start_key, warm_key)
        # Distances between functions scale with their size; a fixed bandwidth would couple small ones rigidly.
        hyper = replace(self.hyper, bandwidth=self.hyper.bandwidth * state.particles.size[0] ** 2)
        measurement, mean = self.warm_start.measurement, self.warm_start.anchor.mean
        particles = fsvgd.run(
            self.score, self.levels, measurement, self.config, hyper, context, state.particles, run_key, mean
        )
        return AnchoredState(particles, state.conditioned)

    def predict(self, state: AnchoredState, x: Float[Array, "q d"]) -> Mixture:
        """The smoothed particles, once for every scale of the anchor's tails."""
        anchor, locs = self.warm_start.anchor, self.warm_start.functions(state, x)
        _, variance = anchor.predict_marginals(state.conditioned, x)
        return self.scaled(state.conditioned, x, locs, jnp.mean(locs, axis=0), variance)

    def scaled(
        self,
        conditioned: Conditioned,
        x: Float[Array, "q d"],
        locs: Float[Array, "L q"],
        centre: Float[Array, " q"],
        variance: Float[Array, " q"],
    ) -> Mixture:
        """Particles around `centre`, smoothed, and stretched by the anchor's scale factors."""
        anchor = self.warm_start.anchor
        noise = jnp.broadcast_to(self.hyper.noise_std, locs.shape)
        parts, scales = smooth(locs, noise, self.smoothing)
        factors = anchor.scale_factors(centre, variance, anchor.kernel.diagonal(x), conditioned.surprise)[:, None]
        stretched = centre + factors * (parts - centre)
        return Mixture(stretched.reshape(-1, len(x)), (factors * scales).reshape(-1, len(x)), locs)

    def draw(self, state: AnchoredState, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """One of the particles."""
        return one_of(self.warm_start.functions(state, x), key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """A draw by Langevin steps along the score, from a draw of the anchor."""
        anchor, level = self.warm_start.anchor, self.levels.fine
        root = cholesky(anchor.kernel(x, x) + level**2 * jnp.eye(len(x)))
        return langevin(self.score, level, x, key, anchor.mean(x), root)

    def describe(self) -> str:
        """What it is."""
        return f"fSVGD with {self.config.particles} particles around a Gaussian process"


class CentredParticles(Inference):
    """Along the anchor's own score: half centred fSVGD particles, no wider than the closed form, and half that form."""

    warm_start: WarmStart
    levels: NoiseLevels
    hyper: FSVGDHyper
    smoothing: Float[Array, ""]
    config: FSVGDConfig = eqx.field(static=True)

    chunk: ClassVar[int | None] = 10

    @property
    def moved(self) -> AnchoredParticles:
        """The particles before they are centred."""
        anchor = self.warm_start.anchor
        score = GaussianProcessScore(anchor.mean, anchor.kernel)
        return AnchoredParticles(self.warm_start, score, self.levels, self.hyper, self.smoothing, self.config)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> AnchoredState:
        """Particles of the posterior, and its closed form."""
        return self.moved.infer(context, key)

    def predict(self, state: AnchoredState, x: Float[Array, "q d"]) -> Mixture:
        """The average of both."""
        anchor = self.warm_start.anchor
        mean, variance = anchor.predict_marginals(state.conditioned, x)
        locs = recentred(self.warm_start.functions(state, x), mean, variance)
        particles = self.moved.scaled(state.conditioned, x, locs, mean, variance)
        return particles.average_with(gaussian_mixture(anchor, state.conditioned, x))

    def draw(self, state: AnchoredState, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """An exact draw from the conditioned anchor."""
        return self.warm_start.anchor.sample(state.conditioned, x, key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """An exact draw from the anchor."""
        return self.warm_start.anchor.sample_prior(x, key)

    def describe(self) -> str:
        """What it is."""
        return f"a Gaussian process in closed form and {self.config.particles} particles"


class ClosedFormDraws(Inference):
    """The closed form alone; the particles of the warm start are draws of its functions."""

    warm_start: WarmStart

    chunk: ClassVar[int | None] = 10

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> AnchoredState:
        """The anchor conditioned on the task, and networks that are draws of it."""
        start_key, warm_key, _ = jax.random.split(key, 3)
        return self.warm_start(context, start_key, warm_key)

    def predict(self, state: AnchoredState, x: Float[Array, "q d"]) -> Mixture:
        """The closed form, with function draws."""
        mean, variance = self.warm_start.anchor.predict_marginals(state.conditioned, x)
        draws = recentred(self.warm_start.functions(state, x), mean, variance)
        return gaussian_mixture(self.warm_start.anchor, state.conditioned, x)._replace(draws=draws)

    def draw(self, state: AnchoredState, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """An exact draw from the conditioned anchor."""
        return self.warm_start.anchor.sample(state.conditioned, x, key)

    def sample(self, x: Float[Array, "q d"], key: PRNGKeyArray) -> Float[Array, " q"]:
        """An exact draw from the anchor."""
        return self.warm_start.anchor.sample_prior(x, key)

    def describe(self) -> str:
        """What it is."""
        return "a Gaussian process in closed form"


def recentred(
    functions: Float[Array, "L q"], mean: Float[Array, " q"], variance: Float[Array, " q"]
) -> Float[Array, "L q"]:
    """Particles centred on the posterior's mean, their variance shrunk to the posterior's where it is larger.

    Far from all points that were measured, networks in many dimensions differ more than the prior allows.
    """
    deviations = functions - jnp.mean(functions, axis=0)
    spread = jnp.mean(deviations**2, axis=0)
    return mean + deviations * jnp.sqrt(jnp.minimum(1.0, variance / jnp.maximum(spread, 1e-12)))
