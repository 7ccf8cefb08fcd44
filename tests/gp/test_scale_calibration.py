"""A scale calibration is learned where there is one to learn, and only there; its loss is that of SciPy's normals."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy import stats

import scoreprior as sp
from scoreprior import metrics
from scoreprior.gp import ProcessConfig, fit, scale_calibration
from scoreprior.gp.model import PooledTasks, find_centres, start
from scoreprior.gp.predictive_tuning import left_out_predictions
from scoreprior.learners.gaussian_process import PooledGP
from scoreprior.tasks import PaddedTasks

CONFIG = ProcessConfig(
    deviation=("linear",),
    mean="linear",
    frequencies=0,
    centres=6,
    starts=1,
    evidence_evaluations=30,
    tuning_evaluations=15,
)
UNEVEN = 0.2, 2.0
"""Standard deviations of the noise at low and at high levels."""


def tasks(n: int, seed: int, noise: tuple[float, float] = (0.5, 0.5)) -> sp.TaskSet:
    """Levels between -3 and 3, a common slope, and noise that may depend on the level."""
    rng = np.random.default_rng(seed)
    xs = [np.sort(rng.uniform(-1, 1, (12, 1)), axis=0) for _ in range(n)]

    def observe(x: np.ndarray) -> np.ndarray:
        f = rng.uniform(-3, 3) + x[:, 0]
        return f + np.where(f < 0, *noise) * rng.normal(size=len(f))

    return sp.TaskSet.from_arrays(xs, [observe(x) for x in xs])


def tied(tasks: sp.TaskSet) -> sp.TaskSet:
    """Nearly all values equal: one of each of the first two tasks differs."""
    ys = [np.where((np.arange(len(task)) == 0) & (i < 2), 1.0, 0.0) for i, task in enumerate(tasks)]
    return sp.TaskSet.from_arrays([task.x for task in tasks], ys)


@pytest.mark.slow
def test_noise_that_depends_on_the_level_is_found_and_pays_on_new_tasks(monkeypatch: pytest.MonkeyPatch):
    calibrated = PooledGP(CONFIG).fit(tasks(30, 0, UNEVEN), 0, progress=False)
    # As `scale_calibration=False` does, but without compiling all of it for another configuration.
    monkeypatch.setattr(fit, "fit_scale_calibration", lambda *_: None)
    without = PooledGP(CONFIG).fit(tasks(30, 0, UNEVEN), 0, progress=False)
    scale = calibrated.inference.process.scale
    assert scale is not None
    scaler = calibrated.standardizer
    low, high = scale((np.array([-2.0, 2.0]) - scaler.y_mean) / scaler.y_std, np.ones(2), np.zeros(()))
    assert high > 3 * low  # the noise differs ten-fold, the function's own uncertainty does not
    new = tasks(40, 1, UNEVEN).context_target(6, key=0)

    def nll(prior: sp.Prior) -> np.ndarray:
        predictives = prior.condition_many(new.context, 0).predict([task.x for task in new.target])
        return np.array([metrics.nll(each, task.y) for each, task in zip(predictives, new.target)])

    gain = nll(without) - nll(calibrated)
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.slow
def test_where_the_process_is_right_there_is_none():
    assert PooledGP(CONFIG).fit(tasks(30, 2), 0, progress=False).inference.process.scale is None


def without(padded: PaddedTasks, count: int) -> PaddedTasks:
    """The batch with no point of the last tasks."""
    return padded._replace(mask=padded.mask.at[-count:].set(False))


@pytest.mark.parametrize(
    "padded",
    [tasks(9, 0, UNEVEN).padded(), without(tasks(12, 0, UNEVEN).padded(), 3), tied(tasks(12, 0)).padded()],
    ids=["few", "few with points", "tied"],
)
def test_few_tasks_or_a_single_level_teach_none(padded: PaddedTasks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(scale_calibration, "left_out_predictions")  # nothing is even looked at
    with jax.enable_x64(True):
        parameters = start(jax.random.key(0), 1, CONFIG) | {"tails": jnp.log(4.0)}
        assert (
            scale_calibration.fit_scale_calibration(PooledTasks(padded, find_centres(padded, 6)), parameters, CONFIG)
            is None
        )


@pytest.mark.slow
def test_tasks_without_points_do_not_count(monkeypatch: pytest.MonkeyPatch):
    """Neither in the folds nor in the test of what the others gain."""
    gains = []
    monkeypatch.setattr(scale_calibration, "is_significant", lambda gain: gains.append(gain) or False)
    padded = tasks(14, 0, UNEVEN).padded()
    held = padded._replace(mask=padded.mask.at[np.array([0, 5, 13])].set(False))
    some = PaddedTasks(*(leaf[np.array([1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12])] for leaf in padded))
    with jax.enable_x64(True):
        parameters = start(jax.random.key(0), 1, CONFIG) | {"tails": jnp.log(4.0)}
        for each in (held, some):
            pool = PooledTasks(each, find_centres(some, 6))
            scale_calibration.fit_scale_calibration(pool, parameters, CONFIG)
    np.testing.assert_allclose(gains[0], gains[1], rtol=1e-6, atol=1e-9)


def test_a_subset_has_tasks_with_points_first():
    padded = tasks(12, 0).padded(dtype=np.float64)
    mask = np.array(padded.mask)
    mask[[1, 4, 7]] = False
    chosen = fit._subset(padded._replace(mask=mask), 9, 100, jax.random.key(0))
    assert np.asarray(chosen.mask).any(axis=1).all()
    assert chosen.x.dtype == np.float64


@pytest.fixture(scope="module")
def problem() -> scale_calibration._Problem:
    padded = tasks(4, 3).padded()
    with jax.enable_x64(True):
        pool = PooledTasks(padded, find_centres(padded, CONFIG.centres))
        told = left_out_predictions(pool, start(jax.random.key(0), 1, CONFIG) | {"tails": jnp.log(4.0)}, CONFIG)
        return scale_calibration._Problem(pool.tasks.y, told, jnp.array([0.5, 1.0, 3.0]), jnp.linspace(-3.0, 3.0, 5))


PARAMETERS = {"level": np.array([0.3, -0.1, 0.0, 0.4, 0.2]), "surprise": np.array(0.4)}


def test_the_loss_is_that_of_the_mixture_that_predicts(problem):
    with jax.enable_x64(True):
        ours = np.asarray(scale_calibration._losses(PARAMETERS, problem))
    told, y = jax.tree.map(np.asarray, problem.predictions), np.asarray(problem.y)
    share = np.sqrt(np.maximum(1 - told.std**2 / told.std[0] ** 2, 0.0))
    by_level = share * np.interp(told.mean, np.linspace(-3, 3, 5), PARAMETERS["level"])
    log_factor = by_level + 0.4 * told.surprise[..., None]
    std = told.std * np.exp(1.6 * np.tanh(log_factor / 1.6))
    density = np.mean([stats.norm.pdf(y, told.mean, width * std) for width in (0.5, 1.0, 3.0)], axis=0)
    later = np.where(told.later, -np.log(density), 0.0).sum(axis=-1) / told.later.sum(axis=-1)
    np.testing.assert_allclose(ours, np.array([0.3, 1, 1, 1]) @ later / 3.3, rtol=1e-6)


def test_targets_that_stand_for_intervals_count_by_their_probability(problem):
    """With one and two ends, of the mixture in NumPy."""
    told, tails = problem.predictions, problem.tails
    y = np.asarray(problem.y)
    half = np.full(y.shape, 0.3)
    half[0], half[1] = np.inf, -np.inf
    with jax.enable_x64(True):
        found = told.log_prob(problem.y, tails, None, jnp.asarray(half))
    mean, std = np.asarray(told.mean), np.asarray(told.std)
    each = [scipy.stats.norm(mean, float(tail) * std) for tail in tails]
    between = np.mean([one.cdf(y + 0.3) - one.cdf(y - 0.3) for one in each], axis=0)
    above, below = (np.mean(part, axis=0) for part in ([one.sf(y) for one in each], [one.cdf(y) for one in each]))
    expected = np.where(half == np.inf, above, np.where(half == -np.inf, below, between))
    likely = expected > 1e-6  # the difference of two CDFs has no digits in far tails
    np.testing.assert_allclose(np.asarray(found)[likely], np.log(expected[likely]), rtol=1e-6, atol=1e-8)
    assert likely.mean() > 0.5


def test_a_task_left_out_teaches_nothing(problem):
    def gradient(included: list[bool], y: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            each = eqx.tree_at(lambda p: p.y, problem, jnp.asarray(y))
            return np.asarray(
                scale_calibration._loss_and_gradient(PARAMETERS, PARAMETERS, each, np.array(included))[1]["level"]
            )

    y = np.asarray(problem.y)
    other = y + np.array([0.0, 0.0, 0.0, 5.0])[:, None]
    without = [True, True, True, False]
    np.testing.assert_array_equal(gradient(without, y), gradient(without, other))
    assert not np.allclose(gradient([True] * 4, y), gradient([True] * 4, other))
