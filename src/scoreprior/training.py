"""The only optax loop: Adam in compiled chunks, with checkpoints, early stopping and a divergence guard.

Step t uses the key fold_in(key, t), and a chunk is a loop with a traced number of steps: neither the length
of the chunks nor an interruption changes a bit of the result, and no length compiles again.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from scoreprior import _checkpoint
from scoreprior._budget import share_of
from scoreprior._checkpoint import Record, Run
from scoreprior._compilation import LEVEL_1_NO_FUSION
from scoreprior._progress import track
from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior._types import KeyLike, as_key

Model = TypeVar("Model")
Loss = Callable[[Any, PRNGKeyArray], tuple[Float[Array, ""], dict[str, Array]]]
Schedule = Literal["constant", "cosine"]

_EXPLOSION = 1e6
_MEMORY = 0.99


@dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained.

    Args:
        clip: largest global norm of a gradient; `math.inf` for none.
        schedule: "constant", or "cosine" from `learning_rate` down to zero at the last step.
        weight_decay: decoupled, as AdamW's.
        chunk: steps between two looks at the loss, checkpoints and validations.
        patience: stop after this many chunks without a better validation loss, and return the best model.
    """

    steps: int = 20_000
    learning_rate: float = 1e-3
    clip: float = 10.0
    schedule: Schedule = "constant"
    weight_decay: float = 0.0
    chunk: int = 500
    patience: int | None = None

    def __post_init__(self) -> None:
        check_counts(self, "steps", "chunk", "patience")
        check_positive(self, "learning_rate")
        if not (self.clip > 0 and 0 <= self.weight_decay < math.inf):
            raise ValueError("clip must be positive and weight_decay must not be negative.")
        check_choice("schedule", self.schedule, get_args(Schedule))

    def with_budget(self, share: float) -> TrainingConfig:
        """The same with this share of the steps; with patience, chunks longer than all of them shrink as well."""
        steps, chunk = share_of(self.steps, share), self.chunk
        if self.patience is not None and steps < chunk:
            chunk = share_of(chunk, share)  # with a single look at the held-out loss no patience could run out
        return replace(self, steps=steps, chunk=chunk)


class DivergenceError(RuntimeError):
    """Training left the finite numbers, or its loss exploded; `step` is the first bad one."""

    def __init__(self, step: int, what: str):
        advice = "Lower the learning rate or the clip; with denoising, a higher level helps too."
        super().__init__(f"Training diverged at step {step}: {what}. {advice}")
        self.step = step


class Rates(NamedTuple):
    """The numbers of a `TrainingConfig` as arrays, so that a new value does not compile again."""

    learning_rate: Float[Array, ""]
    clip: Float[Array, ""]
    weight_decay: Float[Array, ""]
    steps: Int[Array, ""]
    cosine: Bool[Array, ""]


class Problem(eqx.Module):
    """What no step changes: functions, the model without its arrays, which of these to train, the key."""

    loss: Loss
    project: Callable[[Any], Any] | None
    static: PyTree
    trainable: PyTree[bool]
    rates: Rates
    key: PRNGKeyArray


class State(NamedTuple):
    """What a step changes: the model's arrays, the optimiser's, the step, the running scale of the loss."""

    arrays: PyTree
    optimiser: PyTree
    step: Int[Array, ""]
    scale: Float[Array, ""]


def train(
    loss: Loss,
    model: Model,
    config: TrainingConfig,
    key: KeyLike,
    *,
    project: Callable[[Model], Model] | None = None,
    trainable: PyTree = eqx.is_inexact_array,
    validate: Callable[[Model], Float[Array, "*n"]] | None = None,
    progress: bool = False,
    description: str = "Training",
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> tuple[Model, list[Record]]:
    """Minimise E[loss(model, key)] by Adam; the trained model and one record per chunk.

    Args:
        loss: pure; returns the loss and a dict of scalars to record. Given as a `jax.tree_util.Partial` or an
            `eqx.Module` that holds its data as arrays, it compiles once for all data of the same shapes.
        project: pure; run on the model after every update.
        trainable: filter of the arrays to train, as for `eqx.partition`; `project` may change the others.
        validate: pure; held-out losses of a model, evaluated after every chunk; their mean counts.
        checkpoint: file to write after every chunk; if it is there already, the run goes on from it.
        resume: file to go on from, if it is another one.
    """
    if config.patience is not None and validate is None:
        raise ValueError("patience needs a validate function to know when the model stops improving.")
    problem, state = _start(loss, model, config, as_key(key), project, trainable)
    run = Run(state)
    mark = _checkpoint.fingerprint((problem, state, validate)) if checkpoint or resume else ""
    if resume is None and checkpoint is not None and os.path.exists(checkpoint):
        resume = checkpoint
    if resume is not None:
        run = _checkpoint.read(resume, run, config, mark)
    with track(config.steps, description, progress) as advance:
        advance(run.step)
        while run.step < config.steps and not (config.patience and run.waited >= config.patience):
            before = run.step
            run = _advance(problem, run, config, validate)
            if checkpoint is not None:
                _checkpoint.write(checkpoint, run, config, mark)
            advance(run.step - before, f"loss {run.history[-1].loss:.4g}")
    arrays = run.state.arrays if config.patience is None or run.best is None else run.best
    return eqx.combine(arrays, problem.static), list(run.history)


def _start(
    loss: Loss,
    model: Any,
    config: TrainingConfig,
    key: PRNGKeyArray,
    project: Callable[[Any], Any] | None,
    trainable: PyTree,
) -> tuple[Problem, State]:
    arrays, static = eqx.partition(model, eqx.is_array)
    # A loop's carry has strong types; weak ones would compile once for the first chunk, once for the others.
    arrays = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), arrays)
    mask = _where(eqx.is_inexact_array, eqx.filter(arrays, trainable))
    parameters = eqx.filter(arrays, mask)
    if not jax.tree.leaves(parameters):
        raise ValueError("The model has no trainable floating-point array.")
    rates = Rates(
        jnp.float32(config.learning_rate),
        jnp.float32(config.clip),
        jnp.float32(config.weight_decay),
        jnp.int32(config.steps),
        jnp.asarray(config.schedule == "cosine"),
    )
    problem = Problem(loss, project, static, mask, rates, key)
    return problem, State(arrays, _moments(rates, parameters), jnp.int32(0), jnp.float32(1.0))


