"""PACOH-NN: evidence, draws and target SVGD against the closed forms of a linear-Gaussian model."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import multivariate_normal, norm

import scoreprior as sp
from scoreprior import training as _training
from scoreprior.inference.bnn import BNNConfig, init_network
from scoreprior.learners import pacoh_nn
from scoreprior.learners.pacoh_nn import PACOHNN, Regressor, WeightPrior
from scoreprior.space import override, sample
from scoreprior.tasks import PaddedTasks
from scoreprior.training import TrainingConfig

# Nearly all of the time is compilation; the default suite keeps the conformance of cheaper methods.
pytestmark = pytest.mark.slow

OFFSET, SLOPE = (0.3, 0.5), (-0.4, 0.8)  # mean and std of b and a in b + a x
NOISE = 0.6


def filled(tree: Regressor, value: float) -> Regressor:
    return jax.tree.map(lambda leaf: jnp.full(leaf.shape, value), tree)


def linear_prior(width: int = 4) -> WeightPrior:
    """Only the offset b and the skip's slope a are random: b + a x with Gaussian coefficients."""
    config = BNNConfig(hidden=(width,), skip="linear")
    network = init_network(jax.random.key(0), 1, config, -jnp.ones(1), jnp.ones(1))

    def place(zeros: Regressor, offset: float, slope: float, noise: float) -> Regressor:
        network = zeros.network
        biases = (*network.biases[:-1], jnp.float32(offset))
        linear = jnp.array([slope], jnp.float32)
        return Regressor(type(network)(network.weights, biases, linear, network.slope), jnp.float32(noise))

    template = Regressor(network, jnp.float32(0.0))
    mean = place(filled(template, 0.0), OFFSET[0], SLOPE[0], np.log(NOISE))
    # The hidden unit's output weights are exp(-30), nothing in single precision.
    log_std = place(filled(template, -30.0), np.log(OFFSET[1]), np.log(SLOPE[1]), -30.0)
    return WeightPrior(mean, log_std)


