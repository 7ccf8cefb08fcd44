"""Daily sales with dates: the week as a cycle, and 14 days ahead of new products beside a rule of thumb.

python examples/daily_sales.py [--products 15] [--method hierarchical-gp] [--quick]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=15, help="products to learn from")
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    table, fresh = sell(options.products, seed=0), sell(20, seed=1)
    tasks = sp.TaskSet.from_frame(table, task="product", inputs="date", target="sold", cycles=["week"])
    print(f"date: {tasks.encoding.inputs[0].words()}")
    learner = sp.learner(options.method)
    prior = (learner.with_budget(0.25) if options.quick else learner).fit(tasks, key=0, progress=False)
    products = [product for _, product in fresh.groupby("product", sort=False)]
    known = pd.concat([product[:KNOWN] for product in products])
    asked = [product[KNOWN : KNOWN + AHEAD] for product in products]
    contexts = sp.TaskSet.from_frame(known, task="product", inputs="date", target="sold", encoding=prior.encoding)
    predictives = prior.condition_many(contexts, key=1).predict([prior.encode(product) for product in asked])
    rules = [weekday_times_mean(table, product[:KNOWN], rows) for product, rows in zip(products, asked)]
    for name, means in ((options.method, [each.mean for each in predictives]), ("weekday x mean", rules)):
        errors = [np.sqrt(np.mean((mean - rows["sold"]) ** 2)) for mean, rows in zip(means, asked)]
        print(f"{name}: RMSE {np.mean(errors):.2f}, {AHEAD} days ahead of {len(asked)} new products")


if __name__ == "__main__":
    main()
