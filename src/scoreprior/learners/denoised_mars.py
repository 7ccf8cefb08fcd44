"""MARS, the method people get by `sp.MARS()`: denoising networks on top of a Gaussian process.

Draws of an interpolator mostly teach a network the interpolator. Here a training step takes real points: of each task
a random part is known, the rest is known up to noise or unknown, and the network predicts it (`scores/denoiser.py`).

    repeat `networks` times:  hold other tasks out; fit the anchor to the rest, train a denoiser around it
    do the held-out tasks gain, each judged by the network and the process that have not seen it?
        yes:  the ensemble of the denoisers: marginals in one pass and joint draws (`Denoised`), or networks as
              particles moved along its score by fSVGD (`DenoisedParticles`)
        no:   the anchor fitted to all tasks, in closed form, averaged with a simple process where that helps
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from scoreprior._settings import check_counts
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.gp import GaussianProcess, ProcessAverage, ProcessConfig, fit_average, fit_process
from scoreprior.gp.significance import is_significant
from scoreprior.inference import Inference
from scoreprior.inference.average import average_of
from scoreprior.inference.closed_form import ClosedForm
from scoreprior.inference.denoised import Denoised
from scoreprior.inference.denoised_particles import ParticleConfig, particles_along
from scoreprior.inference.measurement import Box, DataDriven, MeasurementDistribution
from scoreprior.learners._denoising import DenoisingLoss, HeldOutLoss, Recorded
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.learners._split_nll import task_nll
from scoreprior.scores.denoiser import Denoiser, DenoiserConfig, DenoiserEnsemble
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet, resolution, runs_in_order
from scoreprior.training import TrainingConfig, train

FilePath = str | os.PathLike[str]

_FEWEST_HELD_OUT = 2
_VALIDATION_SPLITS = 256


@short_repr
@dataclass(frozen=True)
class DenoisedMARS:
    """The meta-learner.

    Args:
        anchor: the Gaussian process that the network corrects.
        network: the denoiser's network; None leaves the anchor alone, the yardstick for what networks add.
        networks: how many of them, each trained without other tasks; their mixtures are averaged.
        training: of each network.
        tasks_per_step: tasks of a training step.
        most_points: points of a task in a training step, at most.
        noised: share of the tasks of a step whose points are known up to noise; those of the others are unknown.
        ordered: where rows follow an input, as in time series, the share of the tasks of a step whose known points are
            the first ones, as in a forecast; of all others any points are known.
        interpolated: share of the tasks of a step that also have `further` points at places around all tasks' inputs,
            drawn from the anchor given the task: the paper's interpolation. By default there are none: they teach the
            network the anchor.
        further: how many of these.
        levels: least and largest noise, standardised units.
        held_out: share of the tasks that a network does not see: they decide when its training stops, and all of them
            together whether the networks stay.
        inference: None answers by the denoisers' mixture, in one pass; a `ParticleConfig` by fSVGD along their score.
        average: without a network, average the anchor with a simple process where that helps (`gp.fit_average`).
    """

    space: ClassVar[Space] = {
        "training.learning_rate": Range(3e-4, 3e-3, log=True),
        "training.weight_decay": Range(1e-4, 1e-1, log=True),
        "network.embedding": Choice((32, 64, 128)),
        "network.bandwidth": Range(0.5, 8.0, log=True),
        "noised": Range(0.0, 0.6),
    }

    anchor: ProcessConfig = field(default_factory=ProcessConfig)
    network: DenoiserConfig | None = field(default_factory=DenoiserConfig)
    networks: int = 2
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            steps=4000, learning_rate=2e-3, clip=1.0, schedule="cosine", weight_decay=1e-2, chunk=250, patience=6
        )
    )
    tasks_per_step: int = 32
    most_points: int = 64
    noised: float = 0.3
    ordered: float = 0.5
    interpolated: float = 0.0
    further: int = 8
    levels: tuple[float, float] = (0.03, 3.0)
    held_out: float = 0.2
    inference: ParticleConfig | None = None
    average: bool = True

    def __post_init__(self) -> None:
        check_counts(self, "networks", "tasks_per_step", "most_points", "further")
        for name in ("noised", "ordered", "interpolated"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share in [0, 1], not {getattr(self, name)}.")
        if not 0 < self.levels[0] <= self.levels[1]:
            raise ValueError(f"levels are two positive noises, the smaller first, not {self.levels}.")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out lies strictly between 0 and 1, not {self.held_out}.")
        if self.networks * self.held_out > 1:
            raise ValueError(
                f"networks times held_out is at most 1, for each holds other tasks out; here it is "
                f"{self.networks * self.held_out:g}."
            )

    @classmethod
    def fsvgd(cls) -> DenoisedMARS:
        """Networks as particles, moved along the denoisers' score: the paper's second stage."""
        return cls(inference=ParticleConfig())

    def fit(
        self,
        tasks: TaskSet,
        key: KeyLike,
        *,
        progress: bool = True,
        checkpoint: FilePath | None = None,
        resume: FilePath | None = None,
    ) -> FunctionPrior:
        """Train the networks, and keep them if held-out tasks are predicted better; without them, fit the anchor.

        Args:
            checkpoint: file to write as networks train (that of the second ends in `.2`, and so on); if it is there
                already, training goes on from it.
            resume: file to go on from, if it is another one.
        """
        problem = _Problem.of(tasks, jax.random.fold_in(as_key(key), 3))
        inference: Inference | None = None
        metrics: dict[str, float] = {}
        if self.network is not None and round(self.held_out * len(tasks)) >= _FEWEST_HELD_OUT:
            files = {"checkpoint": checkpoint, "resume": resume, "progress": progress}
            inference, metrics = self._judge_networks(problem, as_key(key), files)
        if inference is None:
            # The key itself, as `PooledGP` takes it: the same seed gives the same process.
            inference = _closed_form(self._fit_processes(problem, problem.padded, as_key(key)))
        return FunctionPrior(problem.standardizer, inference, notes_of(self, tasks, metrics))

    def _judge_networks(
        self, problem: _Problem, key: PRNGKeyArray, files: dict[str, Any]
    ) -> tuple[Inference | None, dict[str, float]]:
        """Inference with trained networks, or None where held-out tasks are not predicted better.

        Neither the network nor the processes that predict a held-out task have seen it.
        """
        split_key, network_key = jax.random.split(jax.random.fold_in(key, 2))
        shuffled = np.asarray(jax.random.permutation(split_key, len(problem.tasks)))
        size = round(self.held_out * len(shuffled))
        members, without, with_network, metrics = [], np.zeros(0), np.zeros(0), {}
        for number, one in enumerate(jax.random.split(network_key, self.networks)):
            held = shuffled[number * size : (number + 1) * size]
            train_key, judge_key = jax.random.split(one)
            fitted = self._fit_processes(problem, problem.padded.without(held), key)
            denoiser, loss = self._train(fitted.process, problem, held, train_key, _numbered(files, number))
            members.append(denoiser)
            before, after = (
                task_nll(FunctionPrior(problem.standardizer, each), problem.tasks.take(held), judge_key, problem.step)
                for each in (_closed_form(fitted), Denoised(denoiser))
            )
            without, with_network = np.append(without, before), np.append(with_network, after)
            metrics = {
                "training_loss": loss,
                "held_out_nll_without_network": float(without.mean()),
                "held_out_nll": float(with_network.mean()),
            }
            if with_network.mean() >= without.mean():
                return None, metrics  # more networks would take long, and hardly turn this round
        if not is_significant(without - with_network):
            return None, metrics
        ensemble = DenoiserEnsemble.of(members)
        if self.inference is None:
            return Denoised(ensemble), metrics
        return particles_along(ensemble, problem.places, Box.around(problem.padded), self.inference), metrics

    def _train(
        self,
        anchor: GaussianProcess,
        problem: _Problem,
        held: Int[np.ndarray, " h"],
        key: PRNGKeyArray,
        files: dict[str, Any],
    ) -> tuple[Denoiser, float]:
        """A denoiser around the anchor, trained on all tasks but the held-out ones, and its last training loss."""
        assert self.network is not None
        start_key, train_key, held_key = jax.random.split(key, 3)
        rest = np.setdiff1d(np.arange(len(problem.tasks)), held)
        start = Denoiser(jax.tree.map(jnp.asarray, anchor), problem.tasks.dim, self.network, start_key)
        several = np.resize(held, max(len(held), _VALIDATION_SPLITS))  # of few tasks, several splits of each
        denoiser, history = train(
            self._loss(problem, rest),
            start,
            self.training,
            train_key,
            trainable=_trainable(start),
            validate=HeldOutLoss(self._loss(problem, several), held_key),
            description="Learning the denoiser",
            **files,
        )
        return denoiser, history[-1].loss

    def with_budget(self, share: float) -> DenoisedMARS:
        """A share of the anchor's evaluations, of the training steps and of those of fSVGD."""
        return replace(
            self,
            anchor=self.anchor.with_budget(share),
            training=self.training.with_budget(share),
            inference=None if self.inference is None else self.inference.with_budget(share),
        )

    def _fit_processes(self, problem: _Problem, padded: PaddedTasks, key: PRNGKeyArray) -> ProcessAverage:
        """The anchor, and a simple process to average with where that helps."""
        scaler = problem.standardizer
        known = None if scaler.warp.is_identity else partial(scaler.intervals, step=problem.step)
        if self.average:
            return fit_average(padded, self.anchor, key, known)
        return ProcessAverage(fit_process(padded, self.anchor, key, known))

    def _loss(self, problem: _Problem, rows: Int[np.ndarray, " n"]) -> DenoisingLoss:
        low, high = np.log(self.levels)
        single = {"f": jnp.float32}
        return DenoisingLoss(
            recorded=jax.tree.map(
                lambda leaf: jnp.asarray(np.asarray(leaf)[rows], single.get(leaf.dtype.kind)), problem.recorded
            ),
            noised=jnp.float32(self.noised),
            ordered=jnp.float32(self.ordered if runs_in_order(problem.tasks) else 0.0),
            log_low=jnp.float32(low),
            log_high=jnp.float32(high),
            interpolated=jnp.float32(self.interpolated),
            places=problem.places if self.interpolated else None,
            batch=min(self.tasks_per_step, len(rows)),
            points=self.most_points,
            further=self.further,
        )


