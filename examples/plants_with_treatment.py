"""Growth curves with a treatment per plant: a column of words as an input, and what it gains on fresh plants.

python examples/plants_with_treatment.py [--plants 36] [--method hierarchical-gp] [--seed 0] [--quick]
"""

import argparse

import numpy as np
import pandas as pd

import scoreprior as sp

HEIGHTS = {"control": 40.0, "shade": 34.0, "drought": 24.0}
"""Final height in cm, typical of each treatment."""
MIDDLES = {"control": 14.0, "shade": 19.0, "drought": 22.0}
"""Day of half of it."""
KNOWN = 5


def grow(plants: int, seed: int) -> pd.DataFrame:
    """Heights of plants in cm on twelve days of six weeks each, treatments in turn."""
    rng = np.random.default_rng(seed)
    frames = []
    for plant in range(plants):
        treatment = list(HEIGHTS)[plant % len(HEIGHTS)]
        height, middle = HEIGHTS[treatment] * np.exp(rng.normal(0, 0.12)), MIDDLES[treatment] + rng.normal(0, 1.5)
        day = np.sort(rng.choice(np.arange(1, 43), 12, replace=False))
        cm = height / (1 + np.exp(-(day - middle) / 4)) + rng.normal(0, 0.5, 12)
        frames.append(pd.DataFrame({"plant": f"p{plant}", "treatment": treatment, "day": day, "cm": cm.round(1)}))
    return pd.concat(frames, ignore_index=True)


def figures(seed: int, method: str, *, plants: int = 36, quick: bool = False) -> dict[str, dict[str, float]]:
    """RMSE, coverage and width on 30 fresh plants, without the treatment and with it."""
    learner = sp.learner(method)
    learner = learner.with_budget(0.25) if quick else learner
    table, fresh = grow(plants, 2 * seed), grow(30, 2 * seed + 1)
    found = {}
    for inputs in (["day"], ["day", "treatment"]):
        tasks = sp.TaskSet.from_frame(table, task="plant", inputs=inputs, target="cm")
        prior = learner.fit(tasks, key=seed, progress=False)
        # The prior reads new tables as it read the first one.
        new = sp.TaskSet.from_frame(fresh, task="plant", inputs=inputs, target="cm", encoding=prior.encoding)
        rows = sp.evaluate_pairs(prior, new.context_target(KNOWN), key=1)
        figures = {"rmse": rows.rmse.mean(), "coverage90": rows.coverage90.mean(), "width90": rows.width90.mean()}
        found[" and ".join(inputs)] = figures
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", type=int, default=36, help="plants to learn from")
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    for name, one in figures(options.seed, options.method, plants=options.plants, quick=options.quick).items():
        print(
            f"{name}: RMSE {one['rmse']:.2f} cm, {one['coverage90']:.0%} in the 90% interval, "
            f"on 30 fresh plants with {KNOWN} known points"
        )


if __name__ == "__main__":
    main()
