"""PlainMARS and SampledMARS: the paper's two algorithms, with any score in the place of the network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ProcessConfig, ZeroMean
from scoreprior.inference import FSVGDConfig, Particles
from scoreprior.interpolators import GPInterpolator
from scoreprior.interpolators import gp as gp_interpolator
from scoreprior.scores.exact import GaussianProcessScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig
from scoreprior.scores.objectives import Denoising, ExactTrace, Sliced
from scoreprior.training import TrainingConfig

SMALL: dict[str, Any] = {
    "network": NetworkConfig(embedding=8, heads=2, key_size=4),
    "training": TrainingConfig(steps=30, chunk=10),
    "inference": FSVGDConfig(steps=30, particles=4, measurement_points=4),
}


@pytest.fixture(scope="module")
def env() -> sp.Environment:
    return sp.environment("sinusoid")


def test_the_defaults_are_the_papers():
    paper = sp.PlainMARS()
    assert sp.learner("mars-gp-paper") == paper
    assert paper.objective == ExactTrace()
    assert (paper.measurement, paper.training.steps, paper.inference.steps) == ("box", 20_000, 10_000)
    assert isinstance(paper.interpolator, sp.MaternInterpolator)
    assert isinstance(sp.learner("mars-bnn-paper").interpolator, sp.DropoutInterpolator)


@pytest.mark.parametrize(
    "objective", [ExactTrace(), *(pytest.param(each, marks=pytest.mark.slow) for each in (Sliced(), Denoising(0.2)))]
)
def test_every_objective_trains_and_predicts(env, objective):
    prior = sp.PlainMARS(**SMALL, objective=objective).fit(env.meta_train, 0, progress=False)
    assert float(prior.inference.levels.fine) == np.float32(objective.level)
    context = env.meta_test.context[0]
    predictive = prior.condition(context.x, context.y, 0).predict([0.0, 1.0])
    assert np.isfinite(predictive.mean).all()
    assert predictive.functions.shape == (4, 2)
    assert prior.sample([0.0, 1.0], key=0, n=3).shape == (3, 2)


def test_any_score_can_take_the_place_of_the_network(env):
    """With the exact score of a Gaussian process, fSVGD finds that process's posterior."""
    prior = sp.PlainMARS(**SMALL).fit(env.meta_train, 0, progress=False)
    process = GaussianProcess(ZeroMean(), Matern(jnp.float32(1.0), jnp.ones(1), 2.5), jnp.float32(0.1))
    config = FSVGDConfig(steps=1500, learning_rate=3e-3, measurement_points=12, bandwidth=10.0)
    inference = replace(
        prior.inference,
        score=GaussianProcessScore(process.mean, process.kernel),
        levels=NoiseLevels(jnp.float32(0.05)),
        hyper=config.hyper(0.1),
        config=config,
    )
    exact = replace(prior, inference=sp.inference.ClosedForm(process))
    context, x = env.meta_test.context[0], np.linspace(-4, 4, 20)
    ours = replace(prior, inference=inference).condition(context.x, context.y, 0).predict(x)
    truth = exact.condition(context.x, context.y, 0).predict(x)
    # Ten particles: their mean has a standard error of a third of the posterior's spread.
    assert np.sqrt(np.mean(((ours.mean - truth.mean) / truth.std) ** 2)) < 0.5


def test_a_score_of_ones_own_is_called_with_function_values_inputs_and_noise(env):
    prior = sp.PlainMARS(**SMALL).fit(env.meta_train, 0, progress=False)
    seen = []

    def mine(f, x, noise):
        seen.append((f.shape, x.shape, jnp.shape(noise)))
        return -f

    own = replace(prior, inference=replace(prior.inference, score=mine))
    assert np.isfinite(own.condition([0.0], [1.0], 0).predict([0.5]).mean).all()
    assert seen[0] == ((8,), (8, 1), ())  # a context padded to four points, and four more


