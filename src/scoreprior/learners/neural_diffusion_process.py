"""Neural diffusion processes (Dutordoir, Saul, Ghahramani & Simpson, ICML 2023).

A diffusion model of the values y of a task at its inputs x: noise is added to y alone, and a network that sees x and
attends over points and over input dimensions (`scores/bidimensional.py`) predicts it. With t uniform in 1, ..., T and
eps ~ N(0, I), on random subsets of the points of meta-training tasks it minimises
    E | eps - eps_theta(sqrt(abar_t) y + sqrt(1 - abar_t) eps, x, t) |,     the mean absolute difference.
Prior draws are ancestral samples. Given a context, S joint samples at the queries come from RePaint's sampler
(`inference/reverse_diffusion.py`), which is approximate; the predictive is a smoothed mixture of them.
Departures: fewer diffusion steps (T = 500 there) and a narrower network, to fit on a CPU; queries are drawn in rounds;
the learning rate falls to zero instead of an average of weights over steps; training stops when held-out tasks no
longer improve.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._settings import check_counts
from scoreprior._short_repr import short_repr
from scoreprior._types import KeyLike, as_key
from scoreprior.inference.reverse_diffusion import Predictor, ReverseDiffusion
from scoreprior.learners._function_prior import FunctionPrior, notes_of
from scoreprior.scores.bidimensional import NoisePredictor, NoisePredictorConfig
from scoreprior.scores.diffusion import Diffusion
from scoreprior.space import Choice, Range, Space
from scoreprior.tasks import PaddedTasks, Standardizer, TaskSet
from scoreprior.training import TrainingConfig, train

_MOST_POINTS = 100  # of a task in one step: long tasks are seen in parts, other ones at every step
_VALIDATION_DRAWS = 1024


@short_repr
@dataclass(frozen=True)
class NeuralDiffusionProcess:
    """The meta-learner.

    Args:
        network: the noise predictor.
        diffusion_steps: T.
        repeats: reverse steps at each noise level of a conditional sample; more follow the context better.
        in_rounds: whether queries are drawn in rounds, which follow the context better; False is the paper's one pass.
        samples: joint samples of a prediction.
        smoothing: share of the samples' variance that is within components of the predictive.
        training: of the network.
        tasks_per_step: tasks of a training step.
        held_out: share of the tasks that decide when training stops.
    """

    space: ClassVar[Space] = {
        "training.learning_rate": Range(3e-4, 1e-2, log=True),
        "training.weight_decay": Choice((0.0, 1e-3, 1e-2, 1e-1)),
        "network.width": Choice((32, 64)),
        "network.blocks": Choice((2, 3, 4)),
        "smoothing": Range(0.05, 0.5),
    }

    network: NoisePredictorConfig = field(default_factory=NoisePredictorConfig)
    diffusion_steps: int = 50
    repeats: int = 3
    in_rounds: bool = True
    samples: int = 32
    smoothing: float = 0.3
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(
            steps=6000, learning_rate=3e-3, clip=1.0, schedule="cosine", chunk=250, patience=8
        )
    )
    tasks_per_step: int = 32
    held_out: float = 0.1

    def __post_init__(self) -> None:
        check_counts(self, "diffusion_steps", "repeats", "samples", "tasks_per_step")
        if self.samples < 2:
            raise ValueError(f"A spread needs at least two samples, not {self.samples}.")
        if not 0 < self.smoothing <= 1:
            raise ValueError(f"smoothing is a share above 0 and at most 1, not {self.smoothing}.")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out lies strictly between 0 and 1, not {self.held_out}.")

    def with_budget(self, share: float) -> NeuralDiffusionProcess:
        """The same with this share of the training steps; the diffusion's steps are what is learned, and stay."""
        return replace(self, training=self.training.with_budget(share))

    def fit(self, tasks: TaskSet, key: KeyLike, *, progress: bool = True) -> FunctionPrior:
        """Train the noise predictor on all tasks but those held out."""
        split_key, start_key, train_key, held_key = jax.random.split(as_key(key), 4)
        standardizer = Standardizer.fit(tasks)
        padded = standardizer.apply(tasks).padded()
        shuffled = np.asarray(jax.random.permutation(split_key, len(tasks)))
        held, rest = np.split(shuffled, [min(max(1, round(self.held_out * len(tasks))), len(tasks) - 1)])
        several = np.resize(held, max(len(held), _VALIDATION_DRAWS))  # several noises of each
        diffusion = Diffusion.cosine(self.diffusion_steps)
        loss, validate = (_Loss(_take(padded, rows), diffusion, self.tasks_per_step) for rows in (rest, several))
        start = _start(self.network, start_key)
        predictor, history = train(
            loss,
            start,
            self.training,
            train_key,
            validate=_HeldOut(validate, held_key),
            progress=progress,
            description="Learning to predict noise",
        )
        inference = ReverseDiffusion(
            predictor, diffusion, jnp.float32(self.smoothing), self.samples, self.repeats, self.in_rounds
        )
        best = min(history, key=lambda record: record.validation or np.inf)
        metrics = {"training_loss": best.loss, "held_out_loss": float(best.validation or np.nan)}
        return FunctionPrior(standardizer, inference, notes_of(self, tasks, metrics))


