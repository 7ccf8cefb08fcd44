"""The loop of the Argus axis against closed forms, SciPy's filters and integrator, and anchors of the description."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal
from scipy.integrate import RK23

from scoreprior.environments import argus_loop as loop
from scoreprior.environments import argus_model
from scoreprior.environments.argus_plant import DEAD_TIME, PERIOD, STATES, continuous, sampled
from scoreprior.environments.argus_reference import Reference

NOMINAL = np.array([200.0, 600.0, 1000.0])
SHORT, SAMPLES = float(np.exp(-5)), 6000
# K, b1, b2, a1, a2 as the description prints them; b1 and b2 are to be multiplied by K.
PRINTED = [
    [0.9953097579, -1.964116473, 0.9906194961, -1.954948269, 0.981326986],
    [0.0790387742, 0, 0, -1.562284769, 0.6413235436],
    [0.9769851043, -1.899990858, 0.9539692032, -1.857321201, 0.9100572407],
]


def wavy() -> loop.Cogging:
    position = np.linspace(-20, 40, 2401)
    jitter = np.random.default_rng(0).uniform(-0.2, 0.2, position.shape) * 0.025
    position = position + jitter
    return loop.cogging_table(position, 2 * np.sin(position / 2.5) + 0.5 * np.cos(position * 3))


def machine(**changes) -> loop.Machine:
    return loop.Machine(sampled(), loop.FILTERS, wavy())._replace(**changes)


@jax.jit
def _errors(axis, gains, reference):
    return loop.errors(axis, gains, reference)


def run(axis, gains, step=SHORT, samples=2000):
    positions = Reference(step).at(PERIOD * np.arange(samples))
    with jax.enable_x64(True):
        doubles = jax.tree.map(lambda each: jnp.asarray(each, float), (axis, gains, positions))
        return np.asarray(_errors(*doubles))


def polynomials(section):
    b0, b1, b2, a1, a2 = section
    return np.array([b0, b1, b2]), np.array([1.0, a1, a2])


def test_filters_are_those_that_the_description_prints():
    for section, (gain, b1, b2, a1, a2) in zip(loop.FILTERS, PRINTED):
        np.testing.assert_allclose(section, [gain, gain * b1, gain * b2, a1, a2], rtol=1e-8)


@pytest.mark.parametrize(
    ("pole", "zero"), [((520.0, 0.0577), (520.0, 0.0288)), ((1000.0, 0.707), None), ((750.0, 0.2), (750.0, 0.1))]
)
def test_the_step_response_of_a_section_has_its_closed_form(pole, zero):
    b, a = polynomials(loop.section(pole, zero))
    response = signal.lfilter(b, a, np.ones(4000))
    assert response[0] == pytest.approx(b[0])
    assert response[-1] == pytest.approx(1.0)
    # 1 + A exp(-z w t) cos(w sqrt(1 - z^2) t + phase): two samples fix amplitude and phase, the rest follow.
    decay, turn = (
        np.exp(-pole[1] * 2 * np.pi * pole[0] * PERIOD),
        2 * np.pi * pole[0] * np.sqrt(1 - pole[1] ** 2) * PERIOD,
    )
    k = np.arange(1, 301)
    basis = decay ** k[:, None] * np.column_stack([np.cos(turn * k), np.sin(turn * k)])
    weights = np.linalg.solve(basis[1:3], response[2:4] - 1)
    np.testing.assert_allclose(response[2:301], 1 + basis[1:] @ weights, atol=1e-10)
    if zero is not None:  # at its own frequency a notch lets through about the ratio of the dampings
        _, through = signal.freqz(b, a, [2 * np.pi * zero[0] * PERIOD])
        assert abs(through[0]) == pytest.approx(zero[1] / pole[1], rel=0.05)


def test_cogging_is_the_linear_interpolation_of_its_table():
    table = wavy()
    place = np.concatenate([np.random.default_rng(1).uniform(-25, 45, 500), table.rows[:, 0]])
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(loop._cogging, (None, 0)))(loop.Cogging(jnp.asarray(table.rows)), jnp.asarray(place))
    np.testing.assert_allclose(found, np.interp(place, table.rows[:, 0], table.rows[:, 1]), atol=1e-9)


def by_scipy(axis: loop.Machine, gains: np.ndarray, step: float, samples: int) -> np.ndarray:
    """The run with SciPy: RK23 is the rule of Bogacki and Shampine, lfilter the printed filters in one."""
    a, b = continuous()
    numerator, denominator = np.ones(1), np.ones(1)
    for gain, b1, b2, a1, a2 in PRINTED:
        numerator = np.polymul(numerator, gain * np.array([1, b1, b2]))
        denominator = np.polymul(denominator, [1, a1, a2])
    commands: list[float] = []

    def slope(t, x):
        if t <= DEAD_TIME:
            return a @ x
        left, right = divmod((t - DEAD_TIME) / PERIOD, 1)
        return a @ x + b * ((1 - right) * commands[int(left)] + right * commands[int(left) + 1])

    # Without a tolerance every step is accepted, and as long as it may be.
    stepper = RK23(slope, 0.0, np.zeros(STATES), 1.0, max_step=PERIOD, first_step=PERIOD, rtol=1e-3, atol=1e30)
    reference = Reference(step).at(PERIOD * np.arange(samples))
    memory, integral, previous, found = np.zeros(6), 0.0, (0.0, 0.0), []
    for wanted in reference:
        p = stepper.y[-1]
        speeds = (wanted - previous[0] - p + previous[1]) / PERIOD
        previous = (wanted, p)
        filtered, memory = signal.lfilter(numerator, denominator, [speeds + gains[0] * (wanted - p)], zi=memory)
        g = gains[1] * 6.826666666666667e-5 / 1024 * filtered[0]
        integral = np.clip(integral + gains[2] / 65536 * g, -axis.integral_limit, axis.integral_limit)
        cog = np.interp(p + 8.5, axis.cogging.rows[:, 0], axis.cogging.rows[:, 1])
        commands.append(g + integral - 1.0743808e-5 * cog)
        found.append(wanted - p)
        stepper.step()
    return np.array(found)


@pytest.mark.parametrize("gains", [NOMINAL, np.array([400.0, 1200.0, 4000.0])], ids=["stable", "unstable"])
def test_a_run_equals_an_integration_with_scipy(gains):
    axis = machine(integral_limit=1e-3)  # which the unstable run reaches early
    found, expected = run(axis, gains)[:1200], by_scipy(axis, gains, SHORT, 1200)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def linear(gains) -> np.ndarray:
    """The matrix of one sample of the loop at rest, without cogging and limit."""
    axis = machine(cogging_gain=0.0, integral_limit=1e9)
    with jax.enable_x64(True):
        flat, shape = jax.flatten_util.ravel_pytree(loop.at_rest())
        axis, gains = jax.tree.map(lambda each: jnp.asarray(each, float), (axis, gains))

        def sample(state):
            after, _ = loop.advance(axis, gains, shape(state), jnp.asarray(7), jnp.asarray(0.0))
            return jax.flatten_util.ravel_pytree(after)[0]

        return np.asarray(jax.jit(jax.jacfwd(sample))(flat))


@pytest.mark.parametrize("gains", [NOMINAL, np.array([120.0, 800.0, 700.0])], ids=str)
def test_poles_of_the_closed_loop_give_the_decay_of_the_error(gains):
    values = np.linalg.eigvals(linear(gains))
    after = run(machine(cogging_gain=0.0, integral_limit=1e9), gains, 1e-3)[700:1300]  # the move has ended after 31 ms

    def unexplained(radius: float) -> float:
        """How far the error is from a sum of powers of the poles, when these are stretched by a factor."""
        powers = (radius * values) ** np.arange(len(after))[:, None]
        basis = np.column_stack([powers.real, powers.imag])
        left = after - basis @ np.linalg.lstsq(basis, after, rcond=1e-12)[0]
        return float(np.linalg.norm(left) / np.linalg.norm(after))

    assert unexplained(1.0) < 1e-6
    assert min(unexplained(0.999), unexplained(1.001)) > 1e-3


def test_nominal_loop_has_the_radius_and_margins_of_the_description():
    values = np.linalg.eigvals(linear(NOMINAL))
    assert np.abs(values).max() == pytest.approx(0.99395, abs=1e-5)
    frequency = np.linspace(100, 350, 25_001)
    a, b = continuous()
    z = np.exp(2j * np.pi * frequency * PERIOD)
    plant = np.array([np.linalg.solve(2j * np.pi * f * np.eye(STATES) - a, b)[-1] for f in frequency[::100]])
    plant = np.interp(frequency, frequency[::100], plant.real) + 1j * np.interp(frequency, frequency[::100], plant.imag)
    kp, kv, ki = NOMINAL * loop.GAIN_SCALES
    control = kv * (1 + ki * z / (z - 1)) * (kp + (1 - 1 / z) / PERIOD)
    for section in loop.FILTERS:
        control = control * signal.freqz(*polynomials(section), 2 * np.pi * frequency * PERIOD)[1]
    # Linear interpolation between samples has the spectrum of a triangle.
    opened = plant * control * np.exp(-2j * np.pi * frequency * DEAD_TIME) * np.sinc(frequency * PERIOD) ** 2
    crossover = np.argmin(np.abs(np.abs(opened) - 1))
    turned = np.argmin(np.abs(np.angle(-opened)) + (frequency < 200))
    assert frequency[crossover] == pytest.approx(147.6, abs=0.3)
    assert np.degrees(np.angle(-opened[crossover])) == pytest.approx(21.8, abs=0.3)
    assert frequency[turned] == pytest.approx(283, abs=1)
    assert -20 * np.log10(np.abs(opened[turned])) == pytest.approx(7.5, abs=0.1)


def test_costs_are_those_of_the_trajectory():
    axis, gains = machine(), np.stack([NOMINAL, [400.0, 1200.0, 500.0]])
    found = loop.costs(axis, gains, SHORT, 2000)
    reference = Reference(SHORT)
    for i, each in enumerate(gains):
        error = run(axis, each)
        skipped = reference.last_moving + 1
        assert found.variation[i] == pytest.approx(PERIOD * np.abs(np.diff(error))[skipped - 1 :].sum(), rel=1e-9)
        outside = [np.flatnonzero(np.abs(error) > band)[-1] + 1 for band in loop.BANDS]
        assert found.settling_time[i] == pytest.approx(PERIOD * np.mean(outside) - reference.duration)
        assert found.largest[i] == pytest.approx(np.abs(error).max(), rel=1e-9)


@pytest.mark.data("argus-cogging")
def test_anchors_of_stable_gains():
    gains = np.array([NOMINAL, [50, 300, 500], [400, 1200, 500], [400, 300, 500], [50, 1200, 500], [120, 800, 700]])
    axis = argus_model.machine()
    found = loop.costs(axis, gains, SHORT, SAMPLES)  # settled within 0.3 s, so 5 s change nothing
    np.testing.assert_allclose(
        found.settling_time, [0.046712, 0.183287, 0.067925, 0.065137, 0.152850, 0.073537], atol=1e-6
    )
    variation = [5.5198e-6, 2.2784e-5, 3.5966e-6, 1.12171e-5, 5.2765e-6, 5.8797e-6]
    np.testing.assert_allclose(found.variation, variation, rtol=2e-5)
    table = {1e-5: (0.03203, 8.916e-7, 0.00366), 1e-3: (0.04554, 4.106e-6, 0.01553), 1e-2: (0.04757, 5.434e-6, 0.01477)}
    for step, anchors in table.items():
        short = loop.costs(axis, gains, step, SAMPLES)
        assert [each[0] for each in (short.settling_time, short.variation, short.largest)] == pytest.approx(
            anchors, rel=5e-4
        )


@pytest.mark.slow
@pytest.mark.data("argus-cogging")
def test_anchors_of_whole_runs():
    gains = np.array([[50.0, 300.0, 4000.0], [400.0, 1200.0, 4000.0], NOMINAL])
    axis = argus_model.machine()
    found = loop.costs(axis, gains, SHORT)
    np.testing.assert_allclose(found.settling_time, [4.913050, 4.913050, 0.046712], atol=1e-6)
    np.testing.assert_allclose(found.variation, [2.5088, 6.8993, 5.5198e-6], rtol=2e-5)
    for step, anchors in {0.1: (0.04731, 5.077e-6, 1.019), np.exp(-0.86): (0.047075, 6.8705e-6, 4.251)}.items():
        long = loop.costs(axis, gains, float(step))
        assert (long.settling_time[2], long.variation[2]) == pytest.approx(anchors[:2], rel=1e-4)
        assert Reference(float(step)).duration == pytest.approx(anchors[2])
