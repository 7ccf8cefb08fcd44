"""A prior that no Gaussian process could be, and what it makes of 0, 2 and 8 points of an unseen task.

python examples/prior_and_posterior.py [--quick] [--out prior_and_posterior.png]
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import scoreprior as sp
from scoreprior.plots import posterior_band, prior_draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 tasks, and ridge in MARS's place")
    parser.add_argument("--out", type=Path, default=Path("prior_and_posterior.png"))
    options = parser.parse_args()
    env = sp.environment("dose-response", tasks=20 if options.quick else 1000)
    prior = (sp.learner("ridge") if options.quick else sp.MARS()).fit(env.meta_train, key=0)
    grid = np.linspace(env.meta_train.x.min(), env.meta_train.x.max(), 100)
    figure = Figure(figsize=(12, 2.8), layout="constrained")
    axes = figure.subplots(1, 5, sharex=True, sharey=True)
    prior_draws(axes[0], grid, tasks=env.meta_train.take(range(10))).set_title("ten training tasks", fontsize=10)
    draws = None if options.quick else prior.sample(grid[:, None], key=1, n=10)
    prior_draws(axes[1], grid, draws=draws).set_title("ten draws from the prior", fontsize=10)
    context, target = env.meta_test.context[0], env.meta_test.target[0]
    for ax, count in zip(axes[2:], (0, 2, 8)):
        known = context.take(slice(0, count))
        predictive = prior.condition(known.x, known.y, key=2).predict(grid)
        posterior_band(ax, grid, predictive, context=known, truth=target)
        ax.set_title(f"{count} points of an unseen task", fontsize=10)
    for ax in axes:
        ax.set_xlabel("x")
    axes[-1].legend(fontsize=7)
    figure.savefig(options.out, dpi=150)


if __name__ == "__main__":
    main()