def _advance(problem: Problem, run: Run, config: TrainingConfig, validate: Callable | None) -> Run:
    """One chunk, and what is done at its end; raises before anything of a diverged chunk is kept."""
    start = time.perf_counter()
    stop = min((run.step // config.chunk + 1) * config.chunk, config.steps)
    state, totals, bad, finite = _run_chunk(problem, run.state, jnp.int32(stop))
    step = int(state.step)
    if bad:
        raise DivergenceError(step - 1, "the loss or its gradient is not finite, or the loss exploded")
    if not finite:
        raise DivergenceError(step - 1, "the model's arrays are not finite")
    means = {name: float(total) / (step - run.step) for name, total in totals.items()}
    model = eqx.combine(state.arrays, problem.static)
    held_out = None if validate is None else float(validation_losses(validate, model).mean())
    record = Record(step, means.pop("loss"), held_out, time.perf_counter() - start, means)
    run = replace(run, state=state, history=(*run.history, record))
    if held_out is None or config.patience is None:
        return run
    if held_out < run.best_loss:
        return replace(run, best=state.arrays, best_loss=held_out, waited=0)
    return replace(run, waited=run.waited + 1)


@eqx.filter_jit
def _run_chunk(problem: Problem, state: State, stop: Int[Array, ""]) -> tuple[State, dict[str, Array], Array, Array]:
    """Steps to `stop` or to the first bad one: state, sums of loss and aux, whether bad, whether finite."""

    def more(carry: tuple) -> Bool[Array, ""]:
        return (carry[0].step < stop) & ~carry[2]

    def one(carry: tuple) -> tuple:
        new, values, bad = _step(problem, carry[0])
        return new, {name: carry[1][name] + values[name] for name in values}, bad

    _, aux = jax.eval_shape(lambda: problem.loss(eqx.combine(state.arrays, problem.static), problem.key))
    zeros = {name: jnp.float32(0) for name in (*aux, "loss")}
    state, totals, bad = jax.lax.while_loop(more, one, (state, zeros, jnp.asarray(False)))
    finite = jnp.isfinite(ravel_pytree(eqx.filter(state.arrays, eqx.is_inexact_array))[0]).all()
    return state, totals, bad, finite


def _step(problem: Problem, state: State) -> tuple[State, dict[str, Array], Bool[Array, ""]]:
    model = eqx.combine(state.arrays, problem.static)
    parameters, rest = eqx.partition(model, problem.trainable)
    key = jax.random.fold_in(problem.key, state.step)
    (loss, aux), gradient = jax.value_and_grad(
        lambda candidates: problem.loss(eqx.combine(candidates, rest), key), has_aux=True
    )(parameters)
    # One long vector for the optimiser: on every leaf alone its few operations are programs of their own to compile.
    flat, restore = ravel_pytree(parameters)
    gradient = ravel_pytree(gradient)[0]
    updates, optimiser_state = _optimiser(problem.rates, state.step).update(gradient, state.optimiser, flat)
    model = eqx.combine(restore(optax.apply_updates(flat, updates)), rest)
    if problem.project is not None:
        model = problem.project(model)
    arrays = eqx.filter(model, _where(eqx.is_array, state.arrays))
    size = jnp.abs(loss).astype(jnp.float32)
    first = state.step == 0
    exploded = ~first & (size > _EXPLOSION * state.scale)
    bad = exploded | ~jnp.isfinite(size) | ~jnp.isfinite(jnp.linalg.norm(gradient))
    # No less than 1, the size of a loss in standardised units: a first loss of zero is no yardstick.
    scale = jnp.maximum(1.0, jnp.where(first, size, _MEMORY * state.scale + (1 - _MEMORY) * size))
    values = {name: jnp.mean(value, dtype=jnp.float32) for name, value in {**aux, "loss": loss}.items()}
    return State(arrays, optimiser_state, state.step + 1, scale), values, bad


@eqx.filter_jit
def _moments(rates: Rates, parameters: PyTree) -> PyTree:
    """The optimiser's state before the first step."""
    return _optimiser(rates, 0).init(ravel_pytree(parameters)[0])


def _optimiser(rates: Rates, step: Int[Array, ""] | int) -> optax.GradientTransformation:
    factor = jnp.where(rates.cosine, 0.5 * (1 + jnp.cos(jnp.pi * step / rates.steps)), 1.0)
    return optax.chain(
        optax.clip_by_global_norm(rates.clip),
        optax.scale_by_adam(),
        optax.add_decayed_weights(rates.weight_decay),
        optax.scale(-rates.learning_rate * factor),
    )


def _where(holds: Callable[[Any], bool], tree: PyTree) -> PyTree[bool]:
    """A filter of the leaves for which this holds, false where a leaf was filtered out before."""
    return jax.tree.map(holds, tree, is_leaf=lambda leaf: leaf is None)


@eqx.filter_jit(**LEVEL_1_NO_FUSION)
def validation_losses(validate: Callable[[Model], Float[Array, "*n"]], model: Model) -> Float[Array, "*n"]:
    """The held-out losses of a model, by the program that `train` compiled for the same `validate`."""
    return validate(model)
