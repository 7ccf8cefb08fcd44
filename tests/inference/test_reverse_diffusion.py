"""Reverse diffusion with the exact noise of a Gaussian in the network's place: the law of its samples is known.

All steps are then linear with Gaussian noise, so mean and covariance of the samples are found by carrying them through
the sampler; that recursion is compared with the Gaussian's own prior and conditional, and samples with the recursion.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scoreprior.inference.reverse_diffusion import ReverseDiffusion, round_sizes
from scoreprior.scores.diffusion import Diffusion
from scoreprior.tasks import PaddedTasks

NOISE, MEAN = 0.1, 0.5
T, R = 50, 5


def covariance(x: np.ndarray) -> np.ndarray:
    """Of y at x (n,): kernel exp(-r^2 / 2) and white noise."""
    return np.exp(-0.5 * (x[:, None] - x) ** 2) + NOISE**2 * np.eye(len(x))


class ExactNoise(eqx.Module):
    """eps = sqrt(1 - abar) (abar C + (1 - abar) I)^-1 (y_t - sqrt(abar) m) of y ~ N(m, C)."""

    diffusion: Diffusion

    def __call__(self, values, x, t, mask):
        signal = self.diffusion.alpha_bars[t]
        kernel = jnp.exp(-0.5 * (x - x.T) ** 2) * mask * mask[:, None] + NOISE**2 * jnp.eye(len(x))
        centred = jnp.where(mask, values - jnp.sqrt(signal) * MEAN, 0.0)
        gram = signal * kernel + (1 - signal) * jnp.eye(len(x))
        return jnp.sqrt(1 - signal) * jnp.linalg.solve(gram, centred)


def exact(**settings) -> ReverseDiffusion:
    diffusion = Diffusion.cosine(T)
    return ReverseDiffusion(
        **{
            "predictor": ExactNoise(diffusion),
            "diffusion": diffusion,
            "smoothing": jnp.float32(0.3),
            "samples": 500,
            "repeats": R,
            "in_rounds": False,
            **settings,
        }
    )


def one_pass(cov: np.ndarray, m: int, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Gain and covariance of the sampler's law with mean zero, mean = gain @ context; the context is the first m."""
    signal = np.asarray(Diffusion.cosine(T).alpha_bars, np.float64)
    n = len(cov)
    gain, spread = np.zeros((n - m, m)), np.eye(n - m)
    for t in range(T, 0, -1):
        beta = 1 - signal[t] / signal[t - 1]
        step = (np.eye(n) - beta * np.linalg.inv(signal[t] * cov + (1 - signal[t]) * np.eye(n))) / np.sqrt(1 - beta)
        own, others = step[m:, m:], step[m:, :m]
        for repeat in range(repeats):
            gain = own @ gain + np.sqrt(signal[t]) * others
            spread = own @ spread @ own.T + (1 - signal[t]) * others @ others.T + beta * (t > 1) * np.eye(n - m)
            if repeat < repeats - 1:
                gain, spread = np.sqrt(1 - beta) * gain, (1 - beta) * spread + beta * np.eye(n - m)
    return gain, spread


