"""Several targets: a row for each cell that is there, each target in its own units, and what one tells of another."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ZeroMean
from scoreprior.inference import ClosedForm
from scoreprior.learners._function_prior import FunctionPrior

TARGETS = ["height", "width"]


def plants(number: int = 12, seed: int = 0) -> pd.DataFrame:
    """Width follows height, in other units; some cells are missing."""
    rng = np.random.default_rng(seed)
    frames = []
    for plant in range(number):
        day, size = np.arange(6.0), rng.normal()
        height = 100 + 20 * (size + day / 6) + rng.normal(0, 1, 6)
        width = 0.3 + 0.05 * (size + day / 6) + rng.normal(0, 0.0025, 6)
        frames.append(pd.DataFrame({"plant": f"p{seed}-{plant}", "day": day, "height": height, "width": width}))
    table = pd.concat(frames, ignore_index=True)
    table.loc[::5, "height"] = np.nan
    table.loc[::7, "width"] = np.nan
    return table


def read(table: pd.DataFrame, **options) -> sp.TaskSet:
    return sp.TaskSet.from_frame(table, task="plant", inputs="day", **({"target": TARGETS} | options))


def test_every_cell_that_is_there_is_a_row(tmp_path):
    table = plants()
    tasks = read(table)
    assert tasks.input_names == ("day", "target=height", "target=width")
    assert tasks.target_name == "height, width"
    for task in tasks:
        rows = table[table["plant"] == task.name]
        for at, name in enumerate(TARGETS, start=1):
            there = rows[name].notna()
            own = task.x[:, at] == 1
            np.testing.assert_array_equal(task.y[own], rows[name][there])
            np.testing.assert_array_equal(task.x[own, 0], rows["day"][there])
        assert (task.x[:, 1:].sum(axis=1) == 1).all()
    table.to_csv(tmp_path / "plants.csv", index=False)
    same = sp.TaskSet.from_file(tmp_path / "plants.csv", task="plant", inputs="day", target=TARGETS)
    np.testing.assert_allclose(same.y, tasks.y)
    np.testing.assert_array_equal(read(table, encoding=tasks.encoding).x, tasks.x)
    heights = read(table, target=["height"], encoding=tasks.encoding)
    assert (heights.x[:, 1] == 1).all()
    assert heights.dim == 3


def test_each_target_has_its_own_units():
    tasks = read(plants())
    scaled = sp.Standardizer.fit(tasks).apply(tasks)
    for at in (1, 2):
        own = scaled.y[tasks.x[:, at] == 1]
        assert own.mean() == pytest.approx(0, abs=1e-9)
        assert own.std() == pytest.approx(1)
    # Metres for centimetres change nothing but metres.
    metres = plants().assign(height=lambda rows: rows["height"] / 100)
    query = [[3.0, 1, 0], [3.0, 0, 1]]
    means = [
        sp.learner("ridge").fit(each, 0).condition(each[0].x[:4], each[0].y[:4], 0).predict(query).mean
        for each in (tasks, read(metres))
    ]
    np.testing.assert_allclose(means[1] * [100, 1], means[0], rtol=1e-4)
    assert means[0] == pytest.approx([110, 0.32], rel=0.3)


def prior(scaler: sp.Standardizer, between: float) -> FunctionPrior:
    """A process with this lengthscale between channels."""
    kernel = Matern(jnp.float32(1.0), jnp.array([1.0, between, between], jnp.float32), 2.5)
    return FunctionPrior(scaler, ClosedForm(GaussianProcess(ZeroMean(), kernel, jnp.float32(0.05))))


def test_channels_far_apart_are_separate_processes_and_channels_at_one_place_are_one_function():
    tasks = read(plants())
    scaler, task = sp.Standardizer.fit(tasks), tasks[0]
    query = np.array([[2.5, 1, 0], [4.5, 1, 0]])
    own = task.take(task.x[:, 1] == 1)
    apart = [prior(scaler, 1e-3).condition(each.x, each.y, 0).predict(query) for each in (task, own)]
    np.testing.assert_allclose(apart[0].mean, apart[1].mean, rtol=1e-5)
    np.testing.assert_allclose(apart[0].std, apart[1].std, rtol=1e-4)
    other = task.take(task.x[:, 2] == 1)
    swapped = other.x[:, [0, 2, 1]]
    (mean, mean_width), (std, std_width) = scaler.channels.means, scaler.channels.stds
    same = [
        prior(scaler, 1e4).condition(other.x, other.y, 0).predict(query),
        prior(scaler, 1e4).condition(swapped, mean + std * (other.y - mean_width) / std_width, 0).predict(query),
    ]
    np.testing.assert_allclose(same[0].mean, same[1].mean, rtol=1e-4)
    np.testing.assert_allclose(same[0].std, same[1].std, rtol=1e-3)
    draws = prior(scaler, 1.0).condition(task.x, task.y, 0).sample([[2.5, 1, 0], [2.5, 0, 1]], 0, 400)
    assert draws[:, 0].mean() == pytest.approx(apart[0].mean[0], rel=0.1)
    assert 0 < draws[:, 1].mean() < 1


def test_files_keep_the_scales_of_targets(tmp_path):
    tasks = read(plants())
    learned = sp.learner("ridge").fit(tasks, 0)
    learned.save(tmp_path / "plants.prior")
    loaded = sp.load_prior(tmp_path / "plants.prior")
    query = loaded.encode(pd.DataFrame({"day": [3.0, 3.0], "target": TARGETS}))
    np.testing.assert_array_equal(query, [[3, 1, 0], [3, 0, 1]])
    one, other = (each.condition(tasks[0].x, tasks[0].y, 0).predict(query) for each in (learned, loaded))
    np.testing.assert_array_equal(one.mean, other.mean)


def test_what_is_no_set_of_targets_is_refused():
    table = plants()
    with pytest.raises(sp.TaskError, match="different columns, not height, height"):
        read(table, target=["height", "height"])
    with pytest.raises(sp.TaskError, match="none may be the task or an input"):
        read(table, target=["height", "day"])
    with pytest.raises(sp.TaskError, match="no input may be called 'target'"):
        sp.TaskSet.from_frame(table.rename(columns={"day": "target"}), task="plant", inputs="target", target=TARGETS)
    with pytest.raises(sp.TaskError, match="Several targets are real ones"):
        sp.learner("ridge").fit(read(table, target_kind=sp.Positive()), 0)
    tasks = read(table)
    learned = sp.learner("ridge").fit(tasks, 0)
    with pytest.raises(sp.TaskError, match="Every row is of one target"):
        learned.condition(tasks[0].x, tasks[0].y, 0).predict([[3.0, 1, 1]])
    with pytest.raises(sp.TaskError, match="there are several"):
        sp.learner("newest-lag").fit(tasks, 0)


@pytest.mark.slow
def test_height_tells_of_width():
    prior = sp.learner("pooled-gp").fit(read(plants(20)), 0)
    new = plants(15, seed=1).dropna()
    heights = read(new, target=["height"], encoding=prior.encoding)
    rows = [new[new["plant"] == task.name] for task in heights]
    queries = [prior.encode(each.assign(target="width")) for each in rows]
    predicted = prior.condition_many(heights, 0).predict(queries)
    error = np.sqrt(np.mean(np.concatenate([p.mean - r["width"] for p, r in zip(predicted, rows)]) ** 2))
    assert error < 0.4 * new["width"].std()
