"""PhysioNet-GCS and -HCT: a clinical variable of an intensive-care patient in 48 hours (paper, "PhysioNet").

A task is a patient: x is the hour since admission, y the mean of the variable's values within that hour.
Patients come in order of RecordID; split 0 trains on the first, tests on the last and validates on those just
before them.
"""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from jaxtyping import Float

from scoreprior.environments._base import Card, Environment
from scoreprior.environments._store import DataError, cache_directory, checksum, locate
from scoreprior.tasks import Task, TaskSet

N_RECORDS = 4000
N_TRAIN, N_VALID, N_TEST = 100, 100, 500
MIN_POINTS = 4
# Table 5 gives 4 to 24 points; the first 100 patients have 8 to 44 hourly means of GCS and 4 to 16 of HCT.
# Cutting training tasks at 24 h also gives 4 to 24, but the prior never sees the hours it is asked about.
MAX_TRAIN_POINTS = 24
# Compared with the hour rounded down: 24:00 to 24:59 still belongs to the context, as in the code behind the
# paper's figures.
CONTEXT_HOURS = 24

_VARIABLES = {"GCS": "Glasgow coma scale, 3 to 15", "HCT": "haematocrit in per cent"}
_ROW = re.compile(rb"^(\d+):\d+,(GCS|HCT),([^\r\n]*)", re.MULTILINE)

Measurements = Float[np.ndarray, "_ 3"]
"""Columns: RecordID, hour, mean of the hour; sorted by the first two."""


def physionet_gcs(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """PhysioNet-GCS: the Glasgow coma scale of a patient after the first day, from the first day."""
    return _environment("GCS", split, data_dir)


def physionet_hct(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """PhysioNet-HCT: the haematocrit of a patient after the first day, from the first day."""
    return _environment("HCT", split, data_dir)


def _environment(variable: str, split: int, data_dir: str | Path | None) -> Environment:
    patients = _patients(_measurements(variable, data_dir))
    if split != 0:
        patients = [patients[i] for i in np.random.default_rng(split).permutation(len(patients))]
    if len(patients) < N_TRAIN:
        raise DataError(f"Only {len(patients)} patients have {MIN_POINTS} measurements of {variable}.")
    later = [task for task in reversed(patients[N_TRAIN:]) if _can_test(task)][: N_TEST + N_VALID]
    if len(later) < N_TEST + N_VALID:
        raise DataError(f"Only {len(later)} patients can test {variable}; {N_TEST + N_VALID} are needed.")
    meta_train = _task_set([_thin(task) for task in patients[:N_TRAIN]], variable)
    meta_test = _task_set(later[:N_TEST], variable).context_target(_first_day)
    return Environment(
        name=f"physionet-{variable.lower()}",
        meta_train=meta_train,
        meta_valid=_task_set(later[N_TEST:], variable).context_target(_first_day),
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
    # Not beside the archive, whose directory may be read-only; the checksum ties the copy to its archive.
    parsed = cache_directory() / f"physionet2012-{checksum(archive)[:16]}.npz"
    try:
        with np.load(parsed) as stored:
            return stored[variable]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        tables = parse(archive)
    _save(parsed, tables)
    return tables[variable]


def parse(archive: Path) -> dict[str, Measurements]:
    """Hourly means of GCS and HCT of all patients in `set-a.tar.gz`; negative values are missing values."""
    rows: dict[str, list[tuple[int, int, float]]] = {variable: [] for variable in _VARIABLES}
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
        variable: _hourly_means(np.array(table, dtype=np.float64).reshape(-1, 3)) for variable, table in rows.items()
    }


def _hourly_means(rows: Measurements) -> Measurements:
    rows = rows[rows[:, 2] >= 0]
    patient_hours, group = np.unique(rows[:, 0] * 100 + rows[:, 1], return_inverse=True)  # hours end at 48
    means = np.bincount(group, rows[:, 2]) / np.bincount(group)
    return np.column_stack([*np.divmod(patient_hours, 100), means])


def _save(path: Path, tables: dict[str, Measurements]) -> None:
    """Keep the parsed tables, whole or not at all; a cache that cannot be written only costs time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            unfinished = Path(folder) / path.name
            np.savez(unfinished, **tables)  # type: ignore[arg-type]
            os.replace(unfinished, path)


def _task_set(tasks: Sequence[Task], variable: str) -> TaskSet:
    return TaskSet(tasks, input_names=("hour",), target_name=variable)


def _card(variable: str, train: TaskSet, context: TaskSet, target: TaskSet) -> Card:
    def spread(tasks: TaskSet) -> str:
        return f"{tasks.sizes.min()} to {tasks.sizes.max()}"

    return Card(
        title=f"PhysioNet-{variable}",
        source="PhysioNet/Computing in Cardiology Challenge 2012, set A (Silva et al., 2012)",
        licence="Open Data Commons Attribution License v1.0",
        sizes=(
            f"{len(train)} training patients with {spread(train)} points; {N_VALID} validation and "
            f"{len(target)} test patients, the latter with {spread(context)} context and {spread(target)} "
            "target points."
        ),
        units=f"hours since admission; {_VARIABLES[variable]}",
        notes=(
            f"Hourly means; context up to hour {CONTEXT_HOURS}, target after it. Training patients with more "
            f"than {MAX_TRAIN_POINTS} hourly means are thinned to that number. The paper says how many "
            "patients validate and test (500), not which."
        ),
    )
