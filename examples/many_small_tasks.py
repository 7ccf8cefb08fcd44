"""Five thousand tasks of five points each: two known, three predicted.

python examples/many_small_tasks.py [--tasks 5000] [--method hierarchical-gp] [--seed 0] [--quick]
"""

import argparse

import numpy as np

import scoreprior as sp

POINTS, KNOWN, FRESH = 5, 2, 500


def small_tasks(number: int, seed: int) -> sp.TaskSet:
    """Straight lines and a shared bend, with noise of a size that differs between tasks."""
    rng = np.random.default_rng(seed)
    xs = rng.uniform(0, 10, (number, POINTS, 1))
    offset, slope = 2 * rng.normal(size=(number, 1)), 0.3 * rng.normal(size=(number, 1))
    noise = 0.7 * np.exp(0.4 * rng.normal(size=(number, 1))) * rng.normal(size=(number, POINTS))
    return sp.TaskSet.from_arrays(list(xs), list(offset + slope * xs[..., 0] + np.sin(xs[..., 0]) + noise))


def figures(seed: int, method: str, *, tasks: int = 5000, quick: bool = False) -> dict[str, dict[str, float]]:
    """RMSE, coverage and width on 500 fresh tasks."""
    learner = sp.learner(method)
    learner = learner.with_budget(0.25) if quick else learner
    prior = learner.fit(small_tasks(tasks, 2 * seed), key=seed, progress=False)
    rows = sp.evaluate_pairs(prior, small_tasks(FRESH, 2 * seed + 1).context_target(KNOWN), key=1)
    return {method: {"rmse": rows.rmse.mean(), "coverage90": rows.coverage90.mean(), "width90": rows.width90.mean()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=5000, help="tasks to learn from")
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    for name, one in figures(options.seed, options.method, tasks=options.tasks, quick=options.quick).items():
        print(f"{name}: RMSE {one['rmse']:.3f}, {one['coverage90']:.0%} in the 90% interval, {KNOWN} known points")


if __name__ == "__main__":
    main()
