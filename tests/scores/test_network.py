"""The score network: its symmetries, its variants, and the structured trace of its Jacobian."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior._types import Score
from scoreprior.scores.network import NetworkConfig, ScoreNetwork

VARIANTS = ["tokens", "inputs-as-keys", "separate-embeddings"]


@lru_cache
def _network(dim: int = 2, seed: int = 0, noise_conditional: bool = False, **settings) -> ScoreNetwork:
    config = NetworkConfig(**({"embedding": 8, "heads": 2, "key_size": 4} | settings))
    return ScoreNetwork(dim, config, jax.random.key(seed), noise_conditional=noise_conditional)


def _arguments(k: int, dim: int = 2, noisy: bool = False, seed: int = 1) -> tuple:
    generator = np.random.default_rng(seed)
    f, x = generator.normal(size=k).astype(np.float32), generator.normal(size=(k, dim)).astype(np.float32)
    return (jnp.asarray(f), jnp.asarray(x), *([jnp.asarray(0.3)] if noisy else []))


@pytest.mark.parametrize(("attention", "noisy"), [(name, False) for name in VARIANTS] + [("tokens", True)])
def test_permuting_the_points_permutes_the_score(attention, noisy):
    network = eqx.filter_jit(_network(attention=attention, noise_conditional=noisy))
    f, x, *noise = _arguments(9, noisy=noisy)
    order = np.random.default_rng(7).permutation(9)
    plain, permuted = network(f, x, *noise), network(f[order], x[order], *noise)
    np.testing.assert_allclose(permuted, plain[order], rtol=1e-5, atol=1e-5 * float(jnp.abs(plain).max()))
    assert not np.allclose(permuted, plain, rtol=1e-3)


@pytest.mark.parametrize("k", [1, 33])
def test_any_number_of_points(k):
    score = eqx.filter_jit(_network())(*_arguments(k))
    assert score.shape == (k,)
    assert bool(jnp.isfinite(score).all())


def test_points_see_each_other():
    jacobian = eqx.filter_jit(lambda n, *a: jax.jacfwd(n)(*a))(_network(), *_arguments(5))
    assert (np.abs(jacobian) > 1e-6).all()


def test_without_inputs_equal_values_get_equal_scores():
    network = eqx.filter_jit(_network(dim=0))
    score = network(jnp.array([0.3, -1.0, 0.3, 2.0]), jnp.zeros((4, 0)))
    assert float(score[0]) == pytest.approx(float(score[2]), rel=1e-5)
    assert abs(float(score[0] - score[1])) > 1e-4


@pytest.mark.parametrize("attention", ["inputs-as-keys", "separate-embeddings"])
def test_variants_that_embed_inputs_need_inputs(attention):
    with pytest.raises(ValueError, match="needs inputs"):
        _network(dim=0, attention=attention)


def test_the_noise_level_matters_to_a_network_that_is_conditioned_on_it():
    network = eqx.filter_jit(_network(noise_conditional=True))
    f, x, noise = _arguments(4, noisy=True)
    assert not np.allclose(network(f, x, noise), network(f, x, 2 * noise), rtol=1e-3)
    with pytest.raises(ValueError, match="needs a noise level"):
        network(f, x)
    plain = eqx.filter_jit(_network())
    np.testing.assert_array_equal(plain(f, x, noise), plain(f, x))


@pytest.mark.parametrize(
    ("attention", "blocks", "noisy"),
    [
        ("tokens", 1, False),
        *((name, 2, False) for name in VARIANTS),
        ("tokens", 3, True),
        pytest.param("inputs-as-keys", 3, True, marks=pytest.mark.slow),
    ],
)
def test_structured_divergence_is_the_trace_of_the_jacobian(attention, blocks, noisy):
    network = _network(attention=attention, blocks=blocks, noise_conditional=noisy)
    arguments = _arguments(7, noisy=noisy)
    value, divergence = eqx.filter_jit(network.value_and_divergence)(*arguments)
    forward, jacobian = eqx.filter_jit(lambda n, *a: (n(*a), jax.jacfwd(n)(*a)))(network, *arguments)
    # Single-precision round-off of the entries that are summed, with cancellation between them.
    tolerance = 2e-5 * float(jnp.abs(jacobian).sum())
    np.testing.assert_allclose(value, forward, rtol=1e-6, atol=1e-6)
    assert float(divergence) == pytest.approx(float(jnp.trace(jacobian)), abs=tolerance)


@pytest.mark.slow
def test_structured_divergence_has_the_gradient_of_the_trace():
    network = _network()
    f, x = _arguments(5)
    structured = eqx.filter_jit(jax.grad(lambda n: n.value_and_divergence(f, x)[1]))(network)
    generic = eqx.filter_jit(jax.grad(lambda n: jnp.trace(jax.jacfwd(n)(f, x))))(network)
    for ours, theirs in zip(jax.tree.leaves(structured), jax.tree.leaves(generic)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5 * float(jnp.abs(theirs).max()) + 1e-5)


def test_batching_over_measurement_sets_is_the_loop_over_them():
    network = _network()
    f, x = _arguments(18)
    f, x = f.reshape(3, 6), x.reshape(3, 6, 2)
    one = eqx.filter_jit(network)
    batched = eqx.filter_jit(eqx.filter_vmap(network))(f, x)
    np.testing.assert_allclose(batched, np.stack([one(*pair) for pair in zip(f, x)]), rtol=1e-4, atol=1e-5)


def test_attention_weights_start_with_variance_two_over_fan_in():
    network = _network(embedding=64, heads=8, key_size=32)
    for layer in (network.blocks[0].attention.projections, network.blocks[0].attention.out):
        inputs, size = len(layer.matrix), layer.weight.size
        # Lighter tails than a normal's: 2 / size bounds the relative variance of the sample variance.
        assert np.var(layer.weight) == pytest.approx(2.0 / inputs, rel=4 * np.sqrt(2 / size))
    hidden = network.blocks[0].hidden
    assert np.var(hidden.weight) == pytest.approx(1.0 / 64, rel=4 * np.sqrt(2 / hidden.weight.size))


def test_the_network_is_a_score():
    assert isinstance(_network(), Score)


@pytest.mark.parametrize(
    "settings", [{"heads": 0}, {"multiplier": 0.0}, {"attention": "dense"}, {"normalisation": "batch"}]
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError):
        NetworkConfig(**settings)
