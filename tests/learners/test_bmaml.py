"""Bayesian MAML: its inner step is SVGD, its leader is out of reach of gradients, its spread shrinks with data."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

import scoreprior as sp
from scoreprior.inference.bnn import BNNConfig, init_particles
from scoreprior.inference.svgd import svgd_direction
from scoreprior.learners import bmaml
from scoreprior.learners._episodes import mixture_nll
from scoreprior.learners.bmaml import BMAML, Hyper, Particle, log_posterior, svgd_step
from scoreprior.predictive import Predictive
from scoreprior.tasks import PaddedTasks
from scoreprior.training import TrainingConfig

# Nearly all of the time is compilation; the default suite keeps the conformance of cheaper methods.
pytestmark = pytest.mark.slow


def particles(count: int = 4) -> Particle:
    make = eqx.filter_jit(init_particles)
    networks = make(jax.random.key(0), count, 1, BNNConfig(hidden=(4,)), -jnp.ones(1), jnp.ones(1))
    return Particle(networks, jnp.linspace(-1.5, -0.5, count))


def hyper(rate: float = 1e-3, clip: float = 1e6) -> Hyper:
    return Hyper(*(jnp.asarray(value) for value in (rate, 5.0, 0.8, 0.3, clip)))


def task(real: int = 5, slots: int = 7) -> PaddedTasks:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(slots, 1)), rng.normal(size=slots)
    return PaddedTasks(jnp.asarray(x), jnp.asarray(y), jnp.arange(slots) < real)


def _one(tree, i: int):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[i], tree)


def _rows(tree) -> np.ndarray:
    """Particles as rows (L, p)."""
    return np.concatenate([np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], axis=1)


def test_the_log_posterior_is_a_sum_over_points_and_priors():
    """Against scipy, up to the constant that differences remove; every real point counts once."""
    with jax.enable_x64(True):
        data, setting, both = task(), hyper(), particles()
        wanted, got = [], []
        for i in range(2):
            one = _one(both, i)
            f, noise = np.asarray(one.network(data.x)), np.exp(float(one.log_noise))
            value = stats.norm.logpdf(np.asarray(data.y), f, noise)[:5].sum()
            value += stats.norm.logpdf(
                np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(one.network)]), 0, 0.8
            ).sum()
            value += stats.norm.logpdf(float(one.log_noise), np.log(0.3), 1.0)
            wanted.append(value)
            got.append(float(jax.jit(log_posterior)(one, data, setting)))
        np.testing.assert_allclose(got[0] - got[1], wanted[0] - wanted[1], rtol=1e-6)


def test_an_inner_step_is_svgd():
    data, setting, start = task(), hyper(), particles()
    moved = jax.jit(svgd_step)(start, data, setting)
    rows = _rows(start)
    scores = _rows(jax.jit(jax.vmap(jax.grad(log_posterior), in_axes=(0, None, None)))(start, data, setting))
    expected = rows + 1e-3 * np.asarray(jax.jit(svgd_direction)(rows, scores, setting.bandwidth))
    assert np.abs(expected - rows).max() > 1e-3
    np.testing.assert_allclose(_rows(moved), expected, rtol=1e-4, atol=1e-6)


def test_a_direction_is_capped():
    start = particles()
    moved = jax.jit(svgd_step)(start, task()._replace(y=jnp.full(7, 1e4)), hyper(rate=0.1, clip=2.0))
    np.testing.assert_allclose(np.linalg.norm(_rows(moved) - _rows(start), axis=1), 0.2, rtol=1e-3)


def test_no_gradient_reaches_the_leader():
    """The gradient is that of a frozen leader, by central differences in double precision."""
    with jax.enable_x64(True):
        data, chaser = task(6, 6), bmaml._Chaser(hyper(rate=1e-2), 2, 2)
        context = data._replace(mask=jnp.arange(6) < 3)
        target = data._replace(mask=jnp.arange(6) >= 3)
        flat, unravel = ravel_pytree(particles(3))
        total = jax.jit(lambda start: chaser(unravel(start), context, target, None))
        after = jax.jit(lambda start: bmaml.svgd(unravel(start), context, chaser.hyper, 2))
        frozen = jax.jit(lambda start: bmaml.svgd(start, data, chaser.hyper, 2))(after(flat))
        apart = jax.jit(lambda start: bmaml.chaser_loss(after(start), frozen))
        np.testing.assert_allclose(total(flat), apart(flat), rtol=1e-10)
        gradient, flat = np.asarray(jax.jit(jax.grad(total))(flat)), np.asarray(flat)
        directions = np.random.default_rng(3).normal(size=(5, len(flat)))
        wanted, moving = (
            np.array([(value(flat + 1e-6 * d) - value(flat - 1e-6 * d)) / 2e-6 for d in directions])
            for value in (apart, total)
        )
        np.testing.assert_allclose(directions @ gradient, wanted, rtol=1e-5, atol=1e-9)
        assert np.abs(wanted - moving).max() > 0.1 * np.abs(wanted).max()


def test_the_held_out_loss_is_the_predictive_density():
    rng = np.random.default_rng(0)
    locs, scales, y = rng.normal(size=(3, 7)), rng.uniform(0.1, 1, (3, 7)), rng.normal(size=7)
    data = PaddedTasks(jnp.zeros((7, 1)), jnp.asarray(y), jnp.arange(7) < 5)
    expected = -Predictive(locs, scales).log_prob(y)[:5].mean()
    np.testing.assert_allclose(mixture_nll(jnp.asarray(locs), jnp.asarray(scales), data), expected, rtol=1e-5)


@pytest.mark.slow
def test_spread_shrinks_with_more_context():
    """Between the particles' functions, on held-out sinusoids: 1 point against 8."""
    environment = sp.environment("sinusoid")
    learner = BMAML(
        particles=4,
        network=BNNConfig(hidden=(16, 16)),
        inner_steps=1,
        leader_steps=1,
        inner_rate=3e-3,
        training=TrainingConfig(steps=300, learning_rate=3e-3, chunk=300),
    )
    prior = learner.fit(environment.meta_train, 0, progress=False)
    context, target = environment.meta_valid.context, environment.meta_valid.target
    queries = [task.x for task in target]
    few, many = (
        np.array([p.functions.std(0).mean() for p in prior.condition_many(some, 1).predict(queries)])
        for some in (context.map(lambda one: one.take(slice(1))), context)
    )
    gain = few - many
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.parametrize("wrong", [{"particles": 0}, {"leader_steps": 0}, {"noise_std": 0.0}, {"tasks_per_step": -1}])
def test_settings_that_cannot_work_are_refused(wrong: dict):
    with pytest.raises(ValueError):
        BMAML(**wrong)
