"""MAML: the meta-gradient against finite differences, the splits, and that meta-training pays on new tasks."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import scoreprior as sp
from scoreprior.inference.bnn import BNNConfig, init_network
from scoreprior.learners import maml
from scoreprior.learners._episodes import Cut, MetaLoss, sample_episodes, split_task
from scoreprior.learners.maml import MAML, Initialisation, inner_step, squared_error
from scoreprior.tasks import PaddedTasks
from scoreprior.training import TrainingConfig

# Nearly all of the time is compilation; the default suite keeps the conformance of cheaper methods.
pytestmark = pytest.mark.slow


def batch(n: int = 3, m: int = 6, seed: int = 0) -> PaddedTasks:
    """Ragged tasks; the last slots of every other one are padding."""
    rng = np.random.default_rng(seed)
    mask = np.ones((n, m), bool)
    mask[::2, -2:] = False
    x = np.where(mask[..., None], rng.normal(size=(n, m, 2)), 0.0)
    return PaddedTasks(jnp.asarray(x), jnp.asarray(np.where(mask, rng.normal(size=(n, m)), 0.0)), jnp.asarray(mask))


def initialisation(seed: int = 0) -> Initialisation:
    config = BNNConfig(hidden=(5, 4))
    network = eqx.filter_jit(init_network)(jax.random.key(seed), 2, config, -jnp.ones(2), jnp.ones(2))
    return Initialisation(network, jnp.log(jnp.asarray(0.1)))


def meta_loss(tasks: PaddedTasks, steps: int = 3, clip: float = 10.0) -> MetaLoss:
    return MetaLoss(tasks, Cut((0.3, 0.8), 0.0), len(tasks.mask), maml._Adapted(jnp.asarray(clip), steps))


def test_the_meta_gradient_equals_finite_differences():
    """Along random directions of theta and log alpha, in double precision; a first-order gradient would not."""
    with jax.enable_x64(True):
        loss, key = meta_loss(batch()), jax.random.key(1)
        flat, unravel = ravel_pytree(initialisation())
        assert flat.dtype == jnp.float64
        value = jax.jit(lambda parameters: loss(unravel(parameters), key)[0])
        gradient, flat = np.asarray(jax.jit(jax.grad(value))(flat)), np.asarray(flat)
        directions = np.random.default_rng(2).normal(size=(8, len(flat)))
        directions[0] = np.eye(len(flat))[-1]  # log alpha alone
        wanted = np.array([(value(flat + 1e-6 * d) - value(flat - 1e-6 * d)) / 2e-6 for d in directions])
        np.testing.assert_allclose(directions @ gradient, wanted, rtol=1e-5, atol=1e-8)


def test_splits_are_partitions_and_leave_a_target():
    tasks = batch(2, 10)
    cut = Cut((0.2, 0.7), 0.0)
    keys = jax.random.split(jax.random.key(0), 400)
    for row, size in ((0, 8), (1, 10)):
        task = jax.tree.map(lambda leaf, row=row: leaf[row], tasks)
        context, target = jax.jit(jax.vmap(split_task, in_axes=(None, None, 0)))(task, cut, keys)
        assert (context.mask ^ target.mask == task.mask).all()
        assert not (context.mask & target.mask).any()
        counts = np.asarray(context.mask.sum(1))
        assert counts.min() == round(0.2 * size)
        assert counts.max() == round(0.7 * size)
        # Every real point is context equally often: a share of p has standard error sqrt(p (1 - p) / 400) < 0.025.
        frequency = np.asarray(context.mask.mean(0))[:size]
        assert np.abs(frequency - counts.mean() / size).max() < 4 * 0.025
    single = PaddedTasks(jnp.zeros((3, 1)), jnp.zeros(3), jnp.array([True, False, False]))
    context, target = jax.jit(split_task)(single, Cut((1.0, 1.0), 0.0), keys[0])
    assert int(context.mask.sum()) == 0
    assert int(target.mask.sum()) == 1


def test_a_forward_cut_has_the_first_points_as_context():
    task = jax.tree.map(lambda leaf: leaf[0], batch(2, 10))
    keys = jax.random.split(jax.random.key(0), 400)
    cut_all = jax.jit(jax.vmap(split_task, in_axes=(None, None, 0)))
    context, target = (np.asarray(half.mask) for half in cut_all(task, Cut((0.2, 0.7), 1.0), keys))
    assert (context.cumprod(axis=1) == context).all()
    assert (context | target == np.asarray(task.mask)).all()
    # Half of the cuts forward: of the random ones with 4 of 8 points, 1 in 70 is in order too. Binomial: 4 sd.
    half = np.asarray(cut_all(task, Cut((0.5, 0.5), 0.5), keys).context.mask)
    share = 0.5 + 0.5 / 70
    in_order = (half.cumprod(axis=1) == half).all(axis=1).mean()
    assert abs(in_order - share) < 4 * np.sqrt(share * (1 - share) / 400)


def test_a_task_without_points_weighs_nothing():
    """Held-out tasks are masked ones: whatever they hold, the loss is that of the others."""
    tasks, model = batch(4), initialisation()
    held = tasks._replace(mask=tasks.mask.at[jnp.array([0, 2])].set(False))
    junk = held._replace(x=jnp.where(held.mask[..., None], held.x, 1e3), y=jnp.where(held.mask, held.y, -1e3))
    value = jax.jit(lambda tasks, key: meta_loss(tasks)(model, key)[0])
    np.testing.assert_allclose(value(held, jax.random.key(0)), value(junk, jax.random.key(0)), rtol=1e-6)
    # A batch of the number of real tasks takes exactly those.
    chosen = jax.jit(sample_episodes, static_argnums=1)(held, 2, Cut((0.5, 0.5), 0.0), jax.random.key(1))
    assert (chosen.context.mask | chosen.target.mask).any(1).all()


def test_long_tasks_are_seen_in_parts():
    x = jnp.arange(450.0)[None, :, None].repeat(2, 0)
    tasks = PaddedTasks(x, x[..., 0], jnp.arange(450)[None, :] < jnp.array([450, 230])[:, None])
    seen = []
    for seed in (1, 2):
        context, target = sample_episodes(tasks, 2, Cut((0.5, 0.5), 1.0), jax.random.key(seed))
        assert context.mask.sum(1).tolist() == target.mask.sum(1).tolist() == [100, 100]
        for row in range(2):  # with forward=1 the context comes before the target
            assert context.y[row][context.mask[row]].max() < target.y[row][target.mask[row]].min()
        seen.append(set(np.asarray(context.y)[np.asarray(context.mask)].tolist()))
    assert seen[0] != seen[1]


def test_an_inner_gradient_is_capped():
    task = jax.tree.map(lambda leaf: leaf[1], batch())
    network = initialisation().network
    far = task._replace(y=task.y + 1e4)
    step = jax.jit(inner_step)
    moved = step(network, far, jnp.float32(0.1), jnp.float32(10.0))
    change = np.concatenate([np.ravel(a - np.asarray(b)) for a, b in zip(*map(jax.tree.leaves, (moved, network)))])
    np.testing.assert_allclose(np.linalg.norm(change), 0.1 * 10.0, rtol=1e-3)
    plain = step(network, task, jnp.float32(0.1), jnp.float32(1e6))
    expected = jax.tree.map(lambda a, g: a - 0.1 * g, network, jax.jit(jax.grad(squared_error))(network, task))
    for got, wanted in zip(jax.tree.leaves(plain), jax.tree.leaves(expected)):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_the_curve_over_steps_is_the_meta_loss_at_each():
    context, target = split_task(jax.tree.map(lambda leaf: leaf[1], batch()), Cut((0.5, 0.5), 0.0), jax.random.key(3))
    model, clip = initialisation(), jnp.float32(10.0)
    curve = eqx.filter_jit(maml._Curve(clip))(model, context, target, None)
    for steps in (1, 5):
        one = eqx.filter_jit(maml._Adapted(clip, steps))(model, context, target, None)
        np.testing.assert_allclose(curve[maml.STEP_GRID.index(steps)], one, rtol=1e-5)


@pytest.mark.slow
def test_meta_training_beats_its_own_initialisation():
    """On held-out sinusoids, both adapted with the chosen number of steps; all tasks in every meta-step."""
    environment = sp.environment("sinusoid")
    learner = MAML(
        network=BNNConfig(hidden=(16, 16)),
        inner_steps=2,
        tasks_per_step=None,
        training=TrainingConfig(steps=1000, learning_rate=5e-3, chunk=500),
    )
    prior = learner.fit(environment.meta_train, 0, progress=False)
    untrained = eqx.filter_jit(init_network)(jax.random.key(0), 1, learner.network, -2 * jnp.ones(1), 2 * jnp.ones(1))
    start = eqx.tree_at(lambda p: p.model, prior, Initialisation(untrained, jnp.log(jnp.float32(learner.inner_rate))))
    before, after = (sp.evaluate(one, environment, 1, tasks="valid").rmse.to_numpy() for one in (start, prior))
    gain = before - after
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))
    # Adapting pays too: the initialisation alone knows nothing of a task.
    alone = eqx.tree_at(lambda p: p.steps, prior, jnp.zeros_like(prior.steps))
    gain = sp.evaluate(alone, environment, 1, tasks="valid").rmse.to_numpy() - after
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.parametrize(
    "wrong",
    [{"context": (0.8, 0.2)}, {"context": (0.0, 1.5)}, {"inner_steps": 0}, {"tasks_per_step": 0}, {"held_out": 1.0}],
)
def test_settings_that_cannot_work_are_refused(wrong: dict):
    with pytest.raises(ValueError):
        MAML(**wrong)
