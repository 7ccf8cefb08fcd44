"""Daily sales with dates: the week as a cycle, and 14 days ahead of new products beside a rule of thumb.

python examples/daily_sales.py [--products 15] [--method hierarchical-gp] [--seed 0] [--quick]
"""

import argparse

import numpy as np
import pandas as pd

import scoreprior as sp

WEEK = np.array([0.9, 0.8, 0.85, 1.0, 1.3, 1.6, 0.55])
"""Sales of a weekday, Monday first, relative to the mean."""
DAYS, KNOWN, AHEAD = 56, 28, 14


def sell(products: int, seed: int) -> pd.DataFrame:
    """Counts of products that differ in level and trend, and a little in the profile of their week."""
    rng = np.random.default_rng(seed)
    dates = pd.date_range("2024-01-01", periods=DAYS)
    frames = []
    for product in range(products):
        week = WEEK * np.exp(rng.normal(0, 0.1, 7))
        trend = np.exp(rng.normal(0, 0.005) * (np.arange(DAYS) - DAYS / 2))
        sold = rng.poisson(np.exp(rng.normal(3, 0.5)) * week[dates.day_of_week] * trend)
        frames.append(pd.DataFrame({"product": f"s{seed}-{product}", "date": dates, "sold": sold}))
    return pd.concat(frames, ignore_index=True)


def weekday_times_mean(table: pd.DataFrame, known: pd.DataFrame, asked: pd.DataFrame) -> np.ndarray:
    """Each product's mean so far, times what a weekday sells relative to the mean in the table of old products."""
    relative = table["sold"] / table.groupby("product")["sold"].transform("mean")
    profile = relative.groupby(table["date"].dt.day_of_week).mean()
    return (known["sold"].mean() * asked["date"].dt.day_of_week.map(profile)).to_numpy()


def figures(seed: int, method: str, *, products: int = 15, quick: bool = False) -> dict[str, dict[str, float]]:
    """RMSE, coverage and width 14 days ahead of 20 fresh products, as counts, beside a rule of thumb."""
    learner = sp.learner(method)
    learner = learner.with_budget(0.25) if quick else learner
    table, fresh = sell(products, 2 * seed), sell(20, 2 * seed + 1)
    columns = {"task": "product", "inputs": "date", "target": "sold"}
    tasks = sp.TaskSet.from_frame(table, **columns, cycles=["week"]).with_target(sp.Count())
    prior = learner.fit(tasks, key=seed, progress=False)
    ahead = [product[: KNOWN + AHEAD] for _, product in fresh.groupby("product", sort=False)]
    new = sp.TaskSet.from_frame(pd.concat(ahead), **columns, encoding=prior.encoding).with_target(sp.Count())
    rows = sp.evaluate_pairs(prior, new.context_target(KNOWN), key=1)
    rule = [
        np.sqrt(np.mean((weekday_times_mean(table, each[:KNOWN], each[KNOWN:]) - each["sold"][KNOWN:]) ** 2))
        for each in ahead
    ]
    own = {"rmse": rows.rmse.mean(), "coverage90": rows.coverage90.mean(), "width90": rows.width90.mean()}
    return {method: own, "weekday x mean": {"rmse": float(np.mean(rule))}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=15, help="products to learn from")
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    for name, one in figures(options.seed, options.method, products=options.products, quick=options.quick).items():
        inside = f", {one['coverage90']:.0%} in the 90% interval" if "coverage90" in one else ""
        print(f"{name}: RMSE {one['rmse']:.2f}{inside}, {AHEAD} days ahead of 20 new products")


if __name__ == "__main__":
    main()
