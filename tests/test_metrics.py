"""Metrics against quadrature, SciPy, uncertainty-toolbox, and predictors known to be calibrated."""

import numpy as np
import pytest
import scipy.stats
import scoringrules
import uncertainty_toolbox as uct
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from scoreprior import metrics
from scoreprior.predictive import NoDistributionError, Predictive


def mixture(seed=0, components=3, points=5):
    rng = np.random.default_rng(seed)
    predictive = Predictive(rng.normal(size=(components, points)), rng.uniform(0.3, 2, (components, points)))
    return predictive, rng.normal(size=points)


def normal(seed=0, points=400, inflation=1.0):
    """A Gaussian predictive and targets whose true spread is 1 / inflation of the predicted one."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=points), rng.uniform(0.5, 2, points)
    return Predictive(loc[None], inflation * scale[None]), loc + scale * rng.normal(size=points)


def test_rmse_and_nll_are_their_definitions():
    predictive, y = mixture()
    density = stats.norm(predictive.locs, predictive.scales).pdf(y).mean(0)
    assert metrics.rmse(predictive, y) == pytest.approx(np.sqrt(((predictive.locs.mean(0) - y) ** 2).mean()))
    assert metrics.nll(predictive, y) == pytest.approx(-np.log(density).mean())


def test_crps_is_the_integral_of_the_squared_cdf_gap():
    predictive, y = mixture()
    scores = []
    for j, value in enumerate(y):
        below = integrate.quad(lambda t, j=j: predictive.cdf(t)[j] ** 2, -20, value)[0]
        above = integrate.quad(lambda t, j=j: (1 - predictive.cdf(t)[j]) ** 2, value, 20)[0]
        scores.append(below + above)
    assert metrics.crps(predictive, y) == pytest.approx(np.mean(scores), rel=1e-6)


def test_crps_of_one_component_is_the_normal_one_whatever_the_block_size():
    predictive, y = normal(points=50)
    expected = scoringrules.crps_normal(y, predictive.mean, predictive.std).mean()
    assert metrics.crps(predictive, y) == pytest.approx(expected)
    # 1500 equal components leave blocks of a single point.
    many = Predictive(np.repeat(predictive.locs[:, :3], 1500, axis=0), predictive.scales[:, :3])
    assert metrics.crps(many, y[:3]) == pytest.approx(
        scoringrules.crps_normal(y[:3], predictive.mean[:3], predictive.std[:3]).mean()
    )


@pytest.mark.parametrize("components", [4, 40])  # in closed form, and on a grid
def test_crps_of_a_weighted_mixture_is_that_of_repeated_components(components):
    predictive, y = mixture(components=components)
    counts = np.random.default_rng(2).integers(1, 4, components)
    one = Predictive(predictive.locs, predictive.scales, weights=counts / counts.sum())
    other = Predictive(*(np.repeat(part, counts, axis=0) for part in (predictive.locs, predictive.scales)))
    assert metrics.crps(one, y) == pytest.approx(metrics.crps(other, y), rel=1e-9)
    assert metrics.crps(one, y) != pytest.approx(metrics.crps(predictive, y), rel=1e-4)


def test_crps_of_a_sharp_predictive_tends_to_the_absolute_error():
    predictive, y = mixture(components=1)
    sharp = Predictive(predictive.locs, 1e-9)
    assert metrics.crps(sharp, y) == pytest.approx(np.abs(y - predictive.mean).mean(), abs=1e-8)


def test_interval_metrics_are_those_of_the_normal_distribution():
    predictive, y = normal()
    half = stats.norm.ppf(0.9)
    inside = np.abs(y - predictive.mean) <= half * predictive.std
    assert metrics.coverage(predictive, y, 0.8) == inside.mean()
    assert metrics.interval_width(predictive, 0.8) == pytest.approx(2 * half * predictive.std.mean())
    assert metrics.sharpness(predictive) == pytest.approx(predictive.std.mean())


def test_coverage_of_a_calibrated_predictor_is_its_level():
    predictive, y = normal(points=10_000)
    error = np.sqrt(0.9 * 0.1 / len(y))
    assert abs(metrics.coverage(predictive, y) - 0.9) < 4 * error


@settings(max_examples=15, deadline=None)
@given(st.floats(-8, 8), st.floats(-5, 5))
def test_metrics_follow_a_change_of_units(log10_scale, shift):
    scale = 10.0**log10_scale
    predictive, y = mixture()
    mapped, y_mapped = predictive.affine(scale, shift * scale), scale * (y + shift)
    for name in ("rmse", "crps"):
        metric = getattr(metrics, name)
        assert metric(mapped, y_mapped) == pytest.approx(scale * metric(predictive, y), rel=1e-9)
    assert metrics.interval_width(mapped) == pytest.approx(scale * metrics.interval_width(predictive), rel=1e-9)
    assert metrics.sharpness(mapped) == pytest.approx(scale * metrics.sharpness(predictive), rel=1e-9)
    assert metrics.nll(mapped, y_mapped) == pytest.approx(metrics.nll(predictive, y) + np.log(scale), abs=1e-9)
    assert metrics.coverage(mapped, y_mapped) == metrics.coverage(predictive, y)
    assert metrics.pit(mapped, y_mapped) == pytest.approx(metrics.pit(predictive, y), abs=1e-12)


# Calibration


def test_calibration_error_by_hand():
    # Levels 0, 1/2, 1 have frequencies 0, 2/4, 1: F(y) = 1/2 is not below 1/2.
    assert metrics.calibration_error([0.1, 0.2, 0.5, 0.9], levels=3) == 0
    assert metrics.calibration_error([0.1, 0.5, 0.5, 0.9], levels=3) == pytest.approx(0.25 / 3)
    assert metrics.calibration_error([0.0], levels=5) == pytest.approx((0 + 0.75 + 0.5 + 0.25 + 0) / 5)


def test_the_ends_never_count_against_a_predictor():
    # F(y) = 0 is not below level 0. Far above the mean F(y) is rounded to 1, but is below level 1.
    far = Predictive(np.zeros((1, 2)), np.ones((1, 2)))
    low, high = metrics.pit(far, [-40.0, -40.0]), metrics.pit(far, [40.0, 40.0])
    assert high[0] == 1
    assert metrics.calibration_error(low) == pytest.approx(metrics.calibration_error(high), rel=1e-12)
    assert metrics.calibration_error(high) == pytest.approx(np.linspace(0, 1, 20)[:-1].sum() / 20)


@pytest.mark.parametrize("inflation", [0.4, 1.0, 3.0])
def test_calibration_error_is_that_of_uncertainty_toolbox(inflation):
    predictive, y = normal(inflation=inflation)
    theirs = uct.mean_absolute_calibration_error(
        predictive.mean, predictive.std, y, num_bins=20, vectorized=True, prop_type="quantile"
    )
    assert metrics.calibration_error(metrics.pit(predictive, y)) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(("step", "is_uniform"), [(1.0, True), (0.0, False)])
def test_pits_of_rounded_targets_are_uniform_when_spread_over_the_rounding_interval(step, is_uniform):
    rng = np.random.default_rng(3)
    mean = rng.uniform(0, 10, 5000)
    y = np.round(rng.normal(mean, 0.4))
    pits = metrics.pit(Predictive(mean, 0.4), y, step)
    assert (scipy.stats.kstest(pits, "uniform").pvalue > 0.01) == is_uniform


def test_calibration_uses_the_mixture_not_a_gaussian_of_the_same_variance():
    rng = np.random.default_rng(0)
    locs = np.array([[-3.0], [3.0]])
    y = rng.choice(locs[:, 0], 2000) + 0.3 * rng.normal(size=2000)
    predictive = Predictive(np.repeat(locs, 2000, axis=1), 0.3)
    gaussian = Predictive(predictive.mean, predictive.std)
    floor = metrics.calibration_floor([2000])
    assert metrics.calibration_error(metrics.pit(predictive, y)) < 3 * floor
    assert metrics.calibration_error(metrics.pit(gaussian, y)) > 10 * floor


@pytest.mark.parametrize("m", [1, 2, 3, 7, 19, 20, 288])
def test_floor_is_the_binomial_mean_absolute_deviation(m):
    levels = np.linspace(0, 1, 20)
    counts = np.arange(m + 1)[:, None]
    deviation = (np.abs(counts / m - levels) * stats.binom.pmf(counts, m, levels)).sum(0)
    assert metrics.calibration_floor([m]) == pytest.approx(deviation.mean(), rel=1e-10)


def test_floor_of_one_point_and_of_many_points():
    levels = np.linspace(0, 1, 20)
    assert metrics.calibration_floor([1]) == pytest.approx((2 * levels * (1 - levels)).mean())
    m = 100_000
    asymptotic = np.sqrt(2 * levels * (1 - levels) / (np.pi * m)).mean()
    assert metrics.calibration_floor([m]) == pytest.approx(asymptotic, rel=1e-3)


def test_floors_average_over_tasks_or_pool_their_points():
    sizes = np.array([1, 4, 7])
    assert metrics.calibration_floor(sizes) == pytest.approx(np.mean([metrics.calibration_floor([m]) for m in sizes]))
    assert metrics.calibration_floor(sizes, pooled=True) == pytest.approx(metrics.calibration_floor([12]))
    assert metrics.calibration_floor(sizes, levels=5) != metrics.calibration_floor(sizes)


@pytest.mark.parametrize("pooled", [False, True])
def test_a_perfectly_calibrated_predictor_gets_exactly_the_floor_on_average(pooled):
    sizes, repeats = [1, 3, 7, 40], 400
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(repeats):
        tasks = []
        for m in sizes:
            locs, scales = rng.normal(size=(3, m)), rng.uniform(0.3, 2, (3, m))
            pick = rng.integers(3, size=m)
            y = locs[pick, range(m)] + scales[pick, range(m)] * rng.normal(size=m)
            tasks.append(metrics.pit(Predictive(locs, scales), y))
        one = metrics.calibration_error(np.concatenate(tasks)) if pooled else None
        errors.append(np.mean([metrics.calibration_error(pits) for pits in tasks]) if one is None else one)
    standard_error = np.std(errors, ddof=1) / np.sqrt(repeats)
    assert abs(np.mean(errors) - metrics.calibration_floor(sizes, pooled=pooled)) < 4 * standard_error


# Refusals


@pytest.mark.parametrize("name", ["nll", "crps", "coverage", "pit"])
def test_a_point_predictor_has_no_distributional_metric(name):
    with pytest.raises(NoDistributionError, match="predicts a point"):
        getattr(metrics, name)(Predictive(np.zeros((1, 2)), None), [0.0, 1.0])


@pytest.mark.parametrize("metric", [metrics.interval_width, metrics.sharpness])
def test_a_point_predictor_has_no_spread(metric):
    with pytest.raises(NoDistributionError, match="predicts a point"):
        metric(Predictive(np.zeros((1, 2)), None))


def test_a_point_predictor_has_an_rmse():
    assert metrics.rmse(Predictive(np.zeros((1, 2)), None), [3.0, 4.0]) == pytest.approx(np.sqrt(12.5))


@pytest.mark.parametrize("name", ["rmse", "nll", "crps", "coverage", "pit"])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((5, 1)), r"y has shape \(5, 1\), but there are 5 predictions"),
        (np.zeros(4), r"y has shape \(4,\)"),
        (0.0, r"y has shape \(\)"),
        ([0, 1, 2, np.nan, 4], "only finite ones"),
    ],
)
def test_observations_must_match_the_predictions(name, y, message):
    with pytest.raises(ValueError, match=message):
        getattr(metrics, name)(mixture()[0], y)


def test_a_metric_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one observation"):
        metrics.rmse(Predictive(np.zeros((1, 0)), None), [])


@pytest.mark.parametrize("pits", [[], [np.nan], [1.2], [-0.1]])
def test_pits_lie_in_the_unit_interval(pits):
    with pytest.raises(ValueError, match="PITs"):
        metrics.calibration_error(pits)


@pytest.mark.parametrize("sizes", [[], [0, 1], [1.5], [-2]])
def test_sizes_are_positive_whole_numbers(sizes):
    with pytest.raises(ValueError, match="Task sizes are positive whole numbers"):
        metrics.calibration_floor(sizes)


def test_one_level_is_too_few():
    with pytest.raises(ValueError, match="At least two levels"):
        metrics.calibration_error([0.5], levels=1)


@pytest.mark.parametrize("narrowest", [0.3, 0.01, 1e-6])
def test_crps_of_many_components_equals_all_pairs(narrowest: float):
    """Above a few components the pairs are replaced by an integral; very narrow ones fall back to pairs."""
    rng = np.random.default_rng(0)
    locs, y = rng.normal(size=(60, 5)), 2 * rng.normal(size=5)
    scales = narrowest * rng.uniform(1, 3, (60, 5))
    expected = scoringrules.crps_mixnorm(y, locs, scales, m_axis=0, backend="numpy")
    np.testing.assert_allclose(metrics.crps(Predictive(locs, scales), y), expected.mean(), rtol=1e-9)


def test_log_score_is_the_probability_of_the_rounding_interval():
    predictive = Predictive([[0.0, 2.0], [1.0, 2.5]], 0.7)
    y = np.array([1.0, 2.0])
    components = stats.norm(predictive.locs, predictive.scales)
    expected = -np.mean(np.log(np.mean(components.cdf(y + 0.5) - components.cdf(y - 0.5), axis=0)))
    assert metrics.log_score(predictive, y, 1.0) == pytest.approx(expected, rel=1e-10)
    assert metrics.log_score(predictive, y) == metrics.nll(predictive, y)
    assert metrics.log_score(predictive, y, 1e-5) == pytest.approx(metrics.nll(predictive, y) - np.log(1e-5), abs=1e-7)


def test_log_score_cannot_be_made_as_low_as_one_dares():
    y = np.array([3.0, 15.0])
    scores = [metrics.log_score(Predictive(y, scale), y, 1.0) for scale in (1e-2, 1e-6, 1e-12)]
    np.testing.assert_allclose(scores, 0.0, atol=1e-12)
    assert metrics.nll(Predictive(y, 1e-12), y) < -20


@pytest.mark.parametrize("resolution", [-1.0, np.nan, np.inf])
def test_log_score_needs_a_step(resolution):
    with pytest.raises(ValueError, match="recording step"):
        metrics.log_score(Predictive(np.zeros(2), 1.0), np.zeros(2), resolution)
