"""Line scans at SwissFEL: pulse energy along one machine parameter while the others stay (two recordings of 2018).

Five scans moved parameters one by one; fourteen moved the reference positions of beam-position monitors. A scan went
from its middle to the upper end, then from the middle to the lower end. The noise of a point is the standard deviation
that the recording states for it: `line_scans` has it for every point, `measured_noise` for those of a task.
"""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scoreprior.environments._base import Card, Environment
from scoreprior.environments._recording import read_recording
from scoreprior.environments._store import DataError, locate
from scoreprior.tasks import ContextTarget, Task, TaskSet

FILES = {"swissfel-lines": "parameter", "swissfel-lines-bpm": "monitor"}
"""The two recordings by their names in the data store, and what a line of each moves."""
N_LINES = 19
N_TRAIN, N_VALID = 10, 3
MOST_KNOWN = 11  # the shortest line has 12 points
INPUT_NAME, TARGET_NAME = "position along the line", "pulse energy"


class LineScan(NamedTuple):
    """A line in order of position: x in [-1, 1] over the commanded range, y as recorded, its standard deviation."""

    name: str
    x: Float[np.ndarray, " m"]
    y: Float[np.ndarray, " m"]
    noise_std: Float[np.ndarray, " m"]


def swissfel_lines(split: int = 0, data_dir: str | Path | None = None, *, known: int = 6) -> Environment:
    """The rest of a line scan from `known` random points of it; `split` draws lines and points.

    Of the 19 lines 10 train with all of their points, 3 validate and 6 test. The points known with a smaller `known`
    are among those with a larger one, and the lines are the same.
    """
    count = _check_known(known)
    lines = [Task(scan.x, scan.y, scan.name) for scan in line_scans(data_dir)]
    if len(lines) != N_LINES:
        raise DataError(f"The recordings have {len(lines)} lines, not {N_LINES}.")
    generator = np.random.default_rng([split, N_LINES])
    tasks = TaskSet(
        [lines[i] for i in generator.permutation(N_LINES)], input_names=(INPUT_NAME,), target_name=TARGET_NAME
    )
    later = _known_points(tasks[N_TRAIN:], count, generator)
    return Environment(
        name="swissfel-lines",
        meta_train=tasks[:N_TRAIN],
        meta_valid=later.take(range(N_VALID)),
        meta_test=later.take(range(N_VALID, len(later))),
        card=_card(count),
        split=split,
    )


def line_scans(data_dir: str | Path | None = None) -> list[LineScan]:
    """All lines of both recordings with their measured noise."""
    scans = []
    for source, moved in FILES.items():
        path = locate(source, data_dir)
        table = read_recording(path, "0", ("line_id", "x", "x_target", "y", "y_std"))
        for line in np.unique(table["line_id"]):
            scans.append(_scan(path, table[table["line_id"] == line], f"{moved} {line}"))
    return scans


def measured_noise(task: Task, data_dir: str | Path | None = None) -> Float[np.ndarray, " m"]:
    """The recorded standard deviation of every point of a task of this environment, whole or a part of a line."""
    for scan in line_scans(data_dir):
        if scan.name == task.name:
            noise = dict(zip(zip(scan.x.tolist(), scan.y.tolist()), scan.noise_std.tolist()))
            try:
                return np.array([noise[point] for point in zip(task.x[:, 0].tolist(), task.y.tolist())])
            except KeyError as error:
                raise ValueError(f"{task.name} has a point {error} that the recording does not have.") from None
    raise ValueError(f"There is no line {task.name!r} in the recordings.")


def _scan(path: Path, rows: np.ndarray, name: str) -> LineScan:
    commanded = rows["x_target"]
    span = np.ptp(commanded, axis=0)
    moved = int(np.argmax(span))
    # Other parameters are commanded to stay; what is left of them is rounding.
    if not span[moved] > 0 or np.delete(span, moved).max(initial=0.0) > 1e-6 * span[moved]:
        raise DataError(f"{path}: {name} does not move exactly one parameter; it is not a line scan.")
    middle = (commanded[:, moved].max() + commanded[:, moved].min()) / 2
    order = np.argsort(rows["x"][:, moved], kind="stable")
    x = (rows["x"][order, moved] - middle) / (span[moved] / 2)
    return LineScan(name, x, rows["y"][order], rows["y_std"][order])


def _known_points(tasks: TaskSet, count: int, generator: np.random.Generator) -> ContextTarget:
    ranks = {task.name: generator.permutation(len(task)) for task in tasks}
    return tasks.context_target(lambda task: ranks[task.name] < count)


def _check_known(known: Any) -> int:
    try:
        count = 0 if isinstance(known, bool) else operator.index(known)
    except TypeError:
        count = 0
    if not 1 <= count <= MOST_KNOWN:
        raise ValueError(f"known is the number of known points, a whole number from 1 to {MOST_KNOWN}, not {known!r}.")
    return count


def _card(known: int) -> Card:
    return Card(
        title="SwissFEL line scans: real recordings of the free-electron laser",
        source="two coordinate line scans of 2 June 2018 at SwissFEL, from github.com/Mojusko/stpy (evaluations.hdf5 "
        "and evaluations_bpm.hdf5 in test_functions); the same software recorded the runs of Kirschner et al. (2019), "
        "arXiv:1902.03229",
        licence="none stated with the data, which this package does not redistribute",
        sizes=f"{N_LINES} lines: {N_TRAIN} train with all of their points (12 to 52), {N_VALID} validate and "
        f"{N_LINES - N_TRAIN - N_VALID} test with {known} known points at random.",
        units="position from -1 to 1 over the line's own commanded range, pulse energy as recorded (the files state no "
        "units)",
        notes="Not in the paper, whose runs of this machine are other data. Points of a line are in order of position, "
        "not of time. The recorded noise of a point has a median of 0.024, but neighbouring points scatter by 0.039 "
        "(median of second differences), so it is not all of the noise.",
    )
