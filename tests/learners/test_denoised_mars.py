"""MARS: the network is kept where no Gaussian process can follow, and dropped where one is the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scoreprior as sp
from scoreprior.gp import ProcessConfig
from scoreprior.inference import Average, Box, ClosedForm
from scoreprior.inference.denoised import Denoised
from scoreprior.learners import denoised_mars
from scoreprior.learners._split_nll import split_nll, task_nll
from scoreprior.learners.gaussian_process import PooledGP
from scoreprior.predictive import Mixture
from scoreprior.scores.denoiser import DenoiserConfig, Points
from scoreprior.training import TrainingConfig

SMALL: dict[str, Any] = {
    "anchor": ProcessConfig(evidence_evaluations=10, tuning_evaluations=0, frequencies=0, starts=2),
    "network": DenoiserConfig(embedding=16, blocks=1, heads=2, frequencies=4),
    "training": TrainingConfig(steps=30, chunk=10, patience=3),
    "networks": 2,
}


def steps(n: int, seed: int, m: int = 20) -> sp.TaskSet:
    """One jump at an unknown place between two levels, noise 0.05."""
    rng = np.random.default_rng(seed)
    xs = rng.uniform(-3, 3, (n, m))
    places, levels = rng.uniform(-2.5, 2.5, (n, 1)), rng.normal(size=(2, n, 1))
    return sp.TaskSet.from_arrays(xs, np.where(xs < places, *levels) + 0.05 * rng.normal(size=(n, m)))


def network_wins(prior: sp.Prior, held: sp.TaskSet, *_: Any) -> np.ndarray:
    return np.full(len(held), 0.0 if isinstance(prior.inference, Denoised) else 1.0)


@pytest.fixture(scope="module")
def prior() -> sp.Prior:
    """Whatever held-out tasks say, with its network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(denoised_mars, "task_nll", network_wins)
        return sp.MARS(**SMALL).fit(steps(20, 0), 0, progress=False)


def test_a_prior_with_a_network_predicts_saves_and_draws(prior, tmp_path):
    assert isinstance(prior.inference, Denoised)
    assert prior.about()["method"] == "mars-gp"
    prior.save(tmp_path / "a.prior")
    x = np.linspace(-3, 3, 7)
    before, after = (
        each.condition([0.0, 1.0], [0.3, -0.3], 0).predict(x) for each in (prior, sp.load_prior(tmp_path / "a.prior"))
    )
    np.testing.assert_array_equal(before.locs, after.locs)
    assert prior.sample(x, key=0, n=3).shape == (3, 7)


def test_training_leaves_anchor_and_frequencies_alone(prior):
    made = prior.inference.denoiser.members
    free = denoised_mars._trainable(made)
    frozen = eqx.filter(made, free, inverse=True)
    assert jax.tree.leaves(frozen.anchor)
    assert not jax.tree.leaves(eqx.filter(made, free).anchor)
    assert not jax.tree.leaves(eqx.filter(made, free).frequencies)
    assert np.abs(made.encoder.final).max() > 0


@pytest.mark.slow
def test_a_network_that_does_not_help_is_dropped(monkeypatch):
    monkeypatch.setattr(denoised_mars, "is_significant", lambda gain: False)
    prior = sp.MARS(**SMALL, average=False).fit(steps(20, 0), 0, progress=False)
    assert isinstance(prior.inference, ClosedForm)
    assert {"held_out_nll", "held_out_nll_without_network"} <= set(prior.about()["metrics"])


def test_the_judges_anchor_has_not_seen_the_held_out_tasks(monkeypatch):
    seen, judged = [], []
    fit, nll = denoised_mars.fit_process, denoised_mars.task_nll
    monkeypatch.setattr(
        denoised_mars, "fit_process", lambda padded, *rest: seen.append(padded.mask.any(1)) or fit(padded, *rest)
    )
    monkeypatch.setattr(
        denoised_mars, "task_nll", lambda prior, held, *rest: judged.append(held) or nll(prior, held, *rest)
    )
    tasks = steps(20, 0)
    sp.MARS(**SMALL, average=False).fit(tasks, 0, progress=False)
    names = np.array([task.name for task in tasks])
    assert set(names[~seen[0]]) == {task.name for task in judged[0]} == {task.name for task in judged[1]}


