"""A table of one's own in Python: read it, learn a prior, predict a new task, keep the prior.

python examples/own_table.py [readings.csv]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import scoreprior as sp


def invent(path: Path) -> Path:
    """Machines that warm up, each in its own way, read at odd times; one reading is missing."""
    rng = np.random.default_rng(0)
    rows = []
    for machine in range(15):
        room, power, pace = rng.normal(20, 2), rng.normal(40, 6), rng.uniform(8, 20)
        for minute in np.sort(rng.uniform(0, 60, rng.integers(5, 10))):
            rows.append((f"m{machine}", minute, room + power * (1 - np.exp(-minute / pace)) + rng.normal(0, 0.5)))
    rows[3] = (*rows[3][:2], np.nan)
    pd.DataFrame(rows, columns=["machine", "minute", "degrees"]).to_csv(path, index=False)
    return path


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else invent(Path(folder) / "warming.csv")
        # from_file knows semicolons, decimal commas and the like; from_frame reads any data frame.
        tasks = sp.TaskSet.from_file(path, task="machine", inputs="minute", target="degrees", missing="drop")
        print(tasks)
        prior = sp.learner("pooled-gp").fit(tasks, key=0)
        posterior = prior.condition([0.0, 5.0, 10.0], [21.0, 33.0, 42.0], key=1)
        print(posterior.predict([20.0, 40.0, 60.0]).to_frame().round(2))
        prior.save(Path(folder) / "warming.prior")
        again = sp.load_prior(Path(folder) / "warming.prior")
        print("without any point:", again.condition([], [], key=2).predict([60.0]))


if __name__ == "__main__":
    main()
