"""MARS: the score points home, inference with a known score finds the known posterior, errors are said early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scoreprior.learners._calibration import predictive_nll
from scoreprior.learners.mars_prior import _smooth

import scoreprior as sp
from scoreprior import _checkpoint
from scoreprior.gp import ProcessConfig
from scoreprior.gp.kernels import LinearMean, Matern
from scoreprior.gp.process import GaussianProcess
from scoreprior.gp.scale import ScaleCalibration
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.learners import mars
from scoreprior.learners._base import bare, evaluate_many, infer_many
from scoreprior.learners.gaussian_process import PooledGP, PooledGPPrior
from scoreprior.scores.anchored import AnchoredScore
from scoreprior.scores.gaussian import ShrunkGaussian
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.serialization import describe
from scoreprior.tasks import bucket
from scoreprior.training import TrainingConfig


def process() -> GaussianProcess:
    mean = LinearMean(jnp.float32(0.3), jnp.array([0.5]))
    return GaussianProcess(mean, Matern(jnp.float32(1.0), jnp.array([1.0]), 2.5), jnp.float32(0.1))


@eqx.filter_jit
def _network(key: jax.Array) -> ScoreNetwork:
    return ScoreNetwork(1, NetworkConfig(embedding=16, heads=2, key_size=8), key)


@eqx.filter_jit
def _values(score: AnchoredScore, f: jax.Array, x: jax.Array) -> jax.Array:
    """The score of each row of f (n, k)."""
    return jax.vmap(lambda one: score(one, x))(f)


def anchored(seed: int, size: float) -> AnchoredScore:
    """A score with an untrained network, its output scaled up as a badly fitted one's would be."""
    network = _network(jax.random.key(seed))
    network = eqx.tree_at(lambda n: n.final.weight, network, size * network.final.weight)
    return AnchoredScore(network, process(), jnp.float32(0.1), jnp.float32(4.0))


@pytest.mark.parametrize("seed", range(3))
def test_the_score_points_home_from_up_to_100_standard_deviations(seed: int):
    rng = np.random.default_rng(seed)
    score = anchored(seed, 1.0)
    x = jnp.asarray(rng.uniform(-2, 2, (12, 1)), jnp.float32)
    home = np.asarray(score.process.mean(x))
    direction = rng.normal(size=(50, 12)).astype(np.float32)
    direction = direction / np.sqrt(np.mean(direction**2, axis=1, keepdims=True))
    for distance in (10.0, 30.0, 100.0):
        values = np.asarray(_values(score, home + np.float32(distance) * direction, x))
        assert (np.sum(values * direction, axis=1) < 0).all()


def test_what_the_network_adds_is_bounded():
    score = anchored(0, 100.0)
    bare = AnchoredScore(None, score.process, score.level, score.reach)
    x = jnp.linspace(-2, 2, 8)[:, None]
    added = eqx.filter_jit(lambda score: score.network(score.process.mean(x) + 4.0, x))(score)  # 4 is the reach
    far = jnp.asarray([[1e3] * 8, [1e5] * 8], jnp.float32)
    for whole, anchor in zip(*(np.asarray(_values(each, far, x)) for each in (score, bare))):
        # Round-off of the anchor at such distances is what limits the comparison.
        np.testing.assert_allclose(whole - anchor, added, atol=1e-5 * np.abs(anchor).max() + 1e-3)


def test_without_a_network_the_score_is_the_process_own():
    score = AnchoredScore(None, process(), jnp.float32(0.2), jnp.float32(4.0))
    x = jnp.linspace(-2, 2, 5)[:, None]
    f = jnp.sin(x[:, 0])
    expected = eqx.filter_jit(lambda process: process.score(f, x, jnp.float32(0.2)))(score.process)
    np.testing.assert_allclose(_values(score, f[None], x)[0], expected, rtol=1e-5)


# With one kind of deviation: what is tested is inference, whatever the process, and more kinds take longer to compile.
BASE = ProcessConfig(deviation=("matern52",), starts=1, tuning_evaluations=0, frequencies=0)
GRID = np.linspace(-4.5, 4.5, 30)


@pytest.fixture(scope="module")
def anchor_only() -> tuple[sp.Environment, sp.Prior, sp.Prior]:
    env = sp.environment("sinusoid")
    inference = FSVGDConfig(steps=300, measurement_points=12, bandwidth=10.0)
    prior = sp.MARS(base=BASE, network=None, inference=inference).fit(env.meta_train, 0)
    # The same process in both, so that only the inference differs.
    return env, prior, PooledGPPrior(prior.standardizer, prior.score.process)


