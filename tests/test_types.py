"""Keys, and the shape annotations of the core checked at run time."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from scoreprior._types import as_generator, as_key

CORE_CALLS = """
from jaxtyping import install_import_hook
import jax, numpy as np
before = dict(jax.config.values), np.geterr()
with install_import_hook("scoreprior", "beartype.beartype"):
    import scoreprior, scoreprior.tasks, scoreprior.predictive, scoreprior.metrics, scoreprior.evaluation
print("settings", "unchanged" if (dict(jax.config.values), np.geterr()) == before else "changed")
import pandas as pd
from scoreprior import metrics
from scoreprior.predictive import Predictive
from scoreprior.tasks.checks import check_query
from scoreprior.tasks import Standardizer, Task, TaskSet, bucket

rng = np.random.default_rng(0)
sizes = (3, 5, 4)
tasks = TaskSet.from_arrays([rng.normal(size=(m, 2)) for m in sizes], [rng.normal(size=m) for m in sizes])
frame = pd.DataFrame({"t": ["u", "v"], "a": [1, 2], "y": [3.0, 4.0]})
TaskSet.from_frame(frame, task="t", inputs="a", target="y")
dated = frame.assign(a=pd.date_range("2024", periods=2), b="x")
encoding = TaskSet.from_frame(dated, task="t", inputs=["a", "b"], target="y", cycles=["week"]).encoding
encoding.unseen(TaskSet.from_frame(dated, task="t", inputs=["a", "b"], target="y", encoding=encoding).x)
encoding.inputs[0].decode(np.arange(3.0))
TaskSet([Task([], [])], allow_empty=True).padded(4)
scaler = Standardizer.fit(tasks)
scaler.apply(tasks).padded(bucket(5))
scaler.unscale_y(tasks.y)
tasks.split(1, key=0)
parts = tasks.context_target(0.5, key=jax.random.key(1))
parts.take([0])
tasks.context_target(lambda task: np.arange(len(task)) < 2)
check_query([[1.0, 2.0]], 2)

draws = rng.normal(size=(7, 4))
for predictive in (
    Predictive(rng.normal(size=(3, 4)), np.ones((3, 4)), draws),
    Predictive(np.zeros(4), np.ones(4)),
    Predictive(np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)).affine(2.0, 1.0),
):
    y = rng.normal(size=4)
    predictive.mean, predictive.std, predictive.cdf(y), predictive.cdf(0.0)
    predictive.log_prob(np.zeros((5, 4))), predictive.quantile(0.5), predictive.quantile([0.1, 0.9])
    predictive.interval(0.9), predictive.sample(0, 6), predictive.to_frame()
    for metric in (metrics.rmse, metrics.nll, metrics.crps, metrics.coverage, metrics.pit):
        metric(predictive, y)
    metrics.interval_width(predictive), metrics.sharpness(predictive)
    metrics.calibration_error(metrics.pit(predictive, y))
Predictive(np.zeros((1, 4)), None).mean
metrics.calibration_floor([1, 2], pooled=True)

try:
    scaler.scale_x("text")
except Exception as error:
    print(type(error).__name__)
"""


def test_annotations_hold_at_run_time_and_importing_changes_no_setting_of_jax_or_numpy():
    """In one new process: importing the package takes seconds."""
    run = subprocess.run([sys.executable, "-c", CORE_CALLS], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-3000:]
    # The hook was really on: without it the last call fails inside NumPy instead.
    assert run.stdout.splitlines() == ["settings unchanged", "TypeCheckError"]


def test_ints_and_both_kinds_of_keys_are_the_same_randomness():
    typed = jax.random.key(7)
    for key in (7, np.int64(7), typed, jax.random.PRNGKey(7)):
        assert (jax.random.key_data(as_key(key)) == jax.random.key_data(typed)).all()


@pytest.mark.parametrize("key", [None, True, 1.5, "7", np.array([1, 2])])
def test_anything_else_is_no_key(key):
    with pytest.raises(TypeError, match="key must be an int or a JAX key"):
        as_key(key)


def test_generators_are_functions_of_the_whole_key():
    draws = [as_generator(key).normal(size=3) for key in (0, 0, 1, *jax.random.split(jax.random.key(0)))]
    assert (draws[0] == draws[1]).all()
    assert len({draw[0] for draw in draws}) == 4
