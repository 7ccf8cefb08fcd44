"""What MARS learned, and functional inference with it (Alg. 2)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._linalg import cholesky
from scoreprior._types import KeyLike, as_key
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.inference import fsvgd
from scoreprior.inference.bnn import BNNConfig, Network, init_particles
from scoreprior.inference.fsvgd import FSVGDConfig, FSVGDHyper
from scoreprior.inference.measurement import Box, MeasurementDistribution
from scoreprior.learners._base import Prior
from scoreprior.learners.gaussian_process import exact_predictive
from scoreprior.predictive import Mixture
from scoreprior.scores.anchored import AnchoredScore
from scoreprior.scores.sampled import SampledScore
from scoreprior.tasks import PaddedTasks, Standardizer
from scoreprior.tasks.checks import check_query


class MARSPrior(Prior):
    """A learned score, and how to infer with it."""

    standardizer: Standardizer
    score: AnchoredScore | SampledScore
    measurement: MeasurementDistribution
    box: Box
    hyper: FSVGDHyper
    smoothing: Float[Array, ""]
    bnn: BNNConfig = eqx.field(static=True)
    inference: FSVGDConfig = eqx.field(static=True)
    settle: int = eqx.field(static=True)
    closed_form: bool = eqx.field(static=True, default=False)
    second: GaussianProcess | None = None
    notes: str | None = None  # JSON: method, config, domain and metrics, for the file

    chunk: ClassVar[int | None] = 10

    @property
    def process(self) -> GaussianProcess | None:
        """The process that anchors the score, if one does."""
        return self.score.process if isinstance(self.score, AnchoredScore) else None

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Inferred:
        """Particles of the posterior by fSVGD (Alg. 2), and its closed form where it has one."""
        start_key, settle_key, run_key = jax.random.split(key, 3)
        dim, process = context.x.shape[-1], self.process
        particles: PyTree = init_particles(
            start_key, self.inference.particles, dim, self.bnn, self.box.low, self.box.high
        )
        hyper = self.hyper
        if process is not None and self.settle:
            particles = self._settle(process, particles, context, settle_key)
            # Distances between functions scale with their size; a fixed bandwidth would couple small ones rigidly.
            hyper = replace(hyper, bandwidth=hyper.bandwidth * particles.size[0] ** 2)
            if self._is_exact:  # they only show functions, and are draws of the posterior already
                return Inferred(particles, self._condition(context), self._second(context))
        particles = fsvgd.run(
            self.score, self.measurement, self.inference, hyper, context, particles, run_key, self._offset
        )
        return Inferred(particles, self._condition(context), self._second(context))

    def evaluate(self, state: Inferred, x: Float[Array, "q d"]) -> Mixture:
        """A mixture of the particles at x with the noise, smoothed, once for every width of the process's predictive.

        A closed form has a mean that is free of a few particles' chance: they are centred there, spread no wider than
        it does, and its marginals are as many components again; or all there is, where the process has widths, since
        these were learned for them. A second opinion is half of what then predicts.
        """
        locs, scales = fsvgd.predict(state.particles, x, self.hyper.noise_std, self._offset)
        centre, base = jnp.mean(locs, axis=0), self._tempered()
        if base is None or state.base is None:
            return Mixture(*_smooth(locs, scales, self.smoothing), locs)
        if not self._has_closed_form:
            parts, widths = _smooth(locs, scales, self.smoothing)
        else:
            mean, variance = base.predict_marginals(state.base, x)
            variance = variance / self.hyper.temperature
            locs, centre = mean + _drawn_in(locs - centre, variance), mean
            parts, widths = mean[None], jnp.sqrt(variance + self.hyper.noise_std**2)[None]
            if not self._is_exact:
                smooth = _smooth(locs, scales, self.smoothing)
                parts, widths = (
                    jnp.concatenate([few, jnp.broadcast_to(known, few.shape)])
                    for few, known in zip(smooth, (parts, widths))
                )
        factors = base.widen(state.base, x, centre)[:, None]
        wide = (centre + factors * (parts - centre)).reshape(-1, len(x))
        own = Mixture(wide, (factors * widths).reshape(-1, len(x)), locs)
        if self.second is None or state.second is None:
            return own
        return own.average_with(exact_predictive(self.second, state.second, x))

    def sample(self, x: Any, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """n draws from the learned prior at x, in original units: Langevin steps along the score."""
        query = jnp.asarray(self.standardizer.scale_x(check_query(x, self.dim)), jnp.float32)
        draws = _langevin(self, query, jax.random.split(as_key(key), n))
        return self.standardizer.unscale_y(np.asarray(draws, np.float64))

    def about(self) -> dict[str, Any]:
        return {} if self.notes is None else json.loads(self.notes)

    @property
    def _has_closed_form(self) -> bool:
        """Whether the closed form is wanted, and there: no network is on top of the process."""
        return self.closed_form and isinstance(self.score, AnchoredScore) and self.score.network is None

    @property
    def _is_exact(self) -> bool:
        """Whether the closed form is all of the predictive: the process has widths, which were learned for that."""
        return self._has_closed_form and self.process is not None and self.process.widths is not None

    def _tempered(self) -> GaussianProcess | None:
        """The process whose posterior mean is that of inference.

        A temperature T weighs the prior's score, as if its kernel were K / T. Noise of variance T * noise_std^2 gives
        the same posterior mean, and T times its variance.
        """
        if self.process is None:
            return None
        return replace(self.process, noise_std=self.hyper.noise_std * jnp.sqrt(self.hyper.temperature))

    def _condition(self, context: PaddedTasks) -> Conditioned | None:
        base = self._tempered()
        if self.process is None or base is None:
            return None
        # Widths were learned for the process as it is: a temperature must not look like a surprise.
        plain = replace(self.process, noise_std=self.hyper.noise_std)
        return replace(base.condition(*context), surprise=plain.condition(*context).surprise)

    def _second(self, context: PaddedTasks) -> Conditioned | None:
        return self.second.condition(*context) if self.second is not None and self._has_closed_form else None

    def _offset(self, x: Float[Array, "k d"]) -> Float[Array, " k"]:
        return jnp.zeros(len(x)) if self.process is None else self.process.mean(x)

    def _settle(self, process: GaussianProcess, networks: Network, context: PaddedTasks, key: PRNGKeyArray) -> Scaled:
        """Networks regressed on joint draws of the base's posterior: a start that already has its mean and spread."""
        set_key, draw_key = jax.random.split(key)
        x = fsvgd.measurement_set(
            set_key, context, self.measurement, 2 * self.inference.points(context.x.shape[-1]), None
        ).x
        state = process.condition(*context)
        draw = jax.vmap(lambda one: process.sample(state, x, one))
        wanted = draw(jax.random.split(draw_key, self.inference.particles)) - process.mean(x)
        size = jnp.maximum(jnp.sqrt(jnp.mean(wanted**2)), 1e-3)
        particles = Scaled(networks, jnp.full(len(wanted), size))
        optimiser = optax.adam(optax.cosine_decay_schedule(1e-2, self.settle, 0.05))

        def loss(particles: Scaled) -> Float[Array, ""]:
            # A sum over particles: each has its own weights, so each sees the gradient of its own mean squared error.
            return jnp.sum(jnp.mean(((fsvgd.functions(particles, x) - wanted) / size) ** 2, axis=1))

        def step(carry: PyTree, _: None) -> tuple[PyTree, None]:
            particles, moments = carry
            updates, moments = optimiser.update(jax.grad(loss)(particles), moments)
            return (optax.apply_updates(particles, updates), moments), None

        return jax.lax.scan(step, (particles, optimiser.init(particles)), None, self.settle)[0][0]


