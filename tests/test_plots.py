"""Plots: they take an axis and give it back, and what they draw is what was given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.stats import binom, norm

from scoreprior import Predictive, Task, TaskSet, plots


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


@pytest.fixture
def predictive() -> Predictive:
    return Predictive(np.array([3.0, 1.0, 2.0]), np.array([0.5, 1.0, 2.0]))


X = np.array([2.0, 0.0, 1.0])


def labels(ax: Axes) -> list[str]:
    return ax.get_legend_handles_labels()[1]


def test_the_band_is_sorted_and_holds_its_quantiles(ax, predictive):
    context = Task([0.5], [1.0])
    assert plots.posterior_band(ax, X, predictive, context=context, truth=Task([1.5], [2.0])) is ax
    line, truth, known = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2])
    np.testing.assert_array_equal(line.get_ydata(), [1, 2, 3])
    np.testing.assert_array_equal(known.get_ydata(), [1])
    np.testing.assert_array_equal(truth.get_xdata(), [1.5])
    outer = ax.collections[0].get_paths()[0].vertices
    # At x = 1: N(2, 2^2), so the 90% interval is 2 -+ 1.645 * 2.
    np.testing.assert_allclose(sorted(set(outer[outer[:, 0] == 1.0, 1])), norm.ppf([0.05, 0.95], 2, 2), atol=1e-6)


def test_point_predictions_have_no_band(ax):
    plots.posterior_band(ax, X, Predictive(np.zeros(3), None))
    plots.posterior_points(ax, X, Predictive(np.zeros(3), None), context=Task(np.zeros((0, 1)), np.zeros(0)))
    assert len(ax.collections) == 0
    assert "known points" not in labels(ax)


def test_points_have_their_intervals(ax, predictive):
    assert plots.posterior_points(ax, X, predictive) is ax
    segment = ax.collections[0].get_segments()[0]
    np.testing.assert_allclose(segment, [[2, norm.ppf(0.05, 3, 0.5)], [2, norm.ppf(0.95, 3, 0.5)]], atol=1e-6)


def test_prior_draws_shows_tasks_draws_and_prediction(ax, predictive):
    tasks = TaskSet([Task([1.0, 0.0], [5.0, 4.0]), Task([0.0], [1.0])])
    draws = np.arange(6.0).reshape(2, 3)
    assert plots.prior_draws(ax, X, predictive, draws=draws, tasks=tasks) is ax
    assert len(ax.lines) == 2 + 1 + 2
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [4, 5])
    np.testing.assert_array_equal(ax.lines[3].get_ydata(), draws[0][[1, 2, 0]])
    assert labels(ax) == ["training tasks", "mean, 50% and 90% intervals", "draws"]


def test_reliability_is_the_share_below_every_level(ax):
    pits = np.array([0.1, 0.2, 0.2, 0.9])
    assert plots.reliability_diagram(ax, {"a": pits, "b": pits**2}, levels=11) is ax
    line = ax.lines[1]
    np.testing.assert_allclose(line.get_ydata(), [np.mean(pits <= level) for level in np.linspace(0, 1, 11)])
    assert labels(ax) == ["calibrated (90% band)", "a", "b"]
    band = ax.collections[0].get_paths()[0].vertices
    middle = sorted(set(band[np.isclose(band[:, 0], 0.5), 1]))
    np.testing.assert_allclose(middle, binom.ppf([0.05, 0.95], 4, 0.5) / 4)


def test_calibrated_pits_stay_in_the_band(ax):
    pits = np.random.default_rng(0).uniform(size=2000)
    plots.reliability_diagram(ax, {"a": pits}, levels=51)
    grid, share = ax.lines[1].get_data()
    inside = (share >= binom.ppf(0.05, 2000, grid) / 2000) & (share <= binom.ppf(0.95, 2000, grid) / 2000)
    # Neighbouring levels move together, so most of them are inside or few; this seed is an ordinary one.
    assert inside.mean() > 0.8


def test_the_pit_histogram_is_a_density(ax):
    pits = np.random.default_rng(0).beta(0.5, 0.5, 500)
    assert plots.pit_histogram(ax, pits, bins=5) is ax
    bars = [patch for patch in ax.patches if patch.get_width() == pytest.approx(0.2)]
    heights = [bar.get_height() for bar in bars]
    np.testing.assert_allclose(heights, np.histogram(pits, 5, (0, 1), density=True)[0])
    assert heights[0] > heights[2] < heights[4]


def test_learning_curves_have_intervals_where_there_are_errors(ax):
    curves = {"a": ([5, 10], [2.0, 1.0], [0.1, 0.2]), "b": ([5, 10], [3.0, 2.0], None)}
    assert plots.learning_curve(ax, curves, xlabel="tasks") is ax
    assert labels(ax) == ["a", "b"]
    (band,) = ax.collections
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(2 + 1.96 * 0.1)
    assert ax.get_xlabel() == "tasks"


def test_the_comparison_has_the_best_on_top_and_leaves_out_what_has_no_figure(ax):
    summary = pd.DataFrame({"method": ["a", "b", "c"], "nll": [1.0, 0.5, np.nan], "nll_se": [0.1, np.nan, np.nan]})
    assert plots.method_comparison(ax, summary, "nll", reference="a", highlight=["b"]) is ax
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]
    low, high = ax.containers[0].lines[2][0].get_segments()[0][:, 0]
    assert (low, high) == (pytest.approx(1 - 0.196), pytest.approx(1 + 0.196))
    assert ax.lines[-1].get_xdata()[0] == 1.0


def test_colours_differ_in_grey_or_hue():
    """Any two of the palette differ is_significant in the two directions that all common colour-blindness leaves."""
    rgb = np.array([to_rgb(colour) for colour in plots.PALETTE])
    luminance = rgb @ [0.2126, 0.7152, 0.0722]
    blueness = rgb[:, 2] - rgb[:, :2].mean(1)
    for i in range(len(rgb)):
        for j in range(i):
            assert abs(luminance[i] - luminance[j]) > 0.05 or abs(blueness[i] - blueness[j]) > 0.3
