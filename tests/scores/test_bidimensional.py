"""The noise predictor: its symmetries, its mask, where it starts."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.scores.bidimensional import NoisePredictor, NoisePredictorConfig, embed_step

K, D = 7, 3


@pytest.fixture(scope="module")
def network() -> NoisePredictor:
    """One that does not answer zero."""
    made = NoisePredictor(NoisePredictorConfig(width=16, blocks=2, heads=2), jax.random.key(0))
    return eqx.tree_at(lambda n: n.final.weights[-1], made, jax.random.normal(jax.random.key(1), (16, 1)))


@pytest.fixture(scope="module")
def points() -> tuple[jnp.ndarray, jnp.ndarray]:
    return jax.random.normal(jax.random.key(2), (K,)), jax.random.normal(jax.random.key(3), (K, D))


run = eqx.filter_jit(lambda made, y, x, t, mask: made(y, x, t, mask))
EVERY = jnp.ones(K, bool)


def test_a_new_network_predicts_no_noise(points):
    made = NoisePredictor(NoisePredictorConfig(width=16, blocks=2, heads=2), jax.random.key(0))
    np.testing.assert_array_equal(run(made, *points, 3, EVERY), 0)


@pytest.mark.parametrize("seed", range(3))
def test_points_in_another_order_are_answered_in_that_order(network, points, seed):
    y, x = points
    order = np.random.default_rng(seed).permutation(K)
    np.testing.assert_allclose(
        run(network, y[order], x[order], 3, EVERY), run(network, y, x, 3, EVERY)[order], atol=1e-5
    )


@pytest.mark.parametrize("order", [(1, 2, 0), (0, 2, 1), (2, 1, 0)])
def test_the_order_of_input_dimensions_does_not_matter(network, points, order):
    y, x = points
    np.testing.assert_allclose(run(network, y, x[:, order], 3, EVERY), run(network, y, x, 3, EVERY), atol=1e-5)


def test_padding_changes_nothing(network, points):
    y, x = points
    some = jnp.arange(K) < 5
    alone = network(y[:5], x[:5], 3, jnp.ones(5, bool))
    np.testing.assert_allclose(run(network, y, x, 3, some)[:5], alone, atol=1e-5)
    junk = run(network, jnp.where(some, y, 50.0), jnp.where(some[:, None], x, -9.0), 3, some)
    np.testing.assert_allclose(junk[:5], alone, atol=1e-5)


def test_values_inputs_other_points_and_the_step_all_matter(network, points):
    y, x = points
    before = run(network, y, x, 3, EVERY)
    for other in (
        run(network, y.at[0].add(1.0), x, 3, EVERY),
        run(network, y, x.at[0, 1].add(1.0), 3, EVERY),
        run(network, y, x, 30, EVERY),
        run(network, y, x, 3, EVERY.at[0].set(False)),
    ):
        assert (jnp.abs(other - before)[1:] > 1e-4).any()


def test_steps_are_told_apart():
    embedded = jnp.stack([embed_step(t, 16) for t in range(1, 51)])
    distance = jnp.linalg.norm(embedded[:, None] - embedded[None], axis=-1) + 9 * jnp.eye(50)
    assert distance.min() > 0.1


@pytest.mark.parametrize("settings", [{"width": 0}, {"blocks": 0}, {"heads": 0}, {"width": 12, "heads": 4}])
def test_settings_are_checked(settings):
    with pytest.raises(ValueError, match=r"width|blocks|heads"):
        NoisePredictorConfig(**settings)
