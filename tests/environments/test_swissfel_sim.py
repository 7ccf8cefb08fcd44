"""The simulated laser against the equations it solves; then the runs and the environment made of them."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from scoreprior.environments import environment
from scoreprior.environments import swissfel_sim as sim

MACHINE = sim.Machine()


@pytest.fixture(scope="module")
def env():
    return environment("swissfel-sim")


@pytest.fixture(scope="module")
def recordings():
    """Six runs in order of time, two of them by Nelder-Mead."""
    return [sim.record(MACHINE, number, np.random.default_rng([7, number])) for number in range(6)]


@pytest.fixture
def one_run():
    return sim.draw_run(MACHINE, np.random.default_rng(3))


def test_power_solves_the_logistic_growth_equation():
    exponents = np.linspace(0.0, 25.0, 26)
    start = [MACHINE.startup_power]
    solved = solve_ivp(lambda _, p: p * (1 - p), (0, 25), start, t_eval=exponents, rtol=1e-9, atol=1e-14).y[0]
    np.testing.assert_allclose([sim.saturation(MACHINE, g) for g in exponents], solved, rtol=1e-6)


def test_orbit_is_what_kicks_and_betatron_rotations_give():
    response = sim.orbit_response()
    kicks, places, phase = np.linspace(0.0, 3.0, 4), np.linspace(0.6, 5.6, 6), np.deg2rad(50.0)
    orbit = np.zeros((6, 4))
    for j, kick in enumerate(kicks):
        state, here = np.array([0.0, 1.0]), kick
        for i, place in enumerate(places):
            if place > kick:
                c, s = np.cos(phase * (place - here)), np.sin(phase * (place - here))
                state, here = np.array([[c, s], [-s, c]]) @ state, place
                orbit[i, j] = state[0]
    scale = response[0, 0] / orbit[0, 0]
    np.testing.assert_allclose(response, np.kron(np.eye(2), scale * orbit), atol=1e-12)
    # E mean_i (R kick)_i^2 = trace(R R^T) / 12 for kicks of unit variance.
    assert np.trace(response @ response.T) / 12 == pytest.approx(1.0)


def test_energy_is_greatest_at_the_optimum(one_run):
    best, power = sim.lasing(MACHINE, one_run, one_run.optimum, 0.0)
    assert power > 0.8
    generator = np.random.default_rng(0)
    for direction in np.concatenate([np.eye(12), generator.standard_normal((20, 12))]):
        up, down = (sim.lasing(MACHINE, one_run, one_run.optimum + h * direction, 0.0)[0] for h in (0.02, -0.02))
        assert up < best
        assert up == pytest.approx(down, rel=1e-9)


def test_energy_saturates_and_vanishes_far_away(one_run):
    longer = dataclasses.replace(MACHINE, undulator_length=100.0)
    best = sim.lasing(longer, one_run, one_run.optimum, 0.0)[0]
    assert best == pytest.approx(1.5 * MACHINE.saturated_energy * one_run.energy, rel=1e-6)
    assert sim.lasing(MACHINE, one_run, np.ones(12), 0.0)[0] < 1e-3 * best


def test_machine_drifts_within_a_run(one_run):
    later = one_run.optimum + one_run.drift
    energies = [sim.lasing(MACHINE, one_run, x, 1.0)[0] for x in (later, one_run.optimum)]
    assert energies[0] > energies[1]
    before = sim.lasing(MACHINE, one_run, one_run.optimum, 0.0)[0]
    assert energies[0] == pytest.approx((1 - one_run.decay) * before)


@pytest.mark.parametrize("offset", [0.0, 0.2])
def test_readings_scatter_as_stated(one_run, offset):
    x, generator, count = one_run.optimum + offset, np.random.default_rng(5), 4000
    mean, power = sim.lasing(MACHINE, one_run, x, 0.0)
    spread = np.hypot((0.04 + 0.12 * (1 - power)) * mean, 4.0)
    readings = np.array([sim.reading(MACHINE, one_run, x, 0.0, generator) for _ in range(count)])
    assert abs(readings.mean() - mean) < 4 * spread / np.sqrt(count)
    assert abs(readings.std() / spread - 1) < 4 / np.sqrt(2 * count)


def test_runs_are_optimisations(recordings):
    for task in recordings:
        assert task.x.shape == (400, 12)
        assert task.x.min() >= 0
        assert task.x.max() <= 1
        assert task.y[-100:].mean() > task.y[:50].mean()
        # Points become less diverse (paper, appendix "SwissFEL").
        assert task.x[-100:].std(0).mean() < 0.5 * task.x[:100].std(0).mean()
    assert [task.name.endswith("(nelder_mead)") for task in recordings] == [False, False, True] * 2


def test_successive_points_are_not_independent(recordings):
    for task in recordings:
        centred = task.x - task.x.mean(0)
        correlation = (centred[1:] * centred[:-1]).sum(0) / (centred**2).sum(0)
        # For independent points each lag-one correlation, and so at most their mean, scatters by 1/sqrt(400).
        assert correlation.mean() > 4 / np.sqrt(400)


def test_working_point_leaves_a_signal():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        run = sim.draw_run(MACHINE, generator)
        x = sim.working_point(MACHINE, run, generator)
        left = sim.lasing(MACHINE, run, x, 0.0)[0] / sim.lasing(MACHINE, run, run.optimum, 0.0)[0]
        assert 0.2 <= left < 0.8


def test_sizes(env):
    assert (len(env.meta_train), len(env.meta_valid), len(env.meta_test)) == (5, 4, 4)
    for tasks in (
        env.meta_train,
        *(part for pair in (env.meta_valid, env.meta_test) for part in (pair.context, pair.target)),
    ):
        np.testing.assert_array_equal(tasks.sizes, 200)
        assert tasks.dim == 12
        assert np.isfinite(tasks.y).all()
        assert tasks.input_names == sim.KNOBS
    assert env.selection_train is env.meta_train


def test_runs_and_points_are_disjoint(env):
    groups = [
        {task.name for task in tasks} for tasks in (env.meta_train, env.meta_valid.context, env.meta_test.context)
    ]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 13
    for pairs in (env.meta_valid, env.meta_test):
        for context, target in zip(pairs.context, pairs.target):
            assert context.name == target.name
            assert not set(context.y) & set(target.y)


def test_splits_are_reproducible_and_differ(env):
    again, other = sim.swissfel_sim(split=0), sim.swissfel_sim(split=1)
    np.testing.assert_array_equal(env.meta_train.x, again.meta_train.x)
    np.testing.assert_array_equal(env.meta_test.target.y, again.meta_test.target.y)
    assert not np.array_equal(env.meta_train.x, other.meta_train.x)


def test_runs_are_related_but_not_the_same(env):
    def features(x):
        z = x - 0.5
        rows, columns = np.triu_indices(12)
        return np.column_stack([np.ones(len(z)), z, z[:, rows] * z[:, columns]])

    def ridge(tasks):
        centre, spread = tasks.y.mean(), tasks.y.std()
        a = features(tasks.x)
        weights = np.linalg.solve(a.T @ a + 0.1 * np.eye(a.shape[1]), a.T @ (tasks.y - centre) / spread)
        return lambda x: centre + spread * features(x) @ weights

    pooled = ridge(env.meta_train)
    correlations, ratios = [], []
    for context, target in zip(env.meta_test.context, env.meta_test.target):
        prediction, own = pooled(target.x), ridge(context)(target.x)
        correlations.append(np.corrcoef(prediction, target.y)[0, 1])
        ratios.append(np.mean((own - target.y) ** 2) / np.mean((prediction - target.y) ** 2))
    assert np.mean(correlations) > 0.4
    assert np.mean(ratios) < 0.5


def test_card_says_that_it_is_a_stand_in(env):
    assert "not the original" in env.card.title
    assert "stand-in" in env.card.notes
    assert "uJ" in env.card.units
