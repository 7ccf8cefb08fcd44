"""MARS: meta-learn the score of the task distribution's marginals, then infer functions with it (Algs. 1 and 2).

Stage 1 interpolates every task, draws function values at random measurement sets and fits a score to them. Stage 2 runs
fSVGD on a new task's few points with that score as the prior. `MARS.paper()` is the published configuration; `MARS()`
departs from it in three ways: the score is anchored to a Gaussian process learned from all tasks
(`scores/anchored.py`), the network's residual is learned by denoising, and particles start as draws of that process's
posterior.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._linalg import cholesky
from scoreprior._training import TrainingConfig, train
from scoreprior._types import KeyLike, as_key
from scoreprior.inference import fsvgd
from scoreprior.inference.bnn import BNNConfig, Network, init_particles
from scoreprior.inference.fsvgd import FSVGDConfig, FSVGDHyper
from scoreprior.inference.measurement import Box, DataDriven, MeasurementDistribution
from scoreprior.interpolators import DropoutInterpolator, FittedInterpolator, GPInterpolator, Interpolator
from scoreprior.learners._base import Mixture, Prior
from scoreprior.pooling import PoolingConfig, learn_process
from scoreprior.process import GaussianProcess
from scoreprior.scores import losses, spectral
from scoreprior.scores.anchored import AnchoredScore
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet, check_query

Objective = Literal["denoising", "exact", "sliced"]


@dataclass(frozen=True)
class MARS:
    """The meta-learner.

    Args:
        interpolator: draws of each training task's function; `DropoutInterpolator()` makes it MARS-BNN.
        base: the pooled process that anchors the score; None is the paper's plain network.
        network: the score network; None leaves the anchor alone, the yardstick for what the network adds.
        objective: how the network is fitted; with a base it is always denoising.
        level: standard deviation of the denoising noise, standardised units.
        measurement: where functions are measured: "data" (training inputs, half of them jittered) or "box" (the paper).
        points: size k of a training step's measurement set.
        tasks_per_step: functions per training step; None takes all tasks.
        noise_std: observation noise, standardised units; None takes the base process's.
        settle: steps of regression that start the particles as draws of the base's posterior; 0 starts at random.
    """

    interpolator: Interpolator = field(default_factory=GPInterpolator)
    base: PoolingConfig | None = field(default_factory=PoolingConfig)
    network: NetworkConfig | None = field(default_factory=lambda: NetworkConfig(heads=4, key_size=8))
    objective: Objective = "denoising"
    level: float = 0.1
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(steps=2000, schedule="cosine"))
    measurement: Literal["data", "box"] = "data"
    points: int = 12
    tasks_per_step: int | None = 32
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FSVGDConfig = field(default_factory=lambda: FSVGDConfig(steps=500, measurement_points=12))
    noise_std: float | None = None
    settle: int = 300

    def __post_init__(self) -> None:
        if self.base is None and (self.network is None or self.settle or self.noise_std is None):
            raise ValueError("Without a base process MARS needs a network, a noise_std and settle=0.")
        if self.base is not None and self.objective != "denoising":
            raise ValueError("A network on top of a base process is fitted by denoising; set base=None for others.")

    @classmethod
    def dropout(cls) -> MARS:
        """MARS-BNN: tasks are interpolated by networks with MC dropout."""
        return cls(interpolator=DropoutInterpolator())

    @classmethod
    def paper_bnn(cls) -> MARS:
        """The published MARS-BNN."""
        return cls.paper(interpolator=DropoutInterpolator())

    @classmethod
    def paper(cls, interpolator: Interpolator | None = None) -> MARS:
        """The published MARS-GP: exact objective, uniform box, plain network, random start, 20,000 + 10,000 steps."""
        return cls(
            interpolator=interpolator if interpolator is not None else GPInterpolator(mode="paper"),
            base=None,
            network=NetworkConfig(),
            objective="exact",
            training=TrainingConfig(steps=20_000),
            measurement="box",
            points=8,
            tasks_per_step=None,
            inference=FSVGDConfig(),
            noise_std=0.1,
            settle=0,
        )

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> MARSPrior:
        """Learn the prior's score from the tasks."""
        base_key, point_key, interpolator_key, network_key, train_key = jax.random.split(as_key(key), 5)
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        process = None if self.base is None else learn_process(padded, self.base, base_key)
        box = Box.around(padded)
        measurement = box if self.measurement == "box" else DataDriven.around(padded, point_key)
        score = AnchoredScore(None, process, jnp.float32(self.level), jnp.float32(4.0))
        if self.network is not None:
            fitted = self.interpolator.fit(padded, interpolator_key)
            start = ScoreNetwork(tasks.dim, self.network, network_key)
            if process is not None:
                # The residual starts at nothing: the anchor is right until the data say otherwise.
                start = eqx.tree_at(lambda n: n.final, start, jax.tree.map(jnp.zeros_like, start.final))
            network, _ = train(
                self._loss(fitted, measurement, score),
                start,
                self.training,
                train_key,
                project=spectral.power_iterate,
                trainable=spectral.trainable(start),
                progress=progress,
                description="Learning the prior",
            )
            score = eqx.tree_at(lambda s: s.network, score, spectral.finalise(network), is_leaf=lambda n: n is None)
        noise = process.noise_std if self.noise_std is None and process is not None else self.noise_std
        hyper = replace(self.inference.hyper(), noise_std=jnp.asarray(noise, jnp.float32))
        return MARSPrior(standardizer, score, measurement, box, hyper, self.bnn, self.inference, self.settle)

    def _loss(self, fitted: FittedInterpolator, measurement: MeasurementDistribution, score: AnchoredScore) -> _Loss:
        count = len(jax.tree.leaves(fitted.states)[0])
        batch = count if self.tasks_per_step is None else min(self.tasks_per_step, count)
        return _Loss(fitted, measurement, score, self.objective, self.points, batch, count)


