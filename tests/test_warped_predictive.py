"""Predictives of targets that are not real: closed forms, probabilities of values, ranges, metrics by brute force."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit

import scoreprior as sp
from scoreprior import metrics
from scoreprior._trees import decode, encode
from scoreprior.gp import GaussianProcess
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.inference.closed_form import ClosedForm
from scoreprior.learners import FunctionPrior
from scoreprior.predictive import Predictive
from scoreprior.tasks.warp import Log, Logit
from scoreprior.warped_predictive import WarpedPredictive, through

POSITIVE = Log(0.0, np.inf, 0.0, 0.0, False)
COUNT = Log(0.0, np.inf, 0.5, 1.0, True)
SCORE = Logit(3.0, 15.0, 0.5, 1.0, True)
MEANS = Logit(3.0, 15.0, 0.5, 1.0, False)
PERCENT = Logit(0.0, 100.0, 0.2, 0.0, False)
FINE = Logit(0.0, 100.0, 0.05, 0.1, True)
ALL = {"positive": POSITIVE, "count": COUNT, "score": SCORE, "means": MEANS, "percent": PERCENT, "fine": FINE}


def latent(points=4, components=3, seed=0, weights=True):
    rng = np.random.default_rng(seed)
    locs, scales = rng.normal(0.5, 1.0, (components, points)), rng.uniform(0.05, 1.2, (components, points))
    return Predictive(locs, scales, weights=rng.dirichlet(np.ones(components)) if weights else None)


def draws(predictive, n=400_000):
    return predictive.sample(1, n)


def test_of_the_logarithm_it_is_the_lognormal_distribution():
    base = Predictive([[0.3, 1.0, 2.0]], [[0.5, 1.0, 1.5]])
    found = WarpedPredictive(base, POSITIVE)
    exact = scipy.stats.lognorm(s=base.scales[0], scale=np.exp(base.locs[0]))
    y = np.array([0.5, 2.0, 30.0])
    np.testing.assert_allclose(found.mean, exact.mean(), rtol=1e-8)
    np.testing.assert_allclose(found.std, exact.std(), rtol=1e-7)
    np.testing.assert_allclose(found.log_prob(y), exact.logpdf(y))
    np.testing.assert_allclose(found.cdf(y), exact.cdf(y))
    np.testing.assert_allclose(found.log_prob_interval(y, 2 * y), np.log(exact.cdf(2 * y) - exact.cdf(y)))
    levels = np.array([[0.01], [0.5], [0.99]])
    np.testing.assert_allclose(found.quantile(levels[:, 0]), exact.ppf(levels))
    assert (found.log_prob(np.array([0.0, -1.0, -2.0])) == -np.inf).all()


def test_of_the_logit_it_is_the_logit_normal_by_change_of_variables():
    base = Predictive([[0.3, -2.0]], [[0.5, 1.4]])
    found = WarpedPredictive(base, Logit(0.0, 1.0, 0.0, 0.0, False))
    y = np.array([0.4, 0.05])
    jacobian = -np.log(y * (1 - y))
    np.testing.assert_allclose(
        found.log_prob(y), scipy.stats.norm.logpdf(np.log(y / (1 - y)), base.locs[0], base.scales[0]) + jacobian
    )
    for point in range(2):
        normal = scipy.stats.norm(base.locs[0, point], base.scales[0, point])
        first = normal.expect(expit, lb=-30, ub=30)
        second = normal.expect(lambda z, first=first: (expit(z) - first) ** 2, lb=-30, ub=30)
        np.testing.assert_allclose([found.mean[point], found.std[point] ** 2], [first, second], rtol=1e-7)


@pytest.mark.parametrize(("warp", "top"), [(SCORE, 15), (COUNT, 4000), (FINE, 100)])
def test_probabilities_of_values_sum_to_one_and_give_moments_and_crps(warp, top):
    found = WarpedPredictive(latent(), warp)
    values = np.arange(warp.low, top + warp.step / 2, warp.step)[:, None]
    mass = np.exp(found.log_prob(values))
    np.testing.assert_allclose(mass.sum(0), 1.0, atol=1e-6)
    mean = (mass * values).sum(0)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-4)
    np.testing.assert_allclose(found.std, np.sqrt((mass * (values - mean) ** 2).sum(0)), rtol=1e-3)
    np.testing.assert_allclose(found.cdf(values), np.cumsum(mass, 0), atol=1e-12)
    y = np.array([3.0, 9.0, 15.0, 4.0])
    expected = warp.step * ((np.cumsum(mass, 0) - (values > y - warp.step / 2)) ** 2).sum(0)
    np.testing.assert_allclose(found.crps(y), expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(metrics.crps(found, y), expected.mean(), rtol=1e-5)


@pytest.mark.parametrize("name", ["positive", "means", "percent"])
def test_moments_and_crps_are_those_of_draws_and_of_quadrature(name):
    warp = ALL[name]
    found = WarpedPredictive(latent(), warp)
    sample = draws(found)
    np.testing.assert_allclose(found.mean, sample.mean(0), atol=5 * (sample.std(0) / np.sqrt(len(sample))).max())
    np.testing.assert_allclose(found.std, sample.std(0), rtol=0.02)
    y = np.clip(np.array([warp.low, 5.0, 14.9, 2.0]), warp.low + (name == "positive"), warp.high)
    recorded = warp.recorded(warp.forward(y))
    for point in range(len(found)):
        one, seen = found.take([point]), recorded[point]
        end = warp.high if np.isfinite(warp.high) else 3000.0
        edges = np.unique(np.concatenate([[warp.low, seen, end], np.linspace(warp.low, min(end, 100.0), 400)]))
        total = sum(
            quad(lambda t, one=one, seen=seen: (float(one.cdf(t)[0]) - (t >= seen)) ** 2, a, b, limit=200)[0]
            for a, b in itertools.pairwise(edges)
        )
        np.testing.assert_allclose(one.crps(y[[point]])[0], total, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["means", "percent"])
def test_density_inside_and_probabilities_of_the_bounds_make_one(name):
    warp = ALL[name]
    found = WarpedPredictive(Predictive([[5.0], [-5.0]], [[1.0], [1.5]]), warp)
    low, high = warp.low + 0.5 * warp.step, warp.high - 0.5 * warp.step
    edges = warp.inverse(np.linspace(warp.forward(np.array(low)), warp.forward(np.array(high)), 60))
    inside = sum(quad(lambda t: float(np.exp(found.log_prob(t))[0]), a, b)[0] for a, b in itertools.pairwise(edges))
    bounds = np.exp(found.log_prob(np.array([[warp.low], [warp.high]]))).sum()
    np.testing.assert_allclose(inside + bounds, 1.0, atol=1e-6)
    assert 0.01 < bounds < 0.99
    assert (found.log_prob(np.array([[warp.low - 1], [warp.high + 1]])) == -np.inf).all()


@pytest.mark.parametrize("name", ALL)
@given(level=st.floats(0, 1), seed=st.integers(0, 50))
def test_quantiles_can_occur_and_are_the_least_values_that_reach_their_level(name, level, seed):
    warp = ALL[name]
    found = WarpedPredictive(latent(points=2, seed=seed), warp)
    value = found.quantile(level)
    assert ((value >= warp.low) & (value <= warp.high)).all()
    if warp.discrete and 0 < level < 1:
        np.testing.assert_allclose(value / warp.step, np.round(value / warp.step), atol=1e-6)
        assert (found.cdf(value) >= level - 1e-9).all()
        assert (found.cdf(value - warp.step) <= level + 1e-9).all()


@pytest.mark.parametrize("name", ALL)
def test_samples_are_spread_as_the_cdf_says(name):
    found = WarpedPredictive(latent(), ALL[name])
    sample = draws(found, 50_000)
    for y in (4.0, 8.0, 14.0):
        np.testing.assert_allclose((sample <= y).mean(0), found.cdf(y), atol=0.012)
    low, high = found.interval(0.9)
    assert (((sample >= low) & (sample <= high)).mean(0) >= 0.89).all()


@pytest.mark.parametrize("name", ALL)
def test_a_predictive_that_is_right_is_calibrated_and_covers_what_it_says(name):
    warp = ALL[name]
    found = WarpedPredictive(latent(points=3000), warp)
    y = found.sample(3, 1)[0]
    rng = np.random.default_rng(0)
    pits = metrics.pit(found, y, 0.0, rng)
    assert metrics.calibration_error(pits) < 0.02
    assert abs(metrics.coverage(found, y, 0.9) - 0.9) < 0.02
    assert abs(metrics.coverage(found, y, 0.5) - 0.5) < 0.03


def test_log_scores_are_of_rounding_intervals_and_of_all_beyond_at_a_bound():
    found = WarpedPredictive(latent(points=3), MEANS)
    y = np.array([3.0, 7.0, 15.0])
    z = [(-np.inf, 3.5), (6.5, 7.5), (14.5, np.inf)]
    expected = []
    for point, (low, high) in enumerate(z):
        ends = [found.latent.cdf(MEANS.forward(np.array(end)))[point] for end in (low, high) if np.isfinite(end)]
        expected.append({0: ends[0], 1: ends[-1] - ends[0], 2: 1 - ends[0]}[point])
    np.testing.assert_allclose(metrics.log_score(found, y, 1.0), -np.mean(np.log(expected)))
    discrete = WarpedPredictive(found.latent, SCORE)
    np.testing.assert_allclose(metrics.nll(discrete, y), metrics.log_score(discrete, y, 1.0))
    np.testing.assert_allclose(metrics.nll(discrete, y), -np.mean(np.log(expected)))


def test_probabilities_in_far_tails_keep_their_digits():
    found = WarpedPredictive(Predictive([[-60.0, 60.0]], [[1.0, 1.0]]), PERCENT)
    log_prob = found.log_prob(np.array([100.0, 0.0]))
    assert np.isfinite(log_prob).all()
    assert (log_prob < -1000).all()


def test_points_and_draws_are_in_original_units_and_within_the_bounds():
    base = Predictive([[-50.0, 0.0, 50.0]], None, draws=[[-50.0, 0.0, 50.0]])
    found = WarpedPredictive(base, SCORE)
    np.testing.assert_allclose(found.mean, [3.0, 9.0, 15.0])
    np.testing.assert_allclose(found.functions, [[3.0, 9.0, 15.0]])
    with pytest.raises(sp.NoDistributionError):
        _ = found.std
    with pytest.raises(TypeError, match="affine"):
        found.affine(2.0, 0.0)
    assert through(base, sp.Real().warp(np.ones(3))) is base


def test_frames_have_the_level_that_is_asked_for():
    plain, found = latent(), WarpedPredictive(latent(), SCORE)
    for each in (plain, found):
        assert list(each.to_frame().columns) == ["mean", "std", "q5", "q25", "q50", "q75", "q95"]
        frame = each.to_frame(level=0.8)
        assert list(frame.columns) == ["mean", "std", "lower", "upper"]
        np.testing.assert_array_equal(frame[["lower", "upper"]].T, each.interval(0.8))


def test_pieces_are_joined_and_points_are_taken_with_their_map():
    found = WarpedPredictive(latent(), SCORE)
    joined = found.take([0]).joined_with([found.take(slice(1, None))])
    np.testing.assert_allclose(joined.mean, found.mean)
    np.testing.assert_array_equal(joined.quantile(0.7), found.quantile(0.7))


def test_data_sets_have_the_dimensions_of_arviz():
    pytest.importorskip("xarray", reason="xarray is an extra: pip install 'scoreprior[xarray]'")
    base = Predictive([[0.0, 1.0]], [[1.0, 1.0]], draws=np.zeros((5, 2)))
    found = base.to_xarray(x=[[0.0], [1.0]])
    assert found["f"].dims == ("chain", "draw", "point")
    assert found["f"].shape == (1, 5, 2)
    np.testing.assert_array_equal(found["mean"], base.mean)


@pytest.mark.parametrize("method", ["ridge", "last-value"])
def test_a_prior_of_a_bounded_target_is_saved_with_its_map(method, tmp_path):
    rng = np.random.default_rng(0)
    y = np.clip(np.round(rng.normal(12, 4, (20, 1)) + rng.normal(size=(20, 8))), 3, 15)
    tasks = sp.TaskSet.from_arrays(rng.uniform(0, 10, (20, 8)), y, target=sp.Bounded(3, 15))
    prior = sp.learner(method).fit(tasks, 0)
    prior.save(tmp_path / "a.prior")
    loaded = sp.load_prior(tmp_path / "a.prior")
    assert loaded.standardizer.kind == sp.Bounded(3, 15)
    assert loaded.standardizer.warp == prior.standardizer.warp
    one, other = (each.condition([1.0, 2.0], [15.0, 14.0], 0).predict([[3.0], [90.0]]) for each in (prior, loaded))
    np.testing.assert_array_equal(one.quantile(0.9), other.quantile(0.9))
    np.testing.assert_array_equal(one.mean, other.mean)
    assert isinstance(other, WarpedPredictive)
    assert (other.quantile(np.array([0.0, 1.0])).T == [3.0, 15.0]).all()
    with pytest.raises(sp.TaskError, match="is 16"):
        loaded.condition([1.0], [16.0], 0)


def test_joint_draws_of_a_process_are_within_the_bounds():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (12, 8))
    y = 100 * expit(3 * x + 2 * rng.normal(size=(12, 1)))
    process = GaussianProcess(ZeroMean(), Matern(jnp.asarray(1.0), jnp.asarray([0.7]), 2.5), jnp.asarray(0.1))
    scaler = sp.Standardizer.fit(sp.TaskSet.from_arrays(x, y, target=sp.Bounded(0, 100)))
    posterior = FunctionPrior(scaler, ClosedForm(process)).condition([0.0], [98.0], 0)
    joint = posterior.sample(np.linspace(-3, 3, 5), jax.random.key(0), 200)
    assert ((joint >= 0) & (joint <= 100)).all()
    assert joint.std() > 1
    low, high = posterior.predict(np.linspace(-3, 3, 5)).interval(0.99)
    assert ((low >= 0) & (high <= 100)).all()
    assert (high - low).max() > 50


def test_files_that_know_no_kinds_of_targets_load_as_real():
    rng = np.random.default_rng(0)
    prior = sp.learner("last-value").fit(sp.TaskSet.from_arrays(rng.normal(size=(5, 6)), rng.normal(size=(5, 6))), 0)
    structure, arrays = encode(prior, "the prior")
    for name in ("kind", "warp"):
        del structure["fields"]["standardizer"]["fields"][name]
    loaded = decode(structure, arrays)
    assert loaded.standardizer.kind == sp.Real()
    one, other = (each.condition([0.0], [1.0], 0).predict([[2.0]]) for each in (prior, loaded))
    assert type(other) is Predictive
    np.testing.assert_array_equal(one.quantile(0.9), other.quantile(0.9))