def _closed_form(fitted: ProcessAverage) -> Inference:
    return average_of(ClosedForm(fitted.process), fitted)


@dataclass(frozen=True)
class _Problem:
    """What networks are trained on and judged by: the tasks, also in standardised units, and their recording step.

    Places are where functions are measured: around all tasks' inputs.
    """

    tasks: TaskSet
    standardizer: Standardizer
    padded: PaddedTasks
    step: float
    places: MeasurementDistribution

    @property
    def recorded(self) -> Recorded:
        """The tasks, and what their targets stand for, in standardised units."""
        intervals = [self.standardizer.rounding_interval(task.y, self.step, task.x) for task in self.tasks]
        middle, half_width = np.zeros(self.padded.y.shape), np.zeros(self.padded.y.shape)
        for row, (middles, halves) in enumerate(intervals):
            middle[row, : len(middles)], half_width[row, : len(halves)] = middles, halves
        return Recorded(self.padded, middle, half_width)  # type: ignore[arg-type]

    @classmethod
    def of(cls, tasks: TaskSet, key: PRNGKeyArray) -> _Problem:
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded(dtype=np.float64)
        return cls(tasks, standardizer, padded, resolution(tasks.y), DataDriven.around(padded, key))


def _numbered(files: dict[str, Any], number: int) -> dict[str, Any]:
    """A checkpoint for each network: the first has the name that was given."""
    return {
        name: f"{Path(value)}.{number + 1}" if number and name != "progress" and value is not None else value
        for name, value in files.items()
    }


def _trainable(denoiser: Denoiser) -> Denoiser:
    """Everything but the anchor and the frequencies."""
    nothing = jax.tree.map(lambda _: False, denoiser)
    return eqx.tree_at(lambda d: d.encoder, nothing, jax.tree.map(eqx.is_inexact_array, denoiser.encoder))
