"""`scoreprior update`: further tasks, without those that the prior knows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from own_table import COLUMNS, run

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.learners.gaussian_process import PooledGP
from scoreprior.serialization import describe, load_prior


def write(path, patients):
    lines = ["patient,hour,gcs"]
    for patient in patients:
        rng = np.random.default_rng(patient)
        lines += [f"{patient},{hour},{10 + 3 * rng.normal() + 0.1 * hour:.4f}" for hour in range(5)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def process_file(tmp_path, monkeypatch):
    """A process of six patients, hardly fitted: what matters is that it is updated."""
    config = ProcessConfig(
        ("matern52",), mean="linear", frequencies=0, starts=1, evidence_evaluations=2, tuning_evaluations=0
    )
    monkeypatch.setattr("scoreprior.cli._judgement.learner", lambda name: PooledGP(config))
    path = tmp_path / "gcs.prior"
    result = run(
        "fit", write(tmp_path / "a.csv", range(6)), *COLUMNS, "--method", "pooled-gp", "--no-hold-out", "--out", path
    )
    assert result.exit_code == 0, result.output
    return path


def test_new_tasks_are_learned_once(process_file, tmp_path):
    out = tmp_path / "more.prior"
    table = write(tmp_path / "b.csv", range(4, 10))
    result = run("update", process_file, table, "--out", out)
    assert result.exit_code == 0, result.output
    assert "2 tasks that the prior knows already are left out" in result.output
    data = np.loadtxt(table, delimiter=",", skiprows=1).reshape(6, 5, 3)[2:]
    new = sp.TaskSet.from_arrays(list(data[..., 1:2]), list(data[..., 2]))
    x = np.linspace(0, 4, 3)[:, None]
    expected = load_prior(process_file).update(new).condition([], [], 0).predict(x)
    found = load_prior(out).condition([], [], 0).predict(x)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-5)
    before = load_prior(process_file).condition([], [], 0).predict(x)
    assert (found.function_std < before.function_std).all()  # more is known of what tasks share
    header = describe(out)
    assert header["method"] == "pooled-gp"
    assert header["extra"]["training"]["tasks"] == len(header["extra"]["training"]["fingerprints"]) == 10
    again = run("update", out, table, "--out", tmp_path / "again.prior")
    assert again.exit_code == 2
    assert "learned from all tasks" in again.output


def test_it_may_take_the_place_of_the_old_file(process_file, tmp_path):
    result = run("update", process_file, write(tmp_path / "b.csv", [7]), "--out", process_file, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tasks"] == 7


def test_a_method_without_a_formula_says_what_to_do(prior, tmp_path):
    result = run("update", prior, write(tmp_path / "b.csv", [7]), "--out", tmp_path / "c.prior", "--inputs", "hour")
    assert result.exit_code == 2
    assert "fit it again to all tasks" in result.output
    assert not (tmp_path / "c.prior").exists()