def tasks() -> PaddedTasks:
    """Two tasks of three and two points; junk where masked."""
    x = jnp.array([[[-1.0], [0.2], [1.5]], [[0.4], [-0.7], [9.0]]])
    y = jnp.array([[0.9, 0.1, -0.6], [0.5, 1.0, 99.0]])
    return PaddedTasks(x, y, jnp.array([[True, True, True], [True, True, False]]))


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prior mean and covariance of the noise-free function at x (m,)."""
    design = np.stack([np.ones_like(x), x], axis=1)
    return design @ [OFFSET[0], SLOPE[0]], design @ np.diag([OFFSET[1] ** 2, SLOPE[1] ** 2]) @ design.T


def closed_form(i: int) -> float:
    batch = tasks()
    mask = np.asarray(batch.mask[i])
    mean, cov = moments(np.asarray(batch.x[i, :, 0], np.float64)[mask])
    y = np.asarray(batch.y[i], np.float64)[mask]
    return multivariate_normal(mean, cov + NOISE**2 * np.eye(len(y))).logpdf(y)


def test_the_evidence_estimate_is_unbiased_for_the_closed_form():
    phi = linear_prior()
    eps = jax.random.normal(jax.random.key(0), (400, 50, phi.size))
    estimates = np.exp(np.asarray(jax.jit(jax.vmap(lambda e: pacoh_nn.log_evidence(phi, tasks(), e)))(eps), np.float64))
    for i in range(2):
        ratios = estimates[:, i] / np.exp(closed_form(i))
        error = ratios.std(ddof=1) / np.sqrt(len(ratios))
        assert abs(ratios.mean() - 1) < 4 * error
        assert error < 0.02


def test_the_evidence_estimate_is_log_sum_exp_over_draws():
    phi = linear_prior()
    eps = jax.random.normal(jax.random.key(1), (7, phi.size))
    ours = np.asarray(eqx.filter_jit(pacoh_nn.log_evidence)(phi, tasks(), eps))
    each = []
    theta = jax.jit(jax.vmap(phi.place))(eps).network
    for offset, slope in zip(np.asarray(theta.biases[-1]), np.asarray(theta.linear)):
        f = offset + slope * np.asarray(tasks().x[:, :, 0])
        logs = norm(0, NOISE).logpdf(np.asarray(tasks().y) - f)
        each.append(np.where(tasks().mask, logs, 0.0).sum(1))
    np.testing.assert_allclose(ours, np.log(np.mean(np.exp(each), axis=0)), rtol=1e-4)


def test_draws_have_the_priors_moments_and_the_right_gradient():
    config = BNNConfig(hidden=(3,))
    network = init_network(jax.random.key(0), 1, config, -jnp.ones(1), jnp.ones(1))
    mean = Regressor(network, jnp.float32(-1.0))
    count = ravel_pytree(mean)[0].size
    log_std = ravel_pytree(mean)[1](jnp.linspace(-2, 1, count))
    phi = WeightPrior(mean, log_std)
    assert phi.size == count
    eps = jax.random.normal(jax.random.key(1), (5000, count))
    drawn = np.asarray(jax.jit(jax.vmap(lambda e: ravel_pytree(phi.place(e))[0]))(eps), np.float64)
    centre, std = np.asarray(ravel_pytree(mean)[0]), np.exp(np.linspace(-2, 1, count))
    assert (np.abs(drawn.mean(0) - centre) < 4.5 * std / np.sqrt(5000)).all()
    assert (np.abs(drawn.std(0) / std - 1) < 4.5 / np.sqrt(10_000)).all()
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(ravel_pytree(p.place(eps[0]))[0])))(phi)
    np.testing.assert_allclose(ravel_pytree(gradient.mean)[0], 1.0)
    np.testing.assert_allclose(ravel_pytree(gradient.log_std)[0], std * np.asarray(eps[0]), rtol=1e-5)


settle = eqx.filter_jit(pacoh_nn.target_svgd)


def spread(eps: jax.Array) -> float:
    """Half the mean squared distance between particles: p for draws of N(0, I_p)."""
    return float(jnp.sum(jnp.var(eps, axis=0, ddof=1)))


def test_without_data_target_svgd_stays_at_the_prior_and_returns_to_it():
    phi = linear_prior(width=200)
    empty = PaddedTasks(jnp.zeros((2, 1)), jnp.zeros(2), jnp.zeros(2, bool))
    size, count = phi.size, 8
    gain = pacoh_nn.repulsion_gain(size, count)
    draws = jax.random.normal(jax.random.key(0), (count, size))
    for eps in (draws, 0.3 * draws + 0.5):
        settled = settle(phi, empty, eps, jnp.float32(0.05), jnp.float32(gain), 300)
        # The particles' mean is pulled to the prior's; equidistance, which the gain assumes, holds to sqrt(2 / p).
        assert float(jnp.sqrt(jnp.mean(jnp.mean(settled, axis=0) ** 2))) < 0.05
        assert abs(spread(settled) / size - 1) < 4 * np.sqrt(2 / size)
    # The stated bias of plain SVGD: it keeps ln(L + 1) of p.
    plain = settle(phi, empty, draws, jnp.float32(0.05), jnp.float32(1.0), 300)
    assert abs(spread(plain) / np.log(count + 1) - 1) < 0.2


def test_target_svgd_finds_the_posterior_mean_of_a_linear_model():
    phi, batch = linear_prior(), tasks()
    context = jax.tree.map(lambda leaf: leaf[1], batch)
    eps = jax.random.normal(jax.random.key(2), (20, phi.size))
    gain = pacoh_nn.repulsion_gain(phi.size, 20)
    moved = settle(phi, context, eps, jnp.float32(0.05), jnp.float32(gain), 300)
    found = jax.vmap(phi.place)(moved).network
    x, y = np.array([0.4, -0.7]), np.array([0.5, 1.0])
    design = np.stack([np.ones(2), x], axis=1)
    cov = np.linalg.inv(np.diag([OFFSET[1] ** -2, SLOPE[1] ** -2]) + design.T @ design / NOISE**2)
    mean = cov @ (np.array([OFFSET[0] / OFFSET[1] ** 2, SLOPE[0] / SLOPE[1] ** 2]) + design.T @ y / NOISE**2)
    ours = np.array([float(found.biases[-1].mean()), float(found.linear.mean())])
    # The mean of 20 independent draws would be off by a standard error of 0.22 posterior standard deviations.
    np.testing.assert_allclose((ours - mean) / np.sqrt(np.diag(cov)), 0.0, atol=0.22)
    # It moved there from the prior's mean.
    assert np.abs((np.array([OFFSET[0], SLOPE[0]]) - mean) / np.sqrt(np.diag(cov))).max() > 0.3


SMALL = PACOHNN(
    particles=2, samples=3, target_particles=2, target_steps=3, bnn=BNNConfig(hidden=(4,)),
    training=TrainingConfig(steps=2, chunk=2),
)  # fmt: skip


def test_the_hyper_posterior_weighs_every_task_once():
    phi, batch = linear_prior(), tasks()
    prior = pacoh_nn.hyper_prior(phi, SMALL)
    weights = jnp.array([0.2, 0.7])
    # With all spread gone every draw is the mean, and ln Z its likelihood.
    sure = WeightPrior(phi.mean, filled(phi.log_std, -30.0))
    loss = pacoh_nn._Loss(batch, weights, prior, 2, 5)
    value = eqx.filter_jit(loss.log_density)(sure, batch, weights, jax.random.key(0))
    residuals = np.asarray(batch.y) - OFFSET[0] - SLOPE[0] * np.asarray(batch.x[:, :, 0])
    evidence = np.where(batch.mask, norm(0, NOISE).logpdf(residuals), 0.0).sum(1)
    squares = (OFFSET[0] ** 2 + SLOPE[0] ** 2) / SMALL.mean_std**2 + np.log(NOISE / SMALL.noise_std) ** 2
    squares += phi.size * (-30.0 - np.log(SMALL.weight_std)) ** 2
    np.testing.assert_allclose(value, np.sum(np.asarray(weights) * evidence) - 0.5 * squares, rtol=1e-4)


def test_new_rates_and_strengths_compile_nothing():
    rng = np.random.default_rng(0)
    train = sp.TaskSet.from_arrays([rng.normal(size=(4, 1)) for _ in range(3)], [rng.normal(size=4) for _ in range(3)])
    SMALL.fit(train, 0, progress=False).condition([[0.0]], [1.0], 0)
    caches = (_training._run_chunk, sp.learners._batches.infer_many)
    before = [cache._cached._cache_size() for cache in caches]
    changes = {"confidence": 7.0, "weight_std": 0.3, "training.learning_rate": 0.1, "target_rate": 0.2}
    override(SMALL, changes).fit(train, 1, progress=False).condition([[0.0]], [1.0], 0)
    assert [cache._cached._cache_size() for cache in caches] == before


def test_settings_that_cannot_work_are_refused_and_the_space_is_made_of_others():
    with pytest.raises(ValueError, match="samples must be at least 1"):
        PACOHNN(samples=0)
    with pytest.raises(ValueError, match="mean_std must be positive"):
        PACOHNN(mean_std=0.0)
    drawn = override(PACOHNN(), sample(PACOHNN.space, np.random.default_rng(0)))
    assert drawn != PACOHNN()


@pytest.mark.slow
def test_it_beats_the_pooled_process_on_sinusoids():
    env = sp.environment("sinusoid")
    gap = sp.evaluate(sp.learner("pooled-gp"), env, 0).rmse - sp.evaluate(PACOHNN(), env, 0).rmse
    assert gap.mean() > 4 * gap.std() / np.sqrt(len(gap))
