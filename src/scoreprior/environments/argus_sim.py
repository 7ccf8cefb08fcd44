"""A simulated linear axis under PID control: a stand-in for Argus (paper, appendix "Argus-Control").

The axis is a mass with viscous and Stribeck friction, driven by a force-limited motor. The controller sees
the quantised encoder position, and its force reaches the motor some samples late. Three regimes follow from
the step size alone: small steps are ruled by friction, middle ones by the linear loop, large ones by the
force limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scoreprior.environments._base import Card, Environment
from scoreprior.tasks import TaskSet

STEP_SIZES = np.geomspace(10e-6, 10e-3, 24)
GAINS_LOW = np.array([2e5, 0.0, 2e3])
GAINS_HIGH = np.array([1.0e6, 3e7, 8e3])
SAMPLES, CONTEXT, TEST_TASKS, VALID_TASKS = 500, 100, 4, 4
GAIN_NAMES = ("kp [N/m]", "ki [N/(m s)]", "kd [N s/m]")
TARGET_NAME = "total variation of the position error / step size"


def _scalar(value: float | Array) -> Float[Array, ""]:
    return jnp.asarray(value, float)


class Axis(eqx.Module):
    """The machine and its controller's clock, in SI units; every number may be changed without a retrace."""

    mass: Array = eqx.field(converter=_scalar, default=10.0)
    force_limit: Array = eqx.field(converter=_scalar, default=250.0)
    viscous: Array = eqx.field(converter=_scalar, default=40.0)
    coulomb: Array = eqx.field(converter=_scalar, default=3.0)
    breakaway: Array = eqx.field(converter=_scalar, default=4.5)
    stribeck_velocity: Array = eqx.field(converter=_scalar, default=2e-3)
    resolution: Array = eqx.field(converter=_scalar, default=50e-9)
    travel: Array = eqx.field(converter=_scalar, default=30e-3)
    period: Array = eqx.field(converter=_scalar, default=250e-6)
    filter_time: Array = eqx.field(converter=_scalar, default=400e-6)
    delay: int = eqx.field(static=True, default=2)
    samples: int = eqx.field(static=True, default=1200)


class State(NamedTuple):
    """Axis and controller at a sample; position is relative to the target: minus the position error."""

    position: Float[Array, ""]
    velocity: Float[Array, ""]
    measured: Float[Array, ""]
    slope: Float[Array, ""]
    integral: Float[Array, ""]
    queue: Float[Array, " delay"]


class Sample(NamedTuple):
    """The record of a period: position (m, relative to the target), encoder reading (m) and force (N)."""

    position: Float[Array, "*t"]
    measured: Float[Array, "*t"]
    force: Float[Array, "*t"]


def start(axis: Axis, step: Float[Array, ""], phase: Float[Array, ""]) -> State:
    """At rest one step before the target; `phase` in [0, 1) is where within an encoder count that is."""
    position = -(step + phase * axis.resolution)
    zero = jnp.zeros_like(position)
    return State(position, zero, _encoder(axis, position), zero, zero, jnp.zeros(axis.delay, position.dtype))


def advance(axis: Axis, gains: Float[Array, " 3"], state: State) -> tuple[State, Sample]:
    """One control period: read the encoder, compute the force, let the delayed force move the axis."""
    kp, ki, kd = gains
    measured = _encoder(axis, state.position)
    smoothing = axis.period / (axis.period + axis.filter_time)
    slope = state.slope + smoothing * ((measured - state.measured) / axis.period - state.slope)
    # The derivative acts on the measurement, not on the error: a step reference must not kick the motor.
    demand = state.integral - kp * measured - kd * slope
    command = jnp.clip(demand, -axis.force_limit, axis.force_limit)
    # Anti-windup: do not integrate further into saturation.
    winding = (demand != command) & (jnp.sign(demand) == -jnp.sign(measured))
    integral = state.integral - jnp.where(winding, 0.0, ki * measured * axis.period)
    queue = jnp.append(state.queue, command)
    position, velocity = move(axis, state.position, state.velocity, queue[0])
    return State(position, velocity, measured, slope, integral, queue[1:]), Sample(position, measured, queue[0])


