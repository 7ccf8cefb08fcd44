"""Seconds to fit the GP interpolators, and the process that anchors MARS, to all tasks together.

    python benchmarks/interpolation.py [--tasks 100]

Tasks like PhysioNet's: 4 to 24 points of one input each. "First" includes compilation, "again" is a second data set of
the same shapes in the same process. The authors' code, one model per task, was once measured at 800 CPU seconds for 100
such tasks, on another machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from scoreprior.gp import ProcessConfig
from scoreprior.gp.fit import fit_process
from scoreprior.interpolators import GPInterpolator, MaternInterpolator
from scoreprior.tasks import PaddedTasks, Standardizer, Task, TaskSet

REFERENCE_CPU = 800.0
FITS: dict[str, Callable[[PaddedTasks, Any], Any]] = {
    "paper: shared lengthscale by CV": lambda tasks, key: MaternInterpolator().fit(tasks, key),
    "pooled: type-II fit": lambda tasks, key: GPInterpolator().fit(tasks, key),
    "anchor: type-II fit, predictive tuning": lambda tasks, key: fit_process(tasks, ProcessConfig(), key),
}


def make_tasks(count: int, seed: int) -> PaddedTasks:
    rng = np.random.default_rng(seed)
    tasks = []
    for size in np.resize(np.arange(4, 25), count):
        x = np.sort(rng.uniform(0, 48, size))
        walk = np.cumsum(rng.normal(0, 1, size) * (rng.uniform(size=size) < 0.3))
        tasks.append(Task(x, np.clip(np.round(12 + 2 * rng.normal() + walk), 3, 15)))
    whole = TaskSet(tasks)
    return Standardizer.fit(whole).apply(whole).padded()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100)
    count = parser.parse_args().tasks
    print(f"{count} tasks, CPU (wall) seconds{'first':>22} {'again':>16} {'800 s / again':>14}")
    for name, fit in FITS.items():
        figures = []
        for seed in range(2):
            tasks = make_tasks(count, seed)
            wall, cpu = time.perf_counter(), time.process_time()
            jax.block_until_ready(fit(tasks, jax.random.key(seed)))
            figures.append((time.process_time() - cpu, time.perf_counter() - wall))
        text = " ".join(f"{cpu:7.1f} ({wall:5.1f})" for cpu, wall in figures)
        print(f"{name:33s} {text:>34} {REFERENCE_CPU / figures[1][0]:14.0f}", flush=True)


if __name__ == "__main__":
    main()