class Inferred(eqx.Module):
    """Particles of a task's posterior, and what the process that anchors the score and a second one keep of it."""

    particles: PyTree
    base: Conditioned | None
    second: Conditioned | None = None


class Scaled(eqx.Module):
    """A network times a fixed size: where tasks differ by a hundredth of their spread, steps must be as small."""

    network: Network
    size: Float[Array, "..."]

    def __call__(self, x: Float[Array, "k d"]) -> Float[Array, " k"]:
        return jax.lax.stop_gradient(self.size) * self.network(x)


def _drawn_in(deviations: Float[Array, "L q"], variance: Float[Array, " q"]) -> Float[Array, "L q"]:
    """Deviations of particles from their mean whose variance is at most that of the posterior they stand for.

    Far from all points that were measured, networks in many dimensions differ more than the prior allows.
    """
    spread = jnp.mean(deviations**2, axis=0)
    return deviations * jnp.sqrt(jnp.minimum(1.0, variance / jnp.maximum(spread, 1e-12)))


def _smooth(
    locs: Float[Array, "L q"], scales: Float[Array, "L q"], share: Float[Array, ""]
) -> tuple[Float[Array, "L q"], Float[Array, "L q"]]:
    """Every particle as a bump that holds this share of the particles' variance; mean and variance stay (West, 1993).

    A few particles stand for a continuum of functions: between them is no less plausible than on them.
    """
    centre = jnp.mean(locs, axis=0)
    variance = jnp.mean((locs - centre) ** 2, axis=0)
    return centre + jnp.sqrt(1 - share) * (locs - centre), jnp.sqrt(scales**2 + share * variance)


@eqx.filter_jit
def _langevin(prior: MARSPrior, x: Float[Array, "q d"], keys: PRNGKeyArray, steps: int = 300) -> Float[Array, "n q"]:
    """Unadjusted Langevin steps, preconditioned by the anchor's covariance: all directions move at one pace."""
    rate, score = 0.02, prior.score
    mean, root = jnp.zeros(len(x)), jnp.eye(len(x))
    if isinstance(score, AnchoredScore) and score.process is not None:
        gram = score.process.kernel(x, x) + score.level**2 * jnp.eye(len(x))
        mean, root = score.process.mean(x), cholesky(gram)
    at = score.prepare(x)

    def chain(key: PRNGKeyArray) -> Float[Array, " q"]:
        start_key, walk_key = jax.random.split(key)

        def move(f: Array, step_key: PRNGKeyArray) -> tuple[Array, None]:
            noise = jax.random.normal(step_key, f.shape)
            return f + rate * root @ (root.T @ at(f)) + jnp.sqrt(2 * rate) * root @ noise, None

        start = mean + root @ jax.random.normal(start_key, (len(x),))
        return jax.lax.scan(move, start, jax.random.split(walk_key, steps))[0]

    return jax.vmap(chain)(keys)
