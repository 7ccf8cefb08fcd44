"""PhysioNet: a clinical variable of an intensive-care patient in 48 hours (paper, "PhysioNet": GCS and HCT).

A task is a patient: x is the hour since admission, y the mean of the variable's values within that hour.
Patients come in order of RecordID; split 0 trains on the first, tests on the last and validates on those just
before them. All variables follow the same rule.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from scoreprior.environments._array_cache import kept
from scoreprior.environments._base import Card, Environment, check_tasks
from scoreprior.environments._store import DataError, cache_directory, checksum, locate
from scoreprior.tasks import Task, TaskSet

N_RECORDS = 4000
N_TRAIN, N_VALID, N_TEST = 100, 100, 500
# Blood is drawn a few times a day: of five variables only 200 to 350 patients are left to test on.
MIN_TEST = 100
MIN_POINTS = 4
# Table 5 gives 4 to 24 points; the first 100 patients have 8 to 44 hourly means of GCS and 4 to 16 of HCT.
# Cutting training tasks at 24 h also gives 4 to 24, but the prior never sees the hours it is asked about.
MAX_TRAIN_POINTS = 24
# Compared with the hour rounded down: 24:00 to 24:59 still belongs to the context, as in the code behind the
# paper's figures.
CONTEXT_HOURS = 24


class Variable(NamedTuple):
    """What is measured, and the limits that a recorded value cannot pass in a living patient: beyond them it is
    missing or a slip (a temperature of 1.9 or -17.8 degrees, a heart rate or pressure of 0)."""

    meaning: str
    low: float
    high: float


VARIABLES = {
    "GCS": Variable("Glasgow coma scale, 3 to 15", 3, 15),
    "HCT": Variable("haematocrit in per cent", 5, 75),
    "HR": Variable("heart rate in beats per minute", 10, 250),
    "NIMAP": Variable("non-invasive mean arterial blood pressure in mmHg", 10, 250),
    "Temp": Variable("body temperature in degrees Celsius", 25, 45),
    "Glucose": Variable("serum glucose in mg/dL", 5, 2000),
    "K": Variable("serum potassium in mEq/L", 1, 12),
    "Na": Variable("serum sodium in mEq/L", 80, 200),
    "Creatinine": Variable("serum creatinine in mg/dL", 0, 50),
    "WBC": Variable("white blood cell count in thousands per microlitre", 0, 500),
}
_ROW = re.compile(rb"^(\d+):\d+,(%s),([^\r\n]*)" % "|".join(VARIABLES).encode(), re.MULTILINE)

Measurements = Float[np.ndarray, "_ 3"]
"""Columns: RecordID, hour, mean of the hour; sorted by the first two."""


def physionet(
    variable: str, split: int = 0, data_dir: str | Path | None = None, *, tasks: int | Literal["all"] = N_TRAIN
) -> Environment:
    """The values of a variable after the first day, from those of the first day.

    The last patients that can test do so, up to 500, and 100 before them validate; neither are among the first
    100. `tasks` patients train: the first of all others, or "all" of them.
    """
    patients = _patients(_measurements(variable, data_dir))
    if split != 0:
        patients = [patients[i] for i in np.random.default_rng(split).permutation(len(patients))]
    if len(patients) < N_TRAIN:
        raise DataError(f"Only {len(patients)} patients have {MIN_POINTS} measurements of {variable}.")
    later = [task for task in reversed(patients[N_TRAIN:]) if _can_test(task)][: N_TEST + N_VALID]
    if len(later) < MIN_TEST + N_VALID:
        raise DataError(f"Only {len(later)} patients can test {variable}; {MIN_TEST + N_VALID} are needed.")
    held_out = {task.name for task in later}
    others = [task for task in patients if task.name not in held_out]
    name = f"physionet-{variable.lower()}"
    number = len(others) if tasks == "all" else check_tasks(tasks)
    if number > len(others):
        raise ValueError(f"{name} has {len(others)} patients outside validation and test, not tasks={tasks}.")
    meta_train = _task_set([_thin(task) for task in others[:number]], variable)
    meta_test = _task_set(later[:-N_VALID], variable).context_target(_first_day)
    return Environment(
        name=name,
        meta_train=meta_train,
        meta_valid=_task_set(later[-N_VALID:], variable).context_target(_first_day),
        meta_test=meta_test,
        card=_card(variable, meta_train, meta_test.context, meta_test.target),
        split=split,
    )


def _patients(measurements: Measurements) -> list[Task]:
    """One task per patient with at least four hourly means, in order of RecordID."""
    records, starts = np.unique(measurements[:, 0], return_index=True)
    groups = np.split(measurements, starts[1:])
    return [
        Task(rows[:, 1], rows[:, 2], f"patient {int(record)}")
        for record, rows in zip(records, groups)
        if len(rows) >= MIN_POINTS
    ]


def _first_day(task: Task) -> np.ndarray:
    return task.x[:, 0] <= CONTEXT_HOURS


def _can_test(task: Task) -> bool:
    context = _first_day(task)
    return bool(context.sum() >= MIN_POINTS and not context.all())


def _thin(task: Task) -> Task:
    """At most 24 points of a training task, evenly spread over its measurements."""
    if len(task) <= MAX_TRAIN_POINTS:
        return task
    return task.take(np.linspace(0, len(task) - 1, MAX_TRAIN_POINTS).round().astype(int))


def _measurements(variable: str, data_dir: str | Path | None) -> Measurements:
    """Hourly means, from the parsed copy in the user's cache if there is a sound one."""
    archive = locate("physionet", data_dir)
    # Not beside the archive, whose directory may be read-only; the checksums tie the copy to its archive and rules.
    rules = hashlib.sha256(repr(VARIABLES).encode()).hexdigest()
    parsed = cache_directory() / f"physionet2012-{checksum(archive)[:16]}-{rules[:8]}.npz"
    return kept(parsed, [variable], lambda: parse(archive))[variable]


