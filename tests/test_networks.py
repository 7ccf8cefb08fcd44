"""Fully connected networks against NumPy, and the distribution of their first weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior import networks
from scoreprior.networks import MLP

ACTIVATIONS = {
    "leaky_relu": lambda h: np.where(h > 0, h, 0.01 * h),
    "silu": lambda h: h / (1 + np.exp(-h)),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_network_with_dropped_units_equals_numpy(name):
    network = networks.truncated_normal((2, 5, 4, 3), name, jax.random.key(1))
    network = MLP(network.weights, tuple(bias + 0.1 for bias in network.biases), name)
    x = np.random.default_rng(0).standard_normal((3, 2))
    keep = np.array([[0, 2, 2, 0, 2, 2, 0, 2, 2.0]])
    plain, dropped = x, x
    for weight, factors in zip(network.weights[:-1], (keep[:, :5], keep[:, 5:])):
        plain = ACTIVATIONS[name](plain @ np.asarray(weight) + 0.1)
        dropped = ACTIVATIONS[name](dropped @ np.asarray(weight) + 0.1) * factors
    last = np.asarray(network.weights[-1])
    x = jnp.asarray(x, jnp.float32)
    np.testing.assert_allclose(network(x), plain @ last + 0.1, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(network(x[0]), (plain @ last + 0.1)[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(network(x, jnp.asarray(keep, jnp.float32)), dropped @ last + 0.1, rtol=1e-4, atol=1e-6)


def test_without_a_hidden_layer_it_is_affine():
    network = networks.constant((2, 3), "tanh", 2.0, 0.5)
    np.testing.assert_allclose(network(jnp.array([1.0, 10.0])), np.full(3, 22.5))


# A standard normal cut at +-2 has std 0.8796, a uniform within sqrt(3) has std 1.
@pytest.mark.parametrize(("start", "std", "most"), [("truncated_normal", 0.8796, 2.0), ("uniform", 1.0, np.sqrt(3))])
def test_first_weights_are_scaled_by_their_fan_in_and_biases_are_zero(start, std, most):
    network = getattr(networks, start)((400, 300, 200, 1), "silu", jax.random.key(0))
    assert [weight.shape for weight in network.weights] == [(400, 300), (300, 200), (200, 1)]
    assert [bias.shape for bias in network.biases] == [(300,), (200,), (1,)]
    assert all(not bias.any() for bias in network.biases)
    for weight in network.weights[:2]:
        scaled = np.asarray(weight) * np.sqrt(len(weight))
        assert np.abs(scaled).max() <= most + 1e-6
        # The standard error of a standard deviation is below std / sqrt(2 N).
        assert scaled.std() == pytest.approx(std, abs=5 * std / np.sqrt(2 * scaled.size))


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation is one of leaky_relu, silu, tanh, not 'relu'"):
        networks.constant((1, 1), "relu", 0.0, 0.0)
