"""What is wrong with predictions that were made wrong in a known way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm

from scoreprior.diagnostics.pit_moments import NORMAL_TAILS, PitMoments

MADE = {
    "right": (norm(0, 1), (0, 0, 0, 0)),
    "too narrow": (norm(0, 1.6), (0, 1, 0, 0)),
    "too wide": (norm(0, 0.6), (0, -1, 0, 0)),
    "biased": (norm(0.4, 1), (1, 0, 0, 0)),
    "skewed": (stats.gamma(2, loc=-np.sqrt(2), scale=1 / np.sqrt(2)), (0, None, 1, None)),
    "skewed down": (stats.skewnorm(-6), (None, None, -1, None)),
    "heavy tails": (stats.t(3, scale=1 / np.sqrt(3)), (0, None, 0, 1)),
    "flat": (stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)), (0, None, 0, -1)),
}


def pits(distribution, tasks: int = 150, points: int = 8, seed: int = 0) -> list[np.ndarray]:
    """Those of a standard normal prediction where values have another distribution."""
    values = distribution.rvs(size=(tasks, points), random_state=np.random.default_rng(seed))
    return list(norm.cdf(values))


@pytest.mark.parametrize("name", MADE)
def test_wrong_width_wrong_shape_and_bias_are_told_apart(name):
    distribution, signs = MADE[name]
    found = PitMoments.of(pits(distribution))
    for moment, sign in zip(found, signs):
        assert sign is None or moment.sign == sign
    assert found.is_shape_wrong == (signs[2] in (1, -1) or signs[3] in (1, -1))


def test_two_groups_are_a_wrong_shape():
    rng = np.random.default_rng(1)
    values = 0.9 * rng.choice([-1, 1], (150, 8)) + 0.43 * rng.normal(size=(150, 8))
    found = PitMoments.of(list(norm.cdf(values)))
    assert found.tails.sign == -1
    assert "two groups" in found.words()


@pytest.mark.parametrize(
    ("name", "words", "others"),
    [
        ("right", "Centre, width and shape of the predicted distributions are right", "wrong"),
        ("too narrow", "error bars are too narrow, and should be 1.6 times as wide", "shape is wrong"),
        ("too wide", "error bars are too wide, and should be 0.", "shape is wrong"),
        ("skewed", "The shape is wrong: far values above", "predictions are too"),
    ],
)
def test_a_sentence_says_what_is_wrong(name, words, others):
    text = PitMoments.of(pits(MADE[name][0])).words()
    assert words.lower() in text.lower()
    assert others not in text


def test_the_moments_are_those_of_the_closed_forms():
    found = PitMoments.of(pits(norm(0.3, 2.0), 2000))
    assert [each.value for each in found] == pytest.approx([0.3, 2.0, 0.0, NORMAL_TAILS], abs=0.05)
    # Of independent points the standard error of the mean is known.
    assert found.centre.standard_error == pytest.approx(2.0 / np.sqrt(16000), rel=0.5)
    assert pytest.approx(30 / np.pi * np.arctan(np.sqrt(2)) - 9) == NORMAL_TAILS


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_what_is_right_is_rarely_called_wrong(correlation):
    """Points of a task miss together; each statement is wrong in one of a hundred cases."""
    rng, wrong, runs = np.random.default_rng(2), 0, 150
    for _ in range(runs):
        z = np.sqrt(correlation) * rng.normal(size=(30, 1)) + np.sqrt(1 - correlation) * rng.normal(size=(30, 6))
        wrong += sum(moment.sign != 0 for moment in PitMoments.of(list(norm.cdf(z))))
    assert wrong / (4 * runs) < 0.03


def test_too_few_tasks_and_points_without_a_distribution_say_nothing():
    assert PitMoments.of(pits(norm(), 4)) is None
    assert PitMoments.of([np.array([np.nan])] * 9) is None
    assert PitMoments.of([np.array([0.0, 1.0, 0.5])] * 9).spread.sign == 1  # beyond floating point, but finite
