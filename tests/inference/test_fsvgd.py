"""fSVGD: exact Gaussian posteriors of linear-in-features models, signs, weights, padding, and what must not retrace."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.process import GaussianProcess
from scoreprior.inference import fsvgd
from scoreprior.inference.bnn import BNNConfig, init_particles
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.inference.measurement import Box
from scoreprior.scores.exact import GaussianProcessScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.tasks import PaddedTasks

BOX = Box(jnp.array([-2.0]), jnp.array([2.0]))
QUERY = jnp.linspace(-2, 2, 9)[:, None]
NOISE = 0.3


def features(x):
    """A bias, a slope and a wave: (k, 3)."""
    return jnp.stack([jnp.ones(len(x)), x[:, 0], jnp.sin(3 * x[:, 0])], axis=1)


class Linear(eqx.Module):
    """h(x) = features(x) . theta; with theta ~ N(0, I) its prior is GP(0, features features^T)."""

    theta: Array

    def __call__(self, x):
        return features(x) @ self.theta


# A process of three degrees of freedom has no density at more points; a little noise gives it one.
SCORE = GaussianProcessScore(ZeroMean(), lambda x, z: features(x) @ features(z).T)
LEVELS = NoiseLevels(jnp.float32(0.03))


def _context(slots: int = 4, real: int = 4, padding: float = 0.0) -> PaddedTasks:
    generator = np.random.default_rng(0)
    x, y = generator.uniform(-2, 2, (20, 1)), generator.normal(size=20)
    mask = np.arange(slots) < real
    return PaddedTasks(
        jnp.asarray(np.where(mask[:, None], x[:slots], padding), jnp.float32),
        jnp.asarray(np.where(mask, y[:slots], padding), jnp.float32),
        jnp.asarray(mask),
    )


def _exact(context: PaddedTasks) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation at QUERY, from Bayesian linear regression in double precision."""
    mask = np.asarray(context.mask)
    design = np.asarray(features(context.x), np.float64)[mask]
    covariance = np.linalg.inv(np.eye(3) + design.T @ design / NOISE**2)
    mean = covariance @ design.T @ np.asarray(context.y, np.float64)[mask] / NOISE**2
    at = np.asarray(features(QUERY), np.float64)
    return at @ mean, np.sqrt(np.einsum("qa,ab,qb->q", at, covariance, at))


@eqx.filter_jit
def _run(score, config, hyper, context, particles, key, offset):
    particles = fsvgd.run(score, LEVELS, BOX, config, hyper, context, particles, key, offset)
    return fsvgd.functions(particles, QUERY, offset)


def _functions(context, config, particles, seed=2, score=SCORE, offset=None):
    # Only sizes are read from the config; with the rest at its defaults tests of equal sizes share one compilation.
    names = ("steps", "measurement_points", "context_batch")
    sizes = FSVGDConfig(**{name: getattr(config, name) for name in names})
    values = _run(score, sizes, config.hyper(NOISE), context, particles, jax.random.key(seed), offset)
    return np.asarray(values, np.float64)


def _config(**settings) -> FSVGDConfig:
    defaults = {"steps": 500, "learning_rate": 0.05, "bandwidth": 1.0, "measurement_points": 8}
    return FSVGDConfig(**(defaults | settings))