def test_each_network_is_judged_by_other_tasks(monkeypatch):
    judged = []
    monkeypatch.setattr(
        denoised_mars, "task_nll", lambda prior, held, *_: judged.append(held) or np.full(len(held), -len(judged))
    )
    monkeypatch.setattr(denoised_mars, "is_significant", lambda gain: len(gain) == 8)
    prior = sp.MARS(**SMALL, average=False).fit(steps(20, 0), 0, progress=False)
    assert isinstance(prior.inference, Denoised)
    assert prior.inference.denoiser.members.frequencies.shape[0] == 2
    first, _, second, _ = ({task.name for task in held} for held in judged)
    assert len(first) == len(second) == 4
    assert not first & second


def test_a_first_network_that_predicts_worse_ends_the_training(monkeypatch):
    judged = []
    monkeypatch.setattr(
        denoised_mars, "task_nll", lambda prior, held, *_: judged.append(held) or np.full(len(held), len(judged))
    )
    assert isinstance(sp.MARS(**SMALL, average=False).fit(steps(20, 0), 0, progress=False).inference, ClosedForm)
    assert len(judged) == 2


def test_without_a_network_it_is_the_hierarchical_process_of_the_same_seed():
    tasks = steps(20, 0)
    mars = sp.MARS(**SMALL | {"network": None}, average=False).fit(tasks, 0, progress=False)
    gp = PooledGP(SMALL["anchor"]).fit(tasks, 0)
    assert eqx.tree_equal(gp.inference.process, mars.inference.process)


def test_losses_of_splits_are_averaged_over_those_of_a_task(prior):
    few = steps(4, 3)
    losses, rows = split_nll(prior, few, jax.random.key(0), most=600)
    assert len(losses) == 50  # a chunk, filled by repeating
    np.testing.assert_allclose(
        task_nll(prior, few, jax.random.key(0)), [losses[rows == row].mean() for row in range(4)]
    )


def test_rounded_targets_are_learned_by_their_rounding_interval():
    """On whole numbers a density has no upper bound; the probability of an interval is at most 1."""
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 4, (40, 1))
    tasks = sp.TaskSet.from_arrays(rng.uniform(-1, 1, (40, 10)), np.repeat(levels, 10, axis=1).astype(float))
    problem = denoised_mars._Problem.of(tasks, jax.random.key(0))
    assert problem.step == 1.0
    loss = sp.MARS(**SMALL)._loss(problem, np.arange(40))
    np.testing.assert_allclose(loss.recorded.half_width * problem.standardizer.y_std, 0.5, rtol=1e-5)
    np.testing.assert_array_equal(loss.recorded.middle, loss.recorded.tasks.y)


def test_values_on_a_bound_are_learned_as_all_that_lies_beyond():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, (40, 10)).astype(float)
    tasks = sp.TaskSet.from_arrays(rng.uniform(-1, 1, (40, 10)), y, target=sp.Bounded(0, 3))
    problem = denoised_mars._Problem.of(tasks, jax.random.key(0))
    middle, half = problem.recorded.middle, problem.recorded.half_width
    assert (half[y == 0] == -np.inf).all()
    assert (half[y == 3] == np.inf).all()
    ends = problem.standardizer.warp.forward(np.array([0.5, 1.5, 2.5]))
    standardised = (ends - problem.standardizer.y_mean) / problem.standardizer.y_std
    np.testing.assert_allclose(middle[y == 0], standardised[0])
    np.testing.assert_allclose(middle[y == 3], standardised[2])
    for value in (1, 2):
        np.testing.assert_allclose((middle - half)[y == value], standardised[value - 1])
        np.testing.assert_allclose((middle + half)[y == value], standardised[value])


