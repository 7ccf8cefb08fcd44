"""MARS as a denoiser: a network on top of a Gaussian process, trained on the observed points of the tasks themselves.

Draws of an interpolator mostly teach a network the interpolator. Here a training step takes real points: of each task
a random part is known, the rest is known up to noise or unknown, and the network predicts it (`scores/denoiser.py`).
The network is kept only if tasks that neither it nor its anchor has seen are predicted better; without it the anchor,
fitted to all tasks, answers in closed form.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._settings import check_positive
from scoreprior._types import KeyLike, as_key
from scoreprior.gp import ProcessAverage, ProcessConfig, fit_average, fit_process
from scoreprior.gp.predictive_tuning import is_significant
from scoreprior.inference.average import average_of
from scoreprior.inference.closed_form import ClosedForm
from scoreprior.inference.denoised import Denoised
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.learners._split_nll import task_nll
from scoreprior.scores.denoiser import Denoiser, DenoiserConfig, Points
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train

FilePath = str | os.PathLike[str]

_FEWEST_HELD_OUT = 2
_VALIDATION_SPLITS = 256


@dataclass(frozen=True)
class DenoisedMARS:
    """The meta-learner.

    Args:
        anchor: the Gaussian process that the network corrects.
        network: the denoiser's network.
        training: of the network.
        tasks_per_step: tasks of a training step.
        noised: share of the tasks of a step whose points are known up to noise; those of the others are unknown.
        levels: least and largest noise, standardised units.
        held_out: share of the tasks that decide when training stops and whether the network stays.
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
    network: DenoiserConfig = field(default_factory=DenoiserConfig)
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            steps=4000, learning_rate=2e-3, clip=1.0, schedule="cosine", weight_decay=1e-2, chunk=250, patience=6
        )
    )
    tasks_per_step: int = 32
    noised: float = 0.3
    levels: tuple[float, float] = (0.03, 3.0)
    held_out: float = 0.2
    average: bool = True

    def __post_init__(self) -> None:
        check_positive(self, "tasks_per_step")
        if not 0 <= self.noised <= 1:
            raise ValueError(f"noised is a share in [0, 1], not {self.noised}.")
        if not 0 < self.levels[0] <= self.levels[1]:
            raise ValueError(f"levels are two positive noises, the smaller first, not {self.levels}.")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out lies strictly between 0 and 1, not {self.held_out}.")

    def fit(
        self,
        tasks: TaskSet,
        key: KeyLike,
        *,
        progress: bool = True,
        checkpoint: FilePath | None = None,
        resume: FilePath | None = None,
    ) -> FunctionPrior:
        """Fit the anchor, train the network, and keep it if held-out tasks are predicted better.

        Args:
            checkpoint: file to write as the network trains; if it is there already, training goes on from it.
            resume: file to go on from, if it is another one.
        """
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded(dtype=np.float64)
        prior: FunctionPrior | None = None
        metrics: dict[str, float] = {}
        if round(self.held_out * len(tasks)) >= _FEWEST_HELD_OUT:
            files = {"checkpoint": checkpoint, "resume": resume, "progress": progress}
            prior, metrics = self._judge_network(tasks, standardizer, padded, as_key(key), files)
        if prior is None:
            fitted = self._fit_processes(padded, as_key(key))
            prior = FunctionPrior(standardizer, average_of(ClosedForm(fitted.process), fitted))
        return replace(prior, notes=notes_of(self, tasks, metrics))

    def _judge_network(
        self, tasks: TaskSet, standardizer: Standardizer, padded: PaddedTasks, key: PRNGKeyArray, files: dict[str, Any]
    ) -> tuple[FunctionPrior | None, dict[str, float]]:
        """A prior with a trained network, or None where held-out tasks are not predicted better.

        Neither the network nor the anchor of this comparison has seen the held-out tasks.
        """
        split_key, start_key, train_key, held_key, judge_key = jax.random.split(jax.random.fold_in(key, 2), 5)
        shuffled = np.asarray(jax.random.permutation(split_key, len(tasks)))
        held, rest = np.split(shuffled, [round(self.held_out * len(tasks))])
        fitted = self._fit_processes(padded.without(held), key)
        start = Denoiser(jax.tree.map(jnp.asarray, fitted.process), tasks.dim, self.network, start_key)
        several = np.resize(held, max(len(held), _VALIDATION_SPLITS))  # of few tasks, several splits of each
        denoiser, history = train(
            self._loss(padded, rest),
            start,
            self.training,
            train_key,
            trainable=_trainable(start),
            validate=_HeldOut(self._loss(padded, several), held_key),
            description="Learning the denoiser",
            **files,
        )
        with_network = FunctionPrior(standardizer, Denoised(denoiser))
        without = FunctionPrior(standardizer, average_of(ClosedForm(fitted.process), fitted))
        before, after = (task_nll(each, tasks.take(held), judge_key) for each in (without, with_network))
        metrics = {
            "training_loss": history[-1].loss,
            "held_out_nll_without_network": float(before.mean()),
            "held_out_nll": float(after.mean()),
        }
        return (with_network if is_significant(before - after) else None), metrics

    def with_budget(self, share: float) -> DenoisedMARS:
        """A share of the anchor's evaluations and of the training steps."""
        return replace(self, anchor=self.anchor.with_budget(share), training=self.training.with_budget(share))

    def _fit_processes(self, padded: PaddedTasks, key: PRNGKeyArray) -> ProcessAverage:
        """The anchor, and a simple process to average with where that helps."""
        if self.average:
            return fit_average(padded, self.anchor, key)
        return ProcessAverage(fit_process(padded, self.anchor, key))

    def _loss(self, padded: PaddedTasks, rows: np.ndarray) -> _Loss:
        some = PaddedTasks(*(jnp.asarray(np.asarray(leaf)[rows], _SINGLE.get(leaf.dtype.kind)) for leaf in padded))
        low, high = np.log(self.levels)
        return _Loss(
            some, jnp.float32(self.noised), jnp.float32(low), jnp.float32(high), min(self.tasks_per_step, len(rows))
        )


