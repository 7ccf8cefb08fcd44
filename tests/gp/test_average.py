"""A second opinion is half of every predictive, and there only where later points of the tasks speak for it."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.gp import fit as pooling
from scoreprior.gp.fit import fit_average
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.gp.predictive_tuning import LeftOutPredictions, is_significant
from scoreprior.gp.process import GaussianProcess
from scoreprior.learners import mars
from scoreprior.learners.gaussian_process import PooledGP, PooledGPPrior
from scoreprior.predictive import Mixture
from scoreprior.tasks import Standardizer

CONFIG = ProcessConfig(
    deviation=("linear",),
    mean="linear",
    frequencies=0,
    centres=6,
    starts=1,
    evidence_evaluations=30,
    tuning_evaluations=15,
    scale_calibration=False,
)


def offsets(count: int, points: int = 8) -> sp.TaskSet:
    """Levels of their own and noise: nothing that an affine deviation does not explain."""
    rng = np.random.default_rng(0)
    xs = [np.sort(rng.uniform(-2, 2, (points, 1)), axis=0) for _ in range(count)]
    return sp.TaskSet.from_arrays(xs, [rng.normal() + 0.3 * rng.normal(size=points) for _ in xs])


def bends(count: int, points: int = 16) -> sp.TaskSet:
    """Smooth functions, which an affine deviation takes for noise."""
    rng = np.random.default_rng(1)
    xs = [np.sort(rng.uniform(-2, 2, (points, 1)), axis=0) for _ in range(count)]
    ys = [np.sin(2 * x[:, 0] + rng.uniform(0, 6)) + 0.05 * rng.normal(size=points) for x in xs]
    return sp.TaskSet.from_arrays(xs, ys)


def opinions(tasks: sp.TaskSet, config: ProcessConfig = CONFIG) -> tuple[GaussianProcess, GaussianProcess | None]:
    return fit_average(Standardizer.fit(tasks).apply(tasks).padded(), config, jax.random.key(0))


def test_it_is_heard_where_the_first_process_is_too_simple_and_not_where_it_is_right():
    assert opinions(bends(12))[1] is not None
    assert opinions(offsets(12, points=16))[1] is None


@pytest.mark.parametrize(
    ("count", "config"), [(9, CONFIG), (12, replace(CONFIG, second=False)), (12, replace(CONFIG, tuning_evaluations=0))]
)
def test_it_is_not_asked_with_few_tasks_or_if_not_wanted(count, config, monkeypatch):
    asked = []
    learn = pooling._learn
    monkeypatch.setattr(pooling, "_learn", lambda tasks, config, key: asked.append(config) or learn(tasks, config, key))
    assert opinions(bends(count, points=6), replace(config, evidence_evaluations=2))[1] is None
    assert len(asked) == 1


def test_plain_is_what_the_pooled_process_is_made_of():
    assert PooledGP().process == PooledGP.hierarchical().process.plain()
    assert PooledGP().process.plain() == PooledGP().process


def test_clearly_is_two_standard_errors():
    gain = np.array([1.0, 2.0, 3.0, 4.0])  # mean 2.5, standard error 0.645
    assert is_significant(gain - 1.2)
    assert not is_significant(gain - 1.22)
    assert not is_significant(-gain)


def test_what_was_foretold_has_the_density_of_the_mixture():
    rng = np.random.default_rng(2)
    mean, std = rng.normal(size=(2, 3, 4)), rng.uniform(0.5, 1, (2, 3, 4))
    y, tails = rng.normal(size=(3, 4)), np.array([0.5, 2.0])
    told = LeftOutPredictions(mean, std, np.zeros((2, 3)), np.ones((2, 3, 4), bool))
    expected = np.log(np.mean([norm(mean, tail * std).pdf(y) for tail in tails], axis=0))
    np.testing.assert_allclose(told.log_prob(jnp.asarray(y), jnp.asarray(tails), None), expected, rtol=1e-5)


@pytest.mark.parametrize("counts", [(6, 4), (2, 8), (3, 3)])
def test_half_of_each_whatever_their_numbers_of_components(counts):
    rng = np.random.default_rng(3)
    parts = [Mixture(rng.normal(size=(n, 5)), rng.uniform(0.5, 1, (n, 5)), rng.normal(size=(2, 5))) for n in counts]
    both, y = parts[0].average_with(parts[1]), rng.normal(size=5)

    def density(mixture: Mixture) -> np.ndarray:
        return np.mean(norm(np.asarray(mixture.locs), np.asarray(mixture.scales)).pdf(y), axis=0)

    np.testing.assert_allclose(density(both), 0.5 * density(parts[0]) + 0.5 * density(parts[1]), rtol=1e-5)
    # Draws keep their shapes, and move with the mean.
    moved = np.asarray(both.draws) - parts[0].draws
    np.testing.assert_allclose(moved[0], np.mean(both.locs, axis=0) - np.mean(parts[0].locs, axis=0), atol=1e-6)
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-6)


def test_a_prior_with_two_processes_predicts_half_by_each(tmp_path):
    tasks = offsets(4)
    processes = [
        GaussianProcess(ZeroMean(), Matern(np.float32(1), np.float32([scale]), 2.5), np.float32(0.2), tails)
        for scale, tails in ((0.5, np.float32([0.5, 1.5])), (3.0, np.float32([1, 2, 3])))
    ]
    prior = PooledGPPrior(Standardizer.fit(tasks), *processes)
    prior.save(tmp_path / "two.prior")
    x, y = np.linspace(-2, 2, 7), np.linspace(-1, 1, 7)
    both, *alone = (
        each.condition([0.0, 1.0], [0.5, -0.5], 0).predict(x).log_prob(y)
        for each in (sp.load_prior(tmp_path / "two.prior"), *(PooledGPPrior(prior.standardizer, p) for p in processes))
    )
    np.testing.assert_allclose(both, logsumexp(alone, axis=0) - np.log(2), rtol=1e-5, atol=1e-6)


def test_mars_has_its_own_predictive_and_the_second_opinion_as_halves():
    tasks = bends(12)
    config = sp.MARS(base=CONFIG, network=None, inference=replace(sp.MARS().inference, steps=5), settle=5)
    prior = config.fit(tasks, 0, progress=False)
    assert prior.second is not None
    x, y = np.linspace(-2, 2, 9), np.linspace(-1, 1, 9)
    context = tasks[0].x[:4], tasks[0].y[:4]
    both, own = (each.condition(*context, 1).predict(x) for each in (prior, replace(prior, second=None)))
    second = PooledGPPrior(prior.standardizer, prior.second).condition(*context, 1).predict(x)
    expected = logsumexp([own.log_prob(y), second.log_prob(y)], axis=0) - np.log(2)
    np.testing.assert_allclose(both.log_prob(y), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(both.functions.mean(0), both.mean, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        (sp.MARS(), True),
        (sp.MARS(network=None), True),
        (sp.MARS(held_out=0.0), False),  # the network stays whatever it does
        (sp.MARS(closed_form=False), False),
        (sp.learner("mars-ssge"), False),
        (sp.MARS(base=ProcessConfig(second=False)), False),
    ],
)
def test_mars_asks_for_one_only_where_it_can_be_heard(config, asked, monkeypatch):
    def learn(tasks, pooling, key):
        raise InterruptedError(pooling.second)

    monkeypatch.setattr(mars, "fit_average", learn)
    with pytest.raises(InterruptedError, match=str(asked)):
        config.fit(offsets(12), 0)


@pytest.mark.slow
@pytest.mark.data("berkeley")
def test_sensors_are_predicted_better_with_a_second_opinion():
    """Seen on the validation tasks of five splits of Berkeley (docs/mars.md)."""
    env = sp.environment("berkeley")
    alone, both = (
        sp.evaluate(PooledGP(ProcessConfig(second=second)), env, 0, tasks="valid") for second in (False, True)
    )
    assert both["nll"].mean() < alone["nll"].mean()
    assert both["rmse"].mean() < alone["rmse"].mean()
