"""MARS: meta-learn the score of the task distribution's marginals, then infer functions with it (Algs. 1 and 2).

Stage 1 interpolates every task, draws function values at random measurement sets and fits a score to them. Stage 2 runs
fSVGD on a new task's few points with that score as the prior (`mars_prior.py`). `MARS.paper()` is the published
configuration; `MARS()` departs from it: the score is anchored to a Gaussian process learned from all tasks
(`pooling/`, `scores/anchored.py`), the network's residual is learned by denoising and kept only if it helps on held-out
tasks, particles start as draws of the process's posterior, and the predictive has the tails that were learned with it.
Where no network stays the process's posterior, known in closed form, is half of the predictive or all of it; and a
second, plainer process is half of that where it helps.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._types import KeyLike, as_key
from scoreprior.gp.fit import PoolingConfig, learn_opinions
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.inference.measurement import Box, DataDriven, MeasurementDistribution
from scoreprior.interpolators import DropoutInterpolator, FittedInterpolator, GPInterpolator, Interpolator
from scoreprior.learners._calibration import Hyper, learn_hyper, predictive_nll
from scoreprior.learners.bnn import sizes
from scoreprior.learners.mars_prior import MARSPrior
from scoreprior.scores import losses, spectral
from scoreprior.scores.anchored import AnchoredScore
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.scores.sampled import Estimator, SampledScore
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig, evaluate, train

Objective = Literal["denoising", "exact", "sliced"]
FilePath = str | os.PathLike[str]

_REACH = 4.0
_FEWEST_HELD_OUT = 2
_SPACE: Space = {
    "training.learning_rate": Range(1e-4, 1e-2, log=True),
    "training.clip": Choice((1.0, 10.0, 100.0)),
    "network.embedding": Choice((16, 32, 64)),
    "network.multiplier": Range(0.5, 4.0, log=True),
    "inference.learning_rate": Range(1e-4, 1e-2, log=True),
    "inference.bandwidth": Range(0.1, 10.0, log=True),
    "noise_std": Range(0.01, 1.0, log=True),
    "points": Choice((8, 12, 16)),
}


@dataclass(frozen=True)
class MARS:
    """The meta-learner.

    Args:
        interpolator: draws of each training task's function; `DropoutInterpolator()` makes it MARS-BNN.
        base: the pooled process that anchors the score; None is the paper's plain network.
        network: the score network; None leaves the anchor alone, the yardstick for what the network adds.
        estimator: instead of both, fitted at every measurement set of an inference to functions drawn there
            (`scores/sampled.py`); no network is trained, and the base serves the interpolator and the noise only.
        objective: how the network is fitted; with a base it is always denoising.
        level: standard deviation of the denoising noise, standardised units; None takes the base's noise, at most 0.1.
        anneal: coarsest noise level of a noise-conditional network, from which inference goes down to `level`.
        held_out: share of the tasks that decide when training stops and whether the network stays. If fewer than two
            tasks are in that share nobody can tell whether it helps, and there is none on top of a base; with 0, or
            without a base, it trains to the end and stays.
        measurement: where functions are measured: "data" (training inputs, half of them jittered) or "box" (the paper).
        points: size k of a training step's measurement set.
        tasks_per_step: functions per training step; None takes all tasks.
        noise_std: observation noise, standardised units; None takes the base process's.
        learn: which of noise_std, bandwidth and temperature are then chosen by NLL on the meta-training tasks, each
            split into context and target.
        settle: steps of regression that start the particles as draws of the base's posterior; 0 starts at random.
        smoothing: share of the particles' variance that the predictive puts between them; the paper: 0. The default is
            the square of the normal reference bandwidth of ten points, (4 / (3 * 10))^(2/5).
        closed_form: where no network stays, the posterior has a closed form: centre the particles on its mean, and make
            it half of the predictive, or all of it where the process has learned widths. A second opinion
            (`PoolingConfig.second`), with a noise of its own, is then half of what predicts.
    """

    interpolator: Interpolator = field(default_factory=GPInterpolator)
    base: PoolingConfig | None = field(default_factory=PoolingConfig)
    network: NetworkConfig | None = field(default_factory=NetworkConfig)
    estimator: Estimator | None = None
    objective: Objective = "denoising"
    level: float | None = None
    anneal: float | None = None
    held_out: float = 0.2
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=2000, schedule="cosine", chunk=250, patience=3)
    )
    measurement: Literal["data", "box"] = "data"
    points: int = 12
    tasks_per_step: int | None = 32
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FSVGDConfig = field(
        default_factory=lambda: FSVGDConfig(steps=500, measurement_points=None, bandwidth=10.0)
    )
    noise_std: float | None = None
    learn: tuple[Hyper, ...] = ()
    settle: int = 300
    smoothing: float = 0.45
    closed_form: bool = True

    def __post_init__(self) -> None:
        if self.base is None and (self.settle or self.noise_std is None):
            raise ValueError("Without a base process MARS needs a noise_std and settle=0.")
        if self.base is None and self.network is None and self.estimator is None:
            raise ValueError("MARS needs a base process, a network or an estimator.")
        if self.estimator is not None and (self.network is not None or self.settle or self.anneal is not None):
            raise ValueError("With an estimator there is no network to train or anneal, and settle=0.")
        if self.base is not None and self.objective != "denoising":
            raise ValueError("A network on top of a base process is fitted by denoising; set base=None for others.")
        if self.network is not None and self.objective == "denoising" and self.base is None and self.level is None:
            raise ValueError("Denoising without a base process needs a level.")
        if self.anneal is not None and self.objective != "denoising":
            raise ValueError("Annealing needs the denoising objective.")
        unknown = [name for name in self.learn if name not in get_args(Hyper)]
        if unknown:
            raise ValueError(f"learn takes {', '.join(get_args(Hyper))}, not {', '.join(unknown)}.")
        for name in ("held_out", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is a share in [0, 1), not {getattr(self, name)}.")

    @property
    def space(self) -> Space:
        """What a tuner may vary; without a network, nothing of its training."""
        training = ("training.", "network.", "points")
        return {name: value for name, value in _SPACE.items() if self.network or not name.startswith(training)}

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
            held_out=0.0,
            training=TrainingConfig(steps=20_000),
            measurement="box",
            points=8,
            tasks_per_step=None,
            inference=FSVGDConfig(),
            noise_std=0.1,
            settle=0,
            smoothing=0.0,
            closed_form=False,
        )

    def fit(
        self,
        tasks: TaskSet,
        key: KeyLike,
        *,
        progress: bool = True,
        checkpoint: FilePath | None = None,
        resume: FilePath | None = None,
    ) -> MARSPrior:
        """Learn the prior's score from the tasks.

        Args:
            checkpoint: file to write as the network trains; if it is there already, training goes on from it.
            resume: file to go on from, if it is another one.
        """
        point_key, interpolator_key, network_key, train_key, learn_key = jax.random.split(
            jax.random.fold_in(as_key(key), 1), 5
        )
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        # The key itself, as `PooledGP` does: the same seed gives the same process, and only what follows differs.
        process, second = None, None
        if self.base is not None:
            wanted = self.base.second and self._may_end_in_closed_form
            process, second = learn_opinions(padded, replace(self.base, second=wanted), as_key(key))
        box = Box.around(padded)
        measurement = box if self.measurement == "box" else DataDriven.around(padded, point_key)
        fitted = None
        learns = self.network is not None and not (process is not None and self._too_few(tasks))
        if learns or self.estimator is not None:
            fitted = self._interpolate(padded, process, interpolator_key)
        score = self._score(fitted, process, network_key)
        metrics: dict[str, float] = {}
        noise = process.noise_std if self.noise_std is None and process is not None else self.noise_std
        hyper = replace(self.inference.hyper(), noise_std=jnp.asarray(noise, jnp.float32))
        smoothing, static = jnp.float32(self.smoothing), sizes(self.inference)
        prior = MARSPrior(
            standardizer,
            score,
            measurement,
            box,
            hyper,
            smoothing,
            self.bnn,
            static,
            self.settle,
            self.closed_form,
            second,
        )
        if learns and fitted is not None:
            files = {"checkpoint": checkpoint, "resume": resume, "progress": progress}
            prior, metrics = self._train(prior, tasks, fitted, network_key, train_key, **files)
        if self.learn:
            prior, metrics["nll_on_meta_training"] = learn_hyper(prior, tasks, self.learn, learn_key)
        return replace(prior, notes=self._notes(tasks, metrics))

    def _score(
        self, fitted: FittedInterpolator | None, process: GaussianProcess | None, key: PRNGKeyArray
    ) -> AnchoredScore | SampledScore:
        """The prior's score before a network is trained."""
        level = self._level(process)
        if self.estimator is not None and fitted is not None:
            return SampledScore(fitted, key, level, self.estimator)
        coarse = None if self.anneal is None else jnp.float32(self.anneal)
        return AnchoredScore(None, process, level, jnp.float32(_REACH), coarse)

    def _level(self, process: GaussianProcess | None) -> Float[Array, ""]:
        if self.level is not None or process is None:
            return jnp.float32(0.0 if self.level is None else self.level)
        return jnp.minimum(jnp.asarray(process.noise_std), 0.1)

    def _interpolate(
        self, tasks: PaddedTasks, process: GaussianProcess | None, key: PRNGKeyArray
    ) -> FittedInterpolator:
        interpolator = self.interpolator
        if process is not None and isinstance(interpolator, GPInterpolator) and interpolator.mode == "pooled":
            return interpolator.around(process, tasks)  # the process is there already
        return interpolator.fit(tasks, key)

    def _train(
        self,
        prior: MARSPrior,
        tasks: TaskSet,
        fitted: FittedInterpolator,
        network_key: PRNGKeyArray,
        train_key: PRNGKeyArray,
        **files: FilePath | bool | None,
    ) -> tuple[MARSPrior, dict[str, float]]:
        """The prior with its trained network, or without where that does not predict held-out tasks better."""
        assert self.network is not None
        assert isinstance(prior.score, AnchoredScore)
        score, count = prior.score, len(tasks)
        start = ScoreNetwork(prior.dim, replace(self.network, noise_conditional=self.anneal is not None), network_key)
        if score.process is not None:
            # The residual starts at nothing: the anchor is right until the data say otherwise.
            start = eqx.tree_at(lambda n: n.final, start, jax.tree.map(jnp.zeros_like, start.final))
        held = 0 if self._too_few(tasks) else round(self.held_out * count)
        split_key, loss_key, held_key, gate_key = jax.random.split(train_key, 4)
        shuffled = np.asarray(jax.random.permutation(split_key, count))
        loss = self._loss(fitted, prior.measurement, score, shuffled[held:])
        validate = _HeldOut(self._loss(fitted, prior.measurement, score, shuffled[:held]), held_key) if held else None
        network, history = train(
            loss,
            start,
            self.training if held else replace(self.training, patience=None),
            loss_key,
            project=spectral.power_iterate,
            trainable=spectral.trainable(start),
            validate=validate,
            description="Learning the prior",
            **files,  # type: ignore[arg-type]
        )

        def richer() -> MARSPrior:
            final = spectral.finalise(network)
            whole = eqx.tree_at(lambda p: p.score.network, prior, final, is_leaf=lambda n: n is None)
            return replace(whole, second=None)  # without a closed form nobody would hear it

        metrics = {"training_loss": history[-1].loss}
        if validate is None:
            return richer(), metrics
        before, after = (np.asarray(evaluate(validate, each)) for each in (start, network))
        metrics |= {"held_out_loss_without_network": float(before.mean()), "held_out_loss": float(after.mean())}
        if score.process is None:
            return richer(), metrics
        gain = before - after
        if gain.mean() > 2 * gain.std() / np.sqrt(len(gain)):
            # A better score of the interpolated functions may still predict worse: that is what decides.
            unseen, candidate = tasks.take(shuffled[:held]), richer()
            bare, full = (float(np.mean(predictive_nll(each, unseen, gate_key))) for each in (prior, candidate))
            metrics |= {"held_out_nll_without_network": bare, "held_out_nll": full}
            if full < bare:
                return candidate, metrics
        return prior, metrics

    @property
    def _may_end_in_closed_form(self) -> bool:
        """Whether there may be no network in the end: with one there is no place for a second opinion."""
        return self.closed_form and self.estimator is None and (self.network is None or self.held_out > 0)

    def _too_few(self, tasks: TaskSet) -> bool:
        """Whether held-out tasks were to judge the network, and are too few for that."""
        return self.held_out > 0 and round(self.held_out * len(tasks)) < _FEWEST_HELD_OUT

    def _loss(
        self,
        fitted: FittedInterpolator,
        measurement: MeasurementDistribution,
        score: AnchoredScore,
        chosen: np.ndarray,
    ) -> _Loss:
        # By NumPy: JAX compiles a program for every shape.
        states = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], fitted.states)
        fitted = eqx.tree_at(lambda f: f.states, fitted, states)
        batch = len(chosen) if self.tasks_per_step is None else min(self.tasks_per_step, len(chosen))
        return _Loss(fitted, measurement, score, self.objective, self.points, batch, len(chosen))

    def _notes(self, tasks: TaskSet, metrics: dict[str, float]) -> str:
        inputs = np.concatenate([task.x for task in tasks])
        notes = {
            "method": "MARS",
            "config": dataclasses.asdict(self) | {"interpolator": repr(self.interpolator)},
            "domain": {"low": inputs.min(axis=0).tolist(), "high": inputs.max(axis=0).tolist()},
            "metrics": metrics,
            "tasks": len(tasks),
        }
        return json.dumps(notes)


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
        task_key, point_key, draw_key, loss_key, level_key = jax.random.split(key, 5)
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
        if score.coarse is not None:
            # The levels that inference will meet, one per step: the anchor is factored once, not once per function.
            score = score.annealed(jax.random.uniform(level_key))
        at = score.prepare(x)
        return losses.denoising(score.level)(lambda f, x: at(f), f, x, loss_key), {}


class _HeldOut(eqx.Module):
    """The loss of held-out tasks over a fixed set of draws, so that two networks are compared on the same ones."""

    loss: _Loss
    key: PRNGKeyArray

    def __call__(self, network: ScoreNetwork) -> Float[Array, " n"]:
        return jax.lax.map(lambda key: self.loss(network, key)[0], jax.random.split(self.key, 64))
