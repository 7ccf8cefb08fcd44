"""Dose-response curves from 0 to 100 percent: a bounded target, beside a fit that knows the true family of curves.

python examples/dose_response.py [--curves 80] [--method hierarchical-gp] [--seed 0] [--quick]
"""

import argparse

import numpy as np
import pandas as pd

import scoreprior as sp

DOSES = np.linspace(-3, 3, 13)
"""Logarithms of doses at which every curve is measured."""
NOISE, KNOWN = 4.0, 2


def draw(curves: int, rng: np.random.Generator) -> np.ndarray:
    """Curves at all doses, (curves, doses): sigmoids whose top, middle and steepness differ."""
    top = 100 / (1 + np.exp(-rng.normal(1.5, 0.8, (curves, 1))))
    middle, slope = rng.normal(0, 1.2, (curves, 1)), np.exp(rng.normal(0.7, 0.4, (curves, 1)))
    return top / (1 + np.exp(-slope * (DOSES - middle)))


def measure(curves: int, seed: int) -> pd.DataFrame:
    """Responses in percent with noise, cut at 0 and 100; the doses of a curve in random order."""
    rng = np.random.default_rng(seed)
    percent = np.clip(draw(curves, rng) + NOISE * rng.normal(size=(curves, len(DOSES))), 0, 100).round(1)
    order = rng.permuted(np.tile(np.arange(len(DOSES)), (curves, 1)), axis=1)
    return pd.DataFrame(
        {
            "curve": np.repeat([f"s{seed}-{i}" for i in range(curves)], len(DOSES)),
            "log_dose": DOSES[order].ravel(),
            "percent": np.take_along_axis(percent, order, 1).ravel(),
        }
    )


def knows_the_family(new: sp.ContextTarget, level: float = 0.9) -> tuple[float, float, float]:
    """RMSE, coverage and width of the exact posterior of the true curves, by many draws weighed by the known points."""
    rng = np.random.default_rng(0)
    curves, errors, inside, widths = draw(100_000, rng), [], [], []
    for known, asked in zip(new.context, new.target):
        at, of = (np.searchsorted(DOSES, each.x[:, 0] - 1e-6) for each in (known, asked))
        log_weight = -0.5 * np.sum((curves[:, at] - known.y) ** 2, axis=1) / NOISE**2
        weight = np.exp(log_weight - log_weight.max())
        mean = weight @ curves[:, of] / weight.sum()
        chosen = rng.choice(len(curves), 2000, p=weight / weight.sum())
        draws = np.clip(curves[chosen][:, of] + NOISE * rng.normal(size=(2000, len(of))), 0, 100)
        low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        errors.append(np.sqrt(np.mean((mean - asked.y) ** 2)))
        inside.append(np.mean((low <= asked.y) & (asked.y <= high)))
        widths.append(np.mean(high - low))
    return float(np.mean(errors)), float(np.mean(inside)), float(np.mean(widths))


def figures(seed: int, method: str, *, curves: int = 80, quick: bool = False) -> dict[str, dict[str, float]]:
    """RMSE, coverage and width on 60 fresh curves: as real numbers, as percentages, and by the true family."""
    learner = sp.learner(method)
    learner = learner.with_budget(0.25) if quick else learner
    columns = {"task": "curve", "inputs": "log_dose", "target": "percent", "order": "rows"}
    table, fresh = (
        sp.TaskSet.from_frame(measure(n, s), **columns) for n, s in ((curves, 2 * seed), (60, 2 * seed + 1))
    )
    found = {}
    for name, kind in (("any number", sp.Real()), ("0 to 100", sp.Bounded(0, 100))):
        prior = learner.fit(table.with_target(kind), key=seed, progress=False)
        rows = sp.evaluate_pairs(prior, fresh.with_target(kind).context_target(KNOWN), key=1)
        found[name] = {"rmse": rows.rmse.mean(), "coverage90": rows.coverage90.mean(), "width90": rows.width90.mean()}
    truth = knows_the_family(fresh.context_target(KNOWN))
    return found | {"the true family": dict(zip(("rmse", "coverage90", "width90"), truth))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", type=int, default=80, help="curves to learn from")
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a quarter of all iterations")
    options = parser.parse_args()
    for name, one in figures(options.seed, options.method, curves=options.curves, quick=options.quick).items():
        print(
            f"{name}: RMSE {one['rmse']:.1f}, {one['coverage90']:.0%} in the 90% interval, {one['width90']:.0f} wide, "
            f"{KNOWN} known points"
        )


if __name__ == "__main__":
    main()