@pytest.mark.slow
@pytest.mark.parametrize("build", [sp.SampledMARS, sp.SampledMARS.gaussian, sp.SampledMARS.paper])
def test_sampled_scores_need_no_training(env, build):
    learner = replace(build(), inference=SMALL["inference"])
    if isinstance(learner.interpolator, GPInterpolator):
        quick = replace(learner.interpolator.process, evidence_evaluations=5, tuning_evaluations=0, frequencies=0)
        learner = replace(learner, interpolator=GPInterpolator(process=quick))
    prior = learner.fit(env.meta_train, 0, progress=False)
    assert isinstance(prior.inference, Particles)
    context = env.meta_test.context[0]
    assert np.isfinite(prior.condition(context.x, context.y, 0).predict([0.0, 1.0]).mean).all()


@pytest.mark.parametrize("kind", [sp.PlainMARS, sp.SampledMARS])
def test_a_pooled_interpolator_gets_double_precision(env, monkeypatch, kind):
    """What single precision drops, the pooled fit cannot restore."""
    given = []
    fit = gp_interpolator.fit_process
    monkeypatch.setattr(gp_interpolator, "fit_process", lambda tasks, *rest: given.append(tasks) or fit(tasks, *rest))
    process = ProcessConfig(evidence_evaluations=5, tuning_evaluations=0, frequencies=0, starts=2)
    settings = {"interpolator": GPInterpolator(process=process), "inference": SMALL["inference"]}
    if kind is sp.PlainMARS:
        settings |= {"training": SMALL["training"], "network": SMALL["network"]}
    kind(**settings).fit(env.meta_train, 0, progress=False)
    assert given[0].x.dtype == given[0].y.dtype == np.float64


def test_the_noise_of_a_sampled_score_is_the_interpolators(env):
    learner = sp.SampledMARS(interpolator=sp.MaternInterpolator(noise_std=0.23), inference=SMALL["inference"])
    prior = learner.fit(env.meta_train, 0, progress=False)
    np.testing.assert_allclose(prior.inference.hyper.noise_std, 0.23, rtol=1e-6)
    np.testing.assert_allclose(prior.inference.levels.fine, 0.1, rtol=1e-6)  # at most
    nameless = replace(learner, interpolator=sp.DropoutInterpolator(epochs=1))
    with pytest.raises(ValueError, match="DropoutInterpolator learns no observation noise: give noise_std"):
        nameless.fit(env.meta_train, 0, progress=False)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (sp.PlainMARS, {"measurement": "boks"}),
        (sp.PlainMARS, {"noise_std": 0.0}),
        (sp.PlainMARS, {"points": 0}),
        (sp.PlainMARS, {"tasks_per_step": 2.5}),
        (sp.PlainMARS, {"training": TrainingConfig(patience=3)}),
        (Denoising, {"level": 0.0}),
        (sp.SampledMARS, {"measurement": "boks"}),
        (sp.SampledMARS, {"smoothing": 1.0}),
        (sp.SampledMARS, {"noise_std": -0.1}),
        (sp.SampledMARS, {"level": -0.1}),
    ],
)
def test_settings_that_cannot_work_are_refused(kind, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        kind(**bad)


def test_a_setting_that_a_variant_does_not_use_is_not_one_of_its_fields():
    for kind, unused in (
        (sp.PlainMARS, ("anchor", "warm_start", "held_out", "average", "smoothing", "estimator")),
        (sp.SampledMARS, ("anchor", "network", "training", "points", "objective", "warm_start")),
        (sp.MARS, ("objective", "estimator", "interpolator", "noise_std")),
    ):
        for name in unused:
            with pytest.raises(TypeError, match=name):
                kind(**{name: None})


def test_a_share_of_the_budget_is_a_share_of_everything_that_iterates():
    assert sp.PlainMARS().with_budget(0.05).training.steps == 1000
    assert sp.PlainMARS().with_budget(0.05).inference.steps == 500
    assert sp.PlainMARS.dropout().with_budget(0.5).interpolator.epochs == 50
    assert sp.SampledMARS().with_budget(0.1).inference.steps == 50


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_to_the_same_prior(env, tmp_path):
    learner = sp.PlainMARS(**SMALL)
    whole = learner.fit(env.meta_train, 0, progress=False, checkpoint=tmp_path / "a")
    again = learner.fit(env.meta_train, 0, progress=False, resume=tmp_path / "a")
    for a, b in zip(jax.tree.leaves(whole.inference.score), jax.tree.leaves(again.inference.score)):
        np.testing.assert_array_equal(a, b)
