"""The simulated axis against closed forms, scipy.signal and conservation laws; then its environment."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import polynomial as poly
from scipy import signal

from scoreprior.environments import argus_sim as sim
from scoreprior.environments import environment

IDEAL = {
    "force_limit": 1e12,
    "viscous": 0.0,
    "coulomb": 0.0,
    "breakaway": 0.0,
    "resolution": 1e-13,
    "travel": 1e3,
    "filter_time": 0.0,
    "delay": 0,
}
run = eqx.filter_jit(sim.simulate)


@pytest.fixture(scope="module")
def env():
    return environment("argus-sim")


def axis(**changes):
    return sim.Axis(**(IDEAL | changes))


def trajectory(machine, gains, step=1e-3, phase=0.0):
    return run(machine, jnp.array(gains), jnp.array(step), jnp.array(phase))


def coast(machine, velocity, force=0.0, position=0.0, samples=2000):
    """Positions and velocities (samples,) under a constant force."""

    def body(state, _):
        after = sim.move(machine, *state, jnp.asarray(force, float))
        return after, after

    start = (jnp.asarray(position, float), jnp.asarray(velocity, float))
    positions, velocities = jax.lax.scan(body, start, None, samples)[1]
    return np.asarray(positions, float), np.asarray(velocities, float)


def test_pd_loop_converges_to_the_second_order_response():
    kp, kd, mass, step = 4e5, 2e3, 10.0, 1e-3
    decay = kd / (2 * mass)
    frequency = np.sqrt(kp / mass - decay**2)
    errors = []
    for period, samples in [(1e-4, 600), (5e-5, 1200), (2.5e-5, 2400)]:
        time = period * np.arange(1, samples + 1)
        exact = np.exp(-decay * time) * (np.cos(frequency * time) + decay / frequency * np.sin(frequency * time))
        got = trajectory(axis(period=period, samples=samples), [kp, 0.0, kd], step).position
        errors.append(np.abs(-np.asarray(got) / step - exact).max())
    assert errors[-1] < 0.01
    # Holding the force over a period makes the loop first-order accurate: halving it halves the error.
    np.testing.assert_allclose(np.divide(errors[1:], errors[:-1]), 0.5, atol=0.05)


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_linear_pid_loop_equals_its_transfer_function(delay):
    kp, ki, kd, mass, period, filter_time, step = 4e5, 1e7, 4e3, 10.0, 2.5e-4, 4e-4, 1e-3
    # Polynomials in the backward shift q = 1/z, lowest power first.
    plant = (np.array([0.0, 1.0, 1.0]) * period**2 / (2 * mass), np.array([1.0, -2.0, 1.0]))
    smooth = period / (period + filter_time)
    slope = (np.array([1.0, -1.0]) * kd * smooth / period, np.array([1.0, smooth - 1.0]))
    reference = (np.array([kp, ki * period - kp]), np.array([1.0, -1.0]))  # kp + ki * period * q / (1 - q)
    forward = poly.polymul(plant[0], np.eye(delay + 1)[delay])
    common = poly.polymul(poly.polymul(plant[1], slope[1]), reference[1])
    feedback = poly.polyadd(poly.polymul(reference[0], slope[1]), poly.polymul(slope[0], reference[1]))
    denominator = poly.polyadd(common, poly.polymul(forward, feedback))
    numerator = poly.polymul(forward, poly.polymul(reference[0], slope[1]))
    # lfilter takes polynomials in 1/z; the response to a unit step reference, from t = 0 on.
    expected = signal.lfilter(numerator, denominator, np.ones(601))[1:]
    machine = axis(delay=delay, samples=600, period=period, filter_time=filter_time)
    got = np.asarray(trajectory(machine, [kp, ki, kd], step).position) / step + 1
    np.testing.assert_allclose(got, expected, atol=2e-4)


def test_total_variation_of_a_second_order_loop_has_a_closed_form():
    kp, mass = 4e5, 10.0
    damping = np.array([0.2, 0.4, 0.7])
    kd = 2 * damping * np.sqrt(kp * mass)
    # Extremes of the error shrink by r = exp(-pi z / sqrt(1 - z^2)): TV = (1 + r) / (1 - r).
    ratio = np.exp(-np.pi * damping / np.sqrt(1 - damping**2))
    gains = jnp.stack([jnp.full(3, kp), jnp.zeros(3), jnp.asarray(kd, float)], axis=1)
    machine = axis(period=1e-5, samples=30_000)
    got = sim.variations(machine, gains, jnp.full(3, 1e-3), jnp.zeros(3))
    np.testing.assert_allclose(got, (1 + ratio) / (1 - ratio), rtol=0.01)


def test_variation_is_the_variation_of_the_trajectory():
    machine, gains = sim.Axis(), [6e5, 1e7, 2.5e3]
    positions = np.asarray(trajectory(machine, gains, 1e-4, 0.3).position, float)
    path = np.concatenate([[-(1e-4 + 0.3 * float(machine.resolution))], positions])
    got = sim.variations(machine, jnp.array([gains]), jnp.array([1e-4]), jnp.array([0.3]))[0]
    assert float(got) == pytest.approx(np.abs(np.diff(path)).sum() / 1e-4, rel=1e-4)


def test_without_force_and_friction_energy_is_conserved():
    positions, velocities = coast(axis(), velocity=0.05)
    np.testing.assert_array_equal(velocities, np.float32(0.05))
    np.testing.assert_allclose(positions, 0.05 * 250e-6 * np.arange(1, 2001), rtol=1e-4)


def test_with_zero_gains_the_axis_rests():
    np.testing.assert_array_equal(trajectory(sim.Axis(), [0.0, 0.0, 0.0]).position, np.float32(-1e-3))


def test_dry_friction_stops_the_axis_after_its_braking_distance():
    machine = axis(coulomb=3.0, breakaway=3.0)
    positions, velocities = coast(machine, velocity=0.05)
    assert velocities[-1] == 0.0
    # m v^2 / 2 = F s; the last, partial period adds at most one period of the lowest speed.
    slack = 250e-6 * (250e-6 * 3.0 / 10.0)
    assert positions[-1] == pytest.approx(10.0 * 0.05**2 / (2 * 3.0), abs=slack + 1e-6)


def test_viscous_friction_slows_exponentially():
    _, velocities = coast(axis(viscous=40.0, period=2.5e-5), velocity=0.05, samples=4000)
    np.testing.assert_allclose(velocities, 0.05 * np.exp(-4.0 * 2.5e-5 * np.arange(1, 4001)), rtol=1e-3)


def test_axis_sticks_below_breakaway_and_friction_falls_with_speed():
    machine = axis(coulomb=3.0, breakaway=4.5)
    stuck, _ = coast(machine, 0.0, force=4.49)
    np.testing.assert_array_equal(stuck, 0.0)
    _, loose = coast(machine, 0.0, force=4.51, samples=20_000)
    # Well above the Stribeck velocity only Coulomb friction is left: a = (4.51 - 3) / m.
    assert loose[-1] > 0.1
    assert np.diff(loose)[-1] / 250e-6 == pytest.approx(1.51 / 10.0, rel=0.02)


@pytest.mark.parametrize("step", [1e-3, 1e-2])
def test_force_limit_binds_and_is_respected(step):
    force = np.asarray(trajectory(sim.Axis(), [8e5, 1e7, 3e3], step).force)
    assert np.abs(force).max() == 250.0


def test_encoder_reads_the_nearest_count():
    machine = sim.Axis(resolution=2e-6)
    sample = trajectory(machine, [6e5, 1e7, 3e3], 1e-4, 0.4)
    counts = np.asarray(sample.measured, float) / 2e-6
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-3)
    before = np.concatenate([[-(1e-4 + 0.8e-6)], np.asarray(sample.position, float)[:-1]])
    assert np.abs(sample.measured - before).max() <= 1e-6 * (1 + 1e-3)
    assert len(np.unique(np.round(counts))) > 5


def test_delay_shifts_the_response():
    prompt, late = (trajectory(axis(delay=delay), [4e5, 0.0, 0.0]) for delay in (0, 3))
    np.testing.assert_array_equal(late.position[:3], np.float32(-1e-3))
    np.testing.assert_array_equal(late.force[:3], 0.0)
    # Until the first delayed force has moved the axis the command cannot know of the delay.
    assert late.force[3] == prompt.force[0] == pytest.approx(400.0)
    assert late.position[3] == prompt.position[0]


def test_loop_is_stable_up_to_its_delay_margin():
    kp, kd, mass, period = 4e5, 4e3, 10.0, 2.5e-4
    crossover = np.sqrt((kd**2 + np.sqrt(kd**4 + 4 * mass**2 * kp**2)) / (2 * mass**2))
    margin = np.arctan(kd * crossover / kp) / crossover / period  # in samples, less about one for sampling
    assert 12 < margin < 14
    early, late = (np.abs(trajectory(axis(delay=delay), [kp, 0.0, kd]).position) for delay in (10, 15))
    assert early[-200:].max() < 0.2 * early[:200].max()
    assert late[-200:].max() > 5 * late[:200].max()


def test_anti_windup_limits_the_integral():
    gains = [4e5, 3e7, 6e3]
    overshoot = float(trajectory(sim.Axis(coulomb=0.0, breakaway=0.0), gains, 1e-2).position.max())
    linear = float(trajectory(axis(filter_time=400e-6, delay=2, viscous=40.0), gains, 1e-2).position.max())
    # Without a limit nothing winds up; with one, 10 mm keep the motor saturated for most of the way.
    assert 0 < overshoot < 1.5 * linear


def test_end_stops_bound_an_unstable_loop():
    positions = trajectory(sim.Axis(), [-1e6, 0.0, 0.0], 1e-3).position  # positive feedback runs away
    np.testing.assert_array_equal(positions[-100:], np.float32(-30e-3))
    arguments = (jnp.array([[-1e6, 0.0, 0.0]]), jnp.array([1e-3]), jnp.array([0.0]))
    assert float(sim.variations(sim.Axis(), *arguments)[0]) == pytest.approx(29.0, rel=1e-4)


def test_machine_numbers_do_not_retrace():
    traced = eqx.debug.assert_max_traces(jax.vmap(sim.variation, in_axes=(None, 0, 0, 0)), max_traces=1)
    once = eqx.filter_jit(traced)
    arguments = (jnp.array([[4e5, 1e7, 4e3]]), jnp.array([1e-4]), jnp.array([0.0]))
    results = [float(once(sim.Axis(mass=mass, samples=50), *arguments)[0]) for mass in (10.0, 12.0)]
    assert results[0] != results[1]


def test_sizes(env):
    assert (len(env.meta_train), len(env.meta_valid), len(env.meta_test)) == (20, 4, 4)
    np.testing.assert_array_equal(env.meta_train.sizes, 500)
    for pairs in (env.meta_valid, env.meta_test):
        np.testing.assert_array_equal(pairs.context.sizes, 100)
        np.testing.assert_array_equal(pairs.target.sizes, 400)
    assert env.meta_train.dim == 3
    assert env.selection_train is env.meta_train


def test_tasks_are_disjoint_and_cover_the_grid(env):
    groups = [
        {task.name for task in tasks} for tasks in (env.meta_train, env.meta_valid.context, env.meta_test.context)
    ]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 28
    assert groups[0] | groups[2] == {f"step {size * 1e6:.1f} um" for size in np.geomspace(1e-5, 1e-2, 24)}
    assert [task.name for task in env.meta_test.target] == [task.name for task in env.meta_test.context]


def test_test_tasks_are_one_end_and_one_of_each_third():
    ends = set()
    for split in range(30):
        chosen = sim._test_tasks(np.random.default_rng(split))
        inner = sorted(set(chosen) - {0, 23})
        assert len(set(chosen)) == 4
        assert len(inner) == 3
        assert inner[0] <= 8 < inner[1] <= 15 < inner[2]
        ends |= set(chosen) & {0, 23}
    assert ends == {0, 23}


def test_splits_are_reproducible_and_differ(env):
    again, other = sim.argus_sim(split=0), sim.argus_sim(split=1)
    np.testing.assert_array_equal(env.meta_train.y, again.meta_train.y)
    np.testing.assert_array_equal(env.meta_test.target.x, again.meta_test.target.x)
    assert not np.array_equal(env.meta_train.x, other.meta_train.x)
    assert other.split == 1


def test_targets_are_finite_and_gains_in_their_box(env):
    for tasks in (env.meta_train, env.meta_valid.target, env.meta_test.target):
        assert np.isfinite(tasks.y).all()
        assert (tasks.y >= 0).all()
        assert tasks.y.max() < 10
        assert (tasks.x >= sim.GAINS_LOW).all()
        assert (tasks.x <= sim.GAINS_HIGH).all()


def test_tasks_are_related_but_not_the_same(env):
    def features(x):
        z = 2 * (x - sim.GAINS_LOW) / (sim.GAINS_HIGH - sim.GAINS_LOW) - 1
        products = [z[:, i] * z[:, j] for i in range(3) for j in range(i, 3)]
        return np.column_stack([np.ones(len(z)), z, *products])

    pooled = np.linalg.lstsq(features(env.meta_train.x), env.meta_train.y, rcond=None)[0]
    nothing, shared, own = [], [], []
    for context, target in zip(env.meta_test.context, env.meta_test.target):
        fitted = np.linalg.lstsq(features(context.x), context.y, rcond=None)[0]
        nothing.append(np.mean((target.y - env.meta_train.y.mean()) ** 2))
        shared.append(np.mean((target.y - features(target.x) @ pooled) ** 2))
        own.append(np.mean((target.y - features(target.x) @ fitted) ** 2))
    assert np.mean(shared) < 0.75 * np.mean(nothing)
    assert np.mean(own) < 0.5 * np.mean(shared)


def test_card_says_that_it_is_a_stand_in(env):
    assert "not the original" in env.card.title
    assert "stand-in" in env.card.notes
    assert "divided by the step size" in str(env.card)
