"""`Predictive`: a mixture of Gaussians checked against SciPy, quadrature and its own definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from scoreprior.predictive import Mixture, NoDistributionError, Predictive, mix

fast = settings(max_examples=40, deadline=None)


@st.composite
def mixtures(draw, max_components=4, max_points=3):
    """Mixtures with component means in [-3, 3] and scales in [0.3, 2]: their CDFs have no plateaus."""
    shape = (draw(st.integers(1, max_components)), draw(st.integers(1, max_points)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Predictive(rng.uniform(-3, 3, shape), rng.uniform(0.3, 2, shape))


def one_mixture(seed=0, components=3, points=4):
    rng = np.random.default_rng(seed)
    return Predictive(rng.normal(size=(components, points)), rng.uniform(0.3, 2, (components, points)))


def test_one_component_is_the_normal_distribution():
    loc, scale = np.array([0.0, -2.5, 1e3]), np.array([1.0, 0.2, 50.0])
    predictive, normal = Predictive(loc[None], scale[None]), stats.norm(loc, scale)
    y = loc + scale * np.array([[-6.0, 0.1, 3.0], [2.0, -1.0, 0.0]])
    assert np.allclose(predictive.mean, normal.mean(), rtol=1e-14)
    assert np.allclose(predictive.std, normal.std(), rtol=1e-14)
    assert np.allclose(predictive.cdf(y), normal.cdf(y), rtol=1e-12)
    assert np.allclose(predictive.log_prob(y), normal.logpdf(y), rtol=1e-12)
    levels = np.array([1e-9, 0.05, 0.5, 0.99])
    assert np.allclose(predictive.quantile(levels), normal.ppf(levels[:, None]), rtol=1e-12)
    assert np.allclose(predictive.interval(0.9), normal.interval(0.9), rtol=1e-12)


@pytest.mark.parametrize("components", [1, 2, 5])
def test_values_are_those_of_the_component_sums(components):
    predictive = one_mixture(components=components)
    y = np.random.default_rng(1).normal(size=(6, 4))
    normals = [stats.norm(loc, scale) for loc, scale in zip(predictive.locs, predictive.scales)]
    assert np.allclose(predictive.cdf(y), np.mean([normal.cdf(y) for normal in normals], axis=0), rtol=1e-12)
    density = np.mean([normal.pdf(y) for normal in normals], axis=0)
    assert np.allclose(predictive.log_prob(y), np.log(density), rtol=1e-12)


@pytest.mark.parametrize("y_shape", [(), (4,), (1,), (6, 4), (6, 1), (2, 6, 4)])
@pytest.mark.parametrize("components", [1, 3])
def test_y_broadcasts_against_the_points_from_the_right(y_shape, components):
    predictive = one_mixture(components=components)
    expected = np.broadcast_shapes(y_shape, (4,))
    y = np.random.default_rng(1).normal(size=y_shape)
    full = np.broadcast_to(y, expected).reshape(-1, 4)
    for method in (predictive.cdf, predictive.log_prob):
        values = method(y)
        assert values.shape == expected
        assert np.allclose(values.reshape(-1, 4), [method(row) for row in full], rtol=1e-13)


@pytest.mark.parametrize("level_shape", [(), (1,), (3,), (2, 3)])
def test_levels_come_first_in_the_shape_of_quantiles(level_shape):
    predictive = one_mixture()
    levels = np.random.default_rng(2).uniform(0.05, 0.95, level_shape)
    values = predictive.quantile(levels)
    assert values.shape == (*level_shape, 4)
    singly = np.array([predictive.quantile(float(level)) for level in levels.ravel()])
    assert np.allclose(values.reshape(-1, 4), singly, rtol=1e-13)


@fast
@given(mixtures(), st.lists(st.floats(-20, 20), min_size=2, max_size=10))
def test_cdf_rises_from_zero_to_one(predictive, ys):
    values = predictive.cdf(np.sort(ys)[:, None])
    # ndtr is monotone only up to its own rounding.
    assert (np.diff(values, axis=0) >= -1e-15).all()
    assert ((values >= 0) & (values <= 1)).all()
    assert (predictive.cdf(-np.inf) == 0).all()
    assert (predictive.cdf(np.inf) == 1).all()


@fast
@given(mixtures(), st.floats(1e-6, 1 - 1e-6))
def test_cdf_of_a_quantile_is_its_level(predictive, level):
    assert np.allclose(predictive.cdf(predictive.quantile(level)), level, rtol=1e-9, atol=1e-14)


@fast
@given(mixtures(), st.floats(-3, 3))
def test_quantile_of_the_cdf_is_the_value(predictive, z):
    y = predictive.locs[0] + z * predictive.scales[0]
    # The CDF carries an absolute error of about 1e-16, which the inverse magnifies by 1 / density.
    tolerance = 1e-14 / np.exp(predictive.log_prob(y)) + 1e-12
    inverse = np.diagonal(predictive.quantile(predictive.cdf(y)))
    assert (np.abs(inverse - y) <= tolerance).all()


@fast
@given(mixtures(), st.floats(0.01, 0.99))
def test_a_central_interval_holds_its_probability_with_equal_tails(predictive, level):
    low, high = predictive.interval(level)
    assert (low < high).all()
    assert np.allclose(predictive.cdf(low), 0.5 - level / 2, atol=1e-12)
    assert np.allclose(1 - predictive.cdf(high), 0.5 - level / 2, atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(mixtures(max_points=2))
def test_density_integrates_to_one_and_gives_the_moments(predictive):
    grid = np.linspace(-25, 25, 20_001)[:, None]
    density = np.exp(predictive.log_prob(grid))
    total = integrate.simpson(density, x=grid[:, 0], axis=0)
    mean = integrate.simpson(density * grid, x=grid[:, 0], axis=0)
    variance = integrate.simpson(density * (grid - predictive.mean) ** 2, x=grid[:, 0], axis=0)
    assert np.allclose(total, 1, atol=1e-9)
    assert np.allclose(mean, predictive.mean, atol=1e-9)
    assert np.allclose(np.sqrt(variance), predictive.std, rtol=1e-9)


@fast
@given(mixtures(), st.floats(-5, 5))
def test_density_is_the_derivative_of_the_cdf(predictive, y):
    # Error h^2/6 max|p''|, where scales >= 0.3 give |p''| <= phi(0) / 0.3^3 < 15, plus round-off.
    h = 1e-4
    slope = (predictive.cdf(y + h) - predictive.cdf(y - h)) / (2 * h)
    assert np.allclose(slope, np.exp(predictive.log_prob(y)), rtol=0, atol=15 / 6 * h**2 + 1e-15 / h)


@settings(max_examples=25, deadline=None)
@given(mixtures(), st.floats(-8, 8), st.floats(-100, 100))
def test_affine_maps_everything_equivariantly(predictive, log10_scale, shift):
    scale = 10.0**log10_scale
    # The shift is in units of the scale: otherwise the spread drowns in the round-off of the shift.
    mapped = predictive.affine(scale, shift * scale)
    y = np.linspace(-4, 4, 5)[:, None]
    y_mapped = scale * y + shift * scale
    assert np.allclose(mapped.mean, scale * predictive.mean + shift * scale, rtol=1e-10, atol=1e-10 * scale)
    assert np.allclose(mapped.std, scale * predictive.std, rtol=1e-10)
    assert np.allclose(mapped.cdf(y_mapped), predictive.cdf(y), rtol=1e-8, atol=1e-12)
    assert np.allclose(mapped.log_prob(y_mapped), predictive.log_prob(y) - np.log(scale), rtol=0, atol=1e-8)
    levels = np.array([0.01, 0.3, 0.5, 0.99])
    expected = scale * predictive.quantile(levels) + shift * scale
    assert np.allclose(mapped.quantile(levels), expected, rtol=1e-9, atol=1e-9 * scale)


def test_affine_maps_the_function_draws_too():
    draws = np.random.default_rng(0).normal(size=(7, 4))
    predictive = Predictive(np.zeros((2, 4)), np.ones((2, 4)), draws)
    assert np.allclose(predictive.affine(3.0, -1.0).functions, 3 * draws - 1)


@pytest.mark.parametrize("point", [False, True])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_affine_refuses_a_scale_that_is_not_positive(scale, point):
    predictive = Predictive(np.zeros((2, 4)), None if point else np.ones((2, 4)))
    with pytest.raises(ValueError, match="scale must be positive"):
        predictive.affine(scale, 0.0)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e8])
def test_extreme_scales_keep_their_precision(scale):
    base = one_mixture()
    predictive = Predictive(base.locs * scale, base.scales * scale)
    levels = np.array([1e-12, 0.2, 0.5, 1 - 1e-12])
    assert np.allclose(predictive.cdf(predictive.quantile(levels)), levels[:, None], rtol=1e-9, atol=1e-14)
    assert np.isfinite(predictive.log_prob(predictive.quantile(levels))).all()


def test_components_of_very_different_scale_are_bisected_to_the_end():
    predictive = Predictive(np.array([[0.0], [1e8]]), np.array([[1e-8], [1e8]]))
    for level in (0.1, 0.3, 0.6, 0.9):
        assert np.allclose(predictive.cdf(predictive.quantile(level)), level, rtol=1e-7)


def test_quantiles_at_zero_and_one_are_infinite_and_others_are_untouched():
    values = one_mixture().quantile(np.array([0.0, 0.5, 1.0]))
    assert (values[0] == -np.inf).all()
    assert np.isfinite(values[1]).all()
    assert (values[2] == np.inf).all()


@pytest.mark.parametrize("level", [-0.1, 1.1, np.nan])
def test_a_level_outside_the_unit_interval_is_refused(level):
    with pytest.raises(ValueError, match=r"Quantile levels lie in \[0, 1\]"):
        one_mixture().quantile(level)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        one_mixture().interval(level)


def test_samples_have_the_moments_and_the_distribution_of_the_mixture():
    predictive, n = one_mixture(), 20_000
    samples = predictive.sample(3, n)
    assert samples.shape == (n, 4)
    assert (np.abs(samples.mean(0) - predictive.mean) < 4 * predictive.std / np.sqrt(n)).all()
    fourth = ((samples - predictive.mean) ** 4).mean(0)
    variance_error = np.sqrt((fourth - predictive.std**4) / n)
    assert (np.abs(samples.var(0) - predictive.std**2) < 4 * variance_error).all()
    for pits in predictive.cdf(samples).T:
        assert stats.kstest(pits, "uniform").pvalue > 1e-3
    # Independent between points: correlations have standard error 1 / sqrt(n).
    off_diagonal = np.corrcoef(samples.T)[np.triu_indices(4, 1)]
    assert (np.abs(off_diagonal) < 4 / np.sqrt(n)).all()


def test_sampling_is_a_function_of_the_key():
    predictive = one_mixture()
    assert (predictive.sample(0, 5) == predictive.sample(0, 5)).all()
    assert (predictive.sample(0, 5) != predictive.sample(1, 5)).any()


@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.std,
        lambda p: p.cdf(0.0),
        lambda p: p.log_prob(0.0),
        lambda p: p.quantile(0.5),
        lambda p: p.interval(0.9),
        lambda p: p.sample(0, 3),
    ],
)
def test_a_point_predictor_says_that_it_has_no_distribution(ask):
    with pytest.raises(NoDistributionError, match="predicts a point, not a distribution"):
        ask(Predictive(np.zeros((1, 3)), None))


def test_a_point_predictor_still_has_a_mean_and_a_frame():
    predictive = Predictive(np.array([[1.0, 2.0], [3.0, 4.0]]), None)
    assert predictive.is_point
    assert (predictive.mean == [2, 3]).all()
    assert list(predictive.to_frame().columns) == ["mean"]
    assert "point" in repr(predictive)


def test_frame_has_one_row_per_point_and_named_quantiles():
    predictive = one_mixture()
    frame = predictive.to_frame((0.025, 0.5))
    assert list(frame.columns) == ["mean", "std", "q2.5", "q50"]
    assert np.allclose(frame["q2.5"], predictive.quantile(0.025))
    assert len(frame) == len(predictive) == 4


def test_functions_are_the_draws_or_an_error_that_says_what_to_use():
    draws = np.zeros((5, 4))
    assert Predictive(np.zeros((1, 4)), np.ones((1, 4)), draws).functions.shape == (5, 4)
    with pytest.raises(NoDistributionError, match=r"use \.sample"):
        _ = one_mixture().functions


def test_scales_broadcast_and_one_row_of_means_is_one_component():
    predictive = Predictive(np.zeros(3), 2.0)
    assert predictive.locs.shape == predictive.scales.shape == (1, 3)
    assert (predictive.std == 2).all()


@pytest.mark.parametrize(
    ("locs", "scales", "message"),
    [
        ([[np.nan]], [[1.0]], "finite means"),
        ([[0.0]], [[0.0]], "positive standard deviations"),
        ([[0.0]], [[-1.0]], "positive standard deviations"),
        ([[0.0]], [[np.inf]], "positive standard deviations"),
        (np.zeros((2, 3, 4)), np.ones((2, 3, 4)), r"means have shape \(2, 3, 4\)"),
        (np.zeros((0, 4)), np.ones((0, 4)), r"means have shape \(0, 4\)"),
        (np.zeros((2, 4)), np.ones((3, 4)), r"deviations have shape \(3, 4\).*\(2, 4\)"),
    ],
)
def test_bad_components_are_refused(locs, scales, message):
    with pytest.raises(ValueError, match=message):
        Predictive(np.asarray(locs), np.asarray(scales))


def test_draws_must_match_the_points():
    with pytest.raises(ValueError, match=r"draws have shape \(5, 3\); expected \(S, 4\)"):
        Predictive(np.zeros((1, 4)), np.ones((1, 4)), np.zeros((5, 3)))


def weighted(seed=0, components=3, points=4):
    """A mixture with weights, and one of equal components, repeated, that is the same."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, components)
    locs, scales = rng.normal(size=(components, points)), rng.uniform(0.3, 2, (components, points))
    repeated = Predictive(np.repeat(locs, counts, axis=0), np.repeat(scales, counts, axis=0))
    return Predictive(locs, scales, weights=counts / counts.sum()), repeated


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_numbers_of_equal_components(seed):
    one, other = weighted(seed)
    y = np.random.default_rng(1).normal(size=(6, 4))
    levels = np.array([0.0, 1e-6, 0.05, 0.5, 0.9, 1.0])
    assert np.allclose(one.mean, other.mean, rtol=1e-12)
    assert np.allclose(one.std, other.std, rtol=1e-12)
    assert np.allclose(one.cdf(y), other.cdf(y), rtol=1e-12)
    assert np.allclose(one.log_prob(y), other.log_prob(y), rtol=1e-12)
    assert np.allclose(one.log_prob(0.3), other.log_prob(0.3), rtol=1e-12)
    assert np.allclose(one.quantile(levels), other.quantile(levels), rtol=1e-9)
    assert np.allclose(one.affine(3.0, -7.0).interval(0.8), other.affine(3.0, -7.0).interval(0.8), rtol=1e-9)


