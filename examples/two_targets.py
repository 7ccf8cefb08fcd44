"""Two targets of a plant: heights that are known predict widths that are not, beside what the other plants have.

python examples/two_targets.py [--plants 20] [--method pooled-gp] [--quick]
"""

import argparse

import numpy as np
import pandas as pd

import scoreprior as sp


def grow(plants: int, seed: int) -> pd.DataFrame:
    """Height in cm and width in m of plants that differ in vigour; a third of the cells was not measured."""
    rng = np.random.default_rng(seed)
    frames = []
    for plant in range(plants):
        day, vigour = np.arange(0.0, 40.0, 4.0), rng.normal()
        growth = (1 + 0.3 * vigour) * day / 40
        height = 5 + 60 * growth + rng.normal(0, 1.5, len(day))
        width = 0.05 + 0.4 * growth + rng.normal(0, 0.01, len(day))
        frames.append(pd.DataFrame({"plant": f"s{seed}-{plant}", "day": day, "height": height, "width": width}))
    table = pd.concat(frames, ignore_index=True)
    return table.assign(**{name: table[name].where(rng.random(len(table)) > 1 / 3) for name in ("height", "width")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", type=int, default=20, help="plants to learn from")
    parser.add_argument("--method", default="pooled-gp")
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    columns = {"task": "plant", "inputs": "day"}
    tasks = sp.TaskSet.from_frame(grow(options.plants, seed=0), **columns, target=["height", "width"])
    learner = sp.learner(options.method)
    prior = (learner.with_budget(0.25) if options.quick else learner).fit(tasks, key=0, progress=False)
    fresh = grow(20, seed=1).dropna()
    known = sp.TaskSet.from_frame(fresh, **columns, target=["height"], encoding=prior.encoding)
    rows = [fresh[fresh["plant"] == task.name] for task in known]
    asked = [prior.encode(each.assign(target="width")) for each in rows]
    nothing = sp.TaskSet([task.take(slice(0)) for task in known], allow_empty=True)
    for name, contexts in (("heights known", known), ("nothing known", nothing)):
        predictives = prior.condition_many(contexts, key=1).predict(asked)
        errors = np.concatenate([each.mean - row["width"] for each, row in zip(predictives, rows)])
        print(f"{options.method}, {name}: RMSE of width {np.sqrt(np.mean(errors**2)):.3f} m, {len(rows)} new plants")


if __name__ == "__main__":
    main()
