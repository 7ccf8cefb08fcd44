"""AnchoredMARS: which inference it ends in, an honest judge of the network, errors that are said early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior import _checkpoint
from scoreprior.gp import ProcessAverage, ProcessConfig, ScaleCalibration
from scoreprior.inference import AnchoredParticles, Average, CentredParticles, ClosedForm, ClosedFormDraws, FSVGDConfig
from scoreprior.learners import _residual, anchored_mars
from scoreprior.learners._split_nll import split_nll, task_nll
from scoreprior.learners.gaussian_process import PooledGP
from scoreprior.scores.network import NetworkConfig
from scoreprior.serialization import describe
from scoreprior.training import TrainingConfig

SMALL: dict[str, Any] = {
    "anchor": ProcessConfig(evidence_evaluations=5, tuning_evaluations=0, frequencies=0, starts=2),
    "network": NetworkConfig(embedding=8, heads=2, key_size=4),
    "training": TrainingConfig(steps=40, chunk=10),
    "inference": FSVGDConfig(steps=30, particles=4, measurement_points=4),
    "warm_start": 30,
}


def keeps_its_network(prior: sp.Prior) -> bool:
    return isinstance(prior.inference, AnchoredParticles)


@pytest.fixture(scope="module")
def tasks() -> sp.TaskSet:
    return sp.environment("sinusoid").meta_train


def test_sp_mars_is_the_anchored_method():
    assert sp.MARS is sp.AnchoredMARS
    assert sp.learner("mars-gp") == sp.MARS()


def test_the_anchor_is_the_hierarchical_process_of_the_same_seed(tasks):
    mars = sp.MARS(**SMALL | {"network": None}, average=False).fit(tasks, 0, progress=False)
    gp = PooledGP(SMALL["anchor"]).fit(tasks, 0)
    assert eqx.tree_equal(gp.inference.process, mars.inference.warm_start.anchor)


@pytest.mark.parametrize(("scale", "kind"), [(False, CentredParticles), (True, ClosedFormDraws)])
def test_a_scale_calibration_leaves_the_closed_form_alone(tasks, monkeypatch, scale, kind):
    fit = anchored_mars.fit_process
    calibration = ScaleCalibration(jnp.array([-1.0, 1.0]), jnp.zeros(2), jnp.float32(0.0)) if scale else None
    monkeypatch.setattr(anchored_mars, "fit_process", lambda *given: replace(fit(*given), scale=calibration))
    prior = sp.MARS(**SMALL | {"network": None}, average=False).fit(tasks, 0, progress=False)
    assert isinstance(prior.inference, kind)


def test_the_average_has_the_simple_process_with_its_weight(tasks, monkeypatch):
    fit = anchored_mars.fit_average
    monkeypatch.setattr(anchored_mars, "fit_average", lambda *given: ProcessAverage(*(fit(*given).process,) * 2, 0.3))
    prior = sp.MARS(**SMALL | {"network": None}).fit(tasks, 0, progress=False)
    assert isinstance(prior.inference, Average)
    assert isinstance(prior.inference.second, ClosedForm)
    assert "average" in prior.inference.describe()
    assert "weight 30%" in prior.inference.describe()


def test_a_noise_that_is_given_is_that_of_anchor_and_likelihood(tasks):
    prior = sp.MARS(**SMALL | {"network": None}, average=False, noise_std=0.37).fit(tasks, 0, progress=False)
    np.testing.assert_allclose(prior.inference.warm_start.anchor.noise_std, 0.37, rtol=1e-6)
    np.testing.assert_allclose(prior.inference.hyper.noise_std, 0.37, rtol=1e-6)


def test_the_score_is_asked_for_at_the_level_that_its_network_was_trained_at(tasks, monkeypatch):
    """The level is the anchor's own noise, at most 0.1, also where another noise is given for the likelihood."""
    trained_at, train = [], anchored_mars.train_residual

    def watched(anchor, levels, *given, **files):
        trained_at.append(levels.fine)
        return train(anchor, levels, *given, **files)

    monkeypatch.setattr(anchored_mars, "train_residual", watched)
    settings = SMALL | {"training": TrainingConfig(steps=10), "held_out": 0.0, "noise_std": 0.01}
    prior = sp.MARS(**settings).fit(tasks, 0, progress=False)
    assert prior.inference.levels.fine == trained_at[0] != jnp.float32(0.01)
    np.testing.assert_allclose(prior.inference.hyper.noise_std, 0.01, rtol=1e-6)