def in_rounds(cov: np.ndarray, m: int, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for rounds in the order of the points."""
    gain, spread = np.eye(m), np.zeros((m, m))
    for size in round_sizes(m, len(cov) - m):
        k = len(gain)
        more, fresh = one_pass(cov[: k + size, : k + size], k, repeats)
        gain = np.concatenate([gain, more @ gain])
        spread = np.block([[spread, spread @ more.T], [more @ spread, more @ spread @ more.T + fresh]])
    return gain[m:], spread[m:, m:]


def conditional(cov: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Gain and covariance of the Gaussian itself."""
    gain = np.linalg.solve(cov[:m, :m], cov[:m, m:]).T
    return gain, cov[m:, m:] - gain @ cov[:m, m:]


def task(seed: int, m: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, context first, and the context's values."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, m + q)
    return x, MEAN + np.linalg.cholesky(covariance(x[:m])) @ rng.normal(size=m)


def sampled(inference: ReverseDiffusion, x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    m = len(y)
    context = PaddedTasks(jnp.asarray(x[:m, None]), jnp.asarray(y), jnp.ones(m, bool))
    state = inference.infer(context, jax.random.key(seed))
    return np.asarray(_predict(inference, state, jnp.asarray(x[m:, None])).draws)


_predict = eqx.filter_jit(lambda inference, state, x: inference.predict(state, x))


def assert_moments(samples: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> None:
    """Within four standard errors of the mean and of every entry of the covariance."""
    n, variance = len(samples), np.diag(cov)
    assert (np.abs(samples.mean(0) - mean) < 4 * np.sqrt(variance / n)).all()
    error = np.sqrt((np.outer(variance, variance) + cov**2) / n)
    assert (np.abs(np.cov(samples.T) - cov) < 4 * error).all()


def test_prior_draws_have_the_mean_and_covariance_of_the_process():
    x = np.linspace(-2, 2, 6)
    inference = exact()
    draw = jax.jit(jax.vmap(lambda key: inference.sample(jnp.asarray(x[:, None]), key)))
    samples = np.asarray(draw(jax.random.split(jax.random.key(0), 2000)))
    _, cov = one_pass(covariance(x), 0, 1)
    # The error of 50 steps, by the recursion: 6% of the variance.
    assert np.abs(cov - covariance(x)).max() < 0.06
    assert_moments(samples, np.full(6, MEAN), cov)


def test_samples_in_one_pass_have_the_law_of_the_recursion():
    x, y = task(0, 5, 6)
    gain, cov = one_pass(covariance(x), 5, R)
    assert_moments(sampled(exact(), x, y, 1), MEAN + gain @ (y - MEAN), cov)


def test_samples_in_rounds_are_near_the_conditional():
    """Orders are random: the recursion over 20 of them gives the law's mean and variance, and how far that is off."""
    x, y = task(0, 4, 12)
    rng, moments = np.random.default_rng(0), []
    for _ in range(20):
        order = rng.permutation(12)
        gain, cov = in_rounds(covariance(x[np.concatenate([np.arange(4), 4 + order])]), 4, R)
        back = np.argsort(order)
        moments.append(((MEAN + gain @ (y - MEAN))[back], np.diag(cov)[back]))
    means, variances = (np.stack(each) for each in zip(*moments))
    mean, variance = means.mean(0), variances.mean(0) + means.var(0)
    samples = sampled(exact(in_rounds=True), x, y, 2)
    n = len(samples)
    # Four standard errors, of the samples and of the 20 orders.
    assert (np.abs(samples.mean(0) - mean) < 4 * np.sqrt(variance / n + means.var(0) / 20)).all()
    assert (np.abs(samples.var(0) / variance - 1) < 4 * np.sqrt(2 / n + variances.var(0) / variance**2 / 20)).all()
    gain, cov = conditional(covariance(x), 4)
    std = np.sqrt(np.diag(cov))
    assert np.sqrt(np.mean(((mean - MEAN - gain @ (y - MEAN)) / std) ** 2)) < 0.3
    assert (np.abs(np.sqrt(variance) / std - 1) < 0.3).all()


def test_rounds_follow_a_context_that_one_pass_does_not():
    """The figures of the module's docstring: 8 known points, 50 others, 20 draws of the inputs."""
    laws = {"one": (one_pass, R), "rounds": (in_rounds, R), "wide": (in_rounds, 3)}
    off: dict[str, list] = {name: [] for name in laws}
    for seed in range(20):
        x, y = task(seed, 8, 50)
        cov = covariance(x)
        gain, truth = conditional(cov, 8)
        std = np.sqrt(np.diag(truth))
        for name, (law, repeats) in laws.items():
            other, spread = law(cov, 8, repeats)
            shift = (other - gain) @ (y - MEAN) / std
            off[name].append((np.mean(shift**2), np.mean(np.log(np.sqrt(np.diag(spread)) / std))))
    figures = {name: np.mean(each, axis=0) for name, each in off.items()}
    assert [round(float(np.sqrt(figures[name][0])), 2) for name in figures] == [0.79, 0.26, 0.38]
    assert [round(float(np.exp(figures[name][1])), 2) for name in figures] == [1.43, 0.99, 1.12]


def test_more_repeats_bring_the_conditional_nearer():
    x, _ = task(3, 8, 10)
    cov = covariance(x)
    truth, _ = conditional(cov, 8)
    errors = [np.abs(one_pass(cov, 8, repeats)[0] - truth).max() for repeats in (1, 3, 10)]
    assert errors[0] > errors[1] > errors[2]


def test_the_mixture_has_the_mean_and_variance_of_its_samples():
    x, y = task(0, 5, 6)
    state = exact().infer(PaddedTasks(jnp.asarray(x[:5, None]), jnp.asarray(y), jnp.ones(5, bool)), jax.random.key(0))
    mixture = _predict(exact(samples=20), state, jnp.asarray(x[5:, None]))
    variance = (mixture.scales**2).mean(0) + mixture.locs.var(0)
    np.testing.assert_allclose(mixture.locs.mean(0), mixture.draws.mean(0), atol=1e-5)
    np.testing.assert_allclose(variance, mixture.draws.var(0), rtol=1e-4)


def test_padding_of_the_context_and_an_empty_one():
    """Points outside the mask change nothing; a context of no points is the prior."""
    x, y = task(0, 5, 6)
    query, some = jnp.asarray(x[5:, None]), jnp.asarray([True, True, True, False, False])
    inference = replace(exact(in_rounds=True), samples=8)
    draws = [
        _predict(
            inference,
            inference.infer(PaddedTasks(jnp.asarray(at)[:, None], jnp.asarray(values), some), jax.random.key(0)),
            query,
        ).draws
        for at, values in ((x[:5], y), (np.where(some, x[:5], 9.0), np.where(some, y, -9.0)))
    ]
    np.testing.assert_allclose(*draws, atol=1e-4)
    nothing = PaddedTasks(jnp.asarray(x[:4, None]), jnp.asarray(y[:4]), jnp.zeros(4, bool))
    state = exact().infer(nothing, jax.random.key(0))
    samples = np.asarray(_predict(exact(samples=1000), state, query).draws)
    _, cov = one_pass(covariance(x[5:]), 0, R)
    assert_moments(samples, np.full(6, MEAN), cov)


@pytest.mark.parametrize(("known", "queries"), [(0, 5), (4, 50), (8, 64), (200, 60)])
def test_rounds_hold_all_queries_and_no_more_than_is_known(known, queries):
    sizes = round_sizes(known, queries)
    assert sum(sizes) == queries
    before = known + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    assert (np.array(sizes) <= np.maximum(before, 8)).all()
