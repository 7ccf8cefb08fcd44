"""A simulated free-electron laser being tuned: a stand-in for the SwissFEL runs (paper, appendix "SwissFEL").

Twelve knobs in [0, 1]: four corrector magnets in each plane steer the beam through the undulators, two
quadrupoles match its size, a phase shifter and a taper tune the undulators. Errors lengthen the gain length;
the power grows exponentially and saturates. Every run has its own latent machine state, which drifts while an
optimiser works.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from scoreprior.environments._base import Card, Environment
from scoreprior.tasks import Task, TaskSet

KNOBS = (
    *(f"corrector {plane}{i}" for plane in "xy" for i in range(1, 5)),
    "quadrupole 1",
    "quadrupole 2",
    "phase shifter",
    "taper",
)
DIM, POINTS, CONTEXT = len(KNOBS), 400, 200
TRAIN_RUNS, TEST_RUNS, VALID_RUNS = 5, 4, 4


@dataclass(frozen=True)
class Machine:
    """What all runs share."""

    undulator_length: float = 18.0  # in gain lengths of a perfect beam
    startup_power: float = 1e-6  # shot noise over saturated power
    saturated_energy: float = 400.0  # uJ
    orbit_tolerance: float = 0.16  # rms orbit, in knob units, that stretches the gain length by e^(1/2)
    match_tolerance: float = 0.5
    taper_tolerance: float = 0.25
    shot_noise: float = 0.04  # relative, of a saturated pulse
    startup_noise: float = 0.12  # relative, added far from saturation
    detector_noise: float = 4.0  # uJ
    run_spread: float = 0.04  # of the optimum between runs, in knob units
    drift: float = 0.04  # of the optimum within a run


@dataclass(frozen=True)
class Run:
    """Latent state of a run: optimum (12,), its drift over the run, energy and gain factors, energy loss."""

    optimum: Float[np.ndarray, " 12"]
    drift: Float[np.ndarray, " 12"]
    energy: float
    gain: float
    decay: float


def orbit_response(planes: int = 2, correctors: int = 4, undulators: int = 6) -> Float[np.ndarray, "12 8"]:
    """Orbit at the undulators per corrector kick, R_ij = sin(phi_i - phi_j) downstream of the corrector.

    The betatron phase advances by 50 degrees a cell, which couples the correctors. Scaled so that independent
    random kicks of unit variance give an rms orbit of one.
    """
    kicks = np.linspace(0.0, 3.0, correctors)
    places = np.linspace(0.6, 5.6, undulators)
    advance = np.deg2rad(50.0) * (places[:, None] - kicks)
    plane = np.where(advance > 0, np.sin(advance), 0.0)
    plane /= np.sqrt((plane**2).mean(0).sum())
    return np.kron(np.eye(planes), plane)


_RESPONSE = orbit_response()


def gain_exponent(machine: Machine, run: Run, x: Float[np.ndarray, " 12"], time: float) -> float:
    """Undulator length in units of the gain length, which orbit, mismatch and phase errors stretch."""
    error = x - run.optimum - run.drift * time
    orbit = _RESPONSE @ error[:8]
    match = np.array([[1.0, 0.4], [-0.3, 1.0]]) @ error[8:10]
    stretch = 0.5 * np.mean(orbit**2) / machine.orbit_tolerance**2
    stretch += 0.5 * np.sum(match**2) / machine.match_tolerance**2
    # The field slips against the electrons by whole periods: the phase shifter acts through a cosine.
    phase = 1.0 - 0.12 * (1.0 - np.cos(2 * np.pi * error[10]))
    return float(machine.undulator_length * run.gain * phase * np.exp(-stretch))


def saturation(machine: Machine, exponent: float) -> float:
    """Power over saturated power, p = p0 e^g / (1 + p0 (e^g - 1)): exponential growth that saturates at 1."""
    growth = machine.startup_power * np.expm1(exponent)
    return float((machine.startup_power + growth) / (1.0 + growth))


def lasing(machine: Machine, run: Run, x: Float[np.ndarray, " 12"], time: float) -> tuple[float, float]:
    """Expected pulse energy (uJ) at knobs x after a fraction `time` of the run, and the saturated fraction.

    Past saturation a matching taper keeps extracting energy, up to half as much again.
    """
    power = saturation(machine, gain_exponent(machine, run, x, time))
    detuning = (x[11] - run.optimum[11] - run.drift[11] * time) / machine.taper_tolerance
    tapered = 1.0 + 0.5 * power * np.exp(-0.5 * detuning**2)
    return float(machine.saturated_energy * run.energy * (1.0 - run.decay * time) * power * tapered), power


def reading(
    machine: Machine, run: Run, x: Float[np.ndarray, " 12"], time: float, generator: np.random.Generator
) -> float:
    """A noisy pulse energy (uJ): relative fluctuations grow away from saturation; the detector adds some."""
    energy, power = lasing(machine, run, x, time)
    relative = machine.shot_noise + machine.startup_noise * (1.0 - power)
    return energy + float(generator.normal(0.0, np.hypot(relative * energy, machine.detector_noise)))


def draw_run(machine: Machine, generator: np.random.Generator) -> Run:
    """The latent state of a run, around the machine's nominal optimum at the centre of the knobs."""
    return Run(
        optimum=0.5 + machine.run_spread * generator.standard_normal(DIM),
        drift=machine.drift * generator.standard_normal(DIM),
        energy=float(np.exp(0.15 * generator.standard_normal())),
        gain=float(generator.uniform(0.92, 1.06)),
        decay=float(generator.uniform(-0.05, 0.15)),
    )


