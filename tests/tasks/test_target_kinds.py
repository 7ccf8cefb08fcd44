"""Kinds of targets: ranges, maps and their inverses, what a recorded value stands for, the doors in and out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scoreprior as sp
from scoreprior.tasks.warp import Identity, Log, Logit

WARPS = {
    "positive": Log(0.0, np.inf, 0.0, 0.0, False),
    "positive in steps": Log(0.5, np.inf, 0.5, 0.5, True),
    "count": Log(0.0, np.inf, 0.5, 1.0, True),
    "score": Logit(3.0, 15.0, 0.5, 1.0, True),
    "score and means": Logit(3.0, 15.0, 0.5, 1.0, False),
    "percentage": Logit(0.0, 100.0, 0.2, 0.0, False),
}
DISCRETE = [name for name, warp in WARPS.items() if warp.discrete]


def values(warp, share):
    """A value in the map's range, at this share of it (of the first hundred, if it has no end)."""
    high = warp.high if np.isfinite(warp.high) else warp.low + 100.0
    return warp.low - warp.room + share * (high - warp.low + 2 * warp.room)


@pytest.mark.parametrize("name", WARPS)
@given(share=st.floats(1e-6, 1 - 1e-6))
def test_the_inverse_undoes_the_map_and_both_rise(name, share):
    warp = WARPS[name]
    u = np.array(values(warp, share))
    np.testing.assert_allclose(warp.inverse(warp.forward(u)), u, rtol=1e-9, atol=1e-9)
    further = values(warp, share + 5e-7)
    assert warp.forward(np.array(further)) > warp.forward(u)
    slope = (warp.forward(u + 1e-7) - warp.forward(u - 1e-7)) / 2e-7
    np.testing.assert_allclose(warp.log_slope(u), np.log(slope), atol=0.1)


@pytest.mark.parametrize("name", WARPS)
@given(z=st.floats(-40, 40), other=st.floats(-40, 40))
def test_what_is_recorded_can_occur_and_rises_with_the_latent_value(name, z, other):
    warp = WARPS[name]
    low, high = (warp.recorded(np.array(each)) for each in sorted((z, other)))
    assert warp.low <= low <= high <= warp.high
    if warp.discrete and high < 1e6:
        np.testing.assert_allclose(high / warp.step, np.round(high / warp.step), atol=1e-6)


@pytest.mark.parametrize("name", WARPS)
@given(z=st.floats(-30, 30))
def test_a_latent_value_lies_between_the_thresholds_of_what_is_recorded_of_it(name, z):
    warp = WARPS[name]
    if z > 13 and warp.discrete and not np.isfinite(warp.high):
        return  # beyond half a million, the thresholds of neighbours are apart by round-off alone
    y = warp.recorded(np.array(z))
    slack = 1e-7 * max(1.0, abs(z))
    assert warp.below(y) - slack <= z <= warp.up_to(y) + slack


@pytest.mark.parametrize("name", DISCRETE)
def test_the_intervals_of_discrete_values_fill_the_line(name):
    warp = WARPS[name]
    top = warp.high if np.isfinite(warp.high) else 40.0
    y = np.arange(warp.low, top + warp.step / 2, warp.step)
    low, high = warp.interval(y)
    assert low[0] == -np.inf
    np.testing.assert_allclose(low[1:], high[:-1])
    np.testing.assert_array_equal(low, warp.below(y))
    np.testing.assert_allclose(high, warp.up_to(y))
    if np.isfinite(warp.high):
        assert high[-1] == np.inf


def test_a_value_on_the_bound_of_a_continuous_target_stands_for_all_beyond_and_others_for_themselves():
    warp = WARPS["percentage"]
    low, high = warp.interval(np.array([0.0, 30.0, 100.0]))
    np.testing.assert_array_equal(low[:2], [-np.inf, warp.forward(np.array(30.0))])
    np.testing.assert_array_equal(high[1:], [warp.forward(np.array(30.0)), np.inf])
    assert np.isfinite([high[0], low[2]]).all()