@pytest.mark.parametrize("follow", [True, False])
def test_known_points_are_any_or_the_first_ones_where_rows_follow_an_input(follow):
    tasks = steps(20, 0)
    if follow:
        tasks = tasks.map(lambda task: sp.Task(np.sort(task.x, axis=0), task.y))
    problem, seen = denoised_mars._Problem.of(tasks, jax.random.key(0)), []

    def watching(points: Points) -> Mixture:
        seen.append(np.asarray(points.there))
        return Mixture(jnp.zeros((1, 20)), jnp.ones((1, 20)))

    for share in (1.0, 0.0):
        loss = sp.MARS(**SMALL, ordered=share, noised=0.0)._loss(problem, np.arange(20))
        task = jax.tree.map(lambda leaf: leaf[0], loss.recorded)
        for key in jax.random.split(jax.random.key(0), 10):
            loss.of_task(watching, task, key)
    first = [bool((known[:-1] >= known[1:]).all()) for known in seen]
    assert all(first[:10]) == follow
    assert not all(first[10:])
    assert all(known.sum() < 20 for known in seen)  # one is left to predict


def test_further_points_are_draws_of_the_anchor_given_the_task(prior):
    """At a known place with little noise elsewhere, draws scatter by twice the noise around the known value."""
    member = jax.tree.map(lambda leaf: leaf[0], prior.inference.denoiser.members)
    problem = denoised_mars._Problem.of(steps(20, 0), jax.random.key(0))
    loss = sp.MARS(**SMALL, interpolated=1.0, further=3)._loss(problem, np.arange(20))
    recorded = jax.tree.map(lambda leaf: leaf[0], loss.recorded)
    task = recorded.tasks
    loss = replace(loss, places=Box(task.x[0], task.x[0]))
    draw = eqx.filter_jit(lambda key: loss.with_further(member.anchor, recorded, key))
    found = jax.vmap(draw)(jax.random.split(jax.random.key(0), 500))
    some = found.tasks
    np.testing.assert_array_equal(found.middle, some.y)
    assert (found.half_width == loss.recorded.half_width[0, 0]).all()
    assert some.y.shape == (500, 23)
    assert bool(some.mask[:, 20:].all())
    np.testing.assert_array_equal(some.y[:, :20], np.broadcast_to(task.y, (500, 20)))
    mean, variance = member.anchor.predict_marginals(member.anchor.condition(*task), task.x[:1])
    std = np.sqrt(variance[0] + member.anchor.noise_std**2)
    drawn = np.asarray(some.y[:, 20])
    assert abs(drawn.mean() - mean[0]) < 4 * std / np.sqrt(500)
    assert abs(drawn.std() / std - 1) < 4 / np.sqrt(2 * 500)


def test_checkpoints_are_one_for_each_network(tmp_path):
    learner, tasks = sp.MARS(**SMALL, average=False), steps(20, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(denoised_mars, "task_nll", network_wins)
        whole = learner.fit(tasks, 0, progress=False, checkpoint=tmp_path / "a")
        assert {path.name for path in tmp_path.iterdir()} == {"a", "a.2"}
        again = learner.fit(tasks, 0, progress=False, resume=tmp_path / "a")
    assert eqx.tree_equal(whole.inference, again.inference)


@pytest.mark.slow
def test_few_tasks_have_no_network():
    prior = sp.MARS(**SMALL).fit(steps(7, 0), 0, progress=False)  # a fifth of seven is one
    assert isinstance(prior.inference, (ClosedForm, Average))


@pytest.mark.slow
def test_jumps_are_predicted_better_than_by_any_gaussian_process():
    """With fewer tasks and steps than `results/learned-score` has, so that it ends within minutes."""
    train, test = steps(300, 1), steps(200, 2).context_target(8)
    network = sp.MARS(training=TrainingConfig(steps=1000, learning_rate=2e-3, clip=1.0, chunk=250, patience=4))
    ours = network.fit(train, 0, progress=False)
    assert isinstance(ours.inference, Denoised)
    process = sp.learner("hierarchical-gp").fit(train, 0)
    nll = [sp.evaluate_pairs(each, test, 0)["nll"].to_numpy() for each in (process, ours)]
    gain = nll[0] - nll[1]
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.parametrize(
    "bad",
    [
        {"noised": 1.5},
        {"ordered": -0.1},
        {"levels": (1.0, 0.1)},
        {"held_out": 0.0},
        {"tasks_per_step": 0},
        {"networks": 9},
        {"most_points": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        sp.MARS(**bad)
