"""The recording step, against data that were rounded to a known one."""

from __future__ import annotations

import numpy as np
import pytest

import scoreprior as sp
from scoreprior.tasks import resolution


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def rounded(values: np.ndarray, step: float) -> np.ndarray:
    return step * np.round(values / step)


@pytest.mark.parametrize("step", [10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.01, 1e-7, 2e6])
def test_the_step_of_rounded_data_is_found(rng, step):
    values = 30 * step + 12 * step * rng.normal(size=600)
    assert resolution(rounded(values, step)) == step
    assert resolution(rounded(values, step).astype(np.float32)) == step  # round-off of a file of floats
    assert resolution(-rounded(values, step)) == step


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=2000),
        lambda rng: rng.normal(size=2000).astype(np.float32),
        lambda rng: np.round(rng.normal(size=20000), 4),
        lambda rng: np.round(5 + rng.uniform(size=500), 5),
        lambda rng: 1e3 + 1e-3 * rng.normal(size=2000),
        lambda rng: 500 + 100 * rng.standard_t(3, size=1000),
        lambda rng: np.where(rng.uniform(size=1000) < 0.95, 0.0, rng.gamma(2.0, size=1000)),  # rain
        lambda rng: np.full(50, 3.0),
        lambda rng: np.zeros(0),
    ],
    ids=["normal", "float32", "four-decimals", "five-decimals", "offset", "tails", "rain", "constant", "none"],
)
def test_continuous_targets_have_none(rng, draw):
    assert resolution(draw(rng)) == 0.0


def test_means_of_recorded_values_may_lie_between(rng):
    whole = np.round(80 + 15 * rng.normal(size=(1000, 2)))
    often, rarely = (np.where(rng.uniform(size=1000) < share, whole.mean(1), whole[:, 0]) for share in (0.9, 0.2))
    assert resolution(rarely) == 1.0
    assert resolution(often) == 0.5  # most are means of two


def test_a_fine_step_counts_where_values_recur(rng):
    """Blood pressures in whole numbers and thirds, printed with two decimals, are on a grid of hundredths."""
    thirds = np.round(np.round(80 + 15 * rng.normal(size=1500)) + rng.integers(3, size=1500) / 3, 2)
    assert resolution(thirds) == 0.01


def test_it_does_not_depend_on_the_order_or_the_units_of_ten(rng):
    values = rounded(40 + 6 * rng.normal(size=300), 0.1)
    assert resolution(rng.permutation(values)) == 0.1
    assert resolution(1000 * values) == 100.0


def test_targets_must_be_finite():
    with pytest.raises(ValueError, match="finite"):
        resolution([1.0, np.nan])


def test_an_environment_says_the_step_of_its_training_tasks(rng):
    tasks = sp.TaskSet.from_arrays(list(rng.normal(size=(20, 8, 1))), list(np.round(9 + 3 * rng.normal(size=(20, 8)))))
    pairs = tasks.map(lambda task: sp.Task(task.x, task.y + 0.123, task.name)).context_target(4)
    card = sp.environment("sinusoid").card
    environment = sp.Environment("whole", tasks, pairs, pairs, card, 0)
    assert environment.resolution == environment.card.resolution == 1.0
    assert "in steps of 1." in str(environment.card)
    assert sp.environment("sinusoid").resolution == 0.0
    assert "steps of" not in str(card)
