"""The control loop of the Argus axis at 20 kHz: position and speed loops, filters, integrator, cogging (one scan).

    e = r - p,   s = dr/dt + Kp e - dp/dt,   g = Kv filters(s),   I = clip(I + Ki g),   u = g + I - kc cog(p + 8.5)

Units are mm, mm/s and s; the command u has none. Double precision: bands are 2.5 nm wide on positions up to 423 mm.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from scoreprior.environments.argus_plant import PERIOD, SETTING_IN, STATES, Plant
from scoreprior.environments.argus_reference import Reference

SAMPLES = 100_001  # 5 s, whatever the step
BANDS = (2.5e-6, 5e-6, 10e-6, 20e-6)  # mm
_SCALE = 2**21 / (2500 * 2**12 * 3000)
GAIN_SCALES = np.array([1.0, _SCALE / 1024, 1 / 65536])
"""From the raw gains (SLPKP, SLVKP, SLVKI) to Kp in 1/s, Kv, and Ki per sample."""
COGGING_GAIN = _SCALE * 36.6 * 0.0043
COGGING_OFFSET = 8.5  # mm
INTEGRAL_LIMIT = 0.5


def section(
    pole: tuple[float, float], zero: tuple[float, float] | None = None, period: float = PERIOD
) -> Float[np.ndarray, " 5"]:
    """(b0, b1, b2, a1, a2) of a filter section with unit gain at rest: a pair of poles, and of zeros if given."""
    a1, a2 = _pair(*pole, period)
    b1, b2 = _pair(*zero, period) if zero is not None else (0.0, 0.0)
    gain = (1 + a1 + a2) / (1 + b1 + b2)
    return np.array([gain, gain * b1, gain * b2, a1, a2])


def _pair(frequency: float, damping: float, period: float) -> tuple[float, float]:
    angle = 2 * np.pi * frequency * period
    return -2 * np.exp(-damping * angle) * np.cos(angle * np.sqrt(1 - damping**2)), np.exp(-2 * damping * angle)


_NOTCH_QUALITY = 520.0 / 30.0
FILTERS = np.stack(
    [
        section(pole=(520.0, 2 / (2 * _NOTCH_QUALITY)), zero=(520.0, 1 / (2 * _NOTCH_QUALITY))),
        section(pole=(1000.0, 0.707)),
        section(pole=(750.0, 0.2), zero=(750.0, 0.1)),
    ]
)
"""Notch, low-pass and the first biquad, (3, 5); the second biquad of the published model is off."""


class Cogging(NamedTuple):
    """Motor cogging against position: rows of (position in mm, value, slope), nearly uniform in position."""

    rows: Float[Array, "n 3"]


def cogging_table(position: Float[np.ndarray, " n"], value: Float[np.ndarray, " n"]) -> Cogging:
    """Straight lines between the points; the end values hold outside."""
    slope = np.append(np.diff(value) / np.diff(position), 0.0)
    return Cogging(np.column_stack([position, value, slope]))  # type: ignore[arg-type]


class Machine(NamedTuple):
    """What a run is made of besides gains and reference; all arrays, so that no change compiles again."""

    plant: Plant
    filters: Float[Array, "3 5"]
    cogging: Cogging
    cogging_gain: float | Array = COGGING_GAIN
    integral_limit: float | Array = INTEGRAL_LIMIT


class State(NamedTuple):
    """Plant states, the last seven commands (oldest first), filter memories, integral, last position and reference."""

    x: Float[Array, " 13"]
    commands: Float[Array, " 7"]
    memory: Float[Array, "3 2"]
    integral: Float[Array, ""]
    position: Float[Array, ""]
    reference: Float[Array, ""]


class Record(NamedTuple):
    """Of one run: sum of |e_n - e_(n-1)|, the last sample (counted from 1) outside each band, and the largest |e|."""

    variation: Float[Array, ""]
    last_outside: Int[Array, " 4"]
    largest: Float[Array, ""]


def at_rest() -> State:
    """Everything is zero, also the integrator: the cogging acts from the first sample."""
    zero = jnp.zeros(())
    return State(jnp.zeros(STATES), jnp.zeros(SETTING_IN), jnp.zeros((3, 2)), zero, zero, zero)


def advance(
    machine: Machine, gains: Float[Array, " 3"], state: State, sample: Int[Array, ""], reference: Float[Array, ""]
) -> tuple[State, Float[Array, ""]]:
    """One sample: the position error, the command from it, and the plant after a period. Gains are raw."""
    kp, kv, ki = gains * GAIN_SCALES
    position = state.x[-1]
    error = reference - position
    signal = (reference - state.reference) / PERIOD + kp * error - (position - state.position) / PERIOD
    memory = []
    for (b0, b1, b2, a1, a2), (first, second) in zip(machine.filters, state.memory):
        signal, before = b0 * signal + first, signal
        memory.append(jnp.stack([b1 * before - a1 * signal + second, b2 * before - a2 * signal]))
    drive = kv * signal
    integral = jnp.clip(state.integral + ki * drive, -machine.integral_limit, machine.integral_limit)
    command = drive + integral - machine.cogging_gain * _cogging(machine.cogging, position + COGGING_OFFSET)
    x = machine.plant.transition @ state.x + machine.plant.drive[sample] @ state.commands[:3]
    commands = jnp.append(state.commands[1:], command)
    return State(x, commands, jnp.stack(memory), integral, position, reference), error


def _cogging(cogging: Cogging, position: Float[Array, ""]) -> Float[Array, ""]:
    rows = cogging.rows
    first, last = rows[0, 0], rows[-1, 0]
    inside = jnp.clip(position, first, last)
    guess = jnp.int32((inside - first) / (last - first) * (len(rows) - 1))
    guess = jnp.clip(guess, 1, len(rows) - 3)
    # Points are off a uniform grid by less than half of its spacing, so the guess is off by one at most.
    index = guess + jnp.int32(inside >= rows[guess + 1, 0]) - jnp.int32(inside < rows[guess, 0])
    place, value, slope = rows[index]
    return value + slope * (inside - place)


def errors(machine: Machine, gains: Float[Array, " 3"], reference: Float[Array, " t"]) -> Float[Array, " t"]:
    """The position error e (mm) at every sample of one run."""

    def body(state: State, now: tuple[Array, Array]) -> tuple[State, Array]:
        return advance(machine, gains, state, *now)

    return jax.lax.scan(body, at_rest(), (_phase(len(reference)), reference))[1]


def record(
    machine: Machine, gains: Float[Array, " 3"], reference: Float[Array, " t"], skipped: Int[Array, ""]
) -> Record:
    """What the published cost needs of one run; differences of the first `skipped` samples do not count."""
    numbers = jnp.arange(1, len(reference) + 1)
    bands = jnp.asarray(BANDS)

    def body(carry: tuple[State, Array, Record], now: tuple[Array, ...]) -> tuple[tuple[State, Array, Record], None]:
        state, previous, (variation, last_outside, largest) = carry
        phase, number, wanted = now
        state, error = advance(machine, gains, state, phase, wanted)
        size = jnp.abs(error)
        variation += jnp.where(number > skipped, jnp.abs(error - previous), 0.0)
        last_outside = jnp.where(size > bands, number, last_outside)
        return (state, error, Record(variation, last_outside, jnp.maximum(largest, size))), None

    zero = jnp.zeros(())
    initial = Record(zero, jnp.zeros(len(BANDS), numbers.dtype), zero)
    inputs = (_phase(len(reference)), numbers, reference)
    return jax.lax.scan(body, (at_rest(), zero, initial), inputs)[0][2]


def _phase(samples: int) -> Int[Array, " t"]:
    """Which of the plant's drives a sample has."""
    return jnp.minimum(jnp.arange(samples), SETTING_IN)


_records = jax.jit(jax.vmap(record, in_axes=(None, 0, None, None)))


class Costs(NamedTuple):
    """Of every run: total variation of the position error in mm s, settling time in s, largest error in mm."""

    variation: Float[np.ndarray, " n"]
    settling_time: Float[np.ndarray, " n"]
    largest: Float[np.ndarray, " n"]


def costs(machine: Machine, gains: Float[np.ndarray, "n 3"], step: float, samples: int = SAMPLES) -> Costs:
    """The published costs of a move by `step` metres with each of these raw gains.

    Two peculiarities of the published cost are kept: a row number of the 1 ms table says how many 20 kHz samples the
    variation leaves out, and the sampling period multiplies a sum of differences, hence mm s.
    """
    reference = Reference(step)
    positions = reference.at(PERIOD * np.arange(samples))
    with jax.enable_x64(True):
        doubles = partial(jax.tree.map, partial(jnp.asarray, dtype=float))
        found = _records(doubles(machine), doubles(gains), doubles(positions), reference.last_moving + 1)
        variation, last_outside, largest = (np.asarray(each) for each in found)
    return Costs(PERIOD * variation, PERIOD * last_outside.mean(1) - reference.duration, largest)
