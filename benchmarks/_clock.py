"""The time of a compiled call, for the scripts beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax


def clock(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The shortest wall and CPU seconds of a call, after one that compiles."""
    jax.block_until_ready(call())
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(call())
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)
