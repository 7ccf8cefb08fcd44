"""PlainMARS and SampledMARS: the paper's two algorithms, with any score in the place of the network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import GaussianProcess, Matern, ProcessConfig, ZeroMean
from scoreprior.inference import FSVGDConfig, Particles
from scoreprior.interpolators import GPInterpolator
from scoreprior.interpolators import gp as gp_interpolator
from scoreprior.interpolators.mixture import LEVELS, TAUS, ProcessMixture
from scoreprior.scores.exact import GaussianProcessScore
from scoreprior.scores.levels import NoiseLevels
from scoreprior.scores.network import NetworkConfig
from scoreprior.scores.noised import NoisedScore
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


LETTER: dict[str, Any] = {"objective": ExactTrace(), "least_points": None, "points": 8}


def test_the_letter_is_the_papers():
    letter = sp.learner("mars-gp-letter")
    assert letter == sp.PlainMARS.letter()
    assert letter.objective == ExactTrace()
    assert (letter.measurement, letter.training.steps, letter.inference.steps) == ("box", 20_000, 10_000)
    assert letter.interpolator == sp.MaternInterpolator()
    assert letter.network.frequencies == 0
    assert isinstance(sp.learner("mars-bnn-letter").interpolator, sp.DropoutInterpolator)
    assert sp.learner("mars-gp-paper") == sp.PlainMARS() != letter


@pytest.mark.parametrize(
    "objective",
    [
        Denoising(0.2, coarse=4.0),
        *(pytest.param(each, marks=pytest.mark.slow) for each in (ExactTrace(), Sliced(), Denoising(0.2))),
    ],
)
def test_every_objective_trains_and_predicts(env, objective):
    prior = sp.PlainMARS(**SMALL, **(LETTER | {"objective": objective})).fit(env.meta_train, 0, progress=False)
    assert float(prior.inference.levels.fine) == np.float32(getattr(objective, "level", 0.0))
    context = env.meta_test.context[0]
    predictive = prior.condition(context.x, context.y, 0).predict([0.0, 1.0])
    assert np.isfinite(predictive.mean).all()
    assert predictive.functions.shape == (4, 2)
    assert prior.sample([0.0, 1.0], key=0, n=3).shape == (3, 2)


@pytest.mark.slow
def test_any_score_can_take_the_place_of_the_network(env):
    """With the exact score of a Gaussian process, fSVGD finds that process's posterior."""
    prior = sp.PlainMARS(**SMALL, **LETTER).fit(env.meta_train, 0, progress=False)
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
    prior = sp.PlainMARS(**SMALL, **LETTER).fit(env.meta_train, 0, progress=False)
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
        settings |= {"training": SMALL["training"], "network": SMALL["network"], **LETTER}
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
        (sp.PlainMARS, {"least_points": 25}),
        (sp.PlainMARS, {"least_points": 2, "objective": ExactTrace()}),
        (Denoising, {"tau": -0.1}),
        (Denoising, {"form": "flow"}),
        (Denoising, {"coarse": 0.5}),
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
    assert sp.PlainMARS.letter().with_budget(0.05).training.steps == 1000
    assert sp.PlainMARS.letter().with_budget(0.05).inference.steps == 500
    assert sp.PlainMARS.dropout().with_budget(0.5).interpolator.epochs == 50
    assert sp.SampledMARS().with_budget(0.1).inference.steps == 50


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_to_the_same_prior(env, tmp_path):
    learner = sp.PlainMARS(**SMALL)
    whole = learner.fit(env.meta_train, 0, progress=False, checkpoint=tmp_path / "a")
    again = learner.fit(env.meta_train, 0, progress=False, resume=tmp_path / "a")
    for a, b in zip(jax.tree.leaves(whole.inference.score), jax.tree.leaves(again.inference.score)):
        np.testing.assert_array_equal(a, b)


def test_scales_that_are_not_given_come_from_the_interpolator(env):
    """Observation noise by cross-validation, level and tau by the likelihood of left-out tasks."""
    learner = sp.PlainMARS(**(SMALL | {"network": None}), objective=Denoising(level=None, tau=None))
    prior = learner.fit(env.meta_train, 0, progress=False)
    assert isinstance(prior.inference.score, ProcessMixture)
    assert prior.inference.score.fitted.noise_std < 0.1
    assert prior.inference.hyper.noise_std == np.float32(0.1)  # at least
    metrics = prior.about()["metrics"]
    assert metrics["level"] in np.float32(LEVELS)
    assert metrics["tau"] in np.float32(TAUS)
    with pytest.raises(ValueError, match="needs a Gaussian process"):
        replace(learner, interpolator=sp.DropoutInterpolator(epochs=1)).fit(env.meta_train, 0, progress=False)


def test_particles_stay_bounded_whatever_the_network_learned(env):
    """The last layer a hundred times too large, and large steps: particles come to rest where the pull is as strong."""
    prior = sp.PlainMARS(**SMALL).fit(env.meta_train, 0, progress=False)
    assert isinstance(prior.inference.score, NoisedScore)
    wild = eqx.tree_at(lambda p: p.inference.score.network.final.weight, prior, replace_fn=lambda w: 100 * w)
    far = jax.tree.map(lambda leaf: jnp.float32(0.05), prior.inference.hyper.learning_rate)
    wild = eqx.tree_at(lambda p: p.inference.hyper.learning_rate, wild, far)
    config = replace(prior.inference.config, steps=200)
    wild = replace(wild, inference=replace(wild.inference, config=config))
    context = env.meta_test.context[0]
    f = wild.condition(context.x, context.y, 0).predict(np.linspace(-5, 5, 30)).functions
    spread = np.concatenate([task.y for task in env.meta_train]).std()
    assert np.abs(f).max() < 1000 * spread
