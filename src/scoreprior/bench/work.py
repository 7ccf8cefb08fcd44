"""What a worker does with a cell: fit, predict the unseen tasks, and boil the result down to a small record."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from dataclasses import is_dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from scoreprior.bench.budget import flat
from scoreprior.bench.cell import ORACLE, Cell
from scoreprior.bench.counts import encode
from scoreprior.environments import Environment, environment
from scoreprior.evaluation import Predicted, predict_by_oracle, predict_unseen, summarise, tabulate
from scoreprior.learners import learner

POINTS = 200
"""Predictions of a method on an environment that are kept for a plot."""
TASK_METRICS = ("rmse", "nll", "log_score", "crps")
"""What a record keeps of every task; older ones have the first two."""

_SUMMARY_DIGITS, _TASK_DIGITS = 6, 5
_compiled_for: tuple[Any, ...] | None = None


def run_cell(cell: Cell) -> dict[str, Any]:
    """The record of a cell: summary, metrics per task, PIT counts, seconds, configuration, where it was made.

    "points" holds predictions to plot; the writer puts them beside the records.
    """
    cold, made = _make_room(cell), provenance()
    env = _environment(cell.environment, cell.split, cell.tasks)
    if cell.part == "valid":
        # Whoever selects by this cell cannot have seen a test task, not even by mistake.
        env = replace(env, meta_test=None)  # type: ignore[arg-type]
    wall, cpu = time.perf_counter(), time.process_time()
    predicted, config = _predict(cell, env)
    frame, seconds = tabulate(predicted, env, cell.part), predicted.seconds
    spent = {
        "fit": seconds["fit_seconds"],
        "condition": seconds["condition_seconds"],
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
    }
    return {
        "summary": rounded(summarise(frame).iloc[0].drop(list(seconds)).to_dict(), _SUMMARY_DIGITS),
        "tasks": _per_task(frame),
        "resolution": env.resolution,
        "seconds": rounded(spent, 4) | {"compiled_before": not cold},
        "config": config,
        "made": made | {"date": datetime.now(UTC).isoformat(timespec="seconds")},
        "points": _points(predicted) if cell.seed == 0 and cell.part == "test" and cell.tasks is None else None,
    }


def _predict(cell: Cell, env: Environment) -> tuple[Predicted, dict[str, Any]]:
    """The predictions, and every setting of the method that made them."""
    if cell.method == ORACLE:
        return predict_by_oracle(env, tasks=cell.part), {}
    method = learner(cell.method, **cell.overrides)
    config: dict[str, Any] = {name: _told(value) for name, value in flat(method)} if is_dataclass(method) else {}
    return predict_unseen(method, env, cell.seed, tasks=cell.part), config


def _per_task(frame: pd.DataFrame) -> dict[str, Any]:
    kept = {
        name: None if frame[name].isna().all() else rounded(frame[name].tolist(), _TASK_DIGITS) for name in TASK_METRICS
    }
    return {**kept, "pit": None if kept["nll"] is None else encode(frame["pit"])}


def _points(predicted: Predicted) -> dict[str, Any]:
    """Observed values, means and 90% intervals of POINTS points, spread evenly over all tasks' points."""
    pairs, predictives, _ = predicted
    total = int(pairs.target.sizes.sum())
    chosen = np.linspace(0, total - 1, min(POINTS, total)).astype(int)
    columns: dict[str, list[float]] = {name: [] for name in ("observed", "mean", "low", "high")}
    start = 0
    for target, predictive in zip(pairs.target, predictives):
        own = chosen[(chosen >= start) & (chosen < start + len(target))] - start
        start += len(target)
        if len(own):
            some = predictive.take(own)
            low, high = some.interval(0.9) if not some.is_point else (some.mean, some.mean)
            for name, values in zip(columns, (target.y[own], some.mean, low, high)):
                columns[name] += values.tolist()
    return rounded(columns, _TASK_DIGITS)


def rounded(value: Any, digits: int) -> Any:
    """Floats to so many significant digits, inside lists and dicts too: more are noise and bulk."""
    if isinstance(value, dict):
        return {name: rounded(item, digits) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _told(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str, tuple)) else repr(value)


def _make_room(cell: Cell) -> bool:
    """Forget the compiled code of another method: it only fills the memory. True if this configuration is new."""
    global _compiled_for
    wanted = (cell.environment, cell.method, cell.part, cell.settings, cell.tasks)
    cold = _compiled_for != wanted
    if _compiled_for is not None and _compiled_for[:2] != wanted[:2]:
        jax.clear_caches()
    _compiled_for = wanted
    return cold


@lru_cache(maxsize=2)
def _environment(name: str, split: int, tasks: int | None) -> Environment:
    return environment(name, split=split) if tasks is None else environment(name, split=split, tasks=tasks)


@lru_cache(maxsize=1)
def provenance() -> dict[str, Any]:
    """Revision of the code, versions of what matters to the numbers, and the kind of machine."""
    # An installed copy may lie inside somebody else's repository, whose revision says nothing of our code.
    is_ours = _git("ls-files", "--error-unmatch", "--", __file__)
    revision = (_git("rev-parse", "--short=10", "HEAD") if is_ours else "") or "no git"
    # Of the package only: the records, which change all the time, may live in the same repository.
    changed = is_ours and _git("--no-optional-locks", "status", "--porcelain", "--", str(Path(__file__).parents[1]))
    packages = ("scoreprior", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")
    return {
        "revision": f"{revision}-dirty" if changed else revision,
        "versions": {name: version(name) for name in packages} | {"python": platform.python_version()},
        "machine": f"{_processor()}, {os.cpu_count()} cores",
    }


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()
    except OSError:  # no git on this machine
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
