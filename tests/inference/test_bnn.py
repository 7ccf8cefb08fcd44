"""Network particles: initialisation bounds, kinks inside the box, and the gradient of the hand-written product."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.inference.bnn import BNNConfig, apply, function_values, init_network, init_particles

LOW, HIGH = jnp.array([-2.0, 1.0]), jnp.array([-1.0, 4.0])


@partial(jax.jit, static_argnums=1)
def _init(key, config):
    return init_network(key, 2, config, LOW, HIGH)


def _network(seed: int = 0, **settings):
    return _init(jax.random.key(seed), BNNConfig(**settings))


def _plain(network, x):
    """The same network in double-precision NumPy."""
    hidden = np.asarray(x, np.float64)
    for weight, bias in zip(network.weights[:-1], network.biases[:-1]):
        before = hidden @ np.asarray(weight, np.float64) + np.asarray(bias, np.float64)
        hidden = np.where(before > 0, before, network.slope * before)
    output = hidden @ np.asarray(network.weights[-1], np.float64) + float(network.biases[-1])
    return output if network.linear is None else output + np.asarray(x) @ np.asarray(network.linear)


@pytest.mark.parametrize("skip", ["none", "linear"])
def test_forward_pass_against_numpy(skip):
    network = _network(skip=skip, slope=0.1)
    if skip == "linear":
        assert not np.asarray(network.linear).any()
        network = eqx.tree_at(lambda one: one.linear, network, jnp.array([0.5, -2.0]))
    x = np.random.default_rng(0).uniform(-3, 3, (50, 2)).astype(np.float32)
    np.testing.assert_allclose(jax.jit(apply)(network, x), _plain(network, x), rtol=1e-4, atol=1e-5)


def test_he_uniform_weights():
    networks = jax.jit(lambda key: init_particles(key, 50, 2, BNNConfig(), LOW, HIGH))(jax.random.key(1))
    for weight, fan_in in zip(networks.weights, (2, 32, 32, 32)):
        assert weight.shape[:2] == (50, fan_in)
        bound = np.sqrt(6 / fan_in)
        values = np.asarray(weight, np.float64).ravel()
        assert np.abs(values).max() <= bound * (1 + 1e-6)
        # Four standard errors of the mean square of a uniform variable: E w^2 = b^2 / 3, E w^4 = b^4 / 5.
        error = 4 * np.sqrt((1 / 5 - 1 / 9) / len(values)) * bound**2
        assert abs((values**2).mean() - bound**2 / 3) < error
        assert abs(values.mean()) < 4 * bound / np.sqrt(3 * len(values))


def test_particles_are_different_and_deterministic():
    x = jnp.linspace(-1, 1, 6).reshape(3, 2)
    start = jax.jit(lambda key: function_values(init_particles(key, 4, 2, BNNConfig(), LOW, HIGH), x))
    values = [start(jax.random.key(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(values[0], values[1])
    assert values[0].shape == (4, 3)
    assert len(np.unique(np.concatenate([values[0], values[2]])[:, 0])) == 8


def test_kinks_of_the_first_layer_lie_in_the_box():
    network = _network(hidden=(2000, 3))
    weight, bias = np.asarray(network.weights[0], np.float64), np.asarray(network.biases[0], np.float64)
    # The hyperplane <w, x> + b = 0 meets the box exactly if b is within the range of -<w, x> over its corners.
    corners = np.array([[a, b] for a in (-2.0, -1.0) for b in (1.0, 4.0)])
    values = corners @ weight + bias
    assert (values.min(0) <= 1e-5).all()
    assert (values.max(0) >= -1e-5).all()
    # In terms of the anchors: -b_i is <w_i, x*> with x* uniform, so given w_i its standardised value has unit variance.
    centre, width = np.array([-1.5, 2.5]), np.array([1.0, 3.0])
    standardised = (-bias - centre @ weight) / np.sqrt(((weight * width[:, None]) ** 2).sum(0) / 12)
    assert abs(standardised.mean()) < 4 / np.sqrt(2000)
    assert abs((standardised**2).mean() - 1) < 4 * np.sqrt(2 / 2000)


def _has_kinks(network, depth, x):
    """Which units of a layer change their sign over the inputs."""
    before = np.asarray(_hidden(network, x, depth) @ network.weights[depth] + network.biases[depth])
    return (before.min(0) < 0) & (before.max(0) > 0)


def _hidden(network, x, depth):
    for weight, bias in zip(network.weights[:depth], network.biases[:depth]):
        before = x @ np.asarray(weight) + np.asarray(bias)
        x = np.maximum(before, network.slope * before)
    return x


def test_kinks_of_deeper_layers_are_met_by_inputs_of_the_box():
    network = _network(seed=3)
    x = np.random.default_rng(1).uniform(LOW, HIGH, (4000, 2)).astype(np.float32)
    for depth in (1, 2):
        assert _has_kinks(network, depth, x).all()
    # Points of the input box in place of activations, or a constant, would leave many units without a kink.
    plain = _network(seed=3, bias="constant")
    assert not _has_kinks(plain, 1, x).all()


def test_constant_biases():
    network = _network(bias="constant", constant=0.03)
    for bias in network.biases:
        np.testing.assert_allclose(bias, 0.03)


def test_gradient_against_finite_differences():
    network = _network(hidden=(5, 4, 3), slope=0.2)
    x = np.random.default_rng(2).uniform(LOW, HIGH, (7, 2)).astype(np.float32)
    weights = np.random.default_rng(3).normal(size=7)
    gradient = jax.jit(jax.grad(lambda one: jnp.sum(one(x) * weights)))(network)
    epsilon = 1e-6
    for layer in range(4):
        for kind in ("weights", "biases"):
            leaf = np.asarray(getattr(network, kind)[layer], np.float64)
            expected = np.zeros_like(leaf)
            for index in np.ndindex(leaf.shape):
                values = []
                for sign in (1, -1):
                    moved = leaf.copy()
                    moved[index] += sign * epsilon
                    shifted = eqx.tree_at(lambda one, k=kind, i=layer: getattr(one, k)[i], network, moved)
                    values.append(weights @ _plain(shifted, x))
                expected[index] = (values[0] - values[1]) / (2 * epsilon)
            np.testing.assert_allclose(getattr(gradient, kind)[layer], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("bad", [{"hidden": ()}, {"bias": "zero"}, {"skip": "yes"}, {"slope": 1.5}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        BNNConfig(**bad)
