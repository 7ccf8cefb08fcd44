"""Machines with six settings each: a hundred known runs of a new machine, beside linear regression with pooling.

python examples/machines.py [--machines 12] [--method hierarchical-gp] [--seed 0] [--quick]
"""

import argparse

import numpy as np
import pandas as pd

import scoreprior as sp

SETTINGS = ("speed", "feed", "depth", "load", "heat", "age")
RUNS, KNOWN = 160, 100


def run(machines: int, seed: int) -> pd.DataFrame:
    """Wear of tools over settings: one law for all machines, with coefficients and an offset of each machine's own."""
    rng = np.random.default_rng(seed)
    frames = []
    for machine in range(machines):
        x = rng.uniform(-1, 1, (RUNS, len(SETTINGS)))
        own = rng.normal(0, 0.6, len(SETTINGS))
        bend = 3 * x[:, 0] * x[:, 1] + 2 * np.sin(np.pi * x[:, 2]) + (x @ own) + 2 * rng.normal()
        wear = 10 + bend + (1 + 0.3 * rng.normal()) * 2 * x[:, 4] ** 2 + rng.normal(0, 1, RUNS)
        columns = dict(zip(SETTINGS, x.T))
        frames.append(pd.DataFrame({"machine": f"s{seed}-{machine}", **columns, "wear": wear}))
    return pd.concat(frames, ignore_index=True)


def figures(seed: int, method: str, *, machines: int = 12, quick: bool = False) -> dict[str, dict[str, float]]:
    """RMSE, coverage and width on eight fresh machines."""
    columns = {"task": "machine", "inputs": list(SETTINGS), "target": "wear", "order": "rows"}
    table, fresh = (sp.TaskSet.from_frame(run(n, s), **columns) for n, s in ((machines, 2 * seed), (8, 2 * seed + 1)))
    found = {}
    for name in (method, "ridge"):
        learner = sp.learner(name)
        prior = (learner.with_budget(0.25) if quick else learner).fit(table, key=seed, progress=False)
        rows = sp.evaluate_pairs(prior, fresh.context_target(KNOWN), key=1)
        found[name] = {"rmse": rows.rmse.mean(), "coverage90": rows.coverage90.mean(), "width90": rows.width90.mean()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=12, help="machines to learn from")
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    for name, one in figures(options.seed, options.method, machines=options.machines, quick=options.quick).items():
        print(f"{name}: RMSE {one['rmse']:.2f}, {one['coverage90']:.0%} in the 90% interval; the noise is 1")


if __name__ == "__main__":
    main()
