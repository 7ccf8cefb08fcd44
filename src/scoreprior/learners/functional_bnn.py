"""Networks with a Gaussian process prior over their function: fSVGD (Wang et al., 2019), fVI (Sun et al., 2019).

The prior enters by the exact score of its marginals, -(K + level^2 I)^-1 f, in particle updates along
grad log p(y | f) + grad log p(f^X) (fSVGD, `inference/fsvgd.py`) or in the functional evidence lower bound
E_q log p(y | f) - KL(q(f^X) || p(f^X)) (fVI, `inference/fvi.py`).

Departures. Both papers fit the process's hyper-parameters by marginal likelihood to the one data set at hand; a handful
of points does not determine them, so they are fitted to all meta-training tasks together (type-II maximum likelihood),
with the mean kept at zero. fSVGD's bandwidth is fixed instead of the median heuristic's; fVI's estimate of q's score is
a Gaussian's instead of SSGE's (`inference/fvi.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_generator, as_key
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference.bnn import BNNConfig
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.inference.fvi import FVIConfig
from scoreprior.inference.measurement import Box, DataDriven
from scoreprior.inference.particles import Particles, VariationalParticles
from scoreprior.inference.svgd import static_part
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.scores.exact import GaussianProcessScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train

_ORDERS = (0.5, 1.5, 2.5, math.inf)


@dataclass(frozen=True)
class GPPriorConfig:
    """The zero-mean process and its type-II maximum likelihood fit to all meta-training tasks.

    Args:
        order: of the Matern kernel with one lengthscale per input; inf is the RBF kernel.
        most_tasks: tasks, chosen at random, that it is fitted to.
        most_points: points of a task, chosen at random, that it is fitted to.
    """

    order: float = 2.5
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=300, learning_rate=0.05, schedule="cosine")
    )
    most_tasks: int = 200
    most_points: int = 100

    def __post_init__(self) -> None:
        check_choice("order", self.order, _ORDERS)
        check_counts(self, "most_tasks", "most_points")

    def with_budget(self, share: float) -> GPPriorConfig:
        """The same with this share of the steps of the fit."""
        return replace(self, training=self.training.with_budget(share))


@short_repr
@dataclass(frozen=True)
class FunctionalBNN:
    """A network with a zero-mean Gaussian process prior over its function, inferred by fSVGD (Wang et al., 2019).

    Args:
        level: noise on the functions whose score is taken; it bounds the score at close-by points.
        noise_std: observation noise, standardised units; None takes the process's.
    """

    space: ClassVar[Space] = {
        "process.order": Choice(_ORDERS),
        "level": Range(0.01, 0.3, log=True),
        "inference.learning_rate": Range(1e-3, 3e-2, log=True),
        "inference.bandwidth": Range(0.1, 10.0, log=True),
    }

    process: GPPriorConfig = field(default_factory=GPPriorConfig)
    level: float = 0.03
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FSVGDConfig = field(
        default_factory=lambda: FSVGDConfig(steps=600, learning_rate=1e-2, measurement_points=12)
    )
    noise_std: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, "level", "noise_std")

    def with_budget(self, share: float) -> FunctionalBNN:
        """The same with this share of the steps, of the process's fit and of inference."""
        return replace(self, process=self.process.with_budget(share), inference=self.inference.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> FunctionPrior:
        """Fit the process to all tasks together."""
        fitted = _fit(self, tasks, as_key(key), progress)
        inference = Particles(
            score=fitted.score,
            levels=NoiseLevels(jnp.float32(self.level)),
            measurement=fitted.measurement,
            box=fitted.box,
            hyper=self.inference.hyper(fitted.noise_std),
            smoothing=jnp.float32(0.0),
            bnn=self.bnn,
            config=static_part(self.inference),
        )
        return FunctionPrior(fitted.standardizer, inference)


@short_repr
@dataclass(frozen=True)
class FunctionalVI:
    """A network with a zero-mean Gaussian process prior over its function, inferred by fVI (Sun et al., 2019).

    Args:
        noise_std: observation noise, standardised units; None takes the process's.
    """

    space: ClassVar[Space] = {
        "process.order": Choice(_ORDERS),
        "inference.learning_rate": Range(1e-3, 3e-2, log=True),
        "inference.function_noise": Range(0.01, 0.3, log=True),
        "inference.samples": Choice((10, 20, 40)),
    }

    process: GPPriorConfig = field(default_factory=GPPriorConfig)
    bnn: BNNConfig = field(default_factory=BNNConfig)
    inference: FVIConfig = field(
        default_factory=lambda: FVIConfig(steps=500, samples=10, particles=20, measurement_points=12)
    )
    noise_std: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, "noise_std")

    def with_budget(self, share: float) -> FunctionalVI:
        """The same with this share of the steps, of the process's fit and of inference."""
        return replace(self, process=self.process.with_budget(share), inference=self.inference.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> FunctionPrior:
        """Fit the process to all tasks together."""
        fitted = _fit(self, tasks, as_key(key), progress)
        inference = VariationalParticles(
            score=fitted.score,
            measurement=fitted.measurement,
            box=fitted.box,
            hyper=self.inference.hyper(fitted.noise_std),
            bnn=self.bnn,
            config=static_part(self.inference),
        )
        return FunctionPrior(fitted.standardizer, inference)


class _Fitted(NamedTuple):
    """The process's score and noise, and where functions are measured."""

    standardizer: Standardizer
    score: GaussianProcessScore
    noise_std: float | Float[Array, ""]
    measurement: DataDriven
    box: Box


def _fit(method: FunctionalBNN | FunctionalVI, tasks: TaskSet, key: PRNGKeyArray, progress: bool) -> _Fitted:
    process_key, point_key = jax.random.split(key)
    standardizer = Standardizer.fit(tasks)
    scaled = standardizer.apply(tasks)
    process = learn_zero_mean(scaled, method.process, process_key, progress=progress)
    padded = scaled.padded()
    return _Fitted(
        standardizer,
        GaussianProcessScore(process.mean, process.kernel),
        process.noise_std if method.noise_std is None else method.noise_std,
        DataDriven.around(padded, point_key),
        Box.around(padded),
    )


def learn_zero_mean(tasks: TaskSet, config: GPPriorConfig, key: KeyLike, *, progress: bool = False) -> GaussianProcess:
    """argmax sum_i log N(y_i; 0, K_i + noise^2 I) over std, lengthscales and noise; tasks in standardised units."""
    choice_key, train_key = jax.random.split(as_key(key))
    generator = as_generator(choice_key)
    if len(tasks) > config.most_tasks:
        tasks = tasks.take(generator.choice(len(tasks), config.most_tasks, replace=False))
    thinned = tasks.map(lambda task: task.take(generator.permutation(len(task))[: config.most_points]))
    start = _LogScales(jnp.zeros(()), jnp.full(tasks.dim, 0.5 * math.log(tasks.dim)), jnp.log(jnp.float32(0.3)))
    scales, _ = train(
        _Evidence(thinned.padded(), config.order),
        start,
        config.training,
        train_key,
        project=_clip,
        progress=progress,
        description="Fitting the process",
    )
    return scales.process(config.order)


class _LogScales(eqx.Module):
    """Logarithms of signal standard deviation, lengthscales and noise standard deviation."""

    std: Float[Array, ""]
    lengthscale: Float[Array, " d"]
    noise: Float[Array, ""]

    def process(self, order: float) -> GaussianProcess:
        kernel = Matern(jnp.exp(self.std), jnp.exp(self.lengthscale), order)
        return GaussianProcess(ZeroMean(), kernel, jnp.exp(self.noise))


def _clip(scales: _LogScales) -> _LogScales:
    """Bounds that keep the likelihood of constant tasks finite, and an input that does not matter from running off."""
    return _LogScales(
        jnp.clip(scales.std, math.log(1e-2), math.log(1e2)),
        jnp.clip(scales.lengthscale, math.log(1e-2), math.log(1e2)),
        jnp.clip(scales.noise, math.log(1e-2), math.log(1e1)),
    )


class _Evidence(eqx.Module):
    """Negative log marginal likelihood per point of all tasks."""

    tasks: PaddedTasks
    order: float = eqx.field(static=True)

    def __call__(self, scales: _LogScales, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        logs = jax.vmap(scales.process(self.order).log_likelihood)(*self.tasks)
        return -jnp.sum(logs) / jnp.sum(self.tasks.mask), {}
