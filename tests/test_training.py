"""The training loop: equal to plain optax, blind to chunks and interruptions, and honest about divergence."""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import Partial
from jaxtyping import Array, PRNGKeyArray

from scoreprior import training as _training
from scoreprior._checkpoint import CheckpointError
from scoreprior._progress import track
from scoreprior.serialization import PriorFileError, describe, load_prior
from scoreprior.training import DivergenceError, TrainingConfig, train

KEY = jax.random.key(7)


class Line(eqx.Module):
    """y = tanh(weight x) + offset + shift, with a counter that only `project` changes."""

    weight: Array
    offset: Array
    counter: Array
    shift: np.ndarray
    activation: Any = jnp.tanh

    def __call__(self, x: Array) -> Array:
        return self.activation(x @ self.weight) + self.offset + self.shift


def line() -> Line:
    # The offset is weakly typed, as arrays made of Python numbers are.
    return Line(jnp.array([0.3, -0.2, 0.1]), jnp.asarray(0.5), jnp.int32(0), np.float32([0.0]))


def noisy_loss(model: Line, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
    # Inputs that differ from key to key, at a fraction of the time that a random generator takes to compile.
    seed = jax.random.key_data(key)[0] / 2.0**32
    x = 2 * jnp.sin(1000 * seed + jnp.arange(48.0).reshape(16, 3) ** 2)
    error = model(x) - jnp.sin(x[:, 0])
    return jnp.mean(error**2), {"largest": jnp.max(jnp.abs(error))}


def count(model: Line) -> Line:
    return eqx.tree_at(lambda m: m.counter, model, model.counter + 1)


def held_out(model: Line) -> Array:
    return noisy_loss(model, jax.random.key(99))[0]


def arrays(model: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array_like))]


def assert_same(one: Any, other: Any) -> None:
    assert len(arrays(one)) == len(arrays(other)) > 0
    for a, b in zip(arrays(one), arrays(other)):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(steps=30, learning_rate=0.05, chunk=11),
        TrainingConfig(steps=30, learning_rate=0.02, clip=0.01, schedule="cosine", weight_decay=0.1, chunk=30),
    ],
)
def test_equals_a_plain_optax_loop(config: TrainingConfig) -> None:
    cosine = optax.cosine_decay_schedule(config.learning_rate, config.steps)
    rate = cosine if config.schedule == "cosine" else config.learning_rate
    optimiser = optax.chain(optax.clip_by_global_norm(config.clip), optax.adamw(rate, weight_decay=config.weight_decay))
    parameters = (line().weight, line().offset, line().shift)
    state = optimiser.init(parameters)
    losses = []

    def loss(parameters: tuple, key: PRNGKeyArray) -> Array:
        model = eqx.tree_at(lambda m: (m.weight, m.offset, m.shift), line(), parameters)
        return noisy_loss(model, key)[0]

    @jax.jit
    def step(parameters: tuple, state: Any, key: PRNGKeyArray) -> tuple:
        value, gradient = jax.value_and_grad(loss)(parameters, key)
        updates, state = optimiser.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    for i in range(config.steps):
        parameters, state, value = step(parameters, state, jax.random.fold_in(KEY, i))
        losses.append(float(value))
    model, history = train(noisy_loss, line(), config, KEY)
    for found, expected in zip((model.weight, model.offset, model.shift), parameters):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    edges = [0, *(record.step for record in history)]
    assert edges[-1] == 30
    means = [np.mean(losses[a:b]) for a, b in pairwise(edges)]
    np.testing.assert_allclose([record.loss for record in history], means, rtol=1e-5)
    assert all(record.aux["largest"] > 0 and record.seconds > 0 for record in history)


def test_chunks_do_not_change_the_result() -> None:
    results = [
        train(noisy_loss, line(), TrainingConfig(steps=100, chunk=chunk), KEY, project=count)[0]
        for chunk in (7, 50, 1, 1000)
    ]
    for other in results[1:]:
        assert_same(results[0], other)
    assert int(results[0].counter) == 100
    assert not np.allclose(results[0].weight, line().weight)


