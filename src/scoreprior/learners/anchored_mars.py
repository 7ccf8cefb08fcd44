"""MARS around an anchor, the method people get by `sp.MARS()`: a Gaussian process corrected by a score network.

The score of the prior's noised marginals is that of a Gaussian process, plus a bounded residual network.

    hold tasks out; fit the anchor to the others; train the residual on them by denoising     (`_residual.py`)
    the held-out tasks gain by it?
        yes:  anchor + residual, inferred by fSVGD from a warm start                (`AnchoredParticles`)
        no:   the anchor fitted to all tasks; its posterior has a closed form       (`CentredParticles`, or
              `ClosedFormDraws` with a scale calibration), averaged with a simple process where that helps
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from scoreprior._budget import share_of
from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior._types import KeyLike, Score, as_key
from scoreprior.gp import GaussianProcess, ProcessAverage, ProcessConfig, fit_average, fit_process
from scoreprior.gp.predictive_tuning import is_significant
from scoreprior.inference import (
    AnchoredParticles,
    BNNConfig,
    Box,
    CentredParticles,
    ClosedFormDraws,
    FSVGDConfig,
    Inference,
    WarmStart,
)
from scoreprior.inference.average import average_of
from scoreprior.inference.measurement import Measurement, MeasurementDistribution, measurement_around
from scoreprior.inference.svgd import static_part
from scoreprior.interpolators import (
    DeterministicInterpolator,
    DropoutInterpolator,
    EnsembleInterpolator,
    FittedInterpolator,
    GPInterpolator,
    Interpolator,
    condition_each,
)
from scoreprior.interpolators.draws import FunctionDraws
from scoreprior.learners import _mars_space
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.learners._residual import train_residual
from scoreprior.learners._split_nll import task_nll
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig
from scoreprior.space import Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig

FilePath = str | os.PathLike[str]

_FEWEST_HELD_OUT = 2


@dataclass(frozen=True)
class AnchoredMARS:
    """The meta-learner.

    Args:
        anchor: the Gaussian process whose score is corrected, fitted to all tasks.
        interpolator: draws of each training task's function for the network; None conditions the anchor on the task.
        network: the residual network; None leaves the anchor alone, the yardstick for what the network adds.
        level: standard deviation of the denoising noise, standardised units; None is the anchor's noise, at most 0.1.
        anneal: coarsest noise level of a noise-conditional network, from which inference goes down to `level`; None
            trains it at `level` alone.
        held_out: share of the tasks that decide when training stops and whether the network stays. If fewer than two
            tasks are in that share nobody can tell whether it helps, and there is none; with 0 it trains to the end and
            stays.
        training: of the network.
        measurement: nu, where functions are measured: "data" (training inputs, half of them jittered) or "box".
        points: size k of a training step's measurement set.
        tasks_per_step: functions per training step; None takes one of every task.
        bnn: the particles' networks.
        inference: fSVGD.
        noise_std: observation noise, standardised units; None takes the anchor's.
        warm_start: steps of the regression that starts particles as draws of the anchor's posterior.
        smoothing: share of the particles' variance that the predictive puts between them. The default is the square of
            the normal reference bandwidth of ten points, (4 / (3 * 10))^(2/5).
        average: without a network, mix the predictive, by the weights of stacking, with that of a simple process where
            training tasks are so predicted better (`gp.fit_average`); the simple process has a noise of its own.
    """

    anchor: ProcessConfig = field(default_factory=ProcessConfig)
    interpolator: Interpolator | None = None
    network: NetworkConfig | None = field(default_factory=NetworkConfig)
    level: float | None = None
    anneal: float | None = None
    held_out: float = 0.2
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=2000, schedule="cosine", chunk=250, patience=3)
    )
    measurement: Measurement = "data"
    points: int = 12
    tasks_per_step: int | None = 32
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FSVGDConfig = field(
        default_factory=lambda: FSVGDConfig(steps=500, measurement_points=None, bandwidth=10.0)
    )
    noise_std: float | None = None
    warm_start: int = 300
    smoothing: float = 0.45
    average: bool = True

    def __post_init__(self) -> None:
        check_choice("measurement", self.measurement, get_args(Measurement))
        for name in ("held_out", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is a share in [0, 1), not {getattr(self, name)}.")
        check_counts(self, "points", "tasks_per_step", "warm_start")
        check_positive(self, "level", "anneal", "noise_std")

    @property
    def space(self) -> Space:
        """What a tuner may vary; without a network, nothing of its training."""
        return {**(_mars_space.NETWORK if self.network else {}), **_mars_space.INFERENCE}

    @classmethod
    def dropout(cls) -> AnchoredMARS:
        """MARS-BNN: tasks are interpolated by networks with MC dropout."""
        return cls(interpolator=DropoutInterpolator())

    @classmethod
    def no_spectral(cls) -> AnchoredMARS:
        """Ablation: a score network without spectral normalisation."""
        return cls(network=NetworkConfig(normalisation="none"))

    @classmethod
    def gp_mean(cls) -> AnchoredMARS:
        """Ablation: the means of the interpolating GPs instead of draws; their uncertainty is ignored."""
        return cls(interpolator=GPInterpolator(mean_only=True))

    @classmethod
    def nn(cls) -> AnchoredMARS:
        """Ablation: interpolation by one deterministic network per task."""
        return cls(interpolator=DeterministicInterpolator())

    @classmethod
    def ensemble(cls) -> AnchoredMARS:
        """Ablation: interpolation by an ensemble of networks per task."""
        return cls(interpolator=EnsembleInterpolator())

    def fit(
        self,
        tasks: TaskSet,
        key: KeyLike,
        *,
        progress: bool = True,
        checkpoint: FilePath | None = None,
        resume: FilePath | None = None,
    ) -> FunctionPrior:
        """Learn the prior's score from the tasks.

        Args:
            checkpoint: file to write as the network trains; if it is there already, training goes on from it.
            resume: file to go on from, if it is another one.
        """
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded(dtype=np.float64)
        point_key, network_key = jax.random.split(jax.random.fold_in(as_key(key), 2))
        places = _Places(measurement_around(self.measurement, padded, point_key), Box.around(padded))
        metrics: dict[str, float] = {}
        inference = None
        if self.network is not None and not self._too_few(len(tasks)):
            # The key itself, as `PooledGP` takes it: the same seed gives the same process.
            problem = _Problem(tasks, standardizer, padded, places, as_key(key))
            files = {"checkpoint": checkpoint, "resume": resume, "progress": progress}
            inference, metrics = self._judge_network(problem, network_key, files)
        if inference is None:
            inference = self._without_network(padded, places, as_key(key))
        return FunctionPrior(standardizer, inference, notes_of(self, tasks, metrics))

    def with_budget(self, share: float) -> AnchoredMARS:
        """A share of the anchor's evaluations and of the steps of interpolation, training, warm start and inference."""
        return replace(
            self,
            anchor=self.anchor.with_budget(share),
            interpolator=None if self.interpolator is None else self.interpolator.with_budget(share),
            training=self.training.with_budget(share),
            inference=self.inference.with_budget(share),
            warm_start=share_of(self.warm_start, share),
        )

    def _too_few(self, count: int) -> bool:
        """Whether held-out tasks were to judge the network, and are too few for that."""
        return self.held_out > 0 and round(self.held_out * count) < _FEWEST_HELD_OUT

    def _without_network(self, padded: PaddedTasks, places: _Places, key: PRNGKeyArray) -> Inference:
        """The anchor alone, fitted to all tasks; averaged with a simple process where that helps."""
        fitted = self._fit_processes(padded, key)
        return average_of(self._around(fitted.process, places), fitted)

    def _fit_processes(self, padded: PaddedTasks, key: PRNGKeyArray) -> ProcessAverage:
        """The anchor, and a simple process to average with where that helps."""
        if self.average:
            return fit_average(padded, self.anchor, key)
        return ProcessAverage(fit_process(padded, self.anchor, key))

    def _judge_network(
        self, problem: _Problem, key: PRNGKeyArray, files: dict[str, Any]
    ) -> tuple[Inference | None, dict[str, float]]:
        """Inference with a trained network, or None where it does not predict held-out tasks better.

        The anchor of this comparison is fitted without the held-out tasks, as the network is.
        """
        assert self.network is not None
        split_key, interpolator_key, train_key, judge_key = jax.random.split(key, 4)
        shuffled = np.asarray(jax.random.permutation(split_key, len(problem.tasks)))
        held, rest = np.split(shuffled, [round(self.held_out * len(shuffled))])
        processes = self._fit_processes(problem.padded.without(held), problem.key)
        anchor = processes.process
        if self.interpolator is None:
            fitted: FittedInterpolator = condition_each(anchor, problem.padded)
        else:
            fitted = self.interpolator.fit(problem.padded, interpolator_key)

        def draws(chosen: Int[np.ndarray, " n"]) -> FunctionDraws:
            return FunctionDraws.of(fitted, problem.places.measurement, self.points, self.tasks_per_step, chosen)

        score, metrics = train_residual(
            anchor,
            self._levels(anchor),
            self.network,
            self.training,
            draws(rest),
            draws(held) if len(held) else None,
            train_key,
            **files,
        )
        with_network = self._around(anchor, problem.places, score)
        if not len(held):
            return with_network, metrics
        if metrics["held_out_loss"] >= metrics["held_out_loss_without_network"]:
            return None, metrics
        # A better score of the interpolated functions may still predict worse: that is what decides.
        unseen = problem.tasks.take(held)
        before, after = (
            task_nll(FunctionPrior(problem.standardizer, each), unseen, judge_key)
            for each in (average_of(self._around(anchor, problem.places), processes), with_network)
        )
        metrics |= {"held_out_nll_without_network": float(before.mean()), "held_out_nll": float(after.mean())}
        return (with_network if is_significant(before - after) else None), metrics

    def _around(self, anchor: GaussianProcess, places: _Places, score: Score | None = None) -> Inference:
        """Inference around an anchor: along this score, or without one by what is known in closed form."""
        levels = self._levels(anchor)  # those that a network was trained at, whatever noise is given for the likelihood
        if self.noise_std is not None:
            anchor = replace(anchor, noise_std=jnp.float32(self.noise_std))
        config = self.inference
        warm_start = WarmStart(
            anchor,
            places.measurement,
            places.box,
            self.bnn,
            config.particles,
            2 * config.points(len(places.box.low)),
            self.warm_start,
        )
        if score is None and anchor.scale is not None:  # the calibration was learned for the closed form
            return ClosedFormDraws(warm_start)
        hyper, smoothing = config.hyper(anchor.noise_std), jnp.float32(self.smoothing)
        if score is None:
            return CentredParticles(warm_start, levels, hyper, smoothing, static_part(config))
        return AnchoredParticles(warm_start, score, levels, hyper, smoothing, static_part(config))

    def _levels(self, anchor: GaussianProcess) -> NoiseLevels:
        fine = jnp.minimum(jnp.asarray(anchor.noise_std), 0.1) if self.level is None else jnp.float32(self.level)
        return NoiseLevels(fine, None if self.anneal is None else jnp.float32(self.anneal))


class _Places(eqx.Module):
    """Where functions are measured, and where the particles' kinks start."""

    measurement: MeasurementDistribution
    box: Box


@dataclass(frozen=True)
class _Problem:
    """What a network is trained on and judged by; the key is that of the anchor."""

    tasks: TaskSet
    standardizer: Standardizer
    padded: PaddedTasks
    places: _Places
    key: PRNGKeyArray
