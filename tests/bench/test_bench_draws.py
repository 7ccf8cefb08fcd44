"""Prior draws against true functions."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from scoreprior.bench import draws
from scoreprior.bench.draws import Comparison, draws_table, measure
from scoreprior.cli.bench import bench_app
from scoreprior.environments import dose_response as truth
from scoreprior.gp import GaussianProcess, Matern, ZeroMean
from scoreprior.inference import ClosedForm, Inference
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.tasks import Standardizer

NOISE = 0.5  # so large that it is found where it is missing, or there twice


class TrueDraws(Inference):
    """Draws of the true dose-response curves; `noise_std` is that of the noise on them."""

    noise_std: float

    def infer(self, context, key):
        raise AssertionError("only prior draws are compared")

    predict = draw = infer

    def sample(self, x, key):
        keys = jax.random.split(key, 4)
        slope = jnp.exp(jax.random.uniform(keys[0], (), minval=jnp.log(truth.SLOPE[0]), maxval=jnp.log(truth.SLOPE[1])))
        centre = jax.random.uniform(keys[1], (), minval=truth.CENTRE[0], maxval=truth.CENTRE[1])
        low, high = jnp.array(truth.LEVEL_MEAN) + jnp.array(truth.LEVEL_STD) * jax.random.normal(keys[2], (2,))
        noise = self.noise_std * jax.random.normal(keys[3], (len(x),))
        return low + (high - low) * jax.nn.sigmoid(slope * (x[:, 0] - centre)) + noise

    def describe(self):
        return "the truth"


class TrueObservations(TrueDraws):
    """The same, which says that it draws observations."""

    draws_observations = True


class Method:
    """A method that has learned these draws."""

    def __init__(self, inference):
        self.inference = inference

    def fit(self, tasks, key):
        return FunctionPrior(Standardizer(np.zeros(1), np.ones(1), 0.0, 1.0), self.inference)


@pytest.fixture(autouse=True)
def noisy(monkeypatch):
    monkeypatch.setattr(draws, "true_family", lambda name: replace(truth.DOSE_RESPONSE, noise_std=NOISE))


def standard_scores(record) -> list[float]:
    values = np.array([record["energy_distance"], record["two_true_samples"]])
    return (values.mean(1) / values.std(1, ddof=1) * np.sqrt(values.shape[1])).tolist()


@pytest.mark.parametrize(
    ("inference", "is_true"),
    [
        (TrueDraws(0.0), True),
        (TrueObservations(NOISE), True),
        (TrueDraws(NOISE), False),  # the noise is there twice
        (TrueObservations(0.0), False),  # it is missing
    ],
)
def test_draws_of_the_truth_are_at_the_level_of_two_true_samples(tmp_path, monkeypatch, inference, is_true):
    monkeypatch.setattr(draws, "learner", lambda name: Method(inference))
    wanted = Comparison("dose-response", "true", 0, tasks=5, points=4, draws=200, sets=30)
    record = measure(wanted, tmp_path)
    learned, level = standard_scores(record)
    assert abs(level) < 4
    assert abs(learned) < 4 if is_true else learned > 6
    assert record["draws_of"].startswith("observations" if inference.draws_observations else "functions")
    monkeypatch.setattr(Method, "fit", lambda *_: pytest.fail("what is recorded is not computed again"))
    assert measure(wanted, tmp_path) == record


def test_the_command_writes_records_and_a_table(tmp_path, monkeypatch):
    words = [
        "draws",
        "--env",
        "dose-response",
        "--method",
        "context-mean,ridge",
        "--tasks",
        "5",
        "--out",
        str(tmp_path),
    ]
    without = CliRunner().invoke(bench_app, words)
    assert without.exit_code == 2
    assert "context-mean cannot be compared: its prior has no `sample`." in without.stderr
    made = {"context-mean": TrueDraws(0.5), "ridge": TrueDraws(0.0)}
    monkeypatch.setattr(draws, "learner", lambda name: Method(made[name]))
    words += ["--points", "5", "--draws", "50", "--sets", "8", "--seeds", "2", "--json"]
    found = CliRunner().invoke(bench_app, words)
    assert found.exit_code == 0, found.output
    assert len(json.loads(found.stdout)["records"]) == len(list(tmp_path.glob("dose-response--*--tasks5.json"))) == 4
    text = (tmp_path / "draws.md").read_text()
    for name in (*made, "two true samples"):
        assert f"| {name} |" in text


def test_an_environment_without_true_functions_is_refused(tmp_path, monkeypatch):
    monkeypatch.undo()
    out = tmp_path / "none"
    words = ["draws", "--env", "dose-response,sinusoid", "--method", "ridge", "--out", str(out)]
    result = CliRunner().invoke(bench_app, words)
    assert result.exit_code == 2
    assert "sinusoid has no true functions to compare with" in result.stderr
    assert not out.exists()


def test_the_table_has_means_standard_errors_and_paired_differences():
    def record(method, values):
        named = {"environment": "sawtooth", "method": method}
        return {"comparison": named, "draws_of": "functions", "energy_distance": values, "two_true_samples": [0.0, 0.0]}

    table = draws_table([record("one", [1.0, 3.0]), record("two", [0.5, 2.5])])
    rows = {row.label: [value.text for value in row.values] for row in table.rows}
    assert rows["one"] == ["2.0 ± 1.0", "1.000", "-", "functions"]
    assert rows["two"] == ["1.5 ± 1.0", "0.750", "-0.500 ± 0.000", "functions"]


def test_a_process_draws_functions():
    process = GaussianProcess(ZeroMean(), Matern(jnp.float32(1.0), jnp.ones(1), 2.5), jnp.float32(0.5))
    prior = Method(ClosedForm(process)).fit(None, None)
    assert not prior.inference.draws_observations
    # One place twice: a function has one value there, two observations of it differ.
    one, two = prior.sample(np.zeros((2, 1)), jax.random.key(1), 50).T
    assert np.abs(one - two).max() < 0.05
