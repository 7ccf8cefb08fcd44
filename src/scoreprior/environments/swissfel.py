"""The SwissFEL recordings as published with the paper's code (appendix "SwissFEL").

Looked for in `<data directory>/swissfel`, then in the data directory. An experiment is a folder with

    data/evaluations.hdf5    dataset /1/<run>, a table with the fields x (12,) and y, one row per evaluation
    experiment.yaml          swissfel.interface / channel_config_set: one or several parameter files
    sf/<parameter file>      CSV, comments after #, a column `pv` with one channel name per input
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from scoreprior._extras import extra
from scoreprior.environments._base import Card, Environment
from scoreprior.environments._recording import read_recording
from scoreprior.environments._store import DataError, data_directory
from scoreprior.tasks import Task, TaskSet
from scoreprior.tasks.checks import TaskError

with extra("data"):
    import yaml

FOLDER = "swissfel"
EXPERIMENTS = ("2018_10_31/line_ucb_ascent", "2018_10_31/line_ucb", "2018_10_31/neldermead")
RUNS = tuple((experiment, run) for experiment in EXPERIMENTS for run in range(3))
DIM, POINTS, CONTEXT = 12, 400, 200
TRAIN_RUNS, VALID_RUNS = 5, 2
SECTION, FILES_KEY, FALLBACK_FILE = "swissfel.interface", "channel_config_set", "channel_config_set.txt"


def swissfel(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """The nine published 12-dimensional runs; `split` chooses which 5 train, which 4 test, and the points.

    The first 400 points of a run are split at random into 200 and 200 (paper, appendix "SwissFEL"); training
    tasks have one half. There are no tasks to spare: two training runs are held out for the selection of
    hyper-parameters only.
    """
    runs = _read_runs(_find(data_directory(data_dir)))
    order = np.random.default_rng([split, 9]).permutation(len(runs))
    train, test = order[:TRAIN_RUNS], order[TRAIN_RUNS:]
    halves = runs.context_target(CONTEXT, key=split)
    return Environment(
        name="swissfel",
        meta_train=halves.context.take(train),
        meta_valid=halves.take(train[:VALID_RUNS]),
        meta_test=halves.take(test),
        card=_card(),
        split=split,
        selection_train=halves.context.take(train[VALID_RUNS:]),
    )


def _find(directory: Path) -> Path:
    for root in (directory / FOLDER, directory):
        if (root / EXPERIMENTS[0]).is_dir():
            return root
    raise DataError(
        f"{directory / FOLDER / EXPERIMENTS[0]} is not there. Unpack the archive linked in "
        f"github.com/krunolp/mars (SWISSFEL_URL) into {directory / FOLDER}, or use swissfel-lines, real line "
        "scans of the machine, or the simulated stand-in swissfel-sim."
    )


def _read_runs(root: Path) -> TaskSet:
    names = [_parameter_names(root / experiment) for experiment in EXPERIMENTS]
    for experiment, found in zip(EXPERIMENTS, names):
        if found != names[0]:
            raise DataError(
                f"{root / experiment} lists the channels {', '.join(found)}, but {root / EXPERIMENTS[0]} "
                f"lists {', '.join(names[0])}: the runs do not share their inputs."
            )
    tasks = [_read_run(root / experiment, run, f"{experiment} {run}") for experiment, run in RUNS]
    return TaskSet(tasks, input_names=names[0], target_name="pulse energy")


def _read_run(folder: Path, run: int, name: str) -> Task:
    path, key = folder / "data" / "evaluations.hdf5", f"1/{run}"
    table = read_recording(path, key, ("x", "y"), POINTS)
    if table["x"].ndim != 2 or table["x"].shape[1] != DIM:
        raise DataError(f"{path}: /{key} field 'x' has shape {table['x'].shape}; expected (m, {DIM}).")
    if len(table) < POINTS:
        raise DataError(f"{path}: /{key} has {len(table)} evaluations; the first {POINTS} are needed.")
    try:
        return Task(table["x"], table["y"], name)
    except TaskError as error:
        raise DataError(f"{path}: /{key}: {error}") from error


def _parameter_names(folder: Path) -> tuple[str, ...]:
    listed = [folder / "sf" / PurePosixPath(file).name for file in _parameter_files(folder / "experiment.yaml")]
    # Old recordings name a file that was later stored under a fixed name.
    present = [path for path in listed if path.is_file()] or [folder / "sf" / FALLBACK_FILE]
    names = tuple(name for path in present for name in _channels(path))
    if len(names) != DIM:
        raise DataError(f"{', '.join(map(str, present))} list {len(names)} channels; the inputs have {DIM} dimensions.")
    return names


def _parameter_files(path: Path) -> list[str]:
    content = _load_yaml(path)
    if not isinstance(content, dict) or not isinstance(content.get(SECTION), dict):
        raise DataError(f"{path} has no section {SECTION!r}.")
    if FILES_KEY not in content[SECTION]:
        raise DataError(f"{path} has no key {FILES_KEY!r} in {SECTION!r}.")
    files = content[SECTION][FILES_KEY]
    files = files if isinstance(files, list) else [files]
    if not files or not all(isinstance(file, str) for file in files):
        raise DataError(f"{path}: {SECTION}/{FILES_KEY} must be one or several file names, not {files!r}.")
    return files


def _load_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there; it names the parameters of the recordings.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid YAML: {error}.") from error


def _channels(path: Path) -> list[str]:
    try:
        frame = pd.read_csv(path, comment="#", skipinitialspace=True)
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there, nor the parameter files that experiment.yaml names.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a table of parameters: {error}.") from error
    if "pv" not in frame:
        raise DataError(f"{path} has no column 'pv'; it has {', '.join(map(str, frame.columns))}.")
    if frame["pv"].isna().any():
        raise DataError(f"{path}: column 'pv' is empty in row {int(frame['pv'].isna().argmax())}.")
    return [str(name).strip() for name in frame["pv"]]


def _card() -> Card:
    return Card(
        title="SwissFEL: tuning runs of a free-electron laser, as published",
        source="recordings of 31 October 2018 from the archive linked in github.com/krunolp/mars; Kirschner "
        "et al. (2019), arXiv:1902.03229; Milne et al. (2017)",
        licence="none stated with the data, which this package does not redistribute",
        sizes="9 runs, their first 400 points split at random into 200 and 200: 5 train (200 points), 4 test "
        "(200 context, 200 target).",
        units="12 machine parameters and the pulse energy, both as recorded (the files state no units)",
        notes="Points follow an optimiser and are not i.i.d. No runs are left for validation: two are held "
        "out of the training runs while hyper-parameters are chosen.",
    )
