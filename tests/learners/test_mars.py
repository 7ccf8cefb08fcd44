"""MARS: the score points home, inference with a known score finds the known posterior, errors are said early."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior._training import TrainingConfig
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.kernels import LinearMean, Matern
from scoreprior.process import GaussianProcess
from scoreprior.scores.anchored import AnchoredScore
from scoreprior.scores.network import NetworkConfig, ScoreNetwork


def process() -> GaussianProcess:
    mean = LinearMean(jnp.float32(0.3), jnp.array([0.5]))
    return GaussianProcess(mean, Matern(jnp.float32(1.0), jnp.array([1.0]), 2.5), jnp.float32(0.1))


def anchored(seed: int, size: float) -> AnchoredScore:
    """A score with an untrained network, its output scaled up as a badly fitted one's would be."""
    network = ScoreNetwork(1, NetworkConfig(embedding=16, heads=2, key_size=8), jax.random.key(seed))
    network = eqx.tree_at(lambda n: n.final.weight, network, size * network.final.weight)
    return AnchoredScore(network, process(), jnp.float32(0.1), jnp.float32(4.0))


@pytest.mark.parametrize("seed", range(3))
def test_the_score_points_home_from_up_to_100_standard_deviations(seed: int):
    rng = np.random.default_rng(seed)
    score = anchored(seed, 1.0)
    x = jnp.asarray(rng.uniform(-2, 2, (12, 1)), jnp.float32)
    home = score.process.mean(x)
    direction = jnp.asarray(rng.normal(size=(50, 12)), jnp.float32)
    direction = direction / jnp.sqrt(jnp.mean(direction**2, axis=1, keepdims=True))
    for distance in (10.0, 30.0, 100.0):
        values = jax.vmap(lambda f: score(f, x))(home + distance * direction)
        assert (jnp.sum(values * direction, axis=1) < 0).all()


def test_what_the_network_adds_is_bounded():
    score = anchored(0, 100.0)
    bare = AnchoredScore(None, score.process, score.level, score.reach)
    x = jnp.linspace(-2, 2, 8)[:, None]
    near, far = jnp.full(8, 1e3), jnp.full(8, 1e5)
    added = np.asarray(score.network(score.process.mean(x) + 4.0, x))  # 4 is the reach
    for f in (near, far):
        # Round-off of the anchor at such distances is what limits the comparison.
        scale = 1e-5 * float(jnp.abs(bare(f, x)).max())
        np.testing.assert_allclose(score(f, x) - bare(f, x), added, atol=scale + 1e-3)


def test_without_a_network_the_score_is_the_process_own():
    score = AnchoredScore(None, process(), jnp.float32(0.2), jnp.float32(4.0))
    x = jnp.linspace(-2, 2, 5)[:, None]
    f = jnp.sin(x[:, 0])
    np.testing.assert_allclose(score(f, x), score.process.score(f, x, jnp.float32(0.2)), rtol=1e-5)


@pytest.fixture(scope="module")
def anchor_only() -> tuple[sp.Environment, sp.Prior, sp.Prior]:
    env = sp.environment("sinusoid")
    prior = sp.MARS(network=None, inference=FSVGDConfig(steps=300, measurement_points=12)).fit(env.meta_train, 0)
    exact = sp.learner("hierarchical-gp").fit(env.meta_train, 0)
    # The same process in both, so that only the inference differs.
    return env, prior, eqx.tree_at(lambda p: p.process, exact, prior.score.process)


def test_inference_with_a_gaussian_score_finds_the_gaussian_posterior(anchor_only):
    env, prior, exact = anchor_only
    context = env.meta_test.context.take(range(8))
    queries = [np.linspace(-4.5, 4.5, 30)] * 8
    ours = prior.condition_many(context, 1).predict(queries)
    truth = exact.condition_many(context, 1).predict(queries)
    for mine, theirs in zip(ours, truth):
        # Ten particles: their mean has a standard error of a third of the posterior's spread.
        assert np.sqrt(np.mean(((mine.mean - theirs.mean) / theirs.std) ** 2)) < 0.5
    ratio = np.mean([mine.std.mean() / theirs.std.mean() for mine, theirs in zip(ours, truth)])
    assert 0.7 < ratio < 1.3


def test_draws_from_the_prior_have_the_anchors_moments(anchor_only):
    _, prior, _ = anchor_only
    x = np.array([[-3.0], [0.0], [2.0]])
    draws = prior.sample(x, key=0, n=400)
    process, scaler = prior.score.process, prior.standardizer
    inputs = jnp.asarray(scaler.scale_x(x), jnp.float32)
    std = np.sqrt(np.asarray(process.kernel.diagonal(inputs)) + float(prior.score.level) ** 2) * scaler.y_std
    mean = scaler.unscale_y(np.asarray(process.mean(inputs)))
    assert draws.shape == (400, 3)
    # 400 independent chains: four standard errors, and the discretisation's 1% of the variance.
    assert (np.abs(draws.mean(0) - mean) < 4 * std / 20).all()
    assert (np.abs(draws.std(0) / std - 1) < 4 / np.sqrt(800) + 0.01).all()


def test_particles_are_joint_functions(anchor_only):
    env, prior, _ = anchor_only
    context = env.meta_test.context[0]
    predictive = prior.condition(context.x, context.y, 0).predict(context.x)
    assert predictive.functions.shape == (10, len(context))


def test_configurations_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="needs a network"):
        sp.MARS(base=None)
    with pytest.raises(ValueError, match="denoising"):
        sp.MARS(objective="exact")


@pytest.mark.slow
def test_progress_never_changes_results():
    env = sp.environment("sinusoid")
    small = sp.MARS(
        network=NetworkConfig(embedding=8, heads=2, key_size=4), training=TrainingConfig(steps=30, chunk=10)
    )
    loud, quiet = (small.fit(env.meta_train, 0, progress=progress) for progress in (True, False))
    for a, b in zip(jax.tree.leaves(eqx.filter(loud, eqx.is_array)), jax.tree.leaves(eqx.filter(quiet, eqx.is_array))):
        np.testing.assert_array_equal(a, b)
