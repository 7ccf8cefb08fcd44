"""Neural interpolators: training against a plain loop, draws against their definition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from scoreprior import networks
from scoreprior._types import as_generator
from scoreprior.interpolators import (
    DeterministicInterpolator,
    DropoutInterpolator,
    EnsembleInterpolator,
    FittedInterpolator,
    Interpolator,
    _base,
    heldout_crps,
    tune,
)
from scoreprior.interpolators._base import folds, task_keys
from scoreprior.interpolators._regression import _batches, dropout_factors
from scoreprior.space import Choice, Space
from scoreprior.tasks import PaddedTasks, Task, TaskSet

# Tasks of 1 to 8 points: the smaller ones run out of them before an epoch ends.
INTERPOLATORS = {
    "dropout": DropoutInterpolator(learning_rate=1e-2, batch_size=4, dropout=0.1),
    "ensemble": EnsembleInterpolator(learning_rate=1e-2, batch_size=6, members=3),
    "deterministic": DeterministicInterpolator(learning_rate=1e-2, batch_size=6),
}


def make_tasks() -> TaskSet:
    """Ragged tasks: plain ones, one point, constant targets, duplicated inputs."""
    rng = np.random.default_rng(0)
    tasks = []
    for size in (8, 6, 1, 5, 7):
        x = rng.uniform(-1.5, 1.5, (size, 1))
        tasks.append(Task(x, np.sin(1.5 * x[:, 0]) + 0.05 * rng.standard_normal(size)))
    tasks[3] = Task(tasks[3].x, np.full(5, 0.7))
    tasks[4] = Task(np.repeat(tasks[4].x[:1], 7, axis=0), tasks[4].y)
    return TaskSet(tasks)


TASKS = make_tasks()
PADDED = TASKS.padded()
QUERY = jnp.linspace(-2, 2, 9)[:, None]
# All draws share one shape: nine points, the same nine again, and each task's own (padded) eight.
POINTS = jnp.concatenate([jnp.broadcast_to(QUERY, (len(TASKS), 9, 1))] * 2 + [PADDED.x], axis=1)


@pytest.fixture(scope="module")
def fitted():
    return {name: interpolator.fit(PADDED, 3) for name, interpolator in INTERPOLATORS.items()}


@eqx.filter_jit
def _draws(fitted, keys):
    return jax.lax.map(lambda each: jax.vmap(fitted.draw)(fitted.states, POINTS, each), keys)


def draws(fitted: FittedInterpolator, seed: int = 0) -> np.ndarray:
    """(n, 100, k) draws at POINTS."""
    keys = jax.random.split(jax.random.key(seed), (100, len(TASKS)))
    return np.asarray(_draws(fitted, keys)).swapaxes(0, 1)


def assert_same_networks(a: FittedInterpolator, b: FittedInterpolator, atol: float) -> None:
    for left, right in zip(jax.tree.leaves(a.states), jax.tree.leaves(b.states)):
        np.testing.assert_allclose(left, right, atol=atol)


def test_training_equals_a_plain_loop_over_the_task_alone():
    result = replace(INTERPOLATORS["deterministic"], weight_decay=1e-2).fit(PADDED, 5)
    index = 1
    x, y = jnp.asarray(TASKS[index].x, jnp.float32), jnp.asarray(TASKS[index].y, jnp.float32)

    @jax.jit
    def loop(key):
        # A batch of 6 holds this whole task, so there is no order of points: 100 full-gradient steps of AdamW.
        optimiser = optax.adamw(1e-2, weight_decay=1e-2)
        network = networks.truncated_normal((1, 32, 32, 32, 1), "leaky_relu", jax.random.split(key)[0])

        def step(_, carry):
            gradient = jax.grad(lambda net: jnp.mean((net(x)[:, 0] - y) ** 2))(carry[0])
            updates, state = optimiser.update(gradient, carry[1], carry[0])
            return optax.apply_updates(carry[0], updates), state

        trained, _ = jax.lax.fori_loop(0, 100, step, (network, optimiser.init(network)))
        ours = jax.tree.map(lambda leaf: leaf[index], result.states)
        return network(QUERY), trained(QUERY), ours(QUERY)

    before, expected, ours = map(np.asarray, loop(task_keys(5, len(TASKS))[index]))
    np.testing.assert_allclose(ours, expected, atol=2e-3)
    assert np.abs(expected - before).max() > 0.1


def test_an_epoch_visits_every_real_point_once_and_then_rests():
    task = jax.tree.map(lambda leaf: leaf[1], PADDED)
    priority = jax.random.uniform(jax.random.key(0), (9,))
    batches = _batches(task, priority, steps=3)
    assert batches.x.shape == (3, 3, 1)
    np.testing.assert_array_equal(batches.mask.sum(1), [3, 3, 0])
    order = np.argsort(np.asarray(priority)[:6])
    np.testing.assert_array_equal(np.ravel(batches.y)[:6], np.asarray(task.y)[order])
    np.testing.assert_array_equal(np.ravel(batches.x)[:6], np.asarray(task.x)[order, 0])


@pytest.mark.parametrize("rate", [0.1, 0.8])
def test_dropout_keeps_the_mean(rate):
    factors = np.asarray(dropout_factors(jax.random.uniform(jax.random.key(2), (100_000,)), jnp.float32(rate)))
    np.testing.assert_allclose(np.unique(factors), [0, 1 / (1 - rate)], rtol=1e-6)
    assert factors.mean() == pytest.approx(1.0, abs=5 * np.sqrt(rate / (1 - rate) / len(factors)))


@pytest.mark.parametrize("name", INTERPOLATORS)
def test_satisfies_the_interface_and_fits_the_training_points(name, fitted):
    assert isinstance(INTERPOLATORS[name], Interpolator)
    assert {len(leaf) for leaf in jax.tree.leaves(fitted[name].states)} == {len(TASKS)}
    means = draws(fitted[name])[..., 18:].mean(1)
    for index, (task, mean) in enumerate(zip(TASKS, means)):
        # With one input repeated only the mean of its targets can be hit.
        best = np.full(len(task), task.y.mean()) if index == 4 else task.y
        assert np.sqrt(np.mean((mean[: len(task)] - best) ** 2)) < 0.3


@pytest.mark.parametrize("name", INTERPOLATORS)
def test_the_key_decides_and_padding_does_not(name, fitted):
    dirty = PaddedTasks(
        jnp.where(PADDED.mask[..., None], PADDED.x, 37.0), jnp.where(PADDED.mask, PADDED.y, -5.0), PADDED.mask
    )
    assert_same_networks(fitted[name], INTERPOLATORS[name].fit(PADDED, 3), atol=0)
    assert_same_networks(fitted[name], INTERPOLATORS[name].fit(dirty, 3), atol=0)
    other = INTERPOLATORS[name].fit(PADDED, 4)
    assert np.abs(draws(fitted[name])[:, 0] - draws(other)[:, 0]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("index", [1, 2])
def test_a_ragged_batch_equals_tasks_fitted_alone(index, fitted):
    # The task in every place and no padding: its i-th copy has the key it has in the ragged batch.
    alone = INTERPOLATORS["dropout"].fit(TaskSet([TASKS[index]] * len(TASKS)).padded(), 3)
    for left, right in zip(jax.tree.leaves(alone.states), jax.tree.leaves(fitted["dropout"].states)):
        # Training amplifies the round-off of differently shaped sums.
        np.testing.assert_allclose(left[index], right[index], atol=5e-3)


def test_a_dropout_draw_is_one_network_for_all_points(fitted):
    values = draws(fitted["dropout"])
    np.testing.assert_allclose(values[..., :9], values[..., 9:18], atol=1e-6)
    assert np.all(values[..., :9].std(1) > 0.01)


def test_ensemble_draws_are_the_members(fitted):
    values = draws(fitted["ensemble"])[..., :9]
    members = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda network: network(QUERY)[:, 0])))(fitted["ensemble"].states))
    assert members.shape == (len(TASKS), 3, 9)
    distance = np.abs(values[:, :, None] - members[:, None]).max(-1)
    assert distance.min(-1).max() < 1e-5
    # 100 draws miss one of 3 members with probability below 1e-16.
    assert all(set(row) == {0, 1, 2} for row in distance.argmin(-1))
    assert np.all(members.std(1).max(-1) > 1e-3)


def test_the_deterministic_network_has_no_spread(fitted):
    values = draws(fitted["deterministic"])
    np.testing.assert_array_equal(values, np.broadcast_to(values[:, :1], values.shape))


class Coin(FittedInterpolator):
    """f = +level or -level everywhere."""

    states: jax.Array

    def draw(self, state, x, key):
        return jnp.where(jax.random.bernoulli(key), state, -state) * jnp.ones(len(x))


@dataclass(frozen=True)
class CoinInterpolator:
    level: float = 9.0

    space: ClassVar[Space] = {"level": Choice((0.0, 3.0, 9.0))}

    def fit(self, tasks, key, *, progress=False):
        return Coin(jnp.full(len(tasks.mask), self.level))


@pytest.mark.parametrize("level", [0.0, 2.0])
def test_heldout_crps_is_the_closed_form_of_a_coin(level):
    count = 512
    split_key = jax.random.split(jax.random.key(5), 3)[0]
    expected = []
    for index, key in enumerate(task_keys(split_key, len(TASKS))):
        held = np.asarray(folds(PADDED.mask[index], key)[0])[: len(TASKS[index])]
        y = TASKS[index].y[held]
        if len(TASKS[index]) > 1:
            expected.append(np.mean(0.5 * (np.abs(y - level) + np.abs(y + level)) - 0.5 * level))
    # |f - y| varies by at most 2 level; the four scored tasks are independent.
    tolerance = 5 * level / np.sqrt(count * 4) + 1e-5
    assert heldout_crps(CoinInterpolator(level), PADDED, 5, count) == pytest.approx(np.mean(expected), abs=tolerance)


def test_tuning_draws_each_setting_of_the_space_in_turn(monkeypatch):
    seen = []
    monkeypatch.setattr(_base, "heldout_crps", lambda candidate, tasks, key: seen.append(candidate) or 0.0)
    tune(DropoutInterpolator(epochs=7), PADDED, 5, trials=4)
    generator = as_generator(jax.random.split(jax.random.key(5))[0])
    for candidate in seen[1:]:
        assert candidate.epochs == 7
        for name in ("learning_rate", "weight_decay", "batch_size", "dropout"):
            options = DropoutInterpolator.space[name].options
            assert getattr(candidate, name) == options[generator.integers(len(options))]


@pytest.mark.parametrize("name", INTERPOLATORS)
def test_a_share_of_the_budget_cuts_epochs_alone(name):
    whole = INTERPOLATORS[name]
    assert whole.with_budget(0.5) == replace(whole, epochs=50)
    assert whole.with_budget(0.01) == replace(whole, epochs=20)
    assert whole.with_budget(1.0) == whole
    with pytest.raises(ValueError, match="share"):
        whole.with_budget(1.5)


def test_tuning_finds_the_better_configuration():
    assert tune(CoinInterpolator(), PADDED, 0, trials=1) == CoinInterpolator(9.0)
    assert tune(CoinInterpolator(), PADDED, 0, trials=12) == CoinInterpolator(0.0)


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        (DropoutInterpolator, "dropout", 1.0),
        (DropoutInterpolator, "learning_rate", 0.0),
        (EnsembleInterpolator, "members", 0),
        (EnsembleInterpolator, "batch_size", 0),
        (DeterministicInterpolator, "epochs", 0),
        (DeterministicInterpolator, "weight_decay", -1.0),
        (DeterministicInterpolator, "hidden", ()),
    ],
)
def test_impossible_settings_are_refused(config, field, value):
    with pytest.raises(ValueError, match=field):
        config(**{field: value})
