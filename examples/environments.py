"""Five functions of each environment that no Gaussian process expresses, one task, and what is best known of it.

python examples/environments.py [--out environments.png]
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import scoreprior as sp
from scoreprior.plots import posterior_band

NAMES = ("dose-response", "sawtooth", "change-point")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("environments.png"))
    options = parser.parse_args()
    figure = Figure(figsize=(10, 5), layout="constrained")
    for name, (above, below) in zip(NAMES, figure.subplots(2, 3, sharex="col", sharey="col").T):
        env = sp.environment(name, tasks=5)
        grid = np.linspace(*env.oracle.x_range, 600)
        for i, task in enumerate(env.meta_train):
            # A training task is drawn by this generator: first its 20 inputs, then its function.
            generator = np.random.default_rng([env.oracle.stream, env.split, 0, i])
            generator.uniform(size=len(task))
            above.plot(grid, env.oracle.functions(generator, grid, 1)[0], color=f"C{i}", lw=1)
            above.plot(task.x[:, 0], task.y, ".", color=f"C{i}", ms=4)
        above.set_title(f"{name}: five training tasks", fontsize=10)
        context, target = env.meta_test.context[0], env.meta_test.target[0]
        posterior_band(below, grid, env.oracle(context, grid), context=context, truth=target)
        below.set_title("an unseen task, 8 points: the oracle", fontsize=10)
        below.set_xlabel("x")
    below.legend(fontsize=7)
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
