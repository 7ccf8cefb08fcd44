"""Cells of a few milliseconds: `python short_cells.py OUT WORKERS LIMIT LOG RUN METHOD*NUMBER ...`

The name of a method says what its cells do. Every start of a cell is noted in LOG, with the RUN it belongs to.
With "then" at the end, the cells of another split follow, done by the same workers.
"""

from __future__ import annotations

import os
import sys
import time
import types
from dataclasses import replace
from pathlib import Path

if __name__ in ("__main__", "__mp_main__"):
    # The loop under test needs the bench package only; importing everything takes seconds in each process.
    package = types.ModuleType("scoreprior")
    package.__path__ = [str(Path(__file__).parents[2] / "src" / "scoreprior")]
    sys.modules["scoreprior"] = package

from scoreprior.bench.campaign import Campaign
from scoreprior.bench.cell import Cell
from scoreprior.bench.runner import runner_for


def work(cell: Cell) -> dict:
    log = os.open(os.environ["SHORT_CELLS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{os.environ['SHORT_CELLS_RUN']} {cell.key} {os.getpid()}\n".encode())
    os.close(log)
    if cell.method == "raises":
        raise ValueError("this one\nraises")
    if cell.method == "dies":
        os.kill(os.getpid(), 11)
    if cell.method == "hangs":
        time.sleep(1000)
    time.sleep(0.3 if cell.method.startswith("slow") else 0.01)
    where = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    threads = _threads_of_jax() if cell.method == "computes" else None
    return {"value": cell.seed, "points": None, "pid": os.getpid(), "cores": where, "threads": threads}


def _threads_of_jax() -> int:
    """How many threads share what JAX computes in this process."""
    import jax

    jax.block_until_ready(jax.numpy.ones((8, 8)) @ jax.numpy.ones((8, 8)))
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return sum("XLAEigen" in name for name in names)


def main() -> None:
    out, workers, limit, log, run, *wanted = sys.argv[1:]
    os.environ |= {"SHORT_CELLS_LOG": log, "SHORT_CELLS_RUN": run}
    others = [each for each in wanted if "*" not in each]
    numbers = {method: int(number) for method, number in (each.split("*") for each in wanted if each not in others)}
    cells = [Cell.of("short", method, seed, {}) for method, number in numbers.items() for seed in range(number)]
    runner = runner_for(work, int(workers), float(limit), keep="then" in others)
    for wave in (cells, [replace(cell, split=1) for cell in cells])[: 1 + ("then" in others)]:
        with Campaign(Path(out), wave) as campaign:
            for _ in campaign.run(runner):
                pass


if __name__ == "__main__":
    main()
