"""Spectral normalisation against NumPy's singular values and finite differences."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from scoreprior.scores import losses, spectral
from scoreprior.scores.attention import Linear
from scoreprior.scores.network import NetworkConfig, ScoreNetwork


@lru_cache
def _network(seed: int = 0, **settings) -> ScoreNetwork:
    small = {"embedding": 8, "heads": 2, "key_size": 4, "blocks": 1} | settings
    return ScoreNetwork(1, NetworkConfig(**small), jax.random.key(seed))


@eqx.filter_jit
def _norms(network: ScoreNetwork) -> list[jax.Array]:
    return [spectral.norms(layer) for layer in spectral.normalisable(network)]


def _svd_norms(layer: Linear) -> np.ndarray:
    return np.linalg.norm(np.moveaxis(np.asarray(spectral.stacked(layer), np.float64), 1, 0), 2, axis=(1, 2))


def test_power_iteration_converges_to_the_singular_value():
    network = _network()
    iterate = eqx.filter_jit(lambda n: jax.lax.fori_loop(0, 300, lambda _, m: spectral.power_iterate(m), n))
    # The embedding; and per block a stack of three projections, the output and two position-wise layers.
    assert len(spectral.normalisable(network)) == 1 + 4
    iterated = iterate(network)
    for norms, layer in zip(_norms(iterated), spectral.normalisable(iterated)):
        np.testing.assert_allclose(norms, _svd_norms(layer), rtol=1e-4)


def test_an_estimate_never_exceeds_the_norm():
    iterated = eqx.filter_jit(spectral.power_iterate)(_network())
    for norms, layer in zip(_norms(iterated), spectral.normalisable(iterated)):
        assert (np.asarray(norms) <= _svd_norms(layer) * (1 + 1e-6)).all()


def test_power_iteration_leaves_the_function_alone():
    network = _network()
    f, x = jnp.array([0.1, -0.4]), jnp.array([[0.0], [1.0]])
    moved = eqx.filter_jit(spectral.power_iterate)(network)
    score = eqx.filter_jit(lambda n: n(f, x))
    np.testing.assert_array_equal(score(moved), score(network))
    assert not np.allclose(moved.embed_values.singular, network.embed_values.singular)


@pytest.mark.parametrize("multiplier", [1.0, 0.7])
def test_finalised_weights_meet_the_bound_to_float_precision(multiplier):
    network = _network(multiplier=multiplier)
    network = jax.tree.map(lambda leaf: leaf * 0.01, network)  # also small weights are divided by their norm
    network = eqx.tree_at(lambda n: n.multiplier, network, jnp.asarray(multiplier))
    final = eqx.filter_jit(spectral.finalise)(network)
    for layer in spectral.normalisable(final):
        np.testing.assert_allclose(_svd_norms(layer), multiplier, rtol=5e-6)
    np.testing.assert_array_equal(final.final.weight, network.final.weight)


def test_normalising_twice_is_normalising_once():
    once = eqx.filter_jit(spectral.finalise)(_network())
    for first, second in zip(jax.tree.leaves(once), jax.tree.leaves(eqx.filter_jit(spectral.normalise)(once))):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-7)


def test_scale_of_the_weights_is_irrelevant_after_normalisation():
    network = _network()
    scaled = eqx.tree_at(lambda n: n.blocks[0].hidden.weight, network, replace_fn=lambda w: 5 * w)
    f, x = jnp.array([0.1, -0.4]), jnp.array([[0.0], [1.0]])
    score = eqx.filter_jit(lambda n: spectral.normalise(n)(f, x))
    np.testing.assert_allclose(score(scaled), score(network), rtol=1e-5)


def test_no_normalisation_is_the_identity():
    network = _network(normalisation="none")
    for first, second in zip(jax.tree.leaves(spectral.normalise(network)), jax.tree.leaves(network)):
        np.testing.assert_array_equal(first, second)


def test_gradient_in_the_weights_against_finite_differences():
    """sigma = u^T W^T v with u, v held constant equals ||W|| to second order at convergence."""
    with jax.enable_x64(True):
        layer = Linear(5, 3, stack=2)
        weight = np.random.default_rng(0).normal(size=(5, 6))
        layer = eqx.tree_at(lambda node: node.weight, layer, jnp.asarray(weight))
        singular = np.linalg.svd(np.moveaxis(np.asarray(spectral.stacked(layer)), 1, 0), full_matrices=False)[2][:, 0]
        layer = eqx.tree_at(lambda node: node.singular, layer, jnp.asarray(singular))
        target = np.random.default_rng(1).normal(size=(5, 6))

        def objective(weight):
            moved = eqx.tree_at(lambda node: node.weight, layer, weight)
            return jnp.sum(jnp.sin(weight / jnp.repeat(spectral.norms(moved), 3)) * target)

        def exact(weight):
            sigma = np.linalg.norm(np.moveaxis(weight.reshape(5, 2, 3), 1, 0), 2, axis=(1, 2))
            return np.sum(np.sin(weight / np.repeat(sigma, 3)) * target)

        assert not layer.transposed
        gradient, step = np.asarray(jax.jit(jax.grad(objective))(layer.weight)), 1e-6
        for index in np.ndindex(*gradient.shape):
            bump = np.zeros((5, 6))
            bump[index] = step
            difference = exact(weight + bump) - exact(weight - bump)
            assert gradient[index] == pytest.approx(difference / (2 * step), rel=1e-6, abs=1e-8)


def test_the_optimiser_never_sees_the_state():
    network = _network()
    params, rest = eqx.partition(network, spectral.trainable(network))
    assert all(layer.singular is None for layer in jax.tree.leaves(params, is_leaf=_is_linear) if _is_linear(layer))
    assert params.multiplier is None
    assert all(layer.singular is not None for layer in spectral.normalisable(eqx.combine(params, rest)))
    counted = sum(leaf.size for leaf in jax.tree.leaves(params))
    state = sum(layer.singular.size for layer in spectral.normalisable(network)) + 1
    assert counted == sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_array))) - state


def test_functions_reach_networks_inside_other_modules():
    network = _network()
    nested = {"closed form": jnp.ones(2), "residual": network}
    finalised = eqx.filter_jit(spectral.finalise)(nested)
    np.testing.assert_array_equal(finalised["closed form"], 1.0)
    for layer in spectral.normalisable(finalised):
        np.testing.assert_allclose(_svd_norms(layer), 1.0, rtol=5e-6)


def test_the_bound_holds_after_training():
    network = _network(multiplier=1.5)
    spec, optimiser = spectral.trainable(network), optax.adam(1e-2)
    f, x = jax.random.normal(jax.random.key(1), (16, 4)), jnp.linspace(-1.0, 1.0, 4)[:, None]

    def step(carry, key):
        network, state = carry
        params, rest = eqx.partition(spectral.power_iterate(network), spec)
        loss, gradient = jax.value_and_grad(
            lambda p: losses.denoising(0.1)(spectral.normalise(eqx.combine(p, rest)), f, x, key)
        )(params)
        updates, state = optimiser.update(gradient, state)
        return (eqx.combine(eqx.apply_updates(params, updates), rest), state), loss

    start = (network, optimiser.init(eqx.filter(network, spec)))
    (trained, _), history = jax.jit(lambda c, k: jax.lax.scan(step, c, k))(
        start, jax.random.split(jax.random.key(2), 200)
    )
    running = eqx.filter_jit(lambda n: spectral.normalise(spectral.power_iterate(n)))(trained)
    for layer in spectral.normalisable(running):
        np.testing.assert_allclose(_svd_norms(layer), 1.5, rtol=0.02)  # one iteration per step keeps up
    for layer in spectral.normalisable(eqx.filter_jit(spectral.finalise)(trained)):
        np.testing.assert_allclose(_svd_norms(layer), 1.5, rtol=5e-6)
    assert float(history[-50:].mean()) < float(history[:20].mean())


def _is_linear(node) -> bool:
    return isinstance(node, Linear)
