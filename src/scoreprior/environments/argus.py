"""The Argus-Control data as published with the paper's code (appendix "Argus-Control").

The file `meta_data_argus_sim.json` is looked for in `<data directory>/argus_data`, then in the directory:

    {"meta_train": {"TV": [[x, y], ...]}, "meta_test": {"TV": [[x, y, x_test, y_test], ...]}}

A task is a step size of the axis, x (500, 3) the gains of its PID controller and y (500,) or (500, 1) the
total variation of the position error. Quantities beside "TV" are ignored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from scoreprior.environments._base import Card, Environment
from scoreprior.environments._store import DataError, data_directory
from scoreprior.tasks import ContextTarget, Task, TaskSet
from scoreprior.tasks.checks import TaskError

GAIN_NAMES = ("gain 1", "gain 2", "gain 3")  # the file does not say which is which
FILE, FOLDER, QUANTITY = "meta_data_argus_sim.json", "argus_data", "TV"
DIM, CONTEXT, VALID_TASKS = 3, 100, 4


def argus(split: int = 0, data_dir: str | Path | None = None) -> Environment:
    """The published Argus-Control tasks; which are for testing is fixed by the file.

    `split` draws the context points and the validation tasks. A context has 100 points, as in the published
    loader; a training task keeps all of its 500 (paper, table of tasks and samples). There are no tasks to
    spare: four training tasks are held out for the selection of hyper-parameters only.
    """
    path = _find(data_directory(data_dir))
    train, test = _read(path)
    generator = np.random.default_rng([split, 20])
    held_out = min(VALID_TASKS, len(train) - 2)
    order = generator.permutation(len(train))
    valid, rest = np.sort(order[:held_out]), np.sort(order[held_out:])
    return Environment(
        name="argus",
        meta_train=train,
        meta_valid=train.take(valid).context_target(CONTEXT, key=split),
        meta_test=_test_pairs(test, generator),
        card=_card(len(train), len(test)),
        split=split,
        selection_train=train.take(rest),
    )


def _find(directory: Path) -> Path:
    candidates = [directory / FOLDER / FILE, directory / FILE]
    for path in candidates:
        if path.is_file():
            return path
    raise DataError(
        f"{candidates[0]} is not there. Get {FILE} from the archive linked in github.com/krunolp/mars "
        "(ARGUS_CONTROL_URL) and put it there, or use argus-model, simulated with the published model of the axis, or "
        "the simulated stand-in argus-sim."
    )


def _read(path: Path) -> tuple[TaskSet, list[tuple[Task, Task]]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid JSON: {error}. It may be truncated; get it again.") from error
    train, test = [], []
    for i, (x, y) in enumerate(_entries(path, content, "meta_train", 2)):
        train.append(_task(path, f"meta_train/{QUANTITY}[{i}]", i, x, y, CONTEXT + 1))
    for i, (x, y, x_test, y_test) in enumerate(_entries(path, content, "meta_test", 4), len(train)):
        place = f"meta_test/{QUANTITY}[{i - len(train)}]"
        context = _task(path, f"{place} context", i, x, y, CONTEXT)
        test.append((context, _task(path, f"{place} test", i, x_test, y_test, 1)))
    if len(train) < 3 or not test:
        raise DataError(
            f"{path} has {len(train)} tasks in meta_train and {len(test)} in meta_test; at least 3 and 1 are "
            "needed (the published file has 20 and 4)."
        )
    return TaskSet(train, input_names=GAIN_NAMES, target_name=QUANTITY), test


def _entries(path: Path, content: Any, part: str, arrays: int) -> list[list[Any]]:
    if not isinstance(content, dict) or part not in content:
        raise DataError(f"{path} has no key {part!r} at the top; it is not the published file.")
    quantities = content[part]
    if not isinstance(quantities, dict) or QUANTITY not in quantities:
        raise DataError(f"{path} has no key {QUANTITY!r} in {part!r}; it is not the published file.")
    entries = quantities[QUANTITY]
    if not isinstance(entries, list):
        raise DataError(f"{path}: {part}/{QUANTITY} is a {type(entries).__name__}, not a list of tasks.")
    for i, entry in enumerate(entries):
        if not isinstance(entry, list) or len(entry) != arrays:
            found = f"{len(entry)} arrays" if isinstance(entry, list) else f"a {type(entry).__name__}"
            raise DataError(f"{path}: {part}/{QUANTITY}[{i}] has {found}, not {arrays} arrays.")
    return entries


def _task(path: Path, place: str, number: int, x: Any, y: Any, least: int) -> Task:
    try:
        task = Task(x, y, f"step size {number}")
    except TaskError as error:
        raise DataError(f"{path}: {place}: {error}") from error
    if task.dim != DIM:
        raise DataError(f"{path}: {place} has {task.dim} input columns, not the {DIM} gains of the controller.")
    if len(task) < least:
        raise DataError(f"{path}: {place} has {len(task)} points; at least {least} are needed.")
    return task


def _test_pairs(test: list[tuple[Task, Task]], generator: np.random.Generator) -> ContextTarget:
    contexts, targets = [], []
    for context, target in test:
        drawn = context.take(np.sort(generator.permutation(len(context))[:CONTEXT]))
        # The two halves of the file may share points; no target point is ever a context point.
        known = {row.tobytes() for row in drawn.x}
        fresh = np.array([row.tobytes() not in known for row in target.x], bool)
        if not fresh.any():
            raise DataError(f"All test points of {target.name} are among its context points.")
        contexts.append(drawn)
        targets.append(target.take(fresh))
    return ContextTarget(
        TaskSet(contexts, input_names=GAIN_NAMES, target_name=QUANTITY),
        TaskSet(targets, input_names=GAIN_NAMES, target_name=QUANTITY),
    )


def _card(train: int, test: int) -> Card:
    return Card(
        title="Argus-Control: a linear motion system tuned in simulation, as published",
        source=f"{FILE}, from the archive linked in github.com/krunolp/mars; Rothfuss et al. (2022), arXiv:2210.13319",
        licence="none stated with the data, which this package does not redistribute",
        sizes=f"{train} train and {test} test tasks, one a step size between 10 um and 10 mm; contexts have "
        f"{CONTEXT} points.",
        units="inputs the three PID gains, target the total variation of the position error, both as "
        "published (the file states no units)",
        notes="No tasks are left for validation: some are held out of the training tasks while "
        "hyper-parameters are chosen. The data come from the authors' simulation of the machine.",
    )
