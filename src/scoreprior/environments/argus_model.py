"""Argus-Control from the published model of the axis: gains of its controller against the cost of a move.

The paper's data were simulated with a model of this machine. This environment follows the one published version of
that model, equation by equation (`argus_reference`, `argus_plant`, `argus_loop`), with its measured cogging table.
About half of the gains make the loop unstable; the integrator's limit then turns divergence into a limit cycle. So
the total variation has two levels, near 5e-6 and near 3 mm s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import jax
import numpy as np
from scipy.io import loadmat

from scoreprior._progress import track
from scoreprior.environments._array_cache import kept
from scoreprior.environments._base import Card, Environment
from scoreprior.environments._store import DataError, cache_directory, locate
from scoreprior.environments.argus_loop import FILTERS, SAMPLES, Cogging, Machine, cogging_table, costs
from scoreprior.environments.argus_plant import sampled
from scoreprior.tasks import TaskSet

STEPS = np.exp(-5 + 0.18 * np.arange(24))  # metres
GAINS_LOW, GAINS_HIGH = np.array([50.0, 300.0, 500.0]), np.array([400.0, 1200.0, 4000.0])
GAIN_NAMES = ("SLPKP", "SLVKP", "SLVKI")
POINTS, CONTEXT, TEST_TASKS, VALID_TASKS = 500, 100, 4, 4
EQUATIONS = 1  # to be raised when a change of the code changes what is simulated

TARGETS = {"variation": ("total variation of the position error", "mm s"), "settling_time": ("settling time", "s")}
SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda y: y,
    "log": np.log,
    "standardised": lambda y: (y - y.mean(1, keepdims=True)) / y.std(1, keepdims=True),
}
"""Of costs (tasks, points)."""


def argus_model(
    split: int = 0,
    data_dir: str | Path | None = None,
    *,
    target: Literal["variation", "settling_time"] = "variation",
    scale: Literal["plain", "log", "standardised"] = "plain",
) -> Environment:
    """A cost of the simulated axis as a function of three controller gains; a task is a step size.

    All splits have the same 24 tasks of 500 points; `split` draws which 4 test and which points are known. There are
    no tasks to spare: four training tasks are held out for the selection of hyper-parameters only. The simulation
    runs once and is kept in the user's cache.

    Args:
        target: "variation", the total variation of the position error, or "settling_time".
        scale: "plain", in the units of the published cost; "log", its natural logarithm; "standardised", less the
            mean of the step size's 500 points and divided by their standard deviation.
    """
    for option, value, choices in (("target", target, TARGETS), ("scale", scale, SCALES)):
        if value not in choices:
            raise ValueError(f"{option} is one of {', '.join(choices)}, not {value!r}.")
    data = _data(machine(data_dir))
    name, unit = TARGETS[target]
    tasks = TaskSet.from_arrays(
        data["gains"],
        SCALES[scale](data[target]),
        names=[f"step {1e3 * step:.3f} mm" for step in STEPS],
        input_names=GAIN_NAMES,
        target_name=name if scale == "plain" else f"{name}, {scale}",
    )
    order = np.random.default_rng([split, len(STEPS)]).permutation(len(STEPS))
    test, train = np.sort(order[:TEST_TASKS]), np.sort(order[TEST_TASKS:])
    valid, rest = np.sort(order[TEST_TASKS:][:VALID_TASKS]), np.sort(order[TEST_TASKS:][VALID_TASKS:])
    cut = tasks.context_target(CONTEXT, key=split)
    return Environment(
        name="argus-model",
        meta_train=tasks.take(train),
        meta_valid=cut.take(valid),
        meta_test=cut.take(test),
        card=_card(f"{name} in {unit}" if scale == "plain" else f"{name} in {unit}, {scale}"),
        split=split,
        selection_train=tasks.take(rest),
    )


def machine(data_dir: str | Path | None = None) -> Machine:
    """The axis as published, with the cogging table from the data directory."""
    return Machine(sampled(), FILTERS, read_cogging(locate("argus-cogging", data_dir)))  # type: ignore[arg-type]


def read_cogging(path: Path) -> Cogging:
    """The cogging table of a MATLAB file with positions `cog_pos` in metres and values `cog_mean`."""
    content = loadmat(path)
    for field in ("cog_pos", "cog_mean"):
        if field not in content:
            raise DataError(f"{path} has no variable {field!r}; it is not the published table.")
    return cogging_table(1e3 * content["cog_pos"].ravel(), content["cog_mean"].ravel())


def draw_gains(points: int = POINTS) -> np.ndarray:
    """Raw gains of every task, uniform in their domain, (24, points, 3); always the same."""
    return np.random.default_rng(len(STEPS)).uniform(GAINS_LOW, GAINS_HIGH, (len(STEPS), points, 3))


def _data(axis: Machine) -> Mapping[str, np.ndarray]:
    """Gains (24, 500, 3) and both costs (24, 500), simulated once and kept in the user's cache."""
    gains = draw_gains()
    digest = hashlib.sha256(f"{EQUATIONS} {SAMPLES}".encode())
    for array in (*jax.tree.leaves(axis), gains, STEPS):
        digest.update(np.ascontiguousarray(array, np.float64).tobytes())

    def simulate() -> dict[str, np.ndarray]:
        found = []
        with track(len(STEPS), "simulating the axis") as progress:
            for step, chosen in zip(STEPS, gains):
                found.append(costs(axis, chosen, float(step)))
                progress(1)
        columns = {target: np.stack([getattr(each, target) for each in found]) for target in TARGETS}
        return {"gains": gains, **columns}

    return kept(cache_directory() / f"argus-model-{digest.hexdigest()[:16]}.npz", ["gains", *TARGETS], simulate)


def _card(target: str) -> Card:
    return Card(
        title="Argus-Control simulated with the published model of the axis",
        source="simulated by this package from the equations and parameters of the Simulink model in the history of "
        "github.com/jonasrothfuss/f-pacoh-torch (argus_sim, 2021), with its cogging table; Rothfuss et al. (2022), "
        "arXiv:2210.13319",
        licence="Apache-2.0, like the package; the cogging table MIT, and not redistributed",
        sizes=f"{len(STEPS)} step sizes, exp(-5 + 0.18 i) m, 6.7 to 423 mm: {len(STEPS) - TEST_TASKS} train, "
        f"{TEST_TASKS} test. {POINTS} points a task, uniform in the published domain of the gains; contexts have "
        f"{CONTEXT}.",
        units=f"inputs the raw gains SLPKP, SLVKP, SLVKI; target {target}",
        notes="Original: the model and its parameters, the domain, the step sizes, the costs (Ts times a sum of "
        "differences, with its count of left-out samples). Not original: the drawn gains, the split, and the program. "
        "Inferred: the dead time interpolates linearly, is at the plant's input, and all blocks run at 20 kHz. "
        "Unknown: whether the paper's data came from this version, from these steps (it says 10 um to 10 mm), and on "
        "which scale its errors are; the unit of the cogging table. benchmarks/argus_sensitivity.py shows how much "
        "the choices matter. About half of the gains are unstable: the variation has two levels, near 5e-6 and 3 mm s. "
        "No tasks are left for validation: four are held out of the training tasks while hyper-parameters are chosen.",
    )
