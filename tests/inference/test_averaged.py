"""The average of two inferences is the mixture of their predictives."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ProcessAverage, ZeroMean
from scoreprior.inference import Average, ClosedForm
from scoreprior.inference.average import average_of
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.predictive import Mixture
from scoreprior.tasks import Standardizer


def process(lengthscale: float, tails: list[float], std: float = 1.0) -> GaussianProcess:
    kernel = Matern(np.float32(std), np.float32([lengthscale]), 2.5)
    return GaussianProcess(ZeroMean(), kernel, np.float32(0.2), np.float32(tails))


def tasks() -> sp.TaskSet:
    rng = np.random.default_rng(0)
    return sp.TaskSet.from_arrays([rng.uniform(-2, 2, (8, 1)) for _ in range(4)], rng.normal(size=(4, 8)))


@pytest.mark.parametrize("weight", [0.5, 0.2])
@pytest.mark.parametrize("counts", [(6, 4), (3, 3)])
def test_the_other_has_its_weight_whatever_the_numbers_of_components(counts, weight):
    rng = np.random.default_rng(3)
    parts = [Mixture(rng.normal(size=(n, 5)), rng.uniform(0.5, 1, (n, 5)), rng.normal(size=(2, 5))) for n in counts]
    both, y = parts[0].average_with(parts[1], weight), rng.normal(size=5)
    mixed, first, second = (np.exp(sp.Predictive(*part).log_prob(y)) for part in (both, *parts))
    np.testing.assert_allclose(mixed, (1 - weight) * first + weight * second, rtol=1e-5)
    # Draws keep their shapes, and move with the mean.
    shift = np.asarray(both.draws) - parts[0].draws
    np.testing.assert_allclose(shift[0], both.mean - np.mean(parts[0].locs, axis=0), atol=1e-6)
    np.testing.assert_allclose(shift[0], shift[1], atol=1e-6)


@pytest.mark.parametrize("weight", [0.5, 0.2])
def test_the_predictive_has_both_by_weight(tmp_path, weight):
    members = [ClosedForm(process(0.5, [0.5, 1.5])), ClosedForm(process(3.0, [1, 2, 3]))]
    prior = FunctionPrior(Standardizer.fit(tasks()), Average(*members, np.float32(weight)))
    prior.save(tmp_path / "two.prior")
    x, y = np.linspace(-2, 2, 7), np.linspace(-1, 1, 7)
    both, *alone = (
        each.condition([0.0, 1.0], [0.5, -0.5], 0).predict(x).log_prob(y)
        for each in (sp.load_prior(tmp_path / "two.prior"), *(replace(prior, inference=each) for each in members))
    )
    expected = logsumexp(alone, axis=0, b=[[1 - weight], [weight]])
    np.testing.assert_allclose(both, expected, rtol=1e-5, atol=1e-6)


def test_draws_come_from_either_member():
    small, large = (ClosedForm(process(1.0, [1.0], std)) for std in (0.1, 10.0))
    x = np.zeros((1, 1), np.float32)
    average = Average(small, large, 0.3)
    draws = jax.vmap(lambda key: average.sample(x, key))(jax.random.split(jax.random.key(0), 2000))
    # N(0, 0.01) lies below 1 in size, N(0, 100) does so in 8% of its draws.
    share = np.mean(np.abs(np.asarray(draws)) < 1)
    expected = 0.7 + 0.3 * (norm.cdf(0.1) - norm.cdf(-0.1))
    assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / 2000)


def test_without_a_second_member_there_is_no_average():
    only = ClosedForm(process(1.0, [1.0]))
    assert average_of(only, ProcessAverage(only.process)) is only