class _Loss(eqx.Module):
    """Score matching on fresh draws: one measurement set for a batch of tasks, one function of each (eq. 3)."""

    fitted: FittedInterpolator
    measurement: MeasurementDistribution
    score: AnchoredScore
    objective: Objective = eqx.field(static=True)
    points: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def __call__(self, network: ScoreNetwork, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        task_key, point_key, draw_key, loss_key = jax.random.split(key, 4)
        states = self.fitted.states
        if self.batch < self.count:
            chosen = jax.random.choice(task_key, self.count, (self.batch,), replace=False)
            states = jax.tree.map(lambda leaf: leaf[chosen], states)
        x = self.measurement.sample(point_key, self.points)
        keys = jax.random.split(draw_key, self.batch)
        f = jax.vmap(self.fitted.draw, in_axes=(0, None, 0))(states, x, keys)
        normalised = spectral.normalise(network)
        if self.objective == "exact":
            return losses.exact_trace(normalised, f, x, loss_key), {}
        if self.objective == "sliced":
            return losses.sliced(normalised, f, x, loss_key), {}
        score = eqx.tree_at(lambda s: s.network, self.score, normalised, is_leaf=lambda n: n is None)
        at = score.prepare(x)
        return losses.denoising(self.score.level)(lambda f, x: at(f), f, x, loss_key), {}


class MARSPrior(Prior):
    """A learned score, and how to infer with it."""

    standardizer: Standardizer
    score: AnchoredScore
    measurement: MeasurementDistribution
    box: Box
    hyper: FSVGDHyper
    bnn: BNNConfig = eqx.field(static=True)
    inference: FSVGDConfig = eqx.field(static=True)
    settle: int = eqx.field(static=True)

    def infer(self, context: PaddedTasks, key: PRNGKeyArray) -> Network:
        """Particles of the posterior by fSVGD (Alg. 2)."""
        start_key, settle_key, run_key = jax.random.split(key, 3)
        dim, process = context.x.shape[-1], self.score.process
        particles = init_particles(start_key, self.inference.particles, dim, self.bnn, self.box.low, self.box.high)
        if process is not None and self.settle:
            particles = self._settle(process, particles, context, settle_key)
        return fsvgd.run(
            self.score, self.measurement, self.inference, self.hyper, context, particles, run_key, self._offset
        )

    def evaluate(self, state: Network, x: Float[Array, "q d"]) -> Mixture:
        locs, scales = fsvgd.predict(state, x, self.hyper.noise_std, self._offset)
        return Mixture(locs, scales, locs)

    def sample(self, x: Any, key: KeyLike, n: int) -> Float[np.ndarray, "n q"]:
        """n draws from the learned prior at x, in original units: Langevin steps along the score."""
        query = jnp.asarray(self.standardizer.scale_x(check_query(x, self.dim)), jnp.float32)
        draws = _langevin(self.score, query, jax.random.split(as_key(key), n))
        return self.standardizer.unscale_y(np.asarray(draws, np.float64))

    def _offset(self, x: Float[Array, "k d"]) -> Float[Array, " k"]:
        return jnp.zeros(len(x)) if self.score.process is None else self.score.process.mean(x)

    def _settle(self, process: GaussianProcess, particles: Network, context: PaddedTasks, key: PRNGKeyArray) -> Network:
        """Networks regressed on joint draws of the base's posterior: a start that already has its mean and spread."""
        set_key, draw_key = jax.random.split(key)
        x = fsvgd.measurement_set(set_key, context, self.measurement, 2 * self.inference.measurement_points, None).x
        state = process.condition(*context)
        draw = jax.vmap(lambda one: process.sample(state, x, one))
        wanted = draw(jax.random.split(draw_key, self.inference.particles)) - process.mean(x)
        optimiser = optax.adam(optax.cosine_decay_schedule(1e-2, self.settle, 0.05))

        def loss(particles: Network) -> Float[Array, ""]:
            # A sum over particles: each has its own weights, so each sees the gradient of its own mean squared error.
            return jnp.sum(jnp.mean((fsvgd.functions(particles, x) - wanted) ** 2, axis=1))

        def step(carry: PyTree, _: None) -> tuple[PyTree, None]:
            particles, moments = carry
            updates, moments = optimiser.update(jax.grad(loss)(particles), moments)
            return (optax.apply_updates(particles, updates), moments), None

        return jax.lax.scan(step, (particles, optimiser.init(particles)), None, self.settle)[0][0]


@eqx.filter_jit
def _langevin(
    score: AnchoredScore, x: Float[Array, "q d"], keys: PRNGKeyArray, steps: int = 300
) -> Float[Array, "n q"]:
    """Unadjusted Langevin steps, preconditioned by the anchor's covariance: all directions move at one pace."""
    rate = 0.02
    if score.process is None:
        mean, root = jnp.zeros(len(x)), jnp.eye(len(x))
    else:
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
