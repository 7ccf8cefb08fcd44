"""MARS without an anchor: meta-learn the score of the task distribution's marginals, then infer functions with it.

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
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior._short_repr import short_repr
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
from scoreprior.learners._plain_score import Reference, untrained
from scoreprior.scores import spectral
from scoreprior.scores.network import NetworkConfig
from scoreprior.scores.objectives import Denoising, ExactTrace, ScoreMatching
from scoreprior.space import Space
from scoreprior.tasks import Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train

FilePath = str | os.PathLike[str]


@short_repr
@dataclass(frozen=True)
class PlainMARS:
    """MARS without an anchor: the paper's algorithms, repaired. `PlainMARS.letter()` is the paper to the letter.

    Args:
        interpolator: draws of each training task's function.
        network: the score network s_phi; None takes the exact score of the interpolated process in its place, which
            a Gaussian process as interpolator has.
        objective: how the network is fitted: `Denoising(...)`, `ExactTrace()` (eq. 2) or `Sliced()`.
        training: of the network.
        measurement: nu, where functions are measured: "box" (the paper) or "data" (training inputs, half of them
            jittered).
        points: size k of a training step's measurement set.
        least_points: if given, the size is a random one between this and `points`.
        tasks_per_step: functions per training step; None takes one of every task.
        bnn: the particles' networks.
        inference: fSVGD.
        noise_std: observation noise, standardised units; None takes the interpolator's, by cross-validation.
        least_noise_std: the noise is no less than this: particles do not follow a stiffer likelihood and the score.
    """

    interpolator: Interpolator = field(default_factory=MaternInterpolator.cross_validated)
    network: NetworkConfig | None = field(default_factory=lambda: NetworkConfig(frequencies=16, multiplier=2.0))
    objective: ScoreMatching = field(default_factory=Denoising.repaired)
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=4000, learning_rate=5e-3, schedule="cosine")
    )
    measurement: Measurement = "data"
    points: int = 24
    least_points: int | None = 2
    tasks_per_step: int | None = 32
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FSVGDConfig = field(default_factory=lambda: FSVGDConfig(steps=1000, bandwidth=10.0, learning_rate=5e-3))
    noise_std: float | None = None
    least_noise_std: float = 0.1

    def __post_init__(self) -> None:
        check_choice("measurement", self.measurement, get_args(Measurement))
        check_counts(self, "points", "least_points", "tasks_per_step")
        check_positive(self, "noise_std", "least_noise_std")
        if self.training.patience is not None:
            raise ValueError("PlainMARS holds no tasks out: training.patience must be None.")
        if self.least_points is not None and not (self.objective.any_size and self.least_points <= self.points):
            raise ValueError("least_points is at most points, and needs the Denoising objective; else it is None.")

    @property
    def space(self) -> Space:
        """What a tuner may vary; without a network, nothing of its training."""
        return {**(_mars_space.NETWORK if self.network else {}), **_mars_space.INFERENCE}

    @classmethod
    def dropout(cls) -> PlainMARS:
        """MARS-BNN: tasks are interpolated by networks with MC dropout."""
        return cls(interpolator=DropoutInterpolator())

    @classmethod
    def exact(cls) -> PlainMARS:
        """The exact score of the interpolated process in the place of the network: what a perfect one would reach."""
        return cls(network=None, objective=Denoising(level=None, tau=None))

    @classmethod
    def letter(cls, interpolator: Interpolator | None = None, network: NetworkConfig | None = None) -> PlainMARS:
        """The published MARS-GP; what the paper leaves open is in the defaults of the parts."""
        return cls(
            interpolator=MaternInterpolator() if interpolator is None else interpolator,
            network=NetworkConfig() if network is None else network,
            objective=ExactTrace(),
            training=TrainingConfig(),
            measurement="box",
            points=8,
            least_points=None,
            tasks_per_step=None,
            inference=FSVGDConfig(),
            noise_std=0.1,
        )

    @classmethod
    def letter_dropout(cls) -> PlainMARS:
        """The published MARS-BNN."""
        return cls.letter(DropoutInterpolator())

    @classmethod
    def letter_no_spectral(cls) -> PlainMARS:
        """The paper's ablation: a score network without spectral normalisation (Table 3)."""
        return cls.letter(network=NetworkConfig(normalisation="none"))

    @classmethod
    def letter_gp_mean(cls) -> PlainMARS:
        """The paper's ablation: means of the interpolating GPs instead of draws; no uncertainty (Table 3)."""
        return cls.letter(MaternInterpolator(mean_only=True))

    @classmethod
    def letter_nn(cls) -> PlainMARS:
        """The paper's ablation: interpolation by one deterministic network per task (Table 9)."""
        return cls.letter(DeterministicInterpolator())

    @classmethod
    def letter_ensemble(cls) -> PlainMARS:
        """The paper's ablation: interpolation by an ensemble of networks per task (Table 9)."""
        return cls.letter(EnsembleInterpolator())

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
        reference = Reference(fitted, padded, interpolator_key)
        score, levels = untrained(self.network, self.objective, reference, draws, network_key)
        metrics = {"level": float(levels.fine), "tau": float(getattr(score, "tau", 0.0))}
        if self.network is not None:
            score, history = train(
                _Loss(draws, self.objective, self.least_points),
                score,
                self.training,
                train_key,
                project=spectral.power_iterate,
                trainable=spectral.only_networks(score),
                progress=progress,
                description="Learning the score",
                checkpoint=checkpoint,
                resume=resume,
            )
            score, metrics["training_loss"] = spectral.finalise(score), history[-1].loss
        noise_std = reference.noise_std if self.noise_std is None else jnp.float32(self.noise_std)
        noise_std = jnp.maximum(noise_std, self.least_noise_std)

        inference = Particles(
            score=score,
            levels=levels,
            measurement=nu,
            box=Box.around(padded),
            hyper=self.inference.hyper(noise_std),
            smoothing=jnp.float32(0.0),
            bnn=self.bnn,
            config=static_part(self.inference),
        )
        metrics["noise_std"] = float(noise_std)
        return FunctionPrior(standardizer, inference, notes_of(self, tasks, metrics))

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
    least_points: int | None = eqx.field(static=True)

    def __call__(self, score: Any, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        draw_key, loss_key, size_key = jax.random.split(key, 3)
        f, x = self.draws.sample(draw_key)
        size: Any = len(x)
        if self.least_points is not None:
            size = jax.random.randint(size_key, (), self.least_points, len(x) + 1)
        return self.objective(score, f, x, jnp.arange(len(x)) < size, loss_key), {}
