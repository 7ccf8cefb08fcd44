"""DenoisedMARS: the network is kept where no Gaussian process can follow, and dropped where one is the truth."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.inference import Average, ClosedForm
from scoreprior.inference.denoised import Denoised
from scoreprior.learners import denoised_mars
from scoreprior.learners.denoised_mars import DenoisedMARS, mixture_log_prob
from scoreprior.scores.denoiser import DenoiserConfig
from scoreprior.training import TrainingConfig

SMALL: dict[str, Any] = {
    "anchor": ProcessConfig(evidence_evaluations=10, tuning_evaluations=0, frequencies=0, starts=2),
    "network": DenoiserConfig(embedding=16, blocks=1, heads=2, frequencies=4),
    "training": TrainingConfig(steps=30, chunk=10, patience=3),
}


def steps(n: int, seed: int, m: int = 20) -> sp.TaskSet:
    """One jump at an unknown place between two levels, noise 0.05."""
    rng = np.random.default_rng(seed)
    xs = rng.uniform(-3, 3, (n, m))
    places, levels = rng.uniform(-2.5, 2.5, (n, 1)), rng.normal(size=(2, n, 1))
    return sp.TaskSet.from_arrays(xs, np.where(xs < places, *levels) + 0.05 * rng.normal(size=(n, m)))


def test_mixture_density_is_that_of_its_components():
    rng = np.random.default_rng(0)
    y, locs, scales = rng.normal(size=4), rng.normal(size=(3, 4)), rng.uniform(0.5, 1, (3, 4))
    expected = sp.Predictive(locs, scales).log_prob(y)
    np.testing.assert_allclose(mixture_log_prob(*map(jnp.asarray, (y, locs, scales))), expected, rtol=1e-5)


@pytest.fixture(scope="module")
def prior() -> sp.Prior:
    """Whatever held-out tasks say, with its network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(denoised_mars, "is_significant", lambda gain: True)
        return DenoisedMARS(**SMALL).fit(steps(20, 0), 0, progress=False)


def test_a_prior_with_a_network_predicts_saves_and_draws(prior, tmp_path):
    assert isinstance(prior.inference, Denoised)
    assert prior.about()["method"] == "mars-denoiser"
    prior.save(tmp_path / "a.prior")
    x = np.linspace(-3, 3, 7)
    before, after = (
        each.condition([0.0, 1.0], [0.3, -0.3], 0).predict(x) for each in (prior, sp.load_prior(tmp_path / "a.prior"))
    )
    np.testing.assert_array_equal(before.locs, after.locs)
    assert prior.sample(x, key=0, n=3).shape == (3, 7)


def test_training_leaves_anchor_and_frequencies_alone(prior):
    made = prior.inference.denoiser
    free = denoised_mars._trainable(made)
    frozen = eqx.filter(made, free, inverse=True)
    assert jax.tree.leaves(frozen.anchor)
    assert not jax.tree.leaves(eqx.filter(made, free).anchor)
    assert not jax.tree.leaves(eqx.filter(made, free).frequencies)
    assert np.abs(made.encoder.final).max() > 0


@pytest.mark.slow
def test_sequential_draws_of_an_untrained_network_are_draws_of_the_anchor(prior):
    """Point after point, each given those before: with the anchor's conditionals, that is the anchor's joint law."""
    encoder = jax.tree.map(jnp.zeros_like, prior.inference.denoiser.encoder)
    untrained = eqx.tree_at(lambda i: i.denoiser.encoder, prior.inference, encoder)
    x, n = jnp.asarray([[-1.0], [-0.8], [1.0]]), 4000
    draws = jax.jit(jax.vmap(lambda key: untrained.sample(x, key)))(jax.random.split(jax.random.key(0), n))
    process = untrained.denoiser.anchor
    covariance = np.asarray(process.kernel(x, x), np.float64) + float(process.noise_std) ** 2 * np.eye(3)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.asarray(draws) - np.asarray(process.mean(x))).T)
    # The first two moments of eight components are exact: standard errors of sqrt(2 / n) and sqrt(1 / n).
    assert (np.abs(white.mean(axis=1)) < 4 / np.sqrt(n)).all()
    np.testing.assert_allclose(np.cov(white), np.eye(3), atol=4 * np.sqrt(2 / n) + 0.01)


@pytest.mark.slow
def test_a_network_that_does_not_help_is_dropped(monkeypatch):
    monkeypatch.setattr(denoised_mars, "is_significant", lambda gain: False)
    prior = DenoisedMARS(**SMALL, average=False).fit(steps(20, 0), 0, progress=False)
    assert isinstance(prior.inference, ClosedForm)
    assert {"held_out_nll", "held_out_nll_without_network"} <= set(prior.about()["metrics"])


def test_the_judges_anchor_has_not_seen_the_held_out_tasks(monkeypatch):
    seen, judged = [], []
    fit, nll = denoised_mars.fit_process, denoised_mars.task_nll
    monkeypatch.setattr(
        denoised_mars, "fit_process", lambda padded, *rest: seen.append(padded.mask.any(1)) or fit(padded, *rest)
    )
    monkeypatch.setattr(
        denoised_mars, "task_nll", lambda prior, held, key: judged.append(held) or nll(prior, held, key)
    )
    tasks = steps(20, 0)
    DenoisedMARS(**SMALL, average=False).fit(tasks, 0, progress=False)
    names = np.array([task.name for task in tasks])
    assert set(names[~seen[0]]) == {task.name for task in judged[0]} == {task.name for task in judged[1]}


@pytest.mark.slow
def test_few_tasks_have_no_network():
    prior = DenoisedMARS(**SMALL).fit(steps(7, 0), 0, progress=False)  # a fifth of seven is one
    assert isinstance(prior.inference, (ClosedForm, Average))


@pytest.mark.slow
def test_jumps_are_predicted_better_than_by_any_gaussian_process():
    """With fewer tasks and steps than `results/learned-score` has, so that it ends within minutes."""
    train, test = steps(300, 1), steps(200, 2).context_target(8)
    network = DenoisedMARS(training=TrainingConfig(steps=1000, learning_rate=2e-3, clip=1.0, chunk=250, patience=4))
    ours = network.fit(train, 0, progress=False)
    assert isinstance(ours.inference, Denoised)
    process = sp.learner("hierarchical-gp").fit(train, 0)
    nll = [sp.evaluate_pairs(each, test, 0)["nll"].to_numpy() for each in (process, ours)]
    gain = nll[0] - nll[1]
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.parametrize("bad", [{"noised": 1.5}, {"levels": (1.0, 0.1)}, {"held_out": 0.0}, {"tasks_per_step": 0}])
def test_settings_that_cannot_work_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        DenoisedMARS(**bad)