def test_the_map_is_fitted_to_how_targets_were_recorded():
    rng = np.random.default_rng(0)
    scores = rng.integers(3, 16, 500).astype(float)
    assert sp.Bounded(3, 15).warp(scores) == Logit(3.0, 15.0, 2.0, 1.0, True)
    some = scores.copy()
    some[:5] = 13.5  # the means of two scores
    assert sp.Bounded(3, 15).warp(some).discrete
    shares = rng.beta(2, 5, 500)
    found = sp.BinaryRate().warp(shares)
    assert (found.step, found.discrete, found.low, found.high) == (0.0, False, 0.0, 1.0)
    assert found.room == 0.1
    percents = rng.integers(0, 1001, 5000) / 10
    assert sp.Bounded(0, 100).warp(percents) == Logit(0.0, 100.0, 10.0, 0.1, True)
    assert sp.Positive().warp(rng.lognormal(size=500)) == Log(0.0, np.inf, 0.0, 0.0, False)
    assert sp.Positive().warp(rng.integers(1, 40, 500) / 10).low == 0.1
    assert sp.Count().warp(rng.poisson(3.0, 500).astype(float)).discrete
    assert sp.Real().warp(shares) == Identity()
    assert sp.Bounded(0, 1).warp(shares) == found


@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        (sp.Bounded(3, 15), 17.0, "bounded by 3 and 15, but y of p1 is 17"),
        (sp.Positive(), 0.0, "above 0, but y of p1 is 0"),
        (sp.Count(), 2.5, "whole number, 0 or more, but y of p1 is 2.5"),
        (sp.BinaryRate(), -0.1, "rate from 0 to 1, but y of p1 is -0.1"),
    ],
)
def test_a_value_that_cannot_occur_is_refused_with_its_task(kind, bad, words):
    good = 1.0 if kind.name != "bounded" else 4.0
    tasks = [sp.Task([0.0, 1.0], [good, good], "p0"), sp.Task([0.0, 1.0], [good, bad], "p1")]
    with pytest.raises(sp.TaskError, match=words):
        sp.TaskSet(tasks, target=kind)
    with pytest.raises(sp.TaskError, match=words):
        sp.TaskSet(tasks).with_target(kind)


@pytest.mark.parametrize("bounds", [(3, 3), (5, 3), (0, np.inf), (np.nan, 1)])
def test_bounds_are_finite_and_in_order(bounds):
    with pytest.raises(sp.TaskError, match="finite numbers"):
        sp.Bounded(*bounds)


def test_the_kind_stays_with_the_tasks_and_a_wrong_one_is_refused(tmp_path):
    kind = sp.Bounded(0, 10)
    xs, ys = [[0.0, 1.0, 2.0]] * 4, [[0.0, 3.0, 10.0]] * 4
    tasks = sp.TaskSet.from_arrays(xs, ys, target=kind)
    pairs = tasks.context_target(1)
    sets = (tasks[:2], tasks.take([1]), *tasks.split(2), pairs.context, pairs.target, tasks.map(lambda task: task))
    assert all(each.target == kind for each in sets)
    path = tmp_path / "table.csv"
    path.write_text("who,x,y\n" + "".join(f"p{i},{j},{j}\n" for i in range(3) for j in range(4)))
    read = sp.TaskSet.from_file(path, task="who", inputs="x", target="y", target_kind=sp.Count())
    assert read.target == sp.Count()
    with pytest.raises(sp.TaskError, match="kind of target"):
        sp.TaskSet(tasks.tasks, target="bounded")


def test_standardised_targets_go_through_the_map_and_back():
    rng = np.random.default_rng(0)
    tasks = sp.TaskSet.from_arrays(rng.normal(size=(5, 20)), rng.lognormal(2.0, 1.0, (5, 20)), target=sp.Positive())
    scaler = sp.Standardizer.fit(tasks)
    scaled = scaler.apply(tasks)
    np.testing.assert_allclose([scaled.y.mean(), scaled.y.std()], [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(scaler.scale_y(tasks.y), (np.log(tasks.y) - scaler.y_mean) / scaler.y_std)
    np.testing.assert_allclose(scaler.unscale_y(scaled.y), tasks.y)
    assert scaled.target == sp.Real()
    with pytest.raises(sp.TaskError, match="above 0"):
        scaler.apply(sp.TaskSet([sp.Task([0.0], [-1.0])]))


def test_another_kind_leaves_the_rest_of_a_set_as_it_is():
    frame = {"task": ["a", "a", "b", "b"], "place": ["north", "south", "south", "north"], "sold": [1.0, 2.0, 3.0, 5.0]}
    tasks = sp.TaskSet.from_frame(pd.DataFrame(frame), task="task", inputs="place", target="sold")
    changed = tasks.with_target(sp.Count())
    assert changed.encoding == tasks.encoding is not None
    assert (changed.input_names, changed.target_name) == (tasks.input_names, tasks.target_name)
