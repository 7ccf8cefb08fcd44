"""Neural processes: the bound in a linear-Gaussian case, the context as a set, and that a context is worth having."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import scoreprior as sp
from scoreprior.learners.neural_process import NeuralProcess, NeuralProcessPrior, attend, elbo
from scoreprior.tasks import PaddedTasks, Standardizer
from scoreprior.training import TrainingConfig

# Nearly all of the time is compilation; the default suite keeps the conformance of cheaper methods.
pytestmark = pytest.mark.slow

KINDS = {
    "latent": {},
    "deterministic": {"deterministic": True},
    "attentive": {"deterministic": True, "attention": True, "heads": 2},
}


def untrained(kind: str, samples: int = 8) -> NeuralProcessPrior:
    """Random networks are as good as trained ones for what holds for all."""
    learner = NeuralProcess(width=8, layers=1, latent=3, samples=samples, **KINDS[kind])
    unit = Standardizer(np.zeros(2), np.ones(2), 0.0, 1.0)
    return NeuralProcessPrior(unit, learner.init(2, jax.random.key(0)), samples)


def task(real: int = 5, slots: int = 8) -> PaddedTasks:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in ((slots, 2), slots))
    return PaddedTasks(jnp.asarray(x), jnp.asarray(y), jnp.arange(slots) < real)


@eqx.filter_jit
def predict(prior: NeuralProcessPrior, context: PaddedTasks):
    x = jnp.linspace(-1, 1, 8).reshape(4, 2)
    return prior.evaluate(prior.infer(context, jax.random.key(1)), x)


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_is_a_set(kind: str):
    """The order of points and what stands in the padding change nothing, the points themselves do."""
    prior, context = untrained(kind), task()
    plain = predict(prior, context)
    order = np.random.default_rng(1).permutation(8)
    shuffled = predict(prior, jax.tree.map(lambda leaf: leaf[order], context))
    hidden = context.mask[:, None]
    junk = predict(prior, context._replace(x=jnp.where(hidden, context.x, jnp.nan), y=context.y.at[5:].set(jnp.inf)))
    for other in (shuffled, junk):
        np.testing.assert_allclose(other.locs, plain.locs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(other.scales, plain.scales, rtol=1e-4, atol=1e-5)
    moved = predict(prior, context._replace(y=context.y + 1.0))
    assert float(jnp.abs(moved.locs - plain.locs).max()) > 1e-2


def test_the_bound_and_its_gradient_see_no_padding():
    networks, data = untrained("attentive").networks, task()
    noise = np.random.default_rng(2).normal(size=(3, 3)).astype(np.float32)

    @eqx.filter_jit
    def bound(x, y, first):
        context = PaddedTasks(x, y, data.mask & (jnp.arange(8) < first))
        target = PaddedTasks(x, y, data.mask & (jnp.arange(8) >= first))
        return eqx.filter_value_and_grad(elbo)(networks, context, target, noise)

    for first in (0, 2):
        value, gradient = bound(data.x, data.y, first)
        junk, other = bound(data.x.at[5:].set(jnp.nan), data.y.at[5:].set(jnp.inf), first)
        np.testing.assert_allclose(value, junk, rtol=1e-5)
        for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(other)):
            assert jnp.isfinite(a).all()
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_bound_falls_short_by_the_divergence_from_the_exact_posterior():
    """With an affine decoder y = a . x + w . z + b + s eps the model is linear-Gaussian, so everything is known:
    log p(y_T | C) - ELBO = KL(q(z | C, T) || p(z | C, T)), which is never negative."""
    with jax.enable_x64(True):
        learner = NeuralProcess(width=4, layers=0, latent=2)
        networks = learner.init(2, jax.random.key(3))
        # The standard deviation of y is the same everywhere: softplus(0) + least_std.
        weight = networks.decoder.weights[0].at[:, 1].set(0.0)
        networks = eqx.tree_at(lambda n: n.decoder.weights, networks, (weight,))
        data = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype != bool else leaf, task(6))
        context = data._replace(mask=jnp.arange(8) < 2)
        target = data._replace(mask=data.mask & (jnp.arange(8) >= 2))
        noise = np.random.default_rng(4).normal(size=(20_000, 2))
        bound = jax.jit(jax.vmap(lambda one: elbo(networks, context, target, one[None])))
        single = np.asarray(bound(noise))
        prior, q = networks.encode(context), networks.encode(data)
    line, w = np.asarray(weight[:2, 0]), np.asarray(weight[2:, 0])
    x, y = np.asarray(data.x)[2:6], np.asarray(data.y)[2:6]
    scale = np.log(2) + learner.least_std
    design = np.tile(w, (4, 1))
    residual = y - x @ line
    gram = design @ np.diag(np.asarray(prior.std) ** 2) @ design.T + scale**2 * np.eye(4)
    evidence = stats.multivariate_normal.logpdf(residual, design @ np.asarray(prior.mean), gram)
    precision = np.diag(np.asarray(prior.std) ** -2.0) + design.T @ design / scale**2
    information = np.asarray(prior.mean / prior.std**2) + design.T @ residual / scale**2
    gap = np.asarray(q.mean) - np.linalg.solve(precision, information)
    spread = np.diag(np.asarray(q.std) ** 2)
    divergence = 0.5 * (np.trace(precision @ spread) + gap @ precision @ gap - 2)
    divergence -= 0.5 * np.linalg.slogdet(precision @ spread)[1]
    error = single.std(ddof=1) / np.sqrt(len(single))
    assert divergence > 20 * error  # otherwise the comparison would say little
    assert abs(single.mean() - (evidence - divergence)) < 4 * error


def test_cross_attention_equals_a_loop():
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, 6)), rng.normal(size=(5, 6)), rng.normal(size=(5, 6))
    attended = jax.jit(attend, static_argnums=4)
    got = attended(query, key, value, jnp.arange(5) < 4, 2)
    for i in range(3):
        for part in (slice(0, 3), slice(3, 6)):
            weights = np.exp(key[:4, part] @ query[i, part] / np.sqrt(3))
            np.testing.assert_allclose(got[i, part], weights @ value[:4, part] / weights.sum(), rtol=1e-4, atol=1e-6)
    assert not attended(query, key, value, jnp.zeros(5, bool), 2).any()


def test_a_prediction_is_a_mixture_over_many_latents():
    mixture = predict(untrained("latent", samples=64), task())
    assert mixture.locs.shape == (64, 4)
    assert len(np.unique(mixture.locs[:, 0])) == 64


@pytest.mark.slow
def test_a_context_beats_the_prior_predictive():
    """In NLL, on held-out sinusoids; all tasks in every step."""
    environment = sp.environment("sinusoid")
    learner = NeuralProcess(
        width=32,
        layers=1,
        latent=8,
        training_samples=1,
        tasks_per_step=None,
        training=TrainingConfig(steps=300, learning_rate=5e-3, chunk=300),
    )
    prior = learner.fit(environment.meta_train, 0, progress=False)
    pairs = environment.meta_valid
    empty = pairs.context.map(lambda one: one.take(slice(0)))
    queries = [one.x for one in pairs.target]
    without, given = (
        np.array(
            [-p.log_prob(one.y).mean() for p, one in zip(prior.condition_many(some, 1).predict(queries), pairs.target)]
        )
        for some in (empty, pairs.context)
    )
    gain = without - given
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.parametrize("wrong", [{"attention": True}, {"samples": 0}, {"least_std": 0.0}, {"context": (0.5, 0.1)}])
def test_settings_that_cannot_work_are_refused(wrong: dict):
    with pytest.raises(ValueError):
        NeuralProcess(**wrong)
