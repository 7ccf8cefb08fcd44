"""Records whose answers are known: Gaussian predictions with a chosen error, on tasks of standard normal targets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scoreprior.bench.campaign import Campaign
from scoreprior.bench.cell import ORACLE, Cell
from scoreprior.bench.runner import InlineRunner
from scoreprior.bench.work import _per_task, rounded
from scoreprior.evaluation import Predicted, summarise, tabulate
from scoreprior.predictive import Predictive
from scoreprior.tasks import ContextTarget, Task, TaskSet

TASKS, POINTS = 30, 12
MADE = {"revision": "0123456789", "versions": {"jax": "1.0", "numpy": "2.0"}, "machine": "a machine, 2 cores"}


class _Where:
    def __init__(self, name: str):
        self.name, self.split, self.resolution = name, 0, 0.0


def work(errors: Mapping[str, float], cell: Cell) -> dict[str, Any]:
    """The record of a method whose mean is off by N(0, error^2) and who knows how far.

    Two are special: maml predicts points, last-value has error bars that are three times too wide.
    """
    if cell.method not in errors:
        raise ValueError("this method is made to fail")
    rng = np.random.default_rng([1, sum(map(ord, cell.environment))])  # the same tasks for all methods
    tasks = [Task(np.arange(POINTS, dtype=float), rng.normal(size=POINTS), f"task {i}") for i in range(TASKS)]
    pairs = ContextTarget(TaskSet(tasks), TaskSet(tasks))
    noise = np.random.default_rng([2, cell.seed, sum(map(ord, cell.method))])
    error = errors[cell.method]
    scale = {"maml": None, "last-value": 3 * error}.get(cell.method, error)
    predictives = [Predictive(task.y + error * noise.normal(size=POINTS), scale) for task in tasks]
    seconds = {"fit_seconds": 1.0, "condition_seconds": 0.5}
    frame = tabulate(Predicted(pairs, predictives, seconds), _Where(cell.environment), "test")  # type: ignore[arg-type]
    observed, mean = np.concatenate([task.y for task in tasks]), np.concatenate([each.mean for each in predictives])
    columns = {"observed": observed, "mean": mean, "low": mean - 1.64 * error, "high": mean + 1.64 * error}
    return {
        "summary": rounded(summarise(frame).iloc[0].drop(list(seconds)).to_dict(), 6),
        "tasks": _per_task(frame),
        "seconds": {"fit": 1.0, "condition": 0.5, "wall": 1.5, "cpu": 1.4, "compiled_before": False},
        "config": {},
        "made": {**MADE, "date": f"2026-01-0{cell.seed + 1}T00:00:00+00:00"},
        "points": {name: rounded(each[:50].tolist(), 5) for name, each in columns.items()} if not cell.seed else None,
    }


def make(
    out: Path, errors: Mapping[str, float], *, environments: tuple[str, ...] = ("sinusoid", "berkeley"), **cell: Any
) -> None:
    """Records of these methods, and of one that fails, on these environments, two seeds each (an oracle has one)."""
    settings = cell.pop("settings", {})
    cells = [
        Cell.of(name, method, seed, settings, **cell)
        for name in environments
        for method in (*errors, "newest-lag")
        for seed in range(1 if method == ORACLE else 2)
    ]
    with Campaign(out, cells) as campaign:
        for _ in campaign.run(InlineRunner(partial(work, errors))):
            pass
