"""Inference around an anchor, against the Gaussian posterior that it must find, and its scale calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import GaussianProcess, ProcessConfig, ScaleCalibration, fit_process
from scoreprior.inference import (
    BNNConfig,
    Box,
    CentredParticles,
    ClosedForm,
    ClosedFormDraws,
    DataDriven,
    FSVGDConfig,
    WarmStart,
)
from scoreprior.inference.particles import smooth
from scoreprior.inference.svgd import static_part
from scoreprior.learners._batches import evaluate_many, infer_many
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.scores.levels import NoiseLevels
from scoreprior.tasks import Standardizer, bucket

# With one kind of deviation: what is tested is inference, whatever the process, and more kinds take longer to compile.
ANCHOR = ProcessConfig(deviation=("matern52",), starts=1, tuning_evaluations=0, frequencies=0)
GRID = np.linspace(-4.5, 4.5, 30)


@pytest.fixture(scope="module")
def env() -> sp.Environment:
    return sp.environment("sinusoid")


@pytest.fixture(scope="module")
def centred(env) -> FunctionPrior:
    config = FSVGDConfig(steps=300, measurement_points=12, bandwidth=10.0)
    standardizer = Standardizer.fit(env.meta_train)
    padded = standardizer.apply(env.meta_train).padded(dtype=np.float64)
    anchor, nu = fit_process(padded, ANCHOR, jax.random.key(0)), DataDriven.around(padded, 0)
    inference = CentredParticles(
        WarmStart(anchor, nu, Box.around(padded), BNNConfig(), config.particles, 24, 300),
        NoiseLevels(jnp.minimum(jnp.asarray(anchor.noise_std), 0.1)),
        config.hyper(anchor.noise_std),
        jnp.float32(0.45),
        static_part(config),
    )
    return FunctionPrior(standardizer, inference)


@pytest.fixture(scope="module")
def exact(centred) -> FunctionPrior:
    """The same process, inferred exactly."""
    return replace(centred, inference=ClosedForm(anchor_of(centred)))


def anchor_of(prior: FunctionPrior) -> GaussianProcess:
    return prior.inference.warm_start.anchor


def with_anchor(prior: FunctionPrior, **changes: Any) -> FunctionPrior:
    return eqx.tree_at(lambda p: p.inference.warm_start.anchor, prior, replace(anchor_of(prior), **changes))


def moved(prior: FunctionPrior) -> FunctionPrior:
    """The particles alone, as fSVGD left them."""
    return replace(prior, inference=prior.inference.moved)


def test_fsvgd_with_a_gaussian_score_finds_the_gaussian_posterior(env, centred, exact):
    tasks = list(env.meta_test.context.take(range(8)))
    # One by one, by the program that other tests compile too.
    states = [centred.condition(task.x, task.y, i).state for i, task in enumerate(tasks)]
    ours = [sp.Posterior(moved(centred), state).predict(GRID) for state in states]
    truth = [exact.condition(task.x, task.y, 0).predict(GRID) for task in tasks]
    for mine, theirs in zip(ours, truth):
        # Ten particles: their mean has a standard error of a third of the posterior's spread.
        assert np.sqrt(np.mean(((mine.mean - theirs.mean) / theirs.std) ** 2)) < 0.5
    ratio = np.mean([mine.std.mean() / theirs.std.mean() for mine, theirs in zip(ours, truth)])
    assert 0.7 < ratio < 1.3


def test_the_closed_form_is_the_centre_and_half_of_the_predictive(env, centred, exact):
    context = env.meta_test.context[0]
    state = centred.condition(context.x, context.y, 0)
    ours, truth = state.predict(GRID), exact.condition(context.x, context.y, 0).predict(GRID)
    np.testing.assert_allclose(ours.mean, truth.mean, atol=1e-4)
    np.testing.assert_allclose(ours.functions.mean(0), truth.mean, atol=1e-4)
    assert ours.functions.shape == (10, len(GRID))
    alone = sp.Posterior(moved(centred), state.state).predict(GRID)
    np.testing.assert_allclose(ours.std**2, (np.minimum(alone.std, truth.std) ** 2 + truth.std**2) / 2, rtol=1e-3)


def test_particles_wider_than_the_posterior_do_not_widen_the_predictive(env, centred, exact):
    """What was seen on one split of Berkeley: particles four times as wide as the posterior they stand for."""
    context = env.meta_test.context[0]
    state = centred.condition(context.x, context.y, 0).state
    wide = eqx.tree_at(lambda s: s.particles.size, state, replace_fn=lambda size: 4 * size)
    truth = exact.condition(context.x, context.y, 0).predict(GRID)
    np.testing.assert_allclose(sp.Posterior(centred, wide).predict(GRID).std, truth.std, rtol=1e-3)


def test_the_context_is_conditioned_once(env, centred, monkeypatch):
    calls = []
    condition = GaussianProcess.condition
    monkeypatch.setattr(GaussianProcess, "condition", lambda *given: calls.append(1) or condition(*given))
    context = jax.tree.map(lambda leaf: leaf[0], centred.standardizer.apply(env.meta_test.context.take([0])).padded())
    jax.eval_shape(centred.bare().infer, context, jax.random.key(0))
    assert len(calls) == 1


@eqx.filter_jit
def kernel_and_mean(process: GaussianProcess, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return process.kernel(x, x), process.mean(x)


def test_the_scale_calibration_of_the_anchor_is_that_of_the_predictive(env, centred, exact):
    scale = ScaleCalibration(jnp.array([-1.0, 1.0]), jnp.array([0.5, -0.5]), jnp.float32(0.8))
    context, scaler, process = env.meta_test.context[0], exact.standardizer, anchor_of(centred)
    points = np.concatenate([scaler.scale_x(np.reshape(context.x, (-1, 1))), scaler.scale_x(GRID[:, None])])
    covariance, means = (np.asarray(each, np.float64) for each in kernel_and_mean(process, points.astype(np.float32)))
    seen, new = slice(len(context)), slice(len(context), None)
    residual = (context.y - scaler.y_mean) / scaler.y_std - means[seen]
    noise = float(process.noise_std) ** 2
    gram = covariance[seen, seen] + noise * np.eye(len(context))
    log_surprise = np.log((10 + residual @ np.linalg.solve(gram, residual)) / (10 + len(context)))
    explained = covariance[new, seen] @ np.linalg.solve(gram, covariance[seen, new])
    fraction = np.sqrt(np.diag(explained) / (np.diag(covariance[new, new]) + noise))
    # A calibration changes predictives, not what is inferred: one state serves all.
    inferred = centred.condition(context.x, context.y, 0).state
    conditioned = exact.condition(context.x, context.y, 0).state
    calibrated = replace(exact, inference=ClosedForm(replace(process, scale=scale)))
    for before, after, state in (
        (moved(centred), moved(with_anchor(centred, scale=scale)), inferred),
        (exact, calibrated, conditioned),
    ):
        plain, scaled = (sp.Posterior(each, state).predict(GRID) for each in (before, after))
        np.testing.assert_allclose(scaled.mean, plain.mean, atol=1e-4 * scaler.y_std)
        level = (plain.mean - scaler.y_mean) / scaler.y_std
        log_factor = fraction * np.interp(level, [-1, 1], [0.5, -0.5]) + 0.8 * log_surprise
        np.testing.assert_allclose(scaled.std / plain.std, np.exp(1.6 * np.tanh(log_factor / 1.6)), rtol=2e-3)


def as_draws(prior: FunctionPrior) -> FunctionPrior:
    return replace(prior, inference=ClosedFormDraws(prior.inference.warm_start))


def test_where_the_closed_form_is_all_no_particle_is_moved(env, centred, monkeypatch):
    context = jax.tree.map(lambda leaf: leaf[0], centred.standardizer.apply(env.meta_test.context.take([0])).padded())
    runs: list[Any] = []
    monkeypatch.setattr("scoreprior.inference.fsvgd.run", lambda *given: runs.append(given) or given[6])
    for each, expected in ((centred, 1), (as_draws(centred), 0)):
        runs.clear()
        jax.eval_shape(each.bare().infer, context, jax.random.key(0))
        assert len(runs) == expected


@pytest.mark.slow
def test_where_the_closed_form_is_all_functions_are_draws_of_it(env, centred, exact):
    contexts = env.meta_test.context.take(range(20))
    ours, truth = (each.condition_many(contexts, 0).predict([GRID] * 20) for each in (as_draws(centred), exact))
    process = anchor_of(centred)
    noise = float(process.noise_std * exact.standardizer.y_std) ** 2 * np.mean(process.tails**2)
    ratios = []
    for mine, theirs in zip(ours, truth):
        np.testing.assert_allclose(mine.mean, theirs.mean, atol=1e-4)
        np.testing.assert_allclose(mine.std, theirs.std, rtol=1e-3)
        ratios.append(np.mean(mine.functions.var(0, ddof=1)) / np.mean(theirs.std**2 - noise))
    # Ten draws in some three directions of much variance: a standard error of sqrt(2 / (9 * 3)) for each of 20 tasks,
    # 0.06 for all. Four of them, and a little for the regression that makes networks of the draws.
    assert 0.7 < np.mean(ratios) < 1.3


def test_draws_from_the_prior_are_exact_without_a_network(centred):
    """Mean, variances and correlations of the process; Langevin steps would inflate the variance by one per cent."""
    x, n = np.array([[-3.0], [0.0], [0.4]]), 4000
    draws = centred.sample(x, key=0, n=n)
    scaler = centred.standardizer
    inputs = jnp.asarray(scaler.scale_x(x), jnp.float32)
    covariance, mean = (np.asarray(each, np.float64) for each in kernel_and_mean(anchor_of(centred), inputs))
    white = np.linalg.solve(np.linalg.cholesky(covariance), (scaler.scale_y(draws) - mean).T)
    assert (np.abs(white.mean(axis=1)) < 4 / np.sqrt(n)).all()
    # Entries of the sample covariance of white draws: a standard error of sqrt(2 / n) on the diagonal, sqrt(1 / n) off.
    np.testing.assert_allclose(np.cov(white), np.eye(3), atol=4 * np.sqrt(2 / n))


def test_smoothing_keeps_mean_and_variance_and_fills_the_gaps():
    rng = np.random.default_rng(0)
    locs, scales = rng.normal(size=(10, 4)).astype(np.float32), np.full((10, 4), 0.2, np.float32)
    smooth_locs, smooth_scales = map(np.asarray, jax.jit(smooth)(locs, scales, jnp.float32(0.45)))
    np.testing.assert_allclose(smooth_locs.mean(0), locs.mean(0), atol=1e-6)
    before, after = locs.var(0) + 0.04, smooth_locs.var(0) + (smooth_scales**2).mean(0)
    np.testing.assert_allclose(after, before, rtol=1e-5)
    assert (smooth_scales > scales).all()


def test_tails_widen_the_predictive_around_the_same_mean(env, centred):
    context, x = env.meta_test.context[0], np.linspace(-4, 4, 5)
    state = centred.condition(context.x, context.y, 0).state
    narrow, wide = (
        sp.Posterior(with_anchor(centred, tails=np.array(tails, np.float32)), state).predict(x)
        for tails in ([1.0], [0.5, 3.0])
    )
    np.testing.assert_allclose(wide.mean, narrow.mean, atol=1e-4)
    np.testing.assert_allclose(wide.std, narrow.std * np.sqrt((0.25 + 9) / 2), rtol=1e-3)


@pytest.mark.slow
def test_chunks_of_tasks_are_the_tasks_one_by_one(env, centred):
    # Few steps: batches of other sizes sum in another order, and many steps would blow the round-off up.
    whole = centred.inference
    short = replace(whole, warm_start=replace(whole.warm_start, steps=2), config=replace(whole.config, steps=2))
    prior = replace(centred, inference=short)
    context = env.meta_test.context.take(range(13))  # a chunk of ten and a piece of one
    x = np.linspace(-4, 4, 5)
    keys = jax.random.split(jax.random.key(3), 13)
    many = prior.condition_many(context, 3).predict([x] * 13)
    query = jnp.asarray(prior.standardizer.scale_x(x[:, None]), jnp.float32)[None]
    for i in (0, 9, 12):
        batch = prior.standardizer.apply(context.take([i])).padded(bucket(len(context[i])))
        state = infer_many(prior.bare(), batch, keys[i : i + 1])
        mean = np.asarray(evaluate_many(prior.bare(), state, query).draws[0]).mean(0)
        np.testing.assert_allclose(
            many[i].mean, prior.standardizer.unscale_y(mean), atol=1e-3 * prior.standardizer.y_std
        )
