"""SVGD: the direction against a double loop and blackjax, and posteriors known in closed form."""

from dataclasses import fields, replace

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array

from scoreprior.inference import FSVGDConfig, FVIConfig, svgd
from scoreprior.inference.likelihood import likelihood_score, log_likelihood, minibatch
from scoreprior.inference.svgd import SVGDConfig, ascend, rbf_kernel_and_repulsion, start, svgd_direction
from scoreprior.tasks import PaddedTasks


class Linear(eqx.Module):
    """theta . (1, x), a particle whose posterior is in closed form."""

    theta: Array

    def __call__(self, x):
        return self.theta[0] + self.theta[1] * x[:, 0]


def _naive_direction(particles, scores, bandwidth):
    number = len(particles)
    direction = np.zeros_like(particles)
    for receiver in range(number):
        for sender in range(number):
            gap = particles[sender] - particles[receiver]
            kernel = np.exp(-gap @ gap / (2 * bandwidth))
            direction[receiver] += (kernel * scores[sender] - kernel * gap / bandwidth) / number
    return direction


@pytest.mark.parametrize("bandwidth", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("centre", [0.0, 50.0])
def test_direction_equals_a_double_loop(bandwidth, centre):
    generator = np.random.default_rng(0)
    particles = (centre + 0.5 * generator.normal(size=(7, 4))).astype(np.float32)
    scores = generator.normal(size=(7, 4)).astype(np.float32)
    expected = _naive_direction(particles.astype(np.float64), scores.astype(np.float64), bandwidth)
    got = jax.jit(svgd_direction)(particles, scores, bandwidth)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=2e-5)


