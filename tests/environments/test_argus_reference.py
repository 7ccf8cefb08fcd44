"""The S-curve of the Argus axis against its limits, its symmetry and anchors of the published description."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoreprior.environments.argus_reference import ACCELERATION, JERK, SPEED, Reference, phases, s_curve


@given(st.floats(1e-5, 0.5))
def test_a_move_keeps_its_limits_and_arrives(step):
    durations, jerks = phases(step)
    ends = np.cumsum(durations)
    assert (durations >= 0).all()
    # Integrated exactly, phase by phase: constant jerk makes acceleration a line and speed a parabola.
    acceleration = np.cumsum(jerks * durations)
    before = np.append(0.0, acceleration[:-1])
    speed = np.cumsum(before * durations + jerks * durations**2 / 2)
    assert np.abs(acceleration).max() <= ACCELERATION * (1 + 1e-9)
    assert speed.max() <= SPEED * (1 + 1e-9)
    assert np.abs(jerks).max() == JERK
    np.testing.assert_allclose([acceleration[-1], speed[-1]], 0, atol=1e-9)
    time = np.linspace(0, ends[-1], 501)
    position = s_curve(step, time)
    assert position[-1] == pytest.approx(step, rel=1e-9)
    assert (np.diff(position) >= -1e-15).all()
    np.testing.assert_allclose(position + position[::-1], step, rtol=1e-9)  # the second half mirrors the first


def test_durations_have_the_closed_forms():
    for step in (1e-5, 1e-3, 1.99e-3):
        assert phases(step)[0].sum() == pytest.approx(4 * (step / (2 * JERK)) ** (1 / 3))
    for step in (2e-3, np.exp(-5), 0.4):
        assert phases(step)[0].sum() == pytest.approx(step / SPEED + 0.02)


def test_anchors_of_the_table():
    for step in (54e-6, 1e-3, 0.1):
        np.testing.assert_allclose(Reference(step).table[:4], [0, 1.66667e-4, 1.33333e-3, 4.5e-3], rtol=1e-5)
    short, long = Reference(float(np.exp(-5))), Reference(0.1)
    assert (len(short.table), len(long.table)) == (89, 1021)
    assert short.table[-1] == 1e3 * np.exp(-5)
    assert (short.last_moving, short.duration) == (88, pytest.approx(0.087))
    assert [Reference(step).duration for step in (1e-5, 1e-3, 1e-2, 0.1)] == pytest.approx([0.006, 0.031, 0.119, 1.019])


def test_between_rows_the_reference_is_a_line_and_holds_at_the_end():
    reference = Reference(1e-3)
    table = reference.table
    np.testing.assert_allclose(reference.at(np.array([2.25e-3, 1.0])), [0.75 * table[2] + 0.25 * table[3], 1.0])
