"""PACOH-GP: evidence, weights and the SVGD step against direct formulas; scales it must keep and must find."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import scoreprior as sp
from scoreprior import training as _training
from scoreprior.learners import _pacoh, pacoh_gp
from scoreprior.learners.pacoh_gp import PACOHGP
from scoreprior.networks import MLP
from scoreprior.space import override, sample
from scoreprior.tasks import PaddedTasks
from scoreprior.training import TrainingConfig

# Nearly all of the time is compilation; the default suite keeps the conformance of cheaper methods.
pytestmark = pytest.mark.slow

QUICK = TrainingConfig(steps=200, learning_rate=1e-3, schedule="cosine")


def sinusoids(n: int, m: int, seed: int) -> sp.TaskSet:
    """Ragged noisy sinusoids of one input."""
    rng = np.random.default_rng(seed)
    xs = [rng.uniform(-2, 2, (m + i % 3, 1)) for i in range(n)]
    return sp.TaskSet.from_arrays(
        xs, [rng.normal(1, 0.3) * np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=len(x)) for x in xs]
    )


def forward(network: MLP, x: np.ndarray) -> np.ndarray:
    for weight, bias in zip(network.weights[:-1], network.biases[:-1]):
        x = np.tanh(x @ np.asarray(weight, np.float64) + np.asarray(bias, np.float64))
    return x @ np.asarray(network.weights[-1], np.float64) + np.asarray(network.biases[-1], np.float64)


@pytest.mark.parametrize("skip", [True, False])
def test_log_marginal_likelihood_is_scipys_under_a_mask(skip: bool):
    rng = np.random.default_rng(0)
    config = PACOHGP(hidden=(5, 4), features=3, skip=skip, scale_std=0.3)
    phi = eqx.filter_jit(pacoh_gp.hyper_prior(2, config).sample)(jax.random.key(1))
    x, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    mask = np.array([True, True, False, True, True, False])
    ours = eqx.filter_jit(phi.process().log_likelihood)(
        jnp.asarray(np.where(mask[:, None], x, 7.0), jnp.float32), jnp.asarray(y, jnp.float32), jnp.asarray(mask)
    )
    x, y = x[mask], y[mask]
    mean = forward(phi.mean, x)[:, 0] + (x @ np.asarray(phi.slope) if skip else 0.0)
    features = np.hstack([forward(phi.features, x), x]) if skip else forward(phi.features, x)
    scaled = features / np.exp(np.asarray(phi.log_lengthscale))
    squared = ((scaled[:, None] - scaled[None]) ** 2).sum(-1)
    gram = np.exp(2 * float(phi.log_std)) * np.exp(-0.5 * squared)
    gram += (np.exp(2 * float(phi.log_noise)) + 1e-4) * np.eye(len(y))
    # Single precision, and a jitter of 1e-5 of the diagonal.
    np.testing.assert_allclose(ours, multivariate_normal(mean, gram).logpdf(y), rtol=5e-3)


def test_task_weights_minimise_the_bound_and_are_the_papers_for_equal_sizes():
    mask = np.arange(8)[None, :] < np.array([8, 8, 8])[:, None]
    np.testing.assert_allclose(_pacoh.task_weights(jnp.asarray(mask), jnp.float32(1.0)), 1 / 9, rtol=1e-6)
    np.testing.assert_allclose(_pacoh.task_weights(jnp.asarray(mask), jnp.float32(1e6)), 1.0, rtol=1e-4)
    sizes = np.array([2, 3, 8])
    mask = np.arange(8)[None, :] < sizes[:, None]
    # ln Z_i stands in the bound with 1 / (n m_i), the KL divergence with 1 / lambda + 1 / (n m~): their ratio.
    strength = 5.0 * 3
    kl = 1 / strength + np.mean(1 / sizes) / 3
    np.testing.assert_allclose(
        _pacoh.task_weights(jnp.asarray(mask), jnp.float32(5.0)), 1 / (3 * sizes) / kl, rtol=1e-5
    )


def test_sums_over_a_batch_of_tasks_are_unbiased():
    values = jnp.array([1.0, -2.0, 5.0, 3.0, 10.0])
    weights = jnp.array([0.3, 0.1, 0.2, 0.5, 0.4])
    tasks = PaddedTasks(jnp.zeros((5, 1, 1)), values[:, None], jnp.ones((5, 1), bool))

    def estimate(key: jax.Array) -> jax.Array:
        batch, scaled = _pacoh.task_batch(key, tasks, weights, 2)
        return jnp.sum(scaled * batch.y[:, 0])

    estimates = np.asarray(jax.jit(jax.vmap(estimate))(jax.random.split(jax.random.key(0), 4000)))
    exact = float(jnp.sum(weights * values))
    assert abs(estimates.mean() - exact) < 4 * estimates.std() / np.sqrt(4000)
    whole, same = _pacoh.task_batch(jax.random.key(0), tasks, weights, 5)
    assert whole is tasks
    assert same is weights


def direct_svgd(particles: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Liu & Wang's update, term by term, with h = median^2 / log(L + 1) and k = exp(-d^2 / h)."""
    count = len(particles)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    h = np.median([np.sum((particles[i] - particles[j]) ** 2) for i, j in pairs]) / np.log(count + 1)
    direction = np.zeros_like(particles)
    for a in range(count):
        for i in range(count):
            difference = particles[i] - particles[a]
            k = np.exp(-np.sum(difference**2) / h)
            direction[a] += (k * scores[i] - 2 / h * difference * k) / count
    return direction