class _RunEnded(Exception):
    """The beam time of a run is used up."""


class _Recorder:
    """The machine as an optimiser meets it: it counts time, clips knobs, remembers readings, and ends."""

    def __init__(self, machine: Machine, run: Run, generator: np.random.Generator):
        self.machine, self.run, self.generator = machine, run, generator
        self.x: list[np.ndarray] = []
        self.y: list[float] = []

    def __call__(self, x: Float[np.ndarray, " 12"]) -> float:
        if len(self.y) == POINTS:
            raise _RunEnded
        knobs = np.clip(x, 0.0, 1.0)
        value = reading(self.machine, self.run, knobs, len(self.y) / POINTS, self.generator)
        self.x.append(knobs)
        self.y.append(value)
        return value


def line_search(measure: Callable[[np.ndarray], float], x: np.ndarray, generator: np.random.Generator) -> None:
    """Tune along random directions until `measure` ends: scan a segment, move to a fitted parabola's top."""
    span = 0.45
    while True:
        direction = generator.standard_normal(DIM)
        direction /= np.linalg.norm(direction)
        places = span * np.linspace(-1.0, 1.0, 16)
        readings = np.array([measure(x + place * direction) for place in places])
        curve, slope, _ = np.polyfit(places, readings, 2)
        top = -slope / (2 * curve) if curve < 0 else places[readings.argmax()]
        x = np.clip(x + np.clip(top, -span, span) * direction, 0.0, 1.0)
        span = max(0.93 * span, 0.08)


def nelder_mead(measure: Callable[[np.ndarray], float], x: np.ndarray, generator: np.random.Generator) -> None:
    """Tune by the simplex method on noisy readings until `measure` ends."""
    edges, _ = np.linalg.qr(generator.standard_normal((DIM, DIM)))
    simplex = np.clip(np.vstack([x, x + 0.2 * edges]), 0.0, 1.0)
    options = {"initial_simplex": simplex, "xatol": 0.0, "fatol": 0.0, "adaptive": True}
    bounds = [(0.0, 1.0)] * DIM
    minimize(lambda knobs: -measure(knobs), x, method="Nelder-Mead", bounds=bounds, options=options)


def working_point(machine: Machine, run: Run, generator: np.random.Generator) -> Float[np.ndarray, " 12"]:
    """Where a run begins: in a random direction from its optimum, with 20 to 50 % of the best energy left."""
    direction = generator.standard_normal(DIM)
    wanted = generator.uniform(0.2, 0.5) * lasing(machine, run, run.optimum, 0.0)[0]
    points = np.clip(run.optimum + np.linspace(0.0, 0.5, 101)[:, None] * direction, 0.0, 1.0)
    enough = [lasing(machine, run, point, 0.0)[0] >= wanted for point in points]
    return points[np.flatnonzero(enough)[-1]]


def record(machine: Machine, number: int, generator: np.random.Generator) -> Task:
    """One run of 400 points in order of time: two of three by line search, the third by Nelder-Mead."""
    run = draw_run(machine, generator)
    optimiser = nelder_mead if number % 3 == 2 else line_search
    recorder = _Recorder(machine, run, generator)
    with suppress(_RunEnded):
        optimiser(recorder, working_point(machine, run, generator), generator)
    return Task(np.array(recorder.x), np.array(recorder.y), f"run {number} ({optimiser.__name__})")


def swissfel_sim(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """The simulated laser as an environment: a task is a tuning run; `split` draws runs and their roles.

    Nine runs, 5 to train and 4 to test, and 4 more to validate. The 400 points of a run are split at random
    into 200 and 200 (paper, appendix "SwissFEL"); training tasks have one half, the others both.
    """
    del data_dir
    generators = np.random.default_rng([split, 12]).spawn(1 + TRAIN_RUNS + TEST_RUNS + VALID_RUNS)
    runs = TaskSet(
        [record(Machine(), number, generator) for number, generator in enumerate(generators[1:])],
        input_names=KNOBS,
        target_name="pulse energy [uJ]",
    )
    nine = generators[0].permutation(TRAIN_RUNS + TEST_RUNS)
    halves = runs.context_target(CONTEXT, key=split)
    return Environment(
        name="swissfel-sim",
        meta_train=halves.context.take(nine[:TRAIN_RUNS]),
        meta_valid=halves.take(range(TRAIN_RUNS + TEST_RUNS, len(runs))),
        meta_test=halves.take(nine[TRAIN_RUNS:]),
        card=_card(),
        split=split,
    )


def _card() -> Card:
    return Card(
        title="SwissFEL-sim: a simulated stand-in, not the original SwissFEL recordings",
        source="simulated by this package: steering, matching and undulator knobs of a free-electron laser "
        "with a saturating gain, tuned by noisy line searches and Nelder-Mead, modelled on the description "
        "of SwissFEL in arXiv:2210.13319",
        licence="Apache-2.0, like the package",
        sizes="13 tuning runs of 400 points, which follow an optimiser and are not i.i.d.: 5 train (200 "
        "points each), 4 test and 4 validation (200 context, 200 target, split at random).",
        units="12 inputs in machine units, 0 to 1 over the range of a knob; target pulse energy in uJ",
        notes="A physics-based stand-in: the machine's numbers are plausible, not measured, results on it "
        "are not results on the original data. Each run has its own optimum, energy and gain, which drift.",
    )
