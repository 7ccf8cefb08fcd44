"""MARS as published: meta-learn the score of the task distribution's marginals, then infer functions with it.

Algorithm 1 (`PlainMARS.fit`):
    interpolate:  p(f_i | D_i) for every meta-training task i
    repeat:       X ~ nu^k,  f_i^X ~ p(f_i^X | D_i),  descend the score-matching loss of s_phi(f_i^X, X)
Algorithm 2 (`inference/particles.py`, `inference/fsvgd.py`):
    repeat:       X ~ nu^k and the context's inputs,  h_l^X = h_theta_l(X)
                  u_l = grad log p(y | h_l^X) + s_phi(h_l^X, X),  move theta_l along the SVGD direction of u
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import ClassVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior._types import KeyLike, as_key
from scoreprior.inference import Box, FSVGDConfig, Particles
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.measurement import Measurement, measurement_around
from scoreprior.inference.svgd import static_part
from scoreprior.interpolators import (
    DeterministicInterpolator,
    DropoutInterpolator,
    EnsembleInterpolator,
    Interpolator,
    MaternInterpolator,
)
from scoreprior.interpolators.draws import FunctionDraws
from scoreprior.learners import _mars_space
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.scores import spectral
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.scores.objectives import ExactTrace, ScoreMatching
from scoreprior.space import Space
from scoreprior.tasks import Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train

FilePath = str | os.PathLike[str]


@dataclass(frozen=True)
class PlainMARS:
    """MARS without an anchor; the defaults are the paper's MARS-GP. `PlainMARS.dropout()` is MARS-BNN.

    Args:
        interpolator: draws of each training task's function.
        network: the score network s_phi.
        objective: how the network is fitted: `ExactTrace()` (eq. 2), `Sliced()` or `Denoising(level)`.
        training: of the network.
        measurement: nu, where functions are measured: "box" (the paper) or "data" (training inputs, half of them
            jittered).
        points: size k of a training step's measurement set.
        tasks_per_step: functions per training step; None takes one of every task.
        bnn: the particles' networks.
        inference: fSVGD.
        noise_std: observation noise, standardised units.
    """

    space: ClassVar[Space] = {**_mars_space.NETWORK, **_mars_space.INFERENCE}

    interpolator: Interpolator = field(default_factory=MaternInterpolator)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    objective: ScoreMatching = field(default_factory=ExactTrace)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    measurement: Measurement = "box"
    points: int = 8
    tasks_per_step: int | None = None
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FSVGDConfig = field(default_factory=FSVGDConfig)
    noise_std: float = 0.1

    def __post_init__(self) -> None:
        check_choice("measurement", self.measurement, get_args(Measurement))
        check_counts(self, "points", "tasks_per_step")
        check_positive(self, "noise_std")
        if self.training.patience is not None:
            raise ValueError("PlainMARS holds no tasks out: training.patience must be None.")

    @classmethod
    def dropout(cls) -> PlainMARS:
        """The published MARS-BNN: tasks are interpolated by networks with MC dropout."""
        return cls(interpolator=DropoutInterpolator())

    @classmethod
    def no_spectral(cls) -> PlainMARS:
        """Ablation: a score network without spectral normalisation (Table 3)."""
        return cls(network=NetworkConfig(normalisation="none"))

    @classmethod
    def gp_mean(cls) -> PlainMARS:
        """Ablation: the means of the interpolating GPs instead of draws; their uncertainty is ignored (Table 3)."""
        return cls(interpolator=MaternInterpolator(mean_only=True))

    @classmethod
    def nn(cls) -> PlainMARS:
        """Ablation: interpolation by one deterministic network per task (Table 9)."""
        return cls(interpolator=DeterministicInterpolator())

    @classmethod
    def ensemble(cls) -> PlainMARS:
        """Ablation: interpolation by an ensemble of networks per task (Table 9)."""
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
        """Learn the prior's score from the tasks (Algorithm 1).

        Args:
            checkpoint: file to write as the network trains; if it is there already, training goes on from it.
            resume: file to go on from, if it is another one.
        """
        point_key, interpolator_key, network_key, train_key = jax.random.split(as_key(key), 4)
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded(dtype=np.float64)
        nu = measurement_around(self.measurement, padded, point_key)

        fitted = self.interpolator.fit(padded, interpolator_key)
        draws = FunctionDraws.of(fitted, nu, self.points, self.tasks_per_step, np.arange(len(tasks)))
        start = ScoreNetwork(tasks.dim, self.network, network_key)
        network, history = train(
            _Loss(draws, self.objective),
            start,
            self.training,
            train_key,
            project=spectral.power_iterate,
            trainable=spectral.trainable(start),
            progress=progress,
            description="Learning the score",
            checkpoint=checkpoint,
            resume=resume,
        )

        inference = Particles(
            score=spectral.finalise(network),
            levels=NoiseLevels(jnp.float32(self.objective.level)),
            measurement=nu,
            box=Box.around(padded),
            hyper=self.inference.hyper(self.noise_std),
            smoothing=jnp.float32(0.0),
            bnn=self.bnn,
            config=static_part(self.inference),
        )
        notes = notes_of(self, tasks, {"training_loss": history[-1].loss})
        return FunctionPrior(standardizer, inference, notes)

    def with_budget(self, share: float) -> PlainMARS:
        """A share of the steps of interpolation, training and inference."""
        return replace(
            self,
            interpolator=self.interpolator.with_budget(share),
            training=self.training.with_budget(share),
            inference=self.inference.with_budget(share),
        )


class _Loss(eqx.Module):
    """Score matching on fresh draws: one measurement set for a batch of tasks, one function of each (eq. 3)."""

    draws: FunctionDraws
    objective: ScoreMatching = eqx.field(static=True)

    def __call__(self, network: ScoreNetwork, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        draw_key, loss_key = jax.random.split(key)
        f, x = self.draws.sample(draw_key)
        return self.objective(spectral.normalise(network), f, x, loss_key), {}