class _Loss(eqx.Module):
    """Mean absolute error of the predicted noise, over a batch of tasks."""

    tasks: PaddedTasks
    diffusion: Diffusion
    batch: int = eqx.field(static=True)

    def __call__(self, predictor: Predictor, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        row_key, point_key, noise_key = jax.random.split(key, 3)
        rows = jax.random.randint(row_key, (self.batch,), 0, len(self.tasks.y))
        some = self.tasks.take(rows).at_most(_MOST_POINTS, point_key)
        losses = jax.vmap(lambda task, one: self.of_task(predictor, task, one))(
            some, jax.random.split(noise_key, self.batch)
        )
        return jnp.mean(losses), {}

    def of_task(self, predictor: Predictor, task: PaddedTasks, key: PRNGKeyArray) -> Float[Array, ""]:
        """Of a random number of one task's points, at least one, at a random step."""
        uniform_key, noise_key = jax.random.split(key)
        uniform = jax.random.uniform(uniform_key, (len(task.mask) + 2,))
        order = jnp.where(task.mask, uniform[2:], 2.0)
        rank = jnp.sum(order[None, :] < order[:, None], axis=1)  # no sort: it compiles slowly
        chosen = task.mask & (rank <= jnp.floor(uniform[0] * jnp.sum(task.mask)))
        t = 1 + jnp.floor(uniform[1] * self.diffusion.steps).astype(int)
        noise = jax.random.normal(noise_key, task.y.shape)
        x = jnp.where(chosen[:, None], task.x, 0.0)
        predicted = predictor(self.diffusion.noised(task.y, t, noise), x, t, chosen)
        return jnp.sum(jnp.where(chosen, jnp.abs(predicted - noise), 0.0)) / jnp.maximum(jnp.sum(chosen), 1)


class _HeldOut(eqx.Module):
    """The loss of held-out tasks with fixed noise."""

    loss: _Loss
    key: PRNGKeyArray

    def __call__(self, predictor: Predictor) -> Float[Array, " n"]:
        keys = jax.random.split(self.key, len(self.loss.tasks.y))
        tasks = self.loss.tasks.at_most(_MOST_POINTS, jax.random.fold_in(self.key, 1))
        return jax.vmap(lambda task, key: self.loss.of_task(predictor, task, key))(tasks, keys)


def _take(tasks: PaddedTasks, rows: np.ndarray) -> PaddedTasks:
    return tasks.take(rows)


@eqx.filter_jit
def _start(config: NoisePredictorConfig, key: PRNGKeyArray) -> NoisePredictor:
    return NoisePredictor(config, key)