def test_only_trainable_arrays_are_trained() -> None:
    spec = jax.tree.map(lambda leaf: False, line())
    spec = eqx.tree_at(lambda m: m.weight, spec, True)
    model, _ = train(noisy_loss, line(), TrainingConfig(steps=5), KEY, trainable=spec, project=count)
    assert model.offset == line().offset
    assert model.counter == 5
    assert (model.weight != line().weight).all()
    assert model.shift == line().shift
    with pytest.raises(ValueError, match="no trainable"):
        train(noisy_loss, line(), TrainingConfig(steps=5), KEY, trainable=False)


def test_new_numbers_do_not_compile_again() -> None:
    traces = []

    def loss(data: Array, model: Line, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
        traces.append(1)
        return noisy_loss(model, key)[0] + data.sum(), {}

    train(Partial(loss, jnp.zeros(4)), line(), TrainingConfig(steps=10, chunk=4), KEY)
    compiled = len(traces)
    other = TrainingConfig(steps=25, learning_rate=3e-3, clip=1.0, schedule="cosine", weight_decay=0.1, chunk=6)
    _, history = train(Partial(loss, jnp.ones(4)), line(), other, jax.random.key(1))
    assert len(traces) == compiled
    assert history[0].loss > 4  # the new data were used all the same


def test_the_optimiser_is_compiled_for_one_vector_whatever_the_leaves() -> None:
    def roots(shapes: list[tuple[int, ...]]) -> int:
        model = [jnp.ones(shape) for shape in shapes]
        problem, state = _training._start(
            lambda model, key: (model[0].sum(), {}), model, TrainingConfig(), KEY, None, True
        )
        program = _training._run_chunk.lower(problem, state, jnp.int32(1)).lowered.as_text()
        return program.count("stablehlo.sqrt")  # Adam's, and that of a norm

    assert roots([(2,)]) == roots([(2,), (3,), (4, 5), ()])


def test_early_stopping_returns_the_best_model() -> None:
    # The loss pulls the weights to 3; held out, 1 is best. Adam moves by about the rate at each step.
    def pull(model: Line, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
        return jnp.sum((model.weight - 3.0) ** 2), {}

    def validate(model: Line) -> Array:
        return jnp.sum((model.weight - 1.0) ** 2)

    start = eqx.tree_at(lambda m: m.weight, line(), jnp.zeros(3))
    config = TrainingConfig(steps=1000, learning_rate=0.05, chunk=5, patience=3)
    model, history = train(pull, start, config, KEY, validate=validate)
    losses = [record.validation for record in history]
    best = int(np.argmin(losses))
    assert 2 < best < len(losses) - 1 < 20
    assert len(losses) - 1 - best == 3  # stopped when the patience was over
    assert float(validate(model)) == losses[best]
    # Without patience validation only watches.
    last, watched = train(pull, start, TrainingConfig(steps=50, learning_rate=0.05, chunk=5), KEY, validate=validate)
    assert float(validate(last)) == watched[-1].validation
    with pytest.raises(ValueError, match="patience needs a validate"):
        train(pull, start, config, KEY)


class Bomb(eqx.Module):
    """A weight and the number of the steps done, for losses that go off at a given step."""

    weight: Array
    counter: Array


def tick(model: Bomb) -> Bomb:
    return eqx.tree_at(lambda m: m.counter, model, model.counter + 1)


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf, 1e9, -1e9])
def test_divergence_names_the_first_bad_step(value: float, tmp_path: Path) -> None:
    def loss(model: Bomb, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
        return jnp.where(model.counter == 17, value, jnp.sum(model.weight**2)), {}

    path = tmp_path / "run.ckpt"
    bomb = Bomb(jnp.ones(2), jnp.int32(0))
    with pytest.raises(DivergenceError, match=r"step 17.*Lower the learning rate") as caught:
        train(loss, bomb, TrainingConfig(steps=40, chunk=10), KEY, project=tick, checkpoint=path)
    assert caught.value.step == 17
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["run.ckpt"]
    assert describe(path)["step"] == 10


def test_divergence_of_gradients_and_arrays() -> None:
    # sqrt has a finite value and an infinite derivative at zero.
    def edge(model: Bomb, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
        return jnp.sqrt(jnp.sum(model.weight)), {}

    with pytest.raises(DivergenceError, match="step 0: the loss or its gradient"):
        train(edge, Bomb(jnp.zeros(1), jnp.int32(0)), TrainingConfig(steps=3), KEY)

    def spoil(model: Bomb) -> Bomb:
        return eqx.tree_at(lambda m: m.weight, model, model.weight * jnp.inf)

    def flat(model: Bomb, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
        return jnp.float32(0.0), {}

    with pytest.raises(DivergenceError, match="step 2: the model's arrays"):
        train(flat, Bomb(jnp.ones(1), jnp.int32(0)), TrainingConfig(steps=3), KEY, project=spoil)


def test_large_and_zero_first_losses_are_no_divergence() -> None:
    def loss(model: Bomb, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
        return jnp.where(model.counter == 0, 1e12, jnp.sum(model.weight**2)), {}

    def from_zero(model: Bomb, key: PRNGKeyArray) -> tuple[Array, dict[str, Array]]:
        return jnp.where(model.counter == 0, 0.0, -5.0) + 0 * jnp.sum(model.weight), {}

    for one in (loss, from_zero):
        _, history = train(one, Bomb(jnp.ones(1), jnp.int32(0)), TrainingConfig(steps=5), KEY, project=tick)
        assert history[-1].step == 5


# A script that trains as `expected` below does, and is killed while it writes its third checkpoint.
SCRIPT = """
    import os, signal, stat, sys
    sys.path.insert(0, {tests!r})
    from test_training import CONFIG, KEY, count, held_out, line, noisy_loss
    from scoreprior.training import train

    writes, fsync = 0, os.fsync

    def kill(descriptor):
        global writes
        fsync(descriptor)
        writes += stat.S_ISREG(os.fstat(descriptor).st_mode)  # directories are synced too
        if writes == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = kill
    train(noisy_loss, line(), CONFIG, KEY, project=count, validate=held_out, checkpoint={path!r})
"""
CONFIG = TrainingConfig(steps=60, learning_rate=0.03, chunk=9, patience=50)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_goes_on_after_kill_9_to_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    script = textwrap.dedent(SCRIPT).format(tests=str(Path(__file__).parent), path=str(path))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert describe(path)["step"] == 18

    def run(**files: Any) -> tuple[Line, list]:
        return train(noisy_loss, line(), CONFIG, KEY, project=count, validate=held_out, **files)

    expected, full = run()
    resumed, history = run(resume=path)
    assert describe(path)["step"] == 18  # resume alone reads
    again, _ = run(checkpoint=path)
    assert describe(path)["step"] == 60
    finished, _ = run(checkpoint=path)
    for other in (resumed, again, finished):
        assert_same(expected, other)
    strip = [record._replace(seconds=0.0) for record in full]
    assert [record._replace(seconds=0.0) for record in history] == strip


def test_resumes_an_early_stop_with_the_best_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainingConfig(steps=400, learning_rate=0.1, chunk=4, patience=3)
    expected, full = train(noisy_loss, line(), config, KEY, validate=held_out)
    assert full[-1].step < 400
    real, calls = _training._advance, []

    def interrupted(*args: Any) -> Any:
        if len(calls) == len(full) - 1:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*args)

    path = tmp_path / "run.ckpt"
    monkeypatch.setattr(_training, "_advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(noisy_loss, line(), config, KEY, validate=held_out, checkpoint=path)
    monkeypatch.undo()
    resumed, history = train(noisy_loss, line(), config, KEY, validate=held_out, checkpoint=path)
    assert_same(expected, resumed)
    assert [r.validation for r in history] == [r.validation for r in full]


def test_another_run_cannot_use_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    config = TrainingConfig(steps=4, chunk=2, clip=math.inf)
    loss = Partial(lambda data, model, key: noisy_loss(model, key), jnp.zeros(3))
    train(loss, line(), config, KEY, checkpoint=path)

    def go_on(loss: Any = loss, model: Any = None, config: Any = config, key: Any = KEY, **more: Any) -> str:
        with pytest.raises(CheckpointError) as caught:
            train(loss, line() if model is None else model, config, key, checkpoint=path, **more)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    changed = TrainingConfig(steps=4, chunk=2, clip=math.inf, learning_rate=0.5)
    assert "written with {'learning_rate': 0.001}, this run has {'learning_rate': 0.5}" in go_on(config=changed)
    assert "another model, loss or key" in go_on(key=jax.random.key(8))
    assert "another model, loss or key" in go_on(model=eqx.tree_at(lambda m: m.weight, line(), jnp.ones(3)))
    assert "another model, loss or key" in go_on(model=eqx.tree_at(lambda m: m.activation, line(), jnp.sin))
    assert "another model, loss or key" in go_on(loss=Partial(loss.func, jnp.ones(3)))
    assert "another model, loss or key" in go_on(trainable=lambda leaf: eqx.is_inexact_array(leaf) and leaf.ndim)
    with pytest.raises(PriorFileError, match="it is a checkpoint, not a prior"):
        load_prior(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "cut short" in go_on()
    with pytest.raises(CheckpointError, match="No such file"):
        train(loss, line(), config, KEY, resume=tmp_path / "none")
    with pytest.raises(CheckpointError, match="Cannot save"):
        train(loss, line(), config, KEY, checkpoint=tmp_path / "no" / "where")


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_terminals_only_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = TrainingConfig(steps=20, chunk=5)
    quiet, _ = train(noisy_loss, line(), config, KEY)
    piped, _ = train(noisy_loss, line(), config, KEY, progress=True)
    assert capfd.readouterr() == ("", "")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    silent, _ = train(noisy_loss, line(), config, KEY, progress=False)
    assert screen.getvalue() == ""
    shown, _ = train(noisy_loss, line(), config, KEY, progress=True, description="Fitting")
    assert "Fitting" in screen.getvalue()
    assert "20/20" in screen.getvalue()
    for other in (piped, silent, shown):
        assert_same(quiet, other)


def test_track_counts_and_passes_errors_on(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")

    def fail() -> None:
        with track(3, "Counting") as advance:
            advance(2, "half way")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "2/3" in screen.getvalue()
    assert "half way" in screen.getvalue()


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"chunk": 0},
        {"patience": 0},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"clip": -1.0},
        {"weight_decay": -1.0},
        {"schedule": "linear"},
    ],
)
def test_config_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainingConfig(**wrong)


def test_a_share_of_the_budget_has_fewer_steps_and_leaves_patience_its_chunks() -> None:
    config = TrainingConfig(steps=3000, chunk=250, patience=4)
    assert config.with_budget(1.0) == config
    assert config.with_budget(0.25) == replace(config, steps=750)
    assert config.with_budget(0.05) == replace(config, steps=150, chunk=20)
    assert config.with_budget(1e-6) == replace(config, steps=20, chunk=20)
    assert replace(config, patience=None).with_budget(0.05) == replace(config, patience=None, steps=150)
    with pytest.raises(ValueError, match="share"):
        config.with_budget(0.0)


def test_a_loop_within_a_loop_shares_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets of bars would overwrite each other; a stage of unknown length shows that it goes on."""
    from rich.progress import Progress

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    lines: list[list[tuple[str, float | None]]] = []
    shown = Progress.add_task

    def add_task(self, description, **settings):
        found = shown(self, description, **settings)
        lines.append([(task.description, task.total) for task in self.tasks])
        return found

    monkeypatch.setattr(Progress, "add_task", add_task)
    with track(2, "Cross-validation") as outer:
        outer(1, "ridge, fold 1 of 2")
        with track(None, "Compiling") as inner:
            inner(0)
        with pytest.raises(ValueError, match="stop"), track(5, "Training"):
            raise ValueError("stop")
        outer(1)
    assert lines == [
        [("Cross-validation", 2)],
        [("Cross-validation", 2), ("Compiling", None)],
        [("Cross-validation", 2), ("Training", 5)],
    ]
    with track(1, "Again"):
        pass
    assert lines[-1] == [("Again", 1)]
