"""MLAP: divergences by quadrature, the bound by hand and its gradient by differences, and what it learns from lines."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.integrate import simpson
from scipy.stats import norm

import scoreprior as sp
from scoreprior.inference.bnn import BNNConfig, Network, init_network
from scoreprior.learners import _batches
from scoreprior.learners.mlap import MLAP, Constants, Joint, MetaBound, WeightGaussian, complexity, divergence
from scoreprior.tasks import PaddedTasks
from scoreprior.training import TrainingConfig

# Nearly all of the time is compilation; the default suite keeps the conformance of cheaper methods.
pytestmark = pytest.mark.slow

TINY = BNNConfig(hidden=(2,))
N = 4


@cache
def template() -> Network:
    return init_network(jax.random.key(0), 1, TINY, -jnp.ones(1), jnp.ones(1))


def gaussian(seed: int, copies: int | None = None, std: float = 0.5) -> WeightGaussian:
    """A random Gaussian over a tiny network's weights, or `copies` of them."""
    flat, unravel = ravel_pytree(template())
    rng = np.random.default_rng(seed)
    shape = (len(flat),) if copies is None else (copies, len(flat))
    build = unravel if copies is None else jax.vmap(unravel)
    mean, log_variance = rng.normal(size=shape), 2 * np.log(std) + 0.3 * rng.normal(size=shape)
    return WeightGaussian(build(jnp.asarray(mean, flat.dtype)), build(jnp.asarray(log_variance, flat.dtype)))


def ragged() -> PaddedTasks:
    rng = np.random.default_rng(1)
    mask = np.arange(5) < np.array([[5], [1], [3], [2]])
    x, y = rng.normal(size=(N, 5, 1)), rng.normal(size=(N, 5))
    # What stands in the padding must not matter.
    return PaddedTasks(
        jnp.asarray(np.where(mask[..., None], x, np.nan)), jnp.asarray(np.where(mask, y, np.nan)), jnp.asarray(mask)
    )


def constants(hyper_posterior_std: float = 0.0) -> Constants:
    return Constants(jnp.asarray(3.0), jnp.asarray(hyper_posterior_std), jnp.asarray(0.1))


def test_divergence_equals_quadrature():
    q, p = gaussian(2), gaussian(3)
    total = 0.0
    for part in zip(*(ravel_pytree(part)[0].tolist() for part in (q.mean, q.log_variance, p.mean, p.log_variance))):
        one, other = norm(part[0], np.exp(part[1] / 2)), norm(part[2], np.exp(part[3] / 2))
        w = one.mean() + one.std() * np.linspace(-12, 12, 4001)
        total += simpson(one.pdf(w) * (one.logpdf(w) - other.logpdf(w)), x=w)
    assert float(divergence(q, p)) == pytest.approx(total, rel=1e-5)
    assert float(divergence(q, q)) == 0


def by_hand(model: Joint, tasks: PaddedTasks, bound: str) -> float:
    """The objective of posteriors without spread, task by task in double precision."""
    noise = np.sqrt(np.exp(2 * float(model.log_noise)) + 0.01**2)
    hyper = float(jnp.sum(ravel_pytree(model.prior)[0] ** 2)) / (2 * 3.0**2)
    terms = []
    for i in range(N):
        m = int(tasks.mask[i].sum())
        q = jax.tree.map(lambda leaf, i=i: leaf[i], model.posteriors)
        loss = -norm(np.asarray(q.mean(tasks.x[i, :m])), noise).logpdf(tasks.y[i, :m]).mean()
        kl = float(divergence(q, model.prior))
        if bound == "variational":
            terms.append(loss + (kl + hyper / N) / m)
        else:
            terms.append(loss + np.sqrt((kl + hyper + np.log(2 * N * m / 0.1)) / (2 * max(m - 1, 1))))
    environment = np.sqrt((hyper + np.log(2 * N / 0.1)) / (2 * (N - 1))) if bound == "mcallester" else 0.0
    return np.mean(terms) + environment


