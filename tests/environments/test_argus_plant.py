"""The plant of the Argus axis against its transfer function and SciPy's integrators."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from scoreprior.environments.argus_plant import DEAD_TIME, LAG, PERIOD, POLES, STATES, ZEROS, continuous, sampled


def transfer(frequency: float) -> complex:
    """G(j 2 pi f) without the dead time, from the published product."""
    q = 1j * frequency
    value = 5.6234e5 / q**2 / (2j * np.pi * frequency / LAG + 1)
    for (fn, zn), (fd, zd) in zip(ZEROS, POLES):
        fn, fd = fn / np.sqrt(1 - 2 * zn**2), fd / np.sqrt(1 - 2 * zd**2)
        value *= (q**2 / fn**2 + 2 * zn * q / fn + 1) / (q**2 / fd**2 + 2 * zd * q / fd + 1)
    return value


def test_states_have_the_transfer_function_and_its_anchors():
    a, b = continuous()
    for frequency in (1.0, 100.0, 390.0, 480.0, 1104.0, 5000.0):
        found = np.linalg.solve(2j * np.pi * frequency * np.eye(STATES) - a, b)[-1]
        assert found == pytest.approx(transfer(frequency), rel=1e-8)
    assert transfer(100.0) == pytest.approx(-55.07213 + 4.54244j, abs=1e-5)
    assert transfer(480.0) == pytest.approx(-0.76677 - 0.66680j, abs=1e-5)


def delayed(interpolation: str, commands: np.ndarray, time: float) -> float:
    place = (time - DEAD_TIME) / PERIOD
    if time <= DEAD_TIME:
        return 0.0
    if interpolation == "held":
        return commands[int(place)]
    return float(np.interp(place, np.arange(len(commands)), commands))


@pytest.mark.parametrize("interpolation", ["linear", "held"])
def test_the_exact_plant_solves_the_equation(interpolation):
    a, b = continuous()
    commands = np.random.default_rng(0).normal(size=20) * 1e-5
    plant = sampled("exact", interpolation)
    x, kink = np.zeros(STATES), (DEAD_TIME / PERIOD) % 1
    for k in range(12):
        u = [commands[k - lag] if k >= lag else 0.0 for lag in (7, 6, 5)]
        after = plant.transition @ x + plant.drive[min(k, 7)] @ u
        found = x
        for begin, end in ((0.0, kink), (kink, 1.0)):  # no integrator likes a jump or a bend within a step
            span, inside = np.array([k + begin, k + end]) * PERIOD, np.array([1e-9, -1e-9]) * PERIOD

            def slope(t, x, low=span[0] + inside[0], high=span[1] + inside[1]):
                return a @ x + b * delayed(interpolation, commands, float(np.clip(t, low, high)))

            found = solve_ivp(slope, span, found, "DOP853", rtol=1e-11, atol=1e-20).y[:, -1]
        np.testing.assert_allclose(after, found, rtol=1e-6, atol=1e-12 * np.abs(after).max())
        x = after
    assert np.abs(x).max() > 0


def test_the_published_rule_moves_a_mode_by_a_polynomial_and_the_exact_plant_by_the_exponential():
    z = np.linalg.eigvals(PERIOD * continuous()[0])
    for solver, grown in (("ode3", 1 + z + z**2 / 2 + z**3 / 6), ("exact", np.exp(z))):
        found = np.linalg.eigvals(sampled(solver).transition)
        # Two poles at zero: rounding splits a double eigenvalue by its square root.
        np.testing.assert_allclose(np.sort(np.abs(found)), np.sort(np.abs(grown)), atol=1e-6)


def test_nothing_passes_before_the_dead_time_is_over():
    drive = sampled().drive
    np.testing.assert_array_equal(drive[:6], 0.0)
    assert np.abs(drive[6]).max() > 0
    assert not np.array_equal(drive[6], drive[7])