_SINGLE = {"f": jnp.float32}


class _Loss(eqx.Module):
    """Mean negative log density of the points that are not known, over a batch of tasks that are split at random."""

    tasks: PaddedTasks
    noised: Float[Array, ""]
    log_low: Float[Array, ""]
    log_high: Float[Array, ""]
    batch: int = eqx.field(static=True)

    def __call__(self, denoiser: Denoiser, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        row_key, split_key = jax.random.split(key)
        rows = jax.random.randint(row_key, (self.batch,), 0, len(self.tasks.y))
        some = PaddedTasks(*(leaf[rows] for leaf in self.tasks))
        losses = jax.vmap(lambda task, one: self.of_task(denoiser, task, one))(
            some, jax.random.split(split_key, self.batch)
        )
        return jnp.mean(losses), {}

    def of_task(self, denoiser: Denoiser, task: PaddedTasks, key: PRNGKeyArray) -> Float[Array, ""]:
        """Of one task with a random number of known points, up to all but one."""
        uniform_key, noise_key = jax.random.split(key)
        uniform = jax.random.uniform(uniform_key, (len(task.mask) + 3,))
        order = jnp.where(task.mask, uniform[3:], 2.0)
        rank = jnp.sum(order[None, :] < order[:, None], axis=1)
        known = task.mask & (rank < jnp.floor(uniform[0] * jnp.sum(task.mask)))
        level = jnp.exp(self.log_low + uniform[1] * (self.log_high - self.log_low))
        noise = jnp.where(known, 0.0, level)
        there = known | (task.mask & (uniform[2] < self.noised))
        values = task.y + noise * jax.random.normal(noise_key, task.y.shape)
        locs, scales, *_ = denoiser(Points(task.x, values, noise, there))
        log_prob = mixture_log_prob(task.y, locs, scales)  # type: ignore[arg-type]
        asked: Bool[Array, " m"] = task.mask & ~known
        return -jnp.sum(jnp.where(asked, log_prob, 0.0)) / jnp.maximum(jnp.sum(asked), 1)


class _HeldOut(eqx.Module):
    """The loss of held-out tasks over fixed splits."""

    loss: _Loss
    key: PRNGKeyArray

    def __call__(self, denoiser: Denoiser) -> Float[Array, " n"]:
        keys = jax.random.split(self.key, len(self.loss.tasks.y))
        return jax.vmap(lambda task, key: self.loss.of_task(denoiser, task, key))(self.loss.tasks, keys)


def mixture_log_prob(
    y: Float[Array, " k"], locs: Float[Array, "c k"], scales: Float[Array, "c k"]
) -> Float[Array, " k"]:
    """log 1/C sum_c N(y; locs_c, scales_c^2)."""
    each = jax.scipy.stats.norm.logpdf(y, locs, scales)
    return jax.nn.logsumexp(each, axis=0) - jnp.log(len(locs))


def _trainable(denoiser: Denoiser) -> Denoiser:
    """Everything but the anchor and the frequencies."""
    nothing = jax.tree.map(lambda _: False, denoiser)
    return eqx.tree_at(lambda d: d.encoder, nothing, jax.tree.map(eqx.is_inexact_array, denoiser.encoder))
