"""Methods on unseen tasks, with intervals over tasks, as a table and a figure.

python examples/compare_methods.py [--quick] [--out comparison.png]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

import scoreprior as sp
from scoreprior.plots import method_comparison

METHODS = ("last-value", "ridge", "vanilla-gp", "pooled-gp", "hierarchical-gp", "mars-gp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the rules and the GP of one task alone, on 20 tasks")
    parser.add_argument("--out", type=Path, default=Path("comparison.png"))
    options = parser.parse_args()
    env = sp.environment("sinusoid")
    methods = METHODS[:3] if options.quick else METHODS
    if options.quick:
        env = replace(env, meta_test=env.meta_test.take(range(20)))
    frames = [sp.evaluate(sp.learner(name), env, key=0).assign(method=name) for name in methods]
    frames.append(sp.evaluate_oracle(env).assign(method="oracle"))
    summary = sp.summarise(pd.concat(frames, ignore_index=True), by="method")
    print(summary[["method", "rmse", "rmse_se", "nll", "pooled_coverage90"]].round(3).to_string(index=False))
    figure = Figure(figsize=(8, 3), layout="constrained")
    for ax, metric in zip(figure.subplots(1, 2), ("rmse", "nll")):
        method_comparison(ax, summary, metric, reference="oracle", highlight=["mars-gp"])
    figure.savefig(options.out, dpi=150)


if __name__ == "__main__":
    main()
