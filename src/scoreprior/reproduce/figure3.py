"""Figure 3: constant against Steinwart biases of the Bayesian network, after 2000 steps of fSVGD.

The prior is a Gaussian process fitted to the sinusoid environment's training tasks (`fbnn-gp`), so that nothing but the
biases differs; 2000 steps at the paper's learning rate 0.001, constant biases of 0.01. Beside the picture: RMSE on
unseen tasks, and the same after 500 steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scoreprior.environments import Environment, environment
from scoreprior.evaluation import evaluate
from scoreprior.learners import Prior, learner
from scoreprior.plots import BLUE, GREY, ORANGE, posterior_band
from scoreprior.reproduce._output import Report, Settings, table

BIASES = {"constant": ORANGE, "steinwart": BLUE}
TASKS, SEEDS = 10, 3


def run(settings: Settings) -> Report:
    """Both initialisations at 500 and 2000 steps, several seeds of the particles."""
    env = environment("sinusoid")
    env = replace(env, meta_test=env.meta_test.take(range(TASKS)))
    numbers: dict[str, Any] = {"rmse": {}, "curves": {}}
    grid = np.linspace(-5, 5, 121)
    bands: dict[str, Any] = {}
    budgets = (settings.scaled(500, 5), settings.scaled(2000, 10))
    for bias in BIASES:
        for steps in budgets:
            prior = _prior(env, bias, steps)
            errors = [float(evaluate(prior, env, seed)["rmse"].mean()) for seed in settings.network_seeds[:SEEDS]]
            numbers["rmse"].setdefault(bias, {})[steps] = errors
        bands[bias] = prior.condition_many(env.meta_test.context, settings.seed)[0].predict(grid)
        numbers["curves"][bias] = {"mean": bands[bias].mean, "std": bands[bias].std}
    rows = [[bias, *(f"{np.mean(each[s]):.3f}" for s in budgets)] for bias, each in numbers["rmse"].items()]
    heading = f"RMSE on {TASKS} unseen tasks (the paper shows one picture)"
    made = table(heading, ["biases", *(f"{s} steps" for s in budgets)], rows)
    finding = "; ".join(
        f"after {s} steps RMSE {np.mean(numbers['rmse']['constant'][s]):.2f} with constant biases and "
        f"{np.mean(numbers['rmse']['steinwart'][s]):.2f} with Steinwart's"
        for s in budgets
    )
    figure = _draw(env, grid, bands)
    return Report({"grid": grid, **numbers}, [made], [finding[0].upper() + finding[1:] + "."], figure)


def _prior(env: Environment, bias: str, steps: int) -> Prior:
    settings = {"bnn.bias": bias, "inference.steps": steps, "inference.learning_rate": 1e-3}
    return learner("fbnn-gp", **settings).fit(env.meta_train, 0, progress=False)


def _draw(env: Environment, grid: np.ndarray, bands: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    first, *others = figure.subplots(1, 3, sharey=True)
    for task in env.meta_train:
        order = np.argsort(task.x[:, 0])
        first.plot(task.x[order, 0], task.y[order], ".-", color=GREY, linewidth=0.7, markersize=4)
    first.set_title("(a) the 20 training tasks", fontsize=10)
    context, target = env.meta_test.context[0], env.meta_test.target[0]
    for ax, letter, (bias, colour) in zip(others, "bc", BIASES.items()):
        posterior_band(ax, grid, bands[bias], context=context, truth=target, label="prediction", colour=colour)
        ax.set_title(f"({letter}) {bias} biases", fontsize=10)
    others[0].legend(fontsize=8)
    first.set_ylabel("y")
    for ax in (first, *others):
        ax.set_xlabel("x")
    return figure
