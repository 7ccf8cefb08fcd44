"""Checks of settings, and a share of a count."""

from types import SimpleNamespace

import numpy as np
import pytest

from scoreprior._budget import share_of
from scoreprior._settings import check_choice, check_counts, check_hidden, check_positive


@pytest.mark.parametrize("value", [0, -3, 1.5, float("nan"), "two"])
def test_a_count_is_a_whole_number_of_at_least_one(value):
    with pytest.raises(ValueError, match=r"steps must be at least 1"):
        check_counts(SimpleNamespace(steps=value), "steps")


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_is_positive_and_finite(value):
    with pytest.raises(ValueError, match="rate must be positive"):
        check_positive(SimpleNamespace(rate=value), "rate")


def test_what_makes_sense_is_accepted():
    config = SimpleNamespace(steps=np.int64(3), batch=None, rate=1e-9, noise=None)
    check_counts(config, "steps", "batch")
    check_positive(config, "rate", "noise")
    check_choice("kind", "a", ("a", "b"))
    check_hidden((1,))


def test_a_choice_names_the_setting_and_what_is_allowed():
    with pytest.raises(ValueError, match="kind is one of a, b, not 'c'"):
        check_choice("kind", "c", ("a", "b"))


@pytest.mark.parametrize("hidden", [(), (3, 0)])
def test_a_network_has_hidden_units(hidden):
    with pytest.raises(ValueError, match="hidden"):
        check_hidden(hidden)


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(1000, 0.05, 50), (1000, 1.0, 1000), (100, 0.05, 20), (7, 0.5, 7), (30, 0.5, 20)]
)
def test_a_share_keeps_at_least_twenty_or_all(count, share, expected):
    assert share_of(count, share) == expected
