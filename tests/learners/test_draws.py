"""Joint draws: of every method that has functions, from the prior and the posterior, and how sure the function is."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ZeroMean
from scoreprior.inference.closed_form import ClosedForm
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.predictive import NoDistributionError, Predictive

X = np.linspace(-2, 2, 5)[:, None]
FUNCTIONS = ("vanilla-gp", "pacoh-gp-map", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mlap", "np")))
"""A method each of: a process, a mixture of them, weights, latent variables."""


@pytest.fixture(scope="module")
def tasks() -> sp.TaskSet:
    rng = np.random.default_rng(0)
    xs = [rng.uniform(-2, 2, (6, 1)) for _ in range(6)]
    return sp.TaskSet.from_arrays(xs, [np.sin(x[:, 0]) + rng.normal() for x in xs])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_methods_with_functions_draw_them(name, tasks):
    prior = sp.learner(name).with_budget(0.01).fit(tasks, 0, progress=False)
    assert prior.sample(X, 0, 3).shape == (3, 5)
    posterior = prior.condition(tasks[0].x, tasks[0].y, 0)
    draws = posterior.sample(X, 0, 400)
    predictive = posterior.predict(X)
    # Draws have the spread of the function; the standard error of a mean of 400 is a twentieth of it.
    assert (np.abs(draws.mean(0) - predictive.mean) < 5 * predictive.function_std / 20 + 1e-6).all()
    assert (predictive.function_std <= predictive.std * (1 + 1e-6)).all()


def test_rules_have_no_functions(tasks):
    prior = sp.learner("last-value").fit(tasks, 0)
    with pytest.raises(NoDistributionError, match="joint draws"):
        prior.sample(X, 0, 3)
    with pytest.raises(NoDistributionError, match="noise"):
        _ = prior.condition([[0.0]], [1.0], 0).predict(X).function_std


def test_the_noise_free_standard_deviation_is_that_of_the_process(tasks):
    process = GaussianProcess(ZeroMean(), Matern(1.0, np.ones(1), 2.5), np.float32(0.5))
    prior = FunctionPrior(sp.Standardizer.fit(tasks), ClosedForm(process))
    predictive = prior.condition(tasks[0].x, tasks[0].y, 0).predict(X)
    noise = 0.5 * prior.standardizer.y_std
    np.testing.assert_allclose(predictive.std**2 - predictive.function_std**2, noise**2, rtol=1e-4)
    np.testing.assert_allclose(predictive.take([1, 3]).function_std, predictive.function_std[[1, 3]])


def test_a_mixture_is_as_unsure_of_the_function_as_its_components_differ():
    predictive = Predictive([[0.0], [2.0]], 1.0, weights=[0.5, 0.5], function_scales=[[0.5], [0.5]])
    np.testing.assert_allclose(predictive.function_std, np.sqrt(0.25 + 1.0))


def test_a_stack_draws_from_its_members_by_their_weights(tasks):
    member = sp.learner("vanilla-gp").fit(tasks, 0)
    stack = sp.learners.stack.StackPrior(member.standardizer, (member, member), jax.numpy.array([0.2, 0.8]))
    posterior, alone = (prior.condition(tasks[0].x, tasks[0].y, 0) for prior in (stack, member))
    draws, expected = posterior.sample(X, 0, 400), alone.predict(X)
    assert (np.abs(draws.mean(0) - expected.mean) < 5 * expected.function_std / 20 + 1e-6).all()