def test_inference_with_a_gaussian_score_finds_the_gaussian_posterior(anchor_only):
    env, prior, exact = anchor_only
    tasks, x = list(env.meta_test.context.take(range(8))), GRID
    alone = replace(prior, closed_form=False)  # which changes predictives, not what is inferred
    # One by one, by the program that other tests compile too.
    ours = [sp.Posterior(alone, prior.condition(task.x, task.y, i).state).predict(x) for i, task in enumerate(tasks)]
    truth = [exact.condition(task.x, task.y, 0).predict(x) for task in tasks]
    for mine, theirs in zip(ours, truth):
        # Ten particles: their mean has a standard error of a third of the posterior's spread.
        assert np.sqrt(np.mean(((mine.mean - theirs.mean) / theirs.std) ** 2)) < 0.5
    ratio = np.mean([mine.std.mean() / theirs.std.mean() for mine, theirs in zip(ours, truth)])
    assert 0.7 < ratio < 1.3


def test_the_closed_form_is_the_centre_and_half_of_the_predictive(anchor_only):
    env, prior, exact = anchor_only
    context, x = env.meta_test.context[0], GRID
    state = prior.condition(context.x, context.y, 0)
    ours, truth = state.predict(x), exact.condition(context.x, context.y, 0).predict(x)
    np.testing.assert_allclose(ours.mean, truth.mean, atol=1e-4)
    np.testing.assert_allclose(ours.functions.mean(0), truth.mean, atol=1e-4)
    alone = sp.Posterior(replace(prior, closed_form=False), state.state).predict(x)
    np.testing.assert_allclose(ours.std**2, (np.minimum(alone.std, truth.std) ** 2 + truth.std**2) / 2, rtol=1e-3)


def test_particles_that_have_lost_their_way_do_not_widen_the_predictive(anchor_only):
    """What was seen on one split of Berkeley: particles four times as wide as the posterior they stand for."""
    env, prior, exact = anchor_only
    context, x = env.meta_test.context[0], np.linspace(-4.5, 4.5, 30)
    state = prior.condition(context.x, context.y, 0)
    wild = sp.Posterior(prior, eqx.tree_at(lambda s: s.particles.size, state.state, replace_fn=lambda size: 4 * size))
    truth = exact.condition(context.x, context.y, 0).predict(x)
    np.testing.assert_allclose(wild.predict(x).std, truth.std, rtol=1e-3)