def parse(archive: Path) -> dict[str, Measurements]:
    """Hourly means of all variables of all patients in `set-a.tar.gz`, without values beyond the limits."""
    rows: dict[str, list[tuple[int, int, float]]] = {variable: [] for variable in VARIABLES}
    n_records = 0
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member)  # None for the directory
            if content is None or not member.name.endswith(".txt"):
                continue
            n_records += 1
            record = int(Path(member.name).stem)
            for hour, variable, value in _ROW.findall(content.read()):
                rows[variable.decode()].append((record, int(hour), float(value)))
    if n_records != N_RECORDS:
        raise DataError(f"{archive} has {n_records} patients, not {N_RECORDS}; it is not set A of the challenge.")
    return {
        variable: _hourly_means(np.array(table, dtype=np.float64).reshape(-1, 3), VARIABLES[variable])
        for variable, table in rows.items()
    }


def _hourly_means(rows: Measurements, variable: Variable) -> Measurements:
    rows = rows[(rows[:, 2] >= variable.low) & (rows[:, 2] <= variable.high)]
    patient_hours, group = np.unique(rows[:, 0] * 100 + rows[:, 1], return_inverse=True)  # hours end at 48
    means = np.bincount(group, rows[:, 2]) / np.bincount(group)
    return np.column_stack([*np.divmod(patient_hours, 100), means])


def _task_set(tasks: Sequence[Task], variable: str) -> TaskSet:
    return TaskSet(tasks, input_names=("hour",), target_name=variable)


def _card(variable: str, train: TaskSet, context: TaskSet, target: TaskSet) -> Card:
    def spread(tasks: TaskSet) -> str:
        return f"{tasks.sizes.min()} to {tasks.sizes.max()}"

    meaning, low, high = VARIABLES[variable]
    paper = (
        "The paper says how many patients validate and test (500), not which."
        if variable in ("GCS", "HCT")
        else "Not in the paper; the rule is that of its GCS and HCT."
    )
    return Card(
        title=f"PhysioNet-{variable}",
        source="PhysioNet/Computing in Cardiology Challenge 2012, set A (Silva et al., 2012)",
        licence="Open Data Commons Attribution License v1.0",
        sizes=(
            f"{len(train)} training patients with {spread(train)} points; {N_VALID} validation and "
            f"{len(target)} test patients, the latter with {spread(context)} context and {spread(target)} "
            "target points."
        ),
        units=f"hours since admission; {meaning}",
        notes=(
            f"Hourly means of values from {low:g} to {high:g}, others count as missing; context up to hour "
            f"{CONTEXT_HOURS}, target after it. Training patients with more than {MAX_TRAIN_POINTS} hourly means are "
            f"thinned to that number; they need not have been measured on both days. {paper}"
        ),
    )