@pytest.mark.parametrize("count", [1, 4])
def test_the_gradient_of_the_loss_is_minus_the_svgd_direction(count: int):
    rng = np.random.default_rng(count)
    flat = rng.normal(size=(count, 5))
    particles = {"a": jnp.asarray(flat[:, :2], jnp.float32), "b": jnp.asarray(flat[:, 2:], jnp.float32)}

    def log_density(tree: dict[str, jax.Array], key: jax.Array) -> jax.Array:
        return -jnp.sum(tree["a"] ** 4) - jnp.sum(tree["b"] ** 2)

    keys = jax.random.split(jax.random.key(0), count)
    loss = jax.jit(jax.value_and_grad(lambda p: _pacoh.stein_loss(p, log_density, keys)))
    value, gradient = loss(particles)
    scores = np.hstack([-4 * flat[:, :2] ** 3, -2 * flat[:, 2:]])
    expected = direct_svgd(flat, scores) if count > 1 else scores
    np.testing.assert_allclose(np.hstack([gradient["a"], gradient["b"]]), -expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value, np.mean((flat[:, :2] ** 4).sum(1) + (flat[:, 2:] ** 2).sum(1)), rtol=1e-5)


def test_the_hyper_posterior_weighs_every_task_once():
    config = PACOHGP(hidden=(4,))
    prior = pacoh_gp.hyper_prior(1, config)
    phi = eqx.filter_jit(prior.sample)(jax.random.key(0))
    train = sinusoids(3, 5, 0)
    tasks = sp.Standardizer.fit(train).apply(train).padded()
    weights = jnp.array([0.2, 0.3, 0.4])
    loss = pacoh_gp._Loss(tasks, weights, prior, 3)
    value = eqx.filter_jit(loss.log_density)(phi, tasks, weights)
    evidence = np.asarray(jax.jit(jax.vmap(lambda *task: phi.process().log_likelihood(*task)))(*tasks))
    weight_like = [*phi.mean.weights, *phi.features.weights, phi.slope]
    biases = [*phi.mean.biases, *phi.features.biases]
    scales = [np.asarray(phi.log_noise) - np.log(config.noise_std), phi.log_std, phi.log_lengthscale]
    expected = np.sum(np.asarray(weights) * evidence)
    for parts, std in ((weight_like, 0.5), (biases, 3.0), (scales, 1.0)):
        expected -= 0.5 * sum(np.sum((np.asarray(part) / std) ** 2) for part in parts)
    np.testing.assert_allclose(value, expected, rtol=1e-4)


PINNED = PACOHGP(
    particles=3, hidden=(4,), weight_std=1e-3, bias_std=1e-3, scale_std=1e-3, noise_std=0.2, training=QUICK
)


def test_with_weights_pinned_at_zero_it_is_the_plain_gaussian_process():
    train, test = sinusoids(4, 6, 0), sinusoids(2, 10, 1).context_target(5)
    prior = PINNED.fit(train, 0, progress=False)
    scaler = prior.standardizer
    noise = np.sqrt(0.2**2 + 1e-2**2)  # with the floor
    plain = GaussianProcessRegressor(RBF(1.0), alpha=noise**2, optimizer=None)
    for context, target in zip(test.context, test.target):
        plain.fit(scaler.scale_x(context.x), scaler.scale_y(context.y))
        mean, std = plain.predict(scaler.scale_x(target.x), return_std=True)
        ours = prior.condition(context.x, context.y, 0).predict(target.x)
        # Adam leaves the pinned numbers within its learning rate, 1e-3, of where they belong.
        np.testing.assert_allclose(scaler.scale_y(ours.mean), mean, atol=1e-2)
        np.testing.assert_allclose(ours.std / scaler.y_std, np.sqrt(std**2 + noise**2), rtol=1e-2)