def move(
    axis: Axis, position: Float[Array, ""], velocity: Float[Array, ""], force: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Position and velocity after one period of constant force.

    Dry friction is implicit: its impulse can stop the mass but never reverse it, so the axis truly sticks.
    The end stops are inelastic.
    """
    stiction = (axis.breakaway - axis.coulomb) * jnp.exp(-((velocity / axis.stribeck_velocity) ** 2))
    free = velocity + axis.period / axis.mass * force
    dry = axis.period / axis.mass * (axis.coulomb + stiction)
    slowed = jnp.sign(free) * jnp.maximum(jnp.abs(free) - dry, 0.0) / (1.0 + axis.period * axis.viscous / axis.mass)
    moved = position + axis.period * (velocity + slowed) / 2
    stopped = jnp.clip(moved, -axis.travel, axis.travel)
    return stopped, jnp.where(stopped == moved, slowed, 0.0)


def _encoder(axis: Axis, position: Float[Array, ""]) -> Float[Array, ""]:
    return axis.resolution * jnp.round(position / axis.resolution)


def simulate(axis: Axis, gains: Float[Array, " 3"], step: Float[Array, ""], phase: Float[Array, ""]) -> Sample:
    """The trajectory of one step response, each field (samples,)."""
    return jax.lax.scan(lambda state, _: advance(axis, gains, state), start(axis, step, phase), None, axis.samples)[1]


def variation(
    axis: Axis, gains: Float[Array, " 3"], step: Float[Array, ""], phase: Float[Array, ""]
) -> Float[Array, ""]:
    """Total variation of the position error e over the step size, sum_t |e_(t+1) - e_t| / step."""

    def body(carry: tuple[State, Array], _: None) -> tuple[tuple[State, Array], None]:
        state, total = carry
        after, _sample = advance(axis, gains, state)
        return (after, total + jnp.abs(after.position - state.position)), None

    initial = start(axis, step, phase)
    (_, total), _ = jax.lax.scan(body, (initial, jnp.zeros_like(initial.position)), None, axis.samples)
    return total / step


variations = eqx.filter_jit(jax.vmap(variation, in_axes=(None, 0, 0, 0)))


def argus_sim(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """The simulated axis as an environment: a task is a step size; `split` draws gains and chooses tasks.

    One test task is an end of the range of step sizes, the other three are interior, one from each third.
    Validation tasks are step sizes half-way (in the logarithm) between two of the 24, one from each quarter
    of the range. A test context has 100 of the 500 points, as in the loader published with the original data.
    """
    del data_dir
    generator = np.random.default_rng([split, 24])
    test = _test_tasks(generator)
    middles = np.sqrt(STEP_SIZES[:-1] * STEP_SIZES[1:])
    gaps = [generator.choice(part) for part in np.array_split(np.arange(len(middles)), VALID_TASKS)]
    every = _sample_tasks(np.concatenate([STEP_SIZES, middles[gaps]]), generator)
    train = [i for i in range(len(STEP_SIZES)) if i not in test]
    held_out = every.context_target(CONTEXT)
    return Environment(
        name="argus-sim",
        meta_train=every.take(train),
        meta_valid=held_out.take(range(len(STEP_SIZES), len(every))),
        meta_test=held_out.take(test),
        card=_card(),
        split=split,
    )


def _test_tasks(generator: np.random.Generator) -> list[int]:
    end = int(generator.choice([0, len(STEP_SIZES) - 1]))
    thirds = np.array_split(np.arange(1, len(STEP_SIZES) - 1), TEST_TASKS - 1)
    return sorted([end, *(int(generator.choice(third)) for third in thirds)])


def _sample_tasks(sizes: np.ndarray, generator: np.random.Generator) -> TaskSet:
    shape = (len(sizes), SAMPLES)
    gains = generator.uniform(GAINS_LOW, GAINS_HIGH, (*shape, 3))
    phase = generator.uniform(size=shape)
    steps = np.broadcast_to(sizes[:, None], shape)
    flat = (jnp.asarray(values, float) for values in (gains.reshape(-1, 3), steps.ravel(), phase.ravel()))
    targets = np.asarray(variations(Axis(), *flat), np.float64).reshape(shape)
    names = [f"step {size * 1e6:.1f} um" for size in sizes]
    return TaskSet.from_arrays(gains, targets, names=names, input_names=GAIN_NAMES, target_name=TARGET_NAME)


def _card() -> Card:
    return Card(
        title="Argus-sim: a simulated stand-in, not the original Argus-Control data",
        source="simulated by this package: a 10 kg linear axis with Stribeck friction, force limit, encoder "
        "quantisation and control delay under a PID position loop, modelled on the description of "
        "Argus-Control in arXiv:2210.13319",
        licence="Apache-2.0, like the package",
        sizes="24 step sizes, log-spaced from 10 um to 10 mm: 20 train, 4 test; 4 validation step sizes "
        "between them. 500 points a task, uniform in a box of gains; test and validation contexts have 100.",
        units="inputs kp [N/m], ki [N/(m s)], kd [N s/m]; target dimensionless: total variation of the "
        "position error over 0.3 s divided by the step size, so that tasks over three decades are comparable "
        "(1 is an approach without overshoot, less means that friction stopped the axis short)",
        notes="A physics-based stand-in: the machine's numbers are plausible, not measured; results on it "
        "are not results on the original data. End stops at 30 mm bound the position error.",
    )
