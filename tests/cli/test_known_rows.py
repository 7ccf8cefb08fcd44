"""Columns of known noise, replicate counts and weights in the commands."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from own_table import run

import scoreprior as sp

COLUMNS = ("--task", "probe", "--inputs", "hour", "--target", "level")


def probes(number: int = 8, points: int = 8, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frames = []
    for probe in range(number):
        error = rng.choice([0.05, 2.0], points)
        level = rng.normal(10, 1) + rng.normal(0, 0.05 + error)
        known = {"error": error, "times": rng.integers(1, 5, points), "trust": 1 + probe % 3}
        frames.append(pd.DataFrame({"probe": f"p{probe}", "hour": range(points), "level": level.round(3), **known}))
    return pd.concat(frames, ignore_index=True)


def write(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, index=False)
    return path


def fit(table: Path, *options: object):
    return run("fit", table, *COLUMNS, "--out", table.with_suffix(".prior"), "--no-hold-out", *options)


@pytest.mark.parametrize(
    ("options", "change", "told"),
    [
        (("--noise", "sigma"), {}, "'sigma'"),
        (("--noise", "hour"), {}, "Column 'hour' is used twice"),
        (("--noise", "error"), {"error": -1.0}, "Column 'error' is -1 in row 2; it is a standard deviation"),
        (("--replicates", "times"), {"times": 0}, "Column 'times' is 0 in row 2"),
        (("--weight", "trust"), {"trust": 0}, "Column 'trust' is 0 in row 2"),
        (("--weight", "times"), {}, "The weights of task 'p0' run from 1 to 4: a task has one"),
        (("--noise", "error"), {}, "cannot use known noise or replicate counts; pooled-gp, hierarchical-gp"),
        (("--weight", "trust"), {}, "cannot use weights of tasks; pooled-gp and hierarchical-gp can"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(tmp_path, options, change, told):
    result = fit(write(tmp_path / "probes.csv", probes().assign(**change)), *options, "--method", "ridge")
    assert result.exit_code in (1, 2)
    assert told in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "probes.prior").exists()


def test_rows_without_their_noise_are_left_out(tmp_path):
    table = probes()
    table.loc[3, "error"] = np.nan
    result = fit(write(tmp_path / "probes.csv", table), "--noise", "error", "--method", "vanilla-gp")
    assert result.exit_code == 0, result.output
    assert "1 row without error" in result.stderr
    assert "error: the known standard deviation of a target" in result.stderr


def test_frames_and_files_are_read_alike(tmp_path):
    known = {"noise": "error", "replicates": "times", "weight": "trust"}
    options = {"task": "probe", "inputs": "hour", "target": "level", **known}
    frame = probes().sample(frac=1, random_state=0)
    one = sp.TaskSet.from_frame(frame, **options)
    other = sp.TaskSet.from_file(write(tmp_path / "probes.csv", frame), **options)
    for task, same in zip(one, other):
        rows = frame[frame["probe"] == task.name].sort_values("hour")
        np.testing.assert_array_equal(task.noise, rows["error"])
        np.testing.assert_array_equal(task.replicates, rows["times"])
        assert task.weight == same.weight == rows["trust"].iloc[0]
        np.testing.assert_array_equal(task.noise, same.noise)
        np.testing.assert_array_equal(task.replicates, same.replicates)
    with pytest.raises(sp.TaskError, match="Column 'error' is -1 in row"):
        sp.TaskSet.from_frame(frame.assign(error=-1.0), **options)
    with pytest.raises(sp.TaskError, match="no column 'sigma'"):
        sp.TaskSet.from_frame(frame, **options | {"noise": "sigma"})


@pytest.mark.slow
def test_a_prior_remembers_its_columns_of_noise(tmp_path):
    table = write(tmp_path / "probes.csv", probes(20))
    prior = table.with_suffix(".prior")
    known = ("--noise", "error", "--replicates", "times", "--weight", "trust")
    result = run("fit", table, *COLUMNS, "--out", prior, "--quick", "--method", "pooled-gp", *known)
    assert result.exit_code == 0, result.output
    assert "Rules that cannot use noise or replicates or weight are not compared with: last-value" in result.stderr
    new = probes(1, seed=1).assign(level=[10.0] * 7 + [13.0])
    means = []
    for error in (0.05, 5.0):
        noisy = new.assign(error=[0.05] * 7 + [error])
        result = run("predict", prior, write(tmp_path / "new.csv", noisy), "--at", write(tmp_path / "at.csv", new[-1:]))
        assert result.exit_code == 0, result.output
        means.append(pd.read_csv(io.StringIO(result.stdout))["mean"][0])
    assert means[0] - 10 > 3 * abs(means[1] - 10)
    result = run("predict", prior, write(tmp_path / "bare.csv", new.drop(columns="error")))
    assert result.exit_code != 0
    assert "'error'" in result.output