def test_the_judges_anchor_has_not_seen_the_held_out_tasks(tasks, monkeypatch):
    """The comparison that keeps a network must not use an anchor that was fitted to the tasks it is made on."""
    seen, judged = [], []
    fit = anchored_mars.fit_process

    def watched_fit(padded, config, key):
        seen.append(np.asarray(padded.mask).any(axis=1))
        return fit(padded, config, key)

    def watched_nll(prior, unseen, key):
        judged.append([task.name for task in unseen])
        return np.array([1.0, 2.0])

    monkeypatch.setattr(anchored_mars, "fit_process", watched_fit)
    monkeypatch.setattr(anchored_mars, "task_nll", watched_nll)
    losses = {"training_loss": 0.0, "held_out_loss": 0.0, "held_out_loss_without_network": 1.0}

    def trained(anchor, levels, config, training, draws, held_out, key, **files):
        return (lambda f, x, noise: f), losses

    monkeypatch.setattr(anchored_mars, "train_residual", trained)
    sp.MARS(**SMALL, average=False).fit(tasks, 0, progress=False)
    names = np.array([task.name for task in tasks])
    assert len(judged) == 2  # without the network, and with it
    assert set(names[~seen[0]]) == set(judged[0]) == set(judged[1])
    assert len(judged[0]) == 4  # a fifth of twenty
    assert seen[1].all()  # the anchor of a prior without a network is that of all tasks


@pytest.mark.parametrize(
    ("gain", "spread", "stays"), [(0.5, 0.2, True), (0.5, 2.0, False), (-0.5, 0.2, False), (0.0, 0.0, False)]
)
def test_the_network_stays_if_tasks_gain_by_two_standard_errors(tasks, monkeypatch, gain, spread, stays):
    """The standard error is over the four held-out tasks: 0.2 * sqrt(5 / 3) / 2 = 0.13 for a spread of 0.2."""
    around = np.array([-1.5, -0.5, 0.5, 1.5])
    losses = [around, around - gain - spread * np.array([1.0, -1.0, -1.0, 1.0])]
    monkeypatch.setattr(anchored_mars, "task_nll", lambda *_: losses.pop(0))
    train = anchored_mars.train_residual

    def improved(*given, **files):
        score, metrics = train(*given, **files)
        return score, metrics | {"held_out_loss": 0.0, "held_out_loss_without_network": 1.0}

    monkeypatch.setattr(anchored_mars, "train_residual", improved)
    prior = sp.MARS(**SMALL, average=False).fit(tasks, 0, progress=False)
    assert keeps_its_network(prior) == stays
    assert prior.about()["metrics"]["held_out_nll"] == pytest.approx(-gain, abs=1e-6)


def test_a_network_with_a_worse_loss_is_not_even_asked_to_predict(tasks, monkeypatch):
    monkeypatch.setattr(_residual, "validation_losses", lambda *_: np.ones(64))
    monkeypatch.setattr(anchored_mars, "task_nll", None)
    assert not keeps_its_network(sp.MARS(**SMALL, average=False).fit(tasks, 0, progress=False))


def test_losses_of_splits_are_averaged_by_task(tasks):
    prior = sp.learner("context-mean").fit(tasks, 0)
    few = tasks.take(range(4))
    losses, rows = split_nll(prior, few, jax.random.key(0))
    assert len(losses) == 12  # four tasks, three shares
    expected = [losses[rows == row].mean() for row in range(4)]
    np.testing.assert_allclose(task_nll(prior, few, jax.random.key(0)), expected)
    many = task_nll(prior, sp.environment("sinusoid").meta_valid.target, jax.random.key(0))
    assert len(many) == 20  # one split of each


@pytest.mark.slow
@pytest.mark.parametrize(("count", "settings", "learns"), [(7, {}, False), (7, {"held_out": 0.0}, True)])
def test_a_network_that_nobody_can_judge_is_left_out(tasks, count: int, settings: dict[str, Any], learns: bool):
    few = tasks.take(range(count))  # a fifth of seven is one
    assert keeps_its_network(sp.MARS(**SMALL | settings).fit(few, 0, progress=False)) == learns