@pytest.mark.parametrize(("slots", "real"), [(6, 4), (6, 2)])
def test_many_particles_reproduce_the_exact_posterior(slots, real):
    context = _context(slots, real)
    f = _functions(context, _config(), Linear(jax.random.normal(jax.random.key(1), (60, 3))))
    mean, std = _exact(context)
    np.testing.assert_allclose(f.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(f.std(0), std, rtol=0.12)


def test_ten_particles_have_the_exact_mean():
    context = _context(6, 4)
    f = _functions(context, _config(), Linear(jax.random.normal(jax.random.key(1), (10, 3))))
    mean, std = _exact(context)
    np.testing.assert_allclose(f.mean(0), mean, atol=0.05)
    assert (f.std(0) < std * 1.1).all()
    assert (f.std(0) > std * 0.5).all()


def test_without_data_particles_spread_as_the_prior():
    context = _context(6, 0, padding=np.nan)
    # Without data functions are further apart: at bandwidth 1 the kernel between them vanishes and so does repulsion.
    f = _functions(context, _config(bandwidth=10.0), Linear(0.3 * jax.random.normal(jax.random.key(1), (60, 3))))
    mean, std = _exact(context)
    np.testing.assert_allclose(f.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(f.std(0), std, rtol=0.12)


@pytest.mark.slow
def test_minibatches_of_the_context_give_the_same_posterior():
    context = _context(16, 12)
    config = _config(context_batch=4, steps=1000)
    f = _functions(context, config, Linear(jax.random.normal(jax.random.key(1), (60, 3))))
    mean, std = _exact(context)
    # The minibatches' noise enters through Adam: it widens the particles a little.
    np.testing.assert_allclose(f.mean(0), mean, atol=0.1)
    np.testing.assert_allclose(f.std(0), std, rtol=0.3)


def test_a_network_finds_a_gaussian_processs_posterior_mean():
    kernel = Matern(jnp.asarray(1.0), jnp.asarray([0.7]), 2.5)
    context = _context()
    process = GaussianProcess(ZeroMean(), kernel, jnp.asarray(NOISE))
    mean, variance = jax.jit(lambda c: process.predict_marginals(process.condition(*c), QUERY))(context)
    start = jax.jit(lambda key: init_particles(key, 10, 1, BNNConfig(), BOX.low, BOX.high))
    particles = start(jax.random.key(1))
    config = _config(learning_rate=3e-3, bandwidth=5.0, steps=600)
    f = _functions(context, config, particles, score=GaussianProcessScore(ZeroMean(), kernel))
    assert np.sqrt(np.mean((f.mean(0) - mean) ** 2)) < 0.1 * float(jnp.sqrt(variance).mean())
    assert 0.6 < float(f.std(0).mean() / jnp.sqrt(variance).mean()) < 1.1


def _step(context, config, particles, seed=0, score=SCORE, **options):
    def step(hyper, context, particles, key):
        return fsvgd.step(key, fsvgd.init(particles), context, score, LEVELS, BOX, config, hyper, **options)

    return jax.jit(step)(config.hyper(NOISE), context, particles, jax.random.key(seed))


def test_scores_are_those_of_the_log_posterior():
    """likelihood * m / batch + prior, by differentiating the density itself."""
    config = _config(context_batch=3)
    _, info = _step(_context(8, 6), config, Linear(jax.random.normal(jax.random.key(3), (5, 3))))
    measured = info.measured
    assert float(measured.weight) == 2.0
    assert int(measured.observed.sum()) == 3

    def log_posterior(f):
        data = -0.5 * jnp.sum(jnp.where(measured.observed, measured.y - f, 0.0) ** 2) / NOISE**2
        return 2.0 * data + SCORE.log_prob(f, measured.x, LEVELS.fine)

    expected = jax.jit(jax.vmap(jax.grad(log_posterior)))(info.f)
    np.testing.assert_allclose(info.scores, expected, rtol=1e-3, atol=1e-3 * float(jnp.abs(expected).max()))


def test_a_step_climbs():
    """One particle, a small step: no repulsion, and the log posterior at the measurement set grows."""
    config = _config(learning_rate=1e-3)
    particles = Linear(jnp.array([[2.0, -2.0, 2.0]]))
    after, info = _step(_context(), config, particles)
    x, y, observed, _ = info.measured

    def log_posterior(theta):
        f = features(x) @ theta
        return SCORE.log_prob(f, x, LEVELS.fine) - 0.5 * jnp.sum(jnp.where(observed, y - f, 0.0) ** 2) / NOISE**2

    before, gradient = jax.jit(jax.value_and_grad(log_posterior))(particles.theta[0])
    change = after.particles.theta[0] - particles.theta[0]
    # Adam's first step has the gradient's signs and the learning rate's length.
    np.testing.assert_allclose(change, 1e-3 * jnp.sign(gradient), rtol=1e-3)
    assert float(jax.jit(log_posterior)(after.particles.theta[0])) > float(before)


def test_the_measurement_set_is_context_plus_draws_and_all_of_it_real():
    context = _context(6, 4, padding=np.nan)
    measured = jax.jit(lambda key: fsvgd.measurement_set(key, context, BOX, 5, None))(jax.random.key(0))
    assert measured.x.shape == (11, 1)
    np.testing.assert_array_equal(measured.observed, np.arange(11) < 4)
    np.testing.assert_array_equal(measured.x[:4], context.x[:4])
    drawn = np.asarray(measured.x[4:, 0])
    assert np.isfinite(drawn).all()
    assert len(np.unique(drawn)) == 7
    assert (np.abs(drawn) <= 2).all()


def test_the_content_of_padding_is_irrelevant():
    particles = Linear(jax.random.normal(jax.random.key(1), (5, 3)))
    config = _config(steps=50, context_batch=4)
    results = [_functions(_context(6, 3, padding=value), config, particles) for value in (0.0, 1e6, np.nan)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_an_offset_is_added_to_every_particle():
    def offset(x):
        return 3 * x[:, 0] ** 2

    particles = Linear(jax.random.normal(jax.random.key(1), (4, 3)))
    shifted = GaussianProcessScore(offset, SCORE.kernel)
    context = _context()
    moved = context._replace(y=context.y + offset(context.x))
    config = _config(steps=50)
    plain = _functions(context, config, particles)
    with_offset = _functions(moved, config, particles, score=shifted, offset=offset)
    np.testing.assert_allclose(with_offset, plain + np.asarray(offset(QUERY)), rtol=1e-3, atol=1e-2)
    locs, scales = fsvgd.predict(particles, QUERY, jnp.asarray(0.2), offset)
    np.testing.assert_allclose(locs, jax.vmap(lambda one: one(QUERY))(particles) + offset(QUERY), rtol=1e-5)
    np.testing.assert_allclose(scales, np.full(locs.shape, 0.2), rtol=1e-6)


def test_a_gram_matrix_is_factored_once_for_all_particles():
    config = _config(steps=1)
    jaxpr = str(
        jax.make_jaxpr(lambda p, key: fsvgd.run(SCORE, LEVELS, BOX, config, config.hyper(NOISE), _context(), p, key))(
            Linear(jnp.ones((5, 3))), jax.random.key(0)
        )
    )
    lines = [line for line in jaxpr.splitlines() if "name=_factor" in line]
    assert len(lines) == 1
    assert "f32[12,12]" in jaxpr
    assert "f32[5,12,12]" not in jaxpr


def test_hyper_parameters_keys_and_data_do_not_retrace():
    traces = []

    @eqx.filter_jit
    def run(score, config, hyper, context, particles, keys):
        traces.append(1)
        one = jax.vmap(lambda key: fsvgd.run(score, LEVELS, BOX, config, hyper, context, particles, key))
        return one(keys).theta

    config = _config(steps=3)
    particles = Linear(jax.random.normal(jax.random.key(0), (4, 3)))
    base = config.hyper(NOISE)
    results = []
    for change in ({}, {"learning_rate": 0.1}, {"bandwidth": 4.0}, {"noise_std": 1.0}):
        hyper = replace(base, **{name: jnp.asarray(value, jnp.float32) for name, value in change.items()})
        results.append(run(SCORE, config, hyper, _context(), particles, jax.random.split(jax.random.key(0), 2)))
    results.append(run(SCORE, config, base, _context(), particles, jax.random.split(jax.random.key(5), 2)))
    results.append(run(SCORE, config, base, _context(4, 2), particles, jax.random.split(jax.random.key(0), 2)))
    assert len(traces) == 1
    assert len({np.asarray(result).tobytes() for result in results}) == len(results)


def test_determined_by_the_key():
    particles = Linear(jax.random.normal(jax.random.key(1), (4, 3)))
    first, again, other = (_functions(_context(), _config(steps=20), particles, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other, rtol=1e-6)


def test_the_learning_rate_decays_to_its_final_fraction():
    rate = jnp.asarray(0.4)
    values = [float(fsvgd.decayed(rate, jnp.asarray(count), 101, 0.01)) for count in (0, 50, 100, 500)]
    np.testing.assert_allclose(values, [0.4, 0.4 * 0.505, 0.004, 0.004], rtol=1e-4)


@pytest.mark.parametrize("bad", [{"particles": 0}, {"steps": 0.5}, {"bandwidth": 0.0}, {"context_batch": 0}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        FSVGDConfig(**bad)