@pytest.mark.parametrize("bound", ["mcallester", "variational"])
def test_the_objective_by_hand_whatever_the_batch(bound):
    """The default takes all tasks; a batch is unbiased, so batches of one average to the same."""
    tasks, model = ragged(), Joint(gaussian(4), gaussian(5, N, std=1e-6), jnp.asarray(-1.0))
    expected = by_hand(model, tasks, bound)
    keys = jax.random.split(jax.random.key(1), 60)
    for batch, count in ((N, 1), (1, N)):
        objective = MetaBound(tasks, constants(), bound, 1, batch)
        values = np.sort(jax.jit(jax.vmap(lambda key, o=objective: o(model, key)[0]))(keys)).astype(np.float64)
        # One value per choice of tasks: single-precision round-off is far below the gaps between tasks.
        groups = np.split(values, np.flatnonzero(np.diff(values) > 1e-4 * values[1:]) + 1)
        assert len(groups) == count
        assert np.mean([group[0] for group in groups]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("bound", ["mcallester", "variational"])
def test_the_gradient_equals_finite_differences(bound):
    with jax.enable_x64(True):
        model = Joint(gaussian(6), gaussian(7, N), jnp.asarray(-1.0, jnp.float64))
        model = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), model)
        objective = MetaBound(ragged(), constants(1e-3), bound, 2, N)
        flat, unravel = ravel_pytree(model)
        loss = jax.jit(lambda values: objective(unravel(values), jax.random.key(2))[0])
        gradient = jax.jit(jax.grad(loss))(flat)
        rng = np.random.default_rng(8)
        for _ in range(5):
            direction = jnp.asarray(rng.normal(size=len(flat)))
            difference = (loss(flat + 1e-6 * direction) - loss(flat - 1e-6 * direction)) / 2e-6
            assert float(difference) == pytest.approx(float(gradient @ direction), rel=1e-5)


def test_complexity_falls_with_points_and_rises_with_the_divergence():
    def at(kl: float, points: int) -> float:
        return float(complexity(jnp.asarray(kl), jnp.asarray(points), 1, jnp.asarray(0.1)))

    assert np.isfinite([at(3.0, points) for points in (0, 1, 2)]).all()
    assert (np.diff([at(3.0, points) for points in range(2, 20)]) < 0).all()
    assert (np.diff([at(kl, 5) for kl in range(10)]) > 0).all()


def lines(n: int, m: int, seed: int) -> sp.TaskSet:
    """y = 2 x + c with c ~ N(0, 0.5^2) and noise 0.05."""
    rng = np.random.default_rng(seed)
    xs = [rng.uniform(-1, 1, (m, 1)) for _ in range(n)]
    return sp.TaskSet.from_arrays(xs, [2 * x[:, 0] + 0.5 * rng.normal() + 0.05 * rng.normal(size=m) for x in xs])


LEARNER = MLAP(BNNConfig(hidden=(16,)), training=TrainingConfig(800, 3e-2, schedule="cosine"), steps=600, draws=100)


@pytest.fixture(scope="module")
def prior() -> sp.Prior:
    return LEARNER.fit(lines(16, 6, 0), 0, progress=False)


X = np.linspace(-0.9, 0.9, 9)[:, None]


def test_without_a_point_weights_are_draws_of_the_learned_prior(prior):
    context = PaddedTasks(jnp.zeros((4, 1)), jnp.zeros(4), jnp.zeros(4, bool))
    key = jax.random.key(3)
    draws = jax.jit(lambda key: prior.infer(context, key))(key)
    expected = prior.weights.sample(jax.random.split(key)[0], 100)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-6), draws, expected))


def test_the_prior_knows_the_common_slope_and_the_posterior_finds_the_offset(prior):
    rng = np.random.default_rng(4)
    contexts = [[], [-0.5, 0.5], np.linspace(-0.9, 0.9, 8)]
    tasks = [sp.Task(np.reshape(x, (-1, 1)), 2 * np.array(x) + 0.8 + 0.05 * rng.normal(size=len(x))) for x in contexts]
    none, two, eight = prior.condition_many(sp.TaskSet(tasks, allow_empty=True), 0).predict([X] * 3)
    # The offsets of 16 training tasks have a mean known to 0.5 / sqrt(16).
    assert np.abs(none.mean - 2 * X[:, 0]).max() < 3 * 0.5 / np.sqrt(16)
    for predictive in (two, eight):
        assert np.sqrt(np.mean((predictive.mean - 2 * X[:, 0] - 0.8) ** 2)) < 0.25 * 0.8
    widths = [predictive.functions.std(0).mean() for predictive in (none, two, eight)]
    # Offset and slope are what two points tell; a standard deviation of 100 draws is known to 1 / sqrt(200).
    assert max(widths[1:]) < 0.6 * widths[0]


def test_a_new_rate_compiles_nothing(prior):
    tasks = lines(3, 8, 5)
    first = prior.condition_many(tasks, 0).predict([X] * 3)[0]
    before = _batches.infer_many._cached._cache_size()
    changed = replace(LEARNER, learning_rate=0.002, delta=0.2, training=TrainingConfig(1, 1e-3))
    other = changed.fit(lines(16, 6, 6), 0, progress=False)
    second = eqx.tree_at(lambda p: p.weights, other, prior.weights).condition_many(tasks, 0).predict([X] * 3)[0]
    assert _batches.infer_many._cached._cache_size() == before
    assert (first.mean != second.mean).any()


def test_settings_are_checked():
    with pytest.raises(ValueError, match="bound is one of"):
        MLAP(bound="seeger")
    with pytest.raises(ValueError, match="tasks_per_step"):
        MLAP(tasks_per_step=0)
