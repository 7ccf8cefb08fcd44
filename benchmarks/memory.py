"""Peak memory of learning a prior from many tasks.

    python benchmarks/memory.py [--tasks 10000] [--method mars-gp] [--steps 200]

Tasks of 4 to 24 points of one input; the network is trained for `steps` steps, as more of them need no more memory.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import scoreprior as sp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--method", default="mars-gp")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    xs = [rng.uniform(-5, 5, (size, 1)) for size in np.resize(np.arange(4, 25), options.tasks)]
    ys = [rng.normal(1, 0.3) * np.sin(2 * x[:, 0] + rng.uniform(0, 6)) + 0.1 * rng.normal(size=len(x)) for x in xs]
    tasks = sp.TaskSet.from_arrays(xs, ys)
    before = _peak()
    started = time.process_time()
    sp.learner(options.method, **{"training.steps": options.steps}).fit(tasks, 0, progress=False)
    print(
        f"{options.method}, {options.tasks} tasks: peak {_peak():.2f} GB ({before:.2f} GB before the fit), "
        f"{time.process_time() - started:.0f} CPU s"
    )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # Linux counts in kilobytes


if __name__ == "__main__":
    main()
