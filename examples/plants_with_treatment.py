"""Growth curves with a treatment per plant: a column of words as an input, and what it gains on fresh plants.

python examples/plants_with_treatment.py [--plants 36] [--method hierarchical-gp] [--compare] [--quick]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", type=int, default=36, help="plants to learn from")
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--compare", action="store_true", help="the same without the treatment first")
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    table, fresh = grow(options.plants, seed=0), grow(30, seed=1)
    learner = sp.learner(options.method)
    if options.quick:
        learner = learner.with_budget(0.25)
    for inputs in ([["day"]] if options.compare else []) + [["day", "treatment"]]:
        tasks = sp.TaskSet.from_frame(table, task="plant", inputs=inputs, target="cm")
        prior = learner.fit(tasks, key=0, progress=False)
        # The prior reads new tables as it read the first one.
        new = sp.TaskSet.from_frame(fresh, task="plant", inputs=inputs, target="cm", encoding=prior.encoding)
        rows = sp.evaluate_pairs(prior, new.context_target(KNOWN), key=1)
        found = sp.summarise(rows.assign(inputs=" and ".join(inputs)), by="inputs").iloc[0]
        print(
            f"{found['inputs']}: RMSE {found['rmse']:.2f} cm, {found['pooled_coverage90']:.0%} in the 90% interval, "
            f"on {len(new)} fresh plants with {KNOWN} known points"
        )
    print(f"inputs of the last prior: {', '.join(tasks.input_names)}")


if __name__ == "__main__":
    main()