@pytest.mark.slow
def test_the_mode_recovers_the_scales_of_the_process_that_made_the_tasks():
    rng = np.random.default_rng(3)
    truth = {"log_noise": np.log(0.3), "log_std": np.log(1.5), "log_lengthscale": np.log(0.7)}
    xs, ys = [], []
    for _ in range(40):
        x = rng.uniform(-3, 3, (8, 1))
        gram = 1.5**2 * np.exp(-0.5 * (x - x.T) ** 2 / 0.7**2) + 0.3**2 * np.eye(8)
        xs.append(x)
        ys.append(np.linalg.cholesky(gram) @ rng.normal(size=8))
    free = PACOHGP(
        particles=1, hidden=(2,), features=1, weight_std=1e-3, bias_std=1e-3, scale_std=10.0, confidence=1e6,
        tasks_per_step=None, training=TrainingConfig(steps=150, learning_rate=0.1, schedule="cosine"),
    )  # fmt: skip
    prior = free.fit(sp.TaskSet.from_arrays(xs, ys), 0, progress=False)
    phi = jax.tree.map(lambda leaf: leaf[0], prior.particles)
    scaler = prior.standardizer
    tasks = scaler.apply(sp.TaskSet.from_arrays(xs, ys)).padded()

    def evidence(log_scales: jax.Array, task: PaddedTasks) -> jax.Array:
        lengthscale = phi.log_lengthscale.at[-1].set(log_scales[2])  # the last is the input's own
        process = pacoh_gp.GPPrior(phi.mean, phi.slope, phi.features, log_scales[0], log_scales[1], lengthscale)
        return process.process().log_likelihood(*task)

    found = jnp.stack([phi.log_noise, phi.log_std, phi.log_lengthscale[-1]])
    # Standard errors from the Fisher information, the scores' second moment over tasks.
    scores = np.asarray(jax.jit(jax.vmap(jax.grad(evidence), (None, 0)))(found, tasks), np.float64)
    errors = np.sqrt(np.diag(np.linalg.inv(scores.T @ scores)))
    units = np.log([scaler.y_std, scaler.y_std, scaler.x_std[0]])
    wanted = np.array(list(truth.values())) - units
    assert (np.abs(np.asarray(found) - wanted) < 4 * errors).all()
    assert (errors < 0.2).all()


def test_new_rates_and_strengths_compile_nothing():
    PINNED.fit(sinusoids(4, 6, 0), 0, progress=False)
    before = _training._run_chunk._cached._cache_size()
    changes = {"confidence": 7.0, "weight_std": 0.3, "bias_std": 1.0, "noise_std": 0.3, "training.learning_rate": 1e-2}
    override(PINNED, changes).fit(sinusoids(4, 6, 1), 1, progress=False)
    assert _training._run_chunk._cached._cache_size() == before


def test_of_long_tasks_so_many_points_are_learned_from(monkeypatch):
    tasks = sp.environment("sinusoid").meta_train
    sizes, weights = [], pacoh_gp.task_weights
    monkeypatch.setattr(pacoh_gp, "task_weights", lambda mask, c: sizes.append(mask.sum(1)) or weights(mask, c))
    for most in (4, 1000):
        PACOHGP(particles=1, most_points=most, training=TrainingConfig(steps=1)).fit(tasks, 0, progress=False)
    assert sizes[0].tolist() == [4] * len(tasks)
    assert sizes[1].tolist() == tasks.sizes.tolist()


def test_settings_that_cannot_work_are_refused_and_the_space_is_made_of_others():
    with pytest.raises(ValueError, match="particles must be at least 1"):
        PACOHGP(particles=0)
    with pytest.raises(ValueError, match="weight_std must be positive"):
        PACOHGP(weight_std=0.0)
    drawn = override(PACOHGP(), sample(PACOHGP.space, np.random.default_rng(0)))
    assert drawn != PACOHGP()
    assert PACOHGP.map().particles == 1


@pytest.mark.slow
def test_it_beats_the_pooled_process_on_sinusoids():
    env = sp.environment("sinusoid")
    pooled = sp.evaluate(sp.learner("pooled-gp"), env, 0).rmse
    for ours in (PACOHGP(), PACOHGP.map()):
        gap = pooled - sp.evaluate(ours, env, 0).rmse
        assert gap.mean() > 4 * gap.std() / np.sqrt(len(gap))
