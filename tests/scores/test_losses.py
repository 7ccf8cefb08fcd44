"""Every objective is the Fisher divergence it claims to be, up to its constant, on a closed-form process."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from scoreprior.scores import losses, spectral
from scoreprior.scores.network import NetworkConfig, ScoreNetwork

NOISE = 0.4
X = np.array([[-1.0], [0.2], [1.5]], np.float32)
MEAN = np.array([0.5, -1.0, 0.3], np.float32)
GRAM = np.exp(-0.5 * (X - X.T) ** 2).astype(np.float32)
SMALL = NetworkConfig(embedding=16, heads=2, key_size=8, blocks=1, multiplier=2.0)
VALUES, VECTORS = (part.astype(np.float32) for part in np.linalg.eigh(GRAM.astype(np.float64)))
DRAWS = 40_000


def _draws(n: int, seed: int) -> jnp.ndarray:
    white = np.random.default_rng(seed).normal(size=(n, len(X)))
    return jnp.asarray(MEAN + white @ np.linalg.cholesky(GRAM).T, jnp.float32)


def _precision(noise) -> jnp.ndarray:
    return (VECTORS / (VALUES + noise**2)) @ VECTORS.T


def _truth(f, x, noise=0.0):
    return -_precision(noise) @ (f - MEAN)


def _perturbed(f, x, noise=0.0):
    return _truth(f, x, noise) + _delta(f)


def _delta(f):
    return jnp.array([[0.3, 0.0, -0.2], [0.1, -0.4, 0.0], [0.0, 0.5, 0.2]]) @ f + jnp.array([0.2, -0.1, 0.3])


# Objective, the score that minimises it, the same plus delta; noise level and weight of 1/2 E ||delta||^2.
OBJECTIVES = {
    "exact_trace": (losses.exact_trace_of_any, _truth, _perturbed, lambda: (0.0, 1.0)),
    "sliced": (losses.sliced, _truth, _perturbed, lambda: (0.0, 1.0)),
    "denoising": (
        losses.denoising(NOISE),
        _truth,
        _perturbed,
        lambda: (NOISE, NOISE**2),
    ),
    "noise_conditional": (losses.noise_conditional(0.1, 1.0), _truth, _perturbed, None),
}


def _per_function(objective, score, f, keys):
    """The objective of every function on its own, (n,)."""
    return jax.jit(jax.vmap(lambda f_i, key: objective(score, f_i[None], X, key)))(f, keys)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_excess_loss_is_half_the_squared_distance_to_the_true_score(name):
    objective, truth, perturbed, level = OBJECTIVES[name]
    f, keys = _draws(DRAWS, 0), jax.random.split(jax.random.key(1), DRAWS)
    excess = _per_function(objective, perturbed, f, keys) - _per_function(objective, truth, f, keys)
    noise = np.random.default_rng(2).normal(size=f.shape)
    if level is None:
        levels = 10 ** np.random.default_rng(3).uniform(-1, 0, (DRAWS, 1))
        weights = levels**2
    else:
        levels, weights = level()
    distance = np.sum(np.asarray(jax.vmap(_delta)(f + levels * noise)) ** 2, axis=1, keepdims=True)
    expected = (0.5 * weights * distance)[:, 0]
    error = np.sqrt((excess.var() + expected.var()) / DRAWS)
    assert abs(float(excess.mean()) - expected.mean()) < 4 * error
    assert expected.mean() > 20 * error  # so that a wrong constant would be seen


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_of_a_linear_family_vanishes_at_the_true_score(name):
    objective, truth, _, _ = OBJECTIVES[name]
    f, keys = _draws(DRAWS, 4), jax.random.split(jax.random.key(5), DRAWS)

    def loss(theta, f_i, key):
        matrix, shift = theta
        return objective(lambda g, x, *noise: truth(g, x, *noise) + matrix @ g + shift, f_i[None], X, key)

    origin = (jnp.zeros((3, 3)), jnp.zeros(3))
    gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(origin, f, keys)
    for gradient in gradients:
        z = gradient.mean(0) / (gradient.std(0) / np.sqrt(DRAWS))
        assert float(jnp.abs(z).max()) < 4  # 12 parameters: 4 standard errors are exceeded once in 1300 seeds
    away = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))((0.3 * jnp.eye(3), jnp.zeros(3)), f, keys)[0]
    assert float(jnp.abs(away.mean(0) / (away.std(0) / np.sqrt(DRAWS))).max()) > 10


def test_exact_trace_of_a_linear_score_in_closed_form():
    f = _draws(50, 6)
    loss = jax.jit(lambda f: losses.exact_trace_of_any(_truth, f, X, jax.random.key(0)))(f)
    scores = -(np.asarray(f) - MEAN) @ np.asarray(_precision(0.0))
    expected = -np.trace(_precision(0.0)) + 0.5 * np.mean(np.sum(scores**2, axis=1))
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_one_measurement_set_per_function_or_one_for_all():
    f, key = _draws(5, 7), jax.random.key(8)
    for objective in (losses.exact_trace_of_any, losses.sliced, losses.denoising(NOISE)):
        loss = jax.jit(lambda x, objective=objective: objective(lambda g, x, *noise: jnp.sin(g * x[:, 0]), f, x, key))
        assert float(loss(X)) == pytest.approx(float(loss(np.broadcast_to(X, (5, 3, 1)))), rel=1e-5)
        moved = np.stack([X, X, X, X, 2 * X])
        assert float(loss(moved)) != pytest.approx(float(loss(X)), rel=1e-3)


def test_gradient_penalty_estimates_the_frobenius_norm():
    f, keys = _draws(DRAWS, 10), jax.random.split(jax.random.key(11), DRAWS)
    values = _per_function(losses.gradient_penalty, lambda g, x: jnp.asarray(GRAM) @ g, f, keys)
    assert abs(float(values.mean()) - np.sum(GRAM**2)) < 4 * float(values.std()) / np.sqrt(DRAWS)


def test_spectral_penalty_is_half_the_sum_of_squared_norms():
    network = eqx.filter_jit(lambda key: spectral.finalise(ScoreNetwork(1, SMALL, key)))(jax.random.key(12))
    network = eqx.tree_at(lambda n: n.blocks[0].hidden.weight, network, replace_fn=lambda w: 3 * w)
    # Embedding, query, key, value, output and the last layer have norm 2; the hidden layer now has norm 6.
    penalty = eqx.filter_jit(losses.spectral_penalty)(network, _draws(1, 0), X, jax.random.key(0))
    assert float(penalty) == pytest.approx(0.5 * (6 * 2**2 + 6**2), rel=1e-5)


def test_regularisers_add_up():
    f, key = _draws(20, 13), jax.random.key(14)
    penalty = lambda score, f, x, key: jnp.asarray(2.0)  # noqa: E731
    combined = losses.regularised(losses.exact_trace_of_any, (0.5, penalty), (jnp.asarray(3.0), penalty))
    total, plain = jax.jit(lambda f, key: [loss(_truth, f, X, key) for loss in (combined, losses.exact_trace_of_any)])(
        f, key
    )
    assert float(total - plain) == pytest.approx(7.0, rel=1e-4)


def test_changing_the_noise_level_does_not_retrace():
    traces = []

    @eqx.filter_jit
    def run(objective, f):
        traces.append(1)
        return objective(lambda g, x, noise: -g, f, X, jax.random.key(0))

    f = _draws(4, 15)
    assert float(run(losses.denoising(0.1), f)) != float(run(losses.denoising(0.5), f))
    assert len(traces) == 1


def _distances(objective, noise: float, sizes: tuple[int, ...], steps: int) -> list[float]:
    """Mean squared distances to the closed form, on fresh draws, of networks trained on so many functions."""
    network = ScoreNetwork(1, SMALL, jax.random.key(16))
    spec, data = spectral.trainable(network), _draws(max(sizes), 17)
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-2, steps))
    fresh = _draws(2000, 19) + noise * jax.random.normal(jax.random.key(20), (2000, 3))
    truth = -(fresh - MEAN) @ _precision(noise)

    @eqx.filter_jit
    def distance(tasks):
        def step(carry, key):
            network, state = carry
            pick_key, loss_key = jax.random.split(key)
            f = data[jax.random.randint(pick_key, (100,), 0, tasks)]
            params, rest = eqx.partition(spectral.power_iterate(network), spec)
            loss = lambda p: objective(spectral.normalise(eqx.combine(p, rest)), f, X, loss_key)  # noqa: E731
            updates, state = optimiser.update(jax.grad(loss)(params), state)
            return (eqx.combine(eqx.apply_updates(params, updates), rest), state), None

        start = (network, optimiser.init(eqx.filter(network, spec)))
        (trained, _), _ = jax.lax.scan(step, start, jax.random.split(jax.random.key(18), steps))
        final = spectral.finalise(trained)
        return jnp.mean(jnp.sum((jax.vmap(lambda f: final(f, X))(fresh) - truth) ** 2, axis=1))

    return [float(distance(jnp.asarray(tasks))) for tasks in sizes]


def test_the_network_approaches_the_true_score_with_more_tasks():
    few, many = _distances(losses.denoising(NOISE), NOISE, (10, 2000), 400)
    assert many < 0.5 * few
    assert many < 0.1 * float(jnp.trace(_precision(NOISE)))  # E ||s||^2 of the true score


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "noise"),
    [(losses.exact_trace, 0.0), (losses.sliced, 0.0), (losses.denoising(NOISE), NOISE)],
    ids=["exact_trace", "sliced", "denoising"],
)
def test_the_network_approaches_the_true_score_from_20_to_2000_tasks(objective, noise):
    few, more, most = _distances(objective, noise, (20, 200, 2000), 3000)
    assert few > more > most
    assert most < 0.1 * float(jnp.trace(_precision(noise)))
