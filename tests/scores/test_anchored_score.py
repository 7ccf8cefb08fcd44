"""The anchored score: it restores functions however far they are, and what the network adds is bounded."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.gp import GaussianProcess, LinearMean, Matern
from scoreprior.scores.anchored import AnchoredScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig, ScoreNetwork

LEVEL = jnp.float32(0.1)


def anchor() -> GaussianProcess:
    mean = LinearMean(jnp.float32(0.3), jnp.array([0.5]))
    return GaussianProcess(mean, Matern(jnp.float32(1.0), jnp.array([1.0]), 2.5), jnp.float32(0.1))


@eqx.filter_jit
def _network(key: jax.Array) -> ScoreNetwork:
    return ScoreNetwork(1, NetworkConfig(embedding=16, heads=2, key_size=8), key)


@eqx.filter_jit
def _values(score: AnchoredScore, f: jax.Array, x: jax.Array) -> jax.Array:
    """The score of each row of f (n, k)."""
    return jax.vmap(lambda one: score(one, x, LEVEL))(f)


def anchored(seed: int, size: float) -> AnchoredScore:
    """A score with an untrained network, its output scaled up as a badly fitted one's would be."""
    network = _network(jax.random.key(seed))
    network = eqx.tree_at(lambda n: n.final.weight, network, size * network.final.weight)
    return AnchoredScore(anchor(), network, jnp.float32(4.0))


@pytest.mark.parametrize("seed", range(3))
def test_the_score_is_restoring_from_up_to_100_standard_deviations(seed: int):
    rng = np.random.default_rng(seed)
    score = anchored(seed, 1.0)
    x = jnp.asarray(rng.uniform(-2, 2, (12, 1)), jnp.float32)
    mean = np.asarray(score.anchor.mean(x))
    direction = rng.normal(size=(50, 12)).astype(np.float32)
    direction = direction / np.sqrt(np.mean(direction**2, axis=1, keepdims=True))
    for distance in (10.0, 30.0, 100.0):
        values = np.asarray(_values(score, mean + np.float32(distance) * direction, x))
        assert (np.sum(values * direction, axis=1) < 0).all()


def test_what_the_network_adds_is_bounded():
    score = anchored(0, 100.0)
    bare = AnchoredScore(score.anchor, lambda f, x, noise: jnp.zeros_like(f), score.reach)
    x = jnp.linspace(-2, 2, 8)[:, None]
    added = eqx.filter_jit(lambda s: s.residual(s.anchor.mean(x) + 4.0, x))(score)  # 4 is the reach
    far = jnp.asarray([[1e3] * 8, [1e5] * 8], jnp.float32)
    for whole, alone in zip(*(np.asarray(_values(each, far, x)) for each in (score, bare))):
        # Round-off of the anchor at such distances is what limits the comparison.
        np.testing.assert_allclose(whole - alone, added, atol=1e-5 * np.abs(alone).max() + 1e-3)


def test_without_a_residual_the_score_is_the_anchors_own():
    score = AnchoredScore(anchor(), lambda f, x, noise: jnp.zeros_like(f), jnp.float32(4.0))
    x = jnp.linspace(-2, 2, 5)[:, None]
    f = jnp.sin(x[:, 0])
    expected = eqx.filter_jit(lambda process: process.score(f, x, LEVEL))(score.anchor)
    np.testing.assert_allclose(_values(score, f[None], x)[0], expected, rtol=1e-5)


def test_noise_levels_go_from_coarse_to_fine():
    levels = NoiseLevels(jnp.float32(0.05), jnp.float32(1.0))
    values = [float(levels(jnp.float32(p))) for p in (0.0, 0.3, 0.7, 1.0)]
    np.testing.assert_allclose(values[0], 1.0, rtol=1e-5)
    assert values[0] > values[1] > values[2]
    np.testing.assert_allclose(values[2:], 0.05, rtol=1e-5)
    assert float(NoiseLevels(jnp.float32(0.05))(jnp.float32(0.0))) == np.float32(0.05)