def test_repulsion_is_the_gradient_of_the_kernel():
    particles = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)))
    gram, repulsion = jax.jit(rbf_kernel_and_repulsion)(particles, 0.7)

    def total(senders, receiver):
        return jnp.sum(jnp.exp(-jnp.sum((senders - receiver) ** 2, axis=1) / (2 * 0.7)))

    gradients = jax.jit(jax.vmap(jax.grad(total), in_axes=(None, 0)))(particles, particles)
    np.testing.assert_allclose(repulsion, gradients.sum(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jnp.diagonal(gram), 1.0)


def test_two_particles_repel_at_a_fixed_bandwidth():
    """The force at a distance is that of the given bandwidth, whatever the particles' spread."""
    repel = jax.jit(rbf_kernel_and_repulsion)
    for distance in (0.5, 3.0):
        _, repulsion = repel(np.array([[0.0], [distance]], np.float32), 2.0)
        force = distance / 2.0 * np.exp(-(distance**2) / 4)
        np.testing.assert_allclose(repulsion[:, 0], [-force, force], rtol=1e-5)


def test_agrees_with_blackjax():
    """blackjax's kernel is exp(-d^2 / length_scale), so its length scale is twice the bandwidth."""
    generator = np.random.default_rng(2)
    start_at = jnp.asarray(generator.normal(size=(6, 3)), jnp.float32)
    log_density_gradient = jax.grad(lambda z: -0.5 * jnp.sum((z - 1.0) ** 2 * jnp.array([1.0, 2.0, 4.0])))
    bandwidth, rate = 0.8, 0.05
    optimiser = optax.adam(rate)
    kernel = jax.jit(
        lambda state: blackjax.vi.svgd.build_kernel(optimiser)(state, log_density_gradient, blackjax.vi.svgd.rbf_kernel)
    )
    theirs = blackjax.vi.svgd.init(start_at, {"length_scale": jnp.asarray(2 * bandwidth)}, optimiser)

    @jax.jit
    def ours(particles, state):
        direction = svgd_direction(particles, jax.vmap(log_density_gradient)(particles), bandwidth)
        return ascend(particles, direction, state, jnp.asarray(rate))

    particles, state = start_at, start(start_at)
    for _ in range(20):
        theirs = kernel(theirs)
        particles, state = ours(particles, state)
    np.testing.assert_allclose(particles, theirs.particles, rtol=1e-4, atol=1e-4)


def test_recovers_a_gaussian():
    mean, std = jnp.array([1.0, -2.0]), jnp.array([0.5, 1.5])
    particles = jax.random.normal(jax.random.key(0), (150, 2))

    @jax.jit
    def run(particles):
        def body(carry, count):
            particles, state = carry
            direction = svgd_direction(particles, (mean - particles) / std**2, jnp.asarray(0.5))
            rate = svgd.decayed(jnp.asarray(0.05), count, 1000, 0.01)
            return ascend(particles, direction, state, rate), None

        return jax.lax.scan(body, (particles, start(particles)), jnp.arange(1000))[0][0]

    particles = np.asarray(run(particles), np.float64)
    # SVGD is deterministic at its fixed point: the mean is exact, the spread of 150 particles within a few percent.
    np.testing.assert_allclose(particles.mean(0), mean, atol=0.02)
    np.testing.assert_allclose(particles.std(0), std, rtol=0.06)


def _line(slots: int = 8) -> tuple[PaddedTasks, np.ndarray, np.ndarray]:
    """Data of a line, and mean and covariance of theta given them under N(0, 1) weights and noise 0.5."""
    generator = np.random.default_rng(3)
    x = generator.uniform(-2, 2, 5)
    y = 0.5 - 1.2 * x + 0.5 * generator.normal(size=5)
    features = np.stack([np.ones(5), x], axis=1)
    covariance = np.linalg.inv(np.eye(2) + features.T @ features / 0.25)
    padded = PaddedTasks(
        jnp.asarray(np.append(x, np.full(slots - 5, np.nan))[:, None], jnp.float32),
        jnp.asarray(np.append(y, np.full(slots - 5, np.nan)), jnp.float32),
        jnp.asarray(np.arange(slots) < 5),
    )
    return padded, covariance @ features.T @ y / 0.25, covariance


@pytest.mark.parametrize("batch", [None, pytest.param(3, marks=pytest.mark.slow)])
def test_weight_space_svgd_finds_the_posterior_of_a_linear_model(batch):
    context, mean, covariance = _line()
    config = SVGDConfig(steps=2000, learning_rate=0.02, bandwidth=0.05, context_batch=batch, final_rate=0.01)
    particles = Linear(jax.random.normal(jax.random.key(1), (100, 2)))
    run = jax.jit(lambda hyper, key: svgd.run(config, hyper, context, particles, key))
    theta = np.asarray(run(config.hyper(0.5), jax.random.key(2)).theta, np.float64)
    np.testing.assert_allclose(theta.mean(0), mean, atol=0.05 if batch is None else 0.1)
    np.testing.assert_allclose(theta.std(0), np.sqrt(np.diagonal(covariance)), rtol=0.1 if batch is None else 0.2)


def test_steps_climb_the_log_posterior():
    context, _, _ = _line()
    config = SVGDConfig(steps=60, learning_rate=0.05, bandwidth=0.05)
    algorithm = svgd.build(config, config.hyper(0.5))
    step = jax.jit(algorithm.step)
    state = algorithm.init(Linear(3 + jax.random.normal(jax.random.key(3), (10, 2))))
    values = []
    for count in range(60):
        state, info = step(jax.random.key(count), state, context)
        values.append(float(info.log_density.mean()))
    assert values[20] > values[0]
    assert values[-1] > values[20]


def test_likelihood_score_is_the_gradient_of_the_log_likelihood():
    f, y = jnp.array([0.3, -1.0, 2.0]), jnp.array([0.1, jnp.nan, 1.0])
    mask, noise = jnp.array([True, False, True]), jnp.asarray(0.3)
    np.testing.assert_allclose(
        likelihood_score(f, y, mask, noise), jax.jit(jax.grad(log_likelihood))(f, y, mask, noise), rtol=1e-5
    )
    expected = -0.5 * (0.2**2 + 1.0) / 0.09 - 2 * np.log(0.3 * np.sqrt(2 * np.pi))
    assert float(log_likelihood(f, y, mask, noise)) == pytest.approx(expected, rel=1e-5)


def test_minibatches_keep_the_likelihoods_weight_in_expectation():
    """The weighted score of every context point, averaged over minibatches, is its score in the full batch."""
    mask = jnp.array([True, True, False, True, True, True, False])
    context = PaddedTasks(jnp.arange(7.0)[:, None], jnp.arange(7.0), mask)
    draws, size = 4000, 2

    def counted(key):
        batch, weight = minibatch(key, context, size)
        return jnp.zeros(7).at[batch.y.astype(int)].add(weight * batch.mask)

    counts = np.asarray(jax.jit(jax.vmap(counted))(jax.random.split(jax.random.key(0), draws)), np.float64)
    # A point is chosen with probability 2/5 and then weighs 5/2: mean 1, variance 1.5.
    error = 4 * np.sqrt(1.5 / draws)
    np.testing.assert_allclose(counts.mean(0), np.asarray(mask, float), atol=error)
    np.testing.assert_allclose(counts.sum(1), 5.0, rtol=1e-5)


@pytest.mark.parametrize("real", [0, 1, 3])
def test_minibatch_of_fewer_real_points_than_asked_has_all_of_them(real):
    context = PaddedTasks(jnp.arange(6.0)[:, None], jnp.arange(6.0), jnp.arange(6) < real)
    batch, weight = jax.jit(minibatch, static_argnums=2)(jax.random.key(1), context, 4)
    assert sorted(np.asarray(batch.y)[np.asarray(batch.mask)].tolist()) == list(range(real))
    assert float(weight) == 1.0


@pytest.mark.parametrize("config", [SVGDConfig(steps=7), FSVGDConfig(steps=7), FVIConfig(steps=7, entropy="spectral")])
def test_the_static_part_keeps_what_is_no_array(config):
    static = svgd.static_part(config)
    arrays = [field.name for field in fields(config.hyper(0.3)) if field.name != "noise_std"]
    assert (
        static == replace(config, **dict.fromkeys(arrays, 1.0)) == svgd.static_part(replace(config, learning_rate=9.0))
    )
    assert float(config.hyper(0.3).noise_std) == pytest.approx(0.3)