@eqx.filter_jit
def kernel_and_mean(process: GaussianProcess, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return process.kernel(x, x), process.mean(x)


def test_a_temperature_weighs_the_prior_in_the_closed_form_too(anchor_only):
    temperature = 2.0
    env, prior, exact = anchor_only
    prior = eqx.tree_at(lambda p: p.hyper.temperature, prior, jnp.float32(temperature))
    context, x = env.meta_test.context[0], GRID
    # A prior whose score weighs T times as much is a process with the kernel K / T.
    scaler, process = exact.standardizer, exact.process
    known, asked = (scaler.scale_x(np.reshape(each, (-1, 1))) for each in (context.x, x))
    points = np.concatenate([known, asked])
    covariance, means = (np.asarray(each, np.float64) for each in kernel_and_mean(process, points.astype(np.float32)))
    covariance, seen, new = covariance / temperature, slice(len(known)), slice(len(known), None)
    gram = covariance[seen, seen] + float(process.noise_std) ** 2 * np.eye(len(known))
    gain = np.linalg.solve(gram, covariance[seen, new]).T
    residual = (context.y - scaler.y_mean) / scaler.y_std - means[seen]
    mean = means[new] + gain @ residual
    variance = np.diag(covariance[new, new] - gain @ covariance[seen, new]) + float(process.noise_std) ** 2
    predictive = prior.condition(context.x, context.y, 0).predict(x)
    np.testing.assert_allclose(predictive.mean, scaler.unscale_y(mean), atol=2e-3 * scaler.y_std)
    np.testing.assert_allclose(predictive.scales[-1], np.sqrt(variance) * scaler.y_std, rtol=1e-2)


def test_the_widths_of_the_process_are_those_of_the_predictive(anchor_only):
    env, prior, exact = anchor_only
    widths = ScaleCalibration(jnp.array([-1.0, 1.0]), jnp.array([0.5, -0.5]), jnp.float32(0.8))
    wider = eqx.tree_at(lambda p: p.score.process.widths, prior, widths, is_leaf=lambda leaf: leaf is None)
    wider_exact = eqx.tree_at(lambda p: p.process.widths, exact, widths, is_leaf=lambda leaf: leaf is None)
    context, x = env.meta_test.context[0], GRID
    scaler, process = exact.standardizer, exact.process
    points = np.concatenate([scaler.scale_x(np.reshape(context.x, (-1, 1))), scaler.scale_x(x[:, None])])
    covariance, means = (np.asarray(each, np.float64) for each in kernel_and_mean(process, points.astype(np.float32)))
    seen, new = slice(len(context)), slice(len(context), None)
    residual = (context.y - scaler.y_mean) / scaler.y_std - means[seen]
    gram = covariance[seen, seen] + float(process.noise_std) ** 2 * np.eye(len(context))
    log_surprise = np.log((10 + residual @ np.linalg.solve(gram, residual)) / (10 + len(context)))
    explained = covariance[new, seen] @ np.linalg.solve(gram, covariance[seen, new])
    prior_variance = np.diag(covariance[new, new]) + float(process.noise_std) ** 2
    share = np.sqrt(np.diag(explained) / prior_variance)
    # ScaleCalibration change predictives, not what is inferred: one state serves all.
    inferred = prior.condition(context.x, context.y, 0).state
    known_exactly = exact.condition(context.x, context.y, 0).state
    alone = {"closed_form": False}
    for before, after, state in (
        (replace(prior, **alone), replace(wider, **alone), inferred),
        (exact, wider_exact, known_exactly),
    ):
        plain, wide = (sp.Posterior(each, state).predict(x) for each in (before, after))
        np.testing.assert_allclose(wide.mean, plain.mean, atol=1e-4 * scaler.y_std)
        level = (plain.mean - scaler.y_mean) / scaler.y_std
        log_factor = share * np.interp(level, [-1, 1], [0.5, -0.5]) + 0.8 * log_surprise
        np.testing.assert_allclose(wide.std / plain.std, np.exp(1.6 * np.tanh(log_factor / 1.6)), rtol=2e-3)
    # In a closed form the exact predictive is all there is: these are the widths that were learned for it.
    np.testing.assert_allclose(sp.Posterior(wider, inferred).predict(x).std, wide.std, rtol=1e-3)


def with_idle_widths(prior: sp.Prior) -> sp.Prior:
    """The prior with widths that change nothing."""
    widths = ScaleCalibration(jnp.array([-1.0, 1.0]), jnp.zeros(2), jnp.float32(0.0))
    return eqx.tree_at(lambda p: p.score.process.widths, prior, widths, is_leaf=lambda leaf: leaf is None)


def test_where_the_closed_form_is_all_no_particle_is_moved(anchor_only, monkeypatch):
    env, prior, _ = anchor_only
    context = jax.tree.map(lambda leaf: leaf[0], prior.standardizer.apply(env.meta_test.context.take([0])).padded())
    runs: list[Any] = []
    monkeypatch.setattr("scoreprior.inference.fsvgd.run", lambda *given: runs.append(given) or given[5])
    for each, expected in ((prior, 1), (with_idle_widths(prior), 0), (replace(prior, closed_form=False), 1)):
        runs.clear()
        jax.eval_shape(bare(each).infer, context, jax.random.key(0))
        assert len(runs) == expected


@pytest.mark.slow
def test_where_the_closed_form_is_all_functions_are_draws_of_it(anchor_only):
    env, prior, exact = anchor_only
    contexts, x = env.meta_test.context.take(range(20)), GRID
    ours, truth = (each.condition_many(contexts, 0).predict([x] * 20) for each in (with_idle_widths(prior), exact))
    noise = float(exact.process.noise_std * exact.standardizer.y_std) ** 2 * np.mean(exact.process.tails**2)
    ratios = []
    for mine, theirs in zip(ours, truth):
        np.testing.assert_allclose(mine.mean, theirs.mean, atol=1e-4)
        np.testing.assert_allclose(mine.std, theirs.std, rtol=1e-3)
        ratios.append(np.mean(mine.functions.var(0, ddof=1)) / np.mean(theirs.std**2 - noise))
    # Ten draws in some three directions of much variance: a standard error of sqrt(2 / (9 * 3)) for each of 20 tasks,
    # 0.06 for all. Four of them, and a little for the regression that makes networks of the draws.
    assert 0.7 < np.mean(ratios) < 1.3


def test_a_temperature_is_no_surprise(anchor_only):
    env, prior, _ = anchor_only
    context = prior.standardizer.apply(env.meta_test.context.take([0])).padded()
    context = jax.tree.map(lambda leaf: leaf[0], context)
    cold = eqx.tree_at(lambda p: p.hyper.temperature, prior, jnp.float32(0.3))
    condition = eqx.filter_jit(lambda prior: prior._condition(context))
    plain, colder = (condition(bare(each)) for each in (prior, cold))
    np.testing.assert_allclose(colder.surprise, plain.surprise, rtol=1e-6)
    assert not np.allclose(colder.weights, plain.weights, rtol=0.01)


def test_the_anchor_is_the_hierarchical_process_of_the_same_seed(anchor_only):
    env, prior, _ = anchor_only
    same = PooledGP(BASE).fit(env.meta_train, 0).process
    assert eqx.tree_equal(same, prior.process)


def test_draws_from_the_prior_have_the_anchors_moments(anchor_only):
    _, prior, _ = anchor_only
    x = np.array([[-3.0], [0.0], [2.0]])
    draws = prior.sample(x, key=0, n=400)
    process, scaler = prior.score.process, prior.standardizer
    inputs = jnp.asarray(scaler.scale_x(x), jnp.float32)
    std = np.sqrt(np.asarray(process.kernel.diagonal(inputs)) + float(prior.score.level) ** 2) * scaler.y_std
    mean = scaler.unscale_y(np.asarray(process.mean(inputs)))
    assert draws.shape == (400, 3)
    # 400 independent chains: four standard errors, and the discretisation's 1% of the variance.
    assert (np.abs(draws.mean(0) - mean) < 4 * std / 20).all()
    assert (np.abs(draws.std(0) / std - 1) < 4 / np.sqrt(800) + 0.01).all()


def test_smoothing_keeps_mean_and_variance_and_fills_the_gaps():
    rng = np.random.default_rng(0)
    locs, scales = rng.normal(size=(10, 4)).astype(np.float32), np.full((10, 4), 0.2, np.float32)
    smooth_locs, smooth_scales = map(np.asarray, jax.jit(_smooth)(locs, scales, jnp.float32(0.45)))
    np.testing.assert_allclose(smooth_locs.mean(0), locs.mean(0), atol=1e-6)
    before, after = locs.var(0) + 0.04, smooth_locs.var(0) + (smooth_scales**2).mean(0)
    np.testing.assert_allclose(after, before, rtol=1e-5)
    assert (smooth_scales > scales).all()


def test_tails_widen_the_predictive_around_the_same_mean(anchor_only):
    env, prior, _ = anchor_only
    context = env.meta_test.context[0]
    x = np.linspace(-4, 4, 5)
    one = eqx.tree_at(lambda p: p.score.process.tails, prior, np.ones(1, np.float32))
    two = eqx.tree_at(lambda p: p.score.process.tails, prior, np.array([0.5, 3.0], np.float32))
    state = prior.condition(context.x, context.y, 0).state
    narrow, wide = (sp.Posterior(p, state).predict(x) for p in (one, two))
    np.testing.assert_allclose(wide.mean, narrow.mean, atol=1e-4)
    np.testing.assert_allclose(wide.std, narrow.std * np.sqrt((0.25 + 9) / 2), rtol=1e-3)


@pytest.mark.slow
def test_chunks_of_tasks_are_the_tasks_one_by_one(anchor_only):
    env, prior, _ = anchor_only
    # Few steps: batches of other sizes sum in another order, and many steps would blow the round-off up.
    prior = replace(prior, inference=replace(prior.inference, steps=2), settle=2)
    context = env.meta_test.context.take(range(13))  # a chunk of ten and a piece of one
    x = np.linspace(-4, 4, 5)
    keys = jax.random.split(jax.random.key(3), 13)
    many = prior.condition_many(context, 3).predict([x] * 13)
    for i in (0, 9, 12):
        batch = prior.standardizer.apply(context.take([i])).padded(bucket(len(context[i])))
        state = infer_many(bare(prior), batch, keys[i : i + 1])
        locs = evaluate_many(bare(prior), state, jnp.asarray(prior.standardizer.scale_x(x[:, None]), jnp.float32)[None])
        mean = prior.standardizer.unscale_y(np.asarray(locs.draws[0]).mean(0))
        np.testing.assert_allclose(many[i].mean, mean, atol=1e-3 * prior.standardizer.y_std)


def test_annealing_goes_from_coarse_to_fine():
    score = AnchoredScore(None, process(), jnp.float32(0.05), jnp.float32(4.0), jnp.float32(1.0))
    levels = [float(score.annealed(jnp.float32(p)).level) for p in (0.0, 0.3, 0.7, 1.0)]
    np.testing.assert_allclose(levels[0], 1.0, rtol=1e-5)
    assert levels[0] > levels[1] > levels[2]
    np.testing.assert_allclose(levels[2:], 0.05, rtol=1e-5)
    x = jnp.linspace(-2, 2, 5)[:, None]
    f = jnp.sin(x[:, 0])
    exact = eqx.filter_jit(lambda process: process.score(f, x, jnp.float32(1.0)))(score.process)
    np.testing.assert_allclose(_values(score.annealed(jnp.float32(0.0)), f[None], x)[0], exact, rtol=1e-4)


SMALL = {
    "base": ProcessConfig(evidence_evaluations=5, tuning_evaluations=0, frequencies=0, starts=2),
    "network": NetworkConfig(embedding=8, heads=2, key_size=4),
    "training": TrainingConfig(steps=40, chunk=10),
    "inference": FSVGDConfig(steps=30, particles=4, measurement_points=4),
    "settle": 30,
}


@pytest.mark.slow
def test_a_noise_conditional_network_is_trained_and_used():
    env = sp.environment("sinusoid")
    prior = sp.MARS(**SMALL, anneal=1.0, held_out=0.0).fit(env.meta_train, 0, progress=False)
    assert prior.score.network.noise_conditional
    context = env.meta_test.context[0]
    assert np.isfinite(prior.condition(context.x, context.y, 0).predict([0.0, 1.0]).mean).all()


@pytest.mark.slow
def test_learned_settings_predict_the_training_tasks_better():
    env = sp.environment("sinusoid")
    plain = sp.MARS(**{**SMALL, "network": None}, noise_std=1.0)
    fixed = plain.fit(env.meta_train, 0, progress=False)
    learned = replace(plain, learn=("noise_std", "bandwidth", "temperature")).fit(env.meta_train, 0, progress=False)
    assert learned.hyper.noise_std < fixed.hyper.noise_std
    before, after = (predictive_nll(p, env.meta_train, jax.random.key(9)) for p in (fixed, learned))
    gain = before - after
    assert gain.mean() > 2 * gain.std() / np.sqrt(len(gain))
    with pytest.raises(ValueError, match="colour"):
        replace(plain, learn=("colour",))


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_to_the_same_prior(tmp_path, monkeypatch):
    env = sp.environment("sinusoid")
    learner = sp.MARS(**SMALL, held_out=0.0)
    whole = learner.fit(env.meta_train, 0, progress=False)
    file = tmp_path / "training"
    write, calls = _checkpoint.write, []

    def cut(*args):
        write(*args)
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(_checkpoint, "write", cut)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(env.meta_train, 0, progress=False, checkpoint=file)
    monkeypatch.setattr(_checkpoint, "write", write)
    again = learner.fit(env.meta_train, 0, progress=False, checkpoint=file)
    for a, b in zip(jax.tree.leaves(eqx.filter(whole, eqx.is_array)), jax.tree.leaves(eqx.filter(again, eqx.is_array))):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gain", "asked", "better", "stays"), [(0.1, 2, True, True), (0.1, 2, False, False), (0.0, 0, True, False)]
)
def test_the_network_stays_if_its_gain_is_no_chance_and_it_predicts_better(monkeypatch, gain, asked, better, stays):
    """With noise of 0.2 in 64 draws the standard error of the gain is 0.025: 0.1 is clear, 0 is not."""
    draws = 0.2 * np.random.default_rng(0).normal(size=64)
    losses = [draws - draws.mean() + gain, np.zeros(64)]  # without the network, with it
    monkeypatch.setattr(mars, "evaluate", lambda *_: losses.pop(0))
    nlls = [1.0, 0.0 if better else 2.0]
    monkeypatch.setattr(mars, "predictive_nll", lambda *_: np.array([nlls.pop(0)]))
    learn = mars.fit_average
    monkeypatch.setattr(mars, "fit_average", lambda *args: (learn(*args)[0],) * 2)
    prior = sp.MARS(**SMALL).fit(sp.environment("sinusoid").meta_train, 0, progress=False)
    assert (prior.score.network is not None) == stays
    assert (prior.second is None) == stays  # beside a network nobody would hear it
    assert 2 - len(nlls) == asked