def test_samples_come_by_weight():
    predictive, n = weighted(4)[0], 20_000
    samples = predictive.sample(0, n)
    assert np.all(np.abs(samples.mean(0) - predictive.mean) < 4 * predictive.std / np.sqrt(n))
    below = (samples <= predictive.mean).mean(0)
    expected = predictive.cdf(predictive.mean)
    assert np.all(np.abs(below - expected) < 4 * np.sqrt(expected * (1 - expected) / n))


def test_weights_sum_to_one():
    single = np.float32([0.1, 0.2, 0.7])
    assert Predictive(np.zeros((3, 2)), 1.0, weights=single).weights.sum() == pytest.approx(1, abs=1e-15)
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        Predictive(np.zeros((3, 2)), 1.0, weights=[0.5, 0.5])
    for wrong in ([0.2, 0.2, 0.2], [-0.1, 0.1, 1.0], [np.nan, 0.5, 0.5]):
        with pytest.raises(ValueError, match="sum to one"):
            Predictive(np.zeros((3, 2)), 1.0, weights=wrong)


def test_a_weighted_point_prediction_has_the_weighted_mean():
    assert np.allclose(Predictive([[0.0], [1.0]], None, weights=[0.25, 0.75]).mean, 0.75)


def test_a_mixture_of_mixtures_has_the_weighted_density():
    rng = np.random.default_rng(5)
    parts = [
        Mixture(rng.normal(size=(n, 5)), rng.uniform(0.5, 1, (n, 5)), weights=w)
        for n, w in ((3, None), (2, np.array([0.3, 0.7])))
    ]
    y = rng.normal(size=5)
    both, *alone = (np.exp(Predictive(*part).log_prob(y)) for part in (mix(parts, np.array([0.2, 0.8])), *parts))
    assert np.allclose(both, 0.2 * alone[0] + 0.8 * alone[1], rtol=1e-5)
    assert mix([parts[0], parts[1]._replace(scales=None)], np.array([0.2, 0.8])).scales is None


def test_draws_of_a_mixture_come_in_proportion():
    numbered = [
        Mixture(np.zeros((1, 2)), np.ones((1, 2)), 100.0 * i + np.arange(n)[:, None] * np.ones(2))
        for i, n in enumerate((3, 10))
    ]
    draws = np.asarray(mix(numbered, np.array([0.4, 0.6])).draws)
    assert draws[:, 0].tolist() == [0, 1, 2, 0, 100, 101, 102, 103, 104, 105]
    assert np.array_equal(draws[:, 0], draws[:, 1])  # joint: a row is one draw of one member
    without = [numbered[0], numbered[1]._replace(draws=None)]
    assert mix(without, np.array([0.4, 0.6])).draws is None


def test_a_cdf_never_exceeds_one_by_the_rounding_of_weights():
    weights = np.random.default_rng(0).dirichlet(np.ones(25), 200)
    assert all(Predictive(np.zeros((25, 1)), np.ones((25, 1)), None, each).cdf([50.0])[0] <= 1 for each in weights)
