"""MARS with a score that is estimated from samples at every measurement set: the paper's ablation of the network."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from scoreprior._settings import check_choice, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.inference import Box, FSVGDConfig, Particles
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.measurement import Measurement, measurement_around
from scoreprior.inference.svgd import static_part
from scoreprior.interpolators import GPInterpolator, Interpolator, MaternInterpolator
from scoreprior.learners import _mars_space
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.scores.gaussian import ShrunkGaussian
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.sampled import Estimator, SampledScore
from scoreprior.scores.ssge import ABLATION_BANDWIDTH, ssge
from scoreprior.space import Space
from scoreprior.tasks import Standardizer, TaskSet


@short_repr
@dataclass(frozen=True)
class SampledMARS:
    """No network is trained: whenever inference asks for the score at a measurement set, an estimator is fitted there.

    Args:
        estimator: of a score from samples (`scores.estimators`).
        interpolator: draws of each training task's function.
        level: noise added to the draws, standardised units; None takes the observation noise, at most 0.1.
        measurement: nu, where functions are measured.
        bnn: the particles' networks.
        inference: fSVGD.
        noise_std: observation noise, standardised units; None takes what the interpolator learned.
        smoothing: share of the particles' variance that the predictive puts between them.
    """

    space: ClassVar[Space] = _mars_space.INFERENCE

    estimator: Estimator = field(default_factory=ssge)
    interpolator: Interpolator = field(default_factory=GPInterpolator)
    level: float | None = None
    measurement: Measurement = "data"
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FSVGDConfig = field(
        default_factory=lambda: FSVGDConfig(steps=500, measurement_points=None, bandwidth=10.0)
    )
    noise_std: float | None = None
    smoothing: float = 0.45

    def __post_init__(self) -> None:
        check_choice("measurement", self.measurement, get_args(Measurement))
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing is a share in [0, 1), not {self.smoothing}.")
        if self.level is not None and not self.level >= 0:
            raise ValueError(f"level must not be negative, not {self.level}.")
        check_positive(self, "noise_std")

    @classmethod
    def gaussian(cls) -> SampledMARS:
        """The score of a Gaussian with the moments of the drawn functions, shrunk: what a network has to beat."""
        return cls(estimator=ShrunkGaussian())

    @classmethod
    def paper(cls, estimator: Estimator | None = None) -> SampledMARS:
        """The ablation of the published configuration: SSGE with the paper's bandwidth."""
        return cls(
            estimator=ssge(ABLATION_BANDWIDTH) if estimator is None else estimator,
            interpolator=MaternInterpolator(),
            level=0.0,
            measurement="box",
            inference=FSVGDConfig(),
            noise_std=0.1,
            smoothing=0.0,
        )

    @classmethod
    def paper_gaussian(cls) -> SampledMARS:
        """The published configuration with the shrunk Gaussian's score."""
        return cls.paper(ShrunkGaussian())

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> FunctionPrior:
        """Interpolate the tasks; the score is estimated when a task is inferred."""
        point_key, interpolator_key, score_key = jax.random.split(as_key(key), 3)
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded(dtype=np.float64)
        fitted = self.interpolator.fit(padded, interpolator_key)
        noise = fitted.noise_std if self.noise_std is None else jnp.float32(self.noise_std)
        if noise is None:
            raise ValueError(f"{type(self.interpolator).__name__} learns no observation noise: give noise_std.")
        level = jnp.minimum(noise, 0.1) if self.level is None else jnp.float32(self.level)
        inference = Particles(
            score=SampledScore(fitted, score_key, self.estimator),
            levels=NoiseLevels(level),
            measurement=measurement_around(self.measurement, padded, point_key),
            box=Box.around(padded),
            hyper=self.inference.hyper(noise),
            smoothing=jnp.float32(self.smoothing),
            bnn=self.bnn,
            config=static_part(self.inference),
        )
        return FunctionPrior(standardizer, inference, notes_of(self, tasks, {}))

    def with_budget(self, share: float) -> SampledMARS:
        """A share of the steps of interpolation and inference."""
        return replace(
            self, interpolator=self.interpolator.with_budget(share), inference=self.inference.with_budget(share)
        )