@pytest.mark.slow
def test_judging_the_network_compiles_nothing_that_training_did_not(monkeypatch):
    traced, losses = [], mars._HeldOut.__call__
    monkeypatch.setattr(mars._HeldOut, "__call__", lambda self, network: (traced.append(1), losses(self, network))[1])
    # A size of its own, for which no other test has compiled anything.
    prior = sp.MARS(**SMALL | {"points": 5}).fit(sp.environment("sinusoid").meta_train, 0, progress=False)
    assert "held_out_loss_without_network" in prior.about()["metrics"]
    assert len(traced) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "settings", "learns"),
    [
        (7, {}, False),
        (7, {"held_out": 0.0}, True),
        (7, {"base": None, "noise_std": 0.1, "settle": 0, "level": 0.1}, True),
    ],
)
def test_a_network_that_nobody_can_judge_is_left_out(count: int, settings: dict[str, Any], learns: bool):
    tasks = sp.environment("sinusoid").meta_train.take(range(count))  # a fifth of seven is one
    prior = sp.MARS(**SMALL | settings).fit(tasks, 0, progress=False)
    assert (prior.score.network is not None) == learns


@pytest.mark.slow
def test_the_file_says_what_made_the_prior(tmp_path):
    env = sp.environment("sinusoid")
    prior = sp.MARS(**SMALL).fit(env.meta_train, 0, progress=False)
    prior.save(tmp_path / "a.prior", metadata={"note": "mine"})
    info = describe(tmp_path / "a.prior")
    assert info["method"] == "MARS"
    assert info["config"]["training"]["steps"] == 40
    np.testing.assert_allclose(info["domain"]["low"], min(task.x.min() for task in env.meta_train))
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
def test_the_trained_score_points_home_in_every_environment(name: str):
    env = sp.environment(name)
    prior = sp.MARS(**SMALL, held_out=0.0).fit(env.meta_train, 0, progress=False)
    assert prior.score.network is not None
    rng = np.random.default_rng(0)
    rows = np.concatenate([task.x for task in env.meta_train])
    chosen = rows[rng.choice(len(rows), 12, replace=False)]
    x = jnp.asarray(prior.standardizer.scale_x(chosen), jnp.float32)
    direction = jnp.asarray(rng.normal(size=(50, 12)), jnp.float32)
    direction = direction / jnp.sqrt(jnp.mean(direction**2, axis=1, keepdims=True))
    # A standardised unit is one standard deviation of the training targets.
    for distance in (10.0, 30.0, 100.0):
        values = jax.vmap(lambda f: prior.score(f, x))(prior.score.process.mean(x) + distance * direction)
        assert (jnp.sum(values * direction, axis=1) < 0).all()


def test_particles_are_joint_functions(anchor_only):
    env, prior, _ = anchor_only
    context = env.meta_test.context[0]
    predictive = prior.condition(context.x, context.y, 0).predict(GRID)
    assert predictive.functions.shape == (10, len(GRID))


def test_configurations_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="needs a noise_std"):
        sp.MARS(base=None)
    with pytest.raises(ValueError, match="a network or an estimator"):
        sp.MARS(base=None, network=None, noise_std=0.1, settle=0)
    with pytest.raises(ValueError, match="no network to train"):
        sp.MARS(estimator=ShrunkGaussian())
    with pytest.raises(ValueError, match="denoising"):
        sp.MARS(objective="exact")


@pytest.mark.slow
def test_progress_never_changes_results():
    env = sp.environment("sinusoid")
    small = sp.MARS(
        network=NetworkConfig(embedding=8, heads=2, key_size=4), training=TrainingConfig(steps=30, chunk=10)
    )
    loud, quiet = (small.fit(env.meta_train, 0, progress=progress) for progress in (True, False))
    for a, b in zip(jax.tree.leaves(eqx.filter(loud, eqx.is_array)), jax.tree.leaves(eqx.filter(quiet, eqx.is_array))):
        np.testing.assert_array_equal(a, b)
