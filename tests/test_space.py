from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import scoreprior as sp
from scoreprior.space import Choice, Range, override, sample


@dataclass(frozen=True)
class Inner:
    rate: float = 1.0


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    steps: int = 3


def test_samples_stay_in_their_ranges_and_reach_both_ends():
    rng = np.random.default_rng(0)
    space = {"a": Range(1, 3), "b": Range(1e-3, 1e1, log=True), "c": Choice(("x", "y"))}
    drawn = [sample(space, rng) for _ in range(400)]
    assert {row["a"] for row in drawn} == {1, 2, 3}
    assert {row["c"] for row in drawn} == {"x", "y"}
    logs = np.log10([row["b"] for row in drawn])
    assert logs.min() >= -3
    assert logs.max() <= 1
    # Uniform in the logarithm: the mean of 400 is within 4 standard errors of the middle.
    assert abs(logs.mean() + 1) < 4 * (4 / np.sqrt(12)) / np.sqrt(400)


def test_override_reaches_nested_settings_and_changes_nothing_else():
    config = override(Outer(), {"inner.rate": 2.0, "steps": 7})
    assert config == Outer(Inner(2.0), 7)
    assert Outer() == Outer(Inner(1.0), 3)


@pytest.mark.parametrize("name", ["rate", "inner.speed", "steps.more"])
def test_a_wrong_name_says_what_there_is(name):
    with pytest.raises(ValueError, match="no setting"):
        override(Outer(), {name: 1})


def test_a_method_says_which_settings_it_has():
    with pytest.raises(ValueError, match="no setting 'colour'"):
        sp.learner("pooled-gp", colour=1)
    assert sp.learner("mars-gp", **{"training.steps": 7}).training.steps == 7  # type: ignore[attr-defined]


def test_ranges_that_are_none_are_refused():
    with pytest.raises(ValueError, match="low to high"):
        Range(2.0, 1.0)
    with pytest.raises(ValueError, match="low to high"):
        Range(0.0, 1.0, log=True)


@pytest.mark.parametrize("name", sp.methods())
def test_every_draw_from_a_methods_space_is_a_config_of_it(name: str):
    learner = sp.learner(name)
    space = getattr(learner, "space", {})
    assert space or name in {
        "last-value",
        "context-mean",
        "newest-lag",
        "ridge",
        "vanilla-gp",
        "pooled-gp",
        "hierarchical-gp",
        "stack",
        "interpolated-mixture",
    }
    rng = np.random.default_rng(0)
    for _ in range(10):
        values = sample(space, rng)
        changed = override(learner, values)
        for setting, value in values.items():
            part = changed
            for step in setting.split("."):
                part = getattr(part, step)
            assert part == value