@pytest.mark.slow
def test_a_noise_conditional_network_is_trained_and_used(tasks):
    env = sp.environment("sinusoid")
    prior = sp.MARS(**SMALL, anneal=1.0, held_out=0.0).fit(tasks, 0, progress=False)
    assert prior.inference.score.residual.noise_conditional
    context = env.meta_test.context[0]
    assert np.isfinite(prior.condition(context.x, context.y, 0).predict([0.0, 1.0]).mean).all()


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_to_the_same_prior(tasks, tmp_path, monkeypatch):
    learner = sp.MARS(**SMALL, held_out=0.0)
    whole = learner.fit(tasks, 0, progress=False)
    file = tmp_path / "training"
    write, calls = _checkpoint.write, []

    def cut(*args):
        write(*args)
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(_checkpoint, "write", cut)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(tasks, 0, progress=False, checkpoint=file)
    monkeypatch.setattr(_checkpoint, "write", write)
    again = learner.fit(tasks, 0, progress=False, checkpoint=file)
    for a, b in zip(jax.tree.leaves(eqx.filter(whole, eqx.is_array)), jax.tree.leaves(eqx.filter(again, eqx.is_array))):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_judging_the_network_compiles_nothing_that_training_did_not(tasks, monkeypatch):
    traced, losses = [], _residual._HeldOut.__call__
    monkeypatch.setattr(
        _residual._HeldOut, "__call__", lambda self, network: (traced.append(1), losses(self, network))[1]
    )
    # A size of its own, for which no other test has compiled anything.
    prior = sp.MARS(**SMALL | {"points": 5}).fit(tasks, 0, progress=False)
    assert "held_out_loss_without_network" in prior.about()["metrics"]
    assert len(traced) == 1


@pytest.mark.slow
def test_the_file_says_what_made_the_prior(tasks, tmp_path):
    prior = sp.MARS(**SMALL).fit(tasks, 0, progress=False)
    prior.save(tmp_path / "a.prior", metadata={"note": "mine"})
    info = describe(tmp_path / "a.prior")
    assert info["method"] == "AnchoredMARS"
    assert info["config"]["training"]["steps"] == 40
    np.testing.assert_allclose(info["domain"]["low"], min(task.x.min() for task in tasks))
    assert "held_out_loss" in info["metrics"]
    assert sp.load_prior(tmp_path / "a.prior").about() == prior.about()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.data(source)] if source else [])
        for name, source in {
            **dict.fromkeys(("sinusoid", "gp-sinusoid", "student-t-sinusoid", "swissfel-sim", "argus-sim")),
            "berkeley": "berkeley",
            "physionet-gcs": "physionet",
            "physionet-hct": "physionet",
        }.items()
    ],
)
def test_the_trained_score_is_restoring_in_every_environment(name: str):
    env = sp.environment(name)
    prior = sp.MARS(**SMALL, held_out=0.0).fit(env.meta_train, 0, progress=False)
    score, level = prior.inference.score, prior.inference.levels.fine
    rng = np.random.default_rng(0)
    rows = np.concatenate([task.x for task in env.meta_train])
    chosen = rows[rng.choice(len(rows), 12, replace=False)]
    x = jnp.asarray(prior.standardizer.scale_x(chosen), jnp.float32)
    direction = jnp.asarray(rng.normal(size=(50, 12)), jnp.float32)
    direction = direction / jnp.sqrt(jnp.mean(direction**2, axis=1, keepdims=True))
    # A standardised unit is one standard deviation of the training targets.
    for distance in (10.0, 30.0, 100.0):
        values = jax.vmap(lambda f: score(f, x, level))(score.anchor.mean(x) + distance * direction)
        assert (jnp.sum(values * direction, axis=1) < 0).all()


@pytest.mark.parametrize(
    "bad",
    [
        {"measurement": "boks"},
        {"held_out": 1.0},
        {"smoothing": -0.1},
        {"warm_start": 0},
        {"points": 0},
        {"level": 0.0},
        {"noise_std": -1.0},
    ],
)
def test_settings_that_cannot_work_are_refused(bad: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(bad))):
        sp.MARS(**bad)


def test_a_share_of_the_budget_is_a_share_of_everything_that_iterates():
    whole = sp.MARS.dropout()
    part = whole.with_budget(0.1)
    assert (part.training.steps, part.inference.steps, part.warm_start) == (200, 50, 30)
    assert (part.anchor.evidence_evaluations, part.anchor.tuning_evaluations) == (20, 20)  # no fewer
    assert part.interpolator.epochs < whole.interpolator.epochs
    assert sp.MARS().with_budget(1.0) == sp.MARS()


@pytest.mark.slow
def test_progress_never_changes_results(tasks):
    small = sp.MARS(**SMALL)
    loud, quiet = (small.fit(tasks, 0, progress=progress) for progress in (True, False))
    for a, b in zip(jax.tree.leaves(eqx.filter(loud, eqx.is_array)), jax.tree.leaves(eqx.filter(quiet, eqx.is_array))):
        np.testing.assert_array_equal(a, b)
