"""Figure 1: a vanilla BNN, a BNN with a Gaussian process prior and MARS on the Student-t process environment.

n = 20 training tasks of m = 8 points around 2x + 5 sin 2x. The paper shows one prediction each; beside it stand RMSE,
calibration and coverage on unseen tasks. All three are the package's own, with their default settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from scoreprior.environments import Environment, environment
from scoreprior.evaluation import evaluate, evaluate_oracle, summarise
from scoreprior.learners import Prior, learner
from scoreprior.plots import BLUE, GREEN, ORANGE, posterior_band
from scoreprior.reproduce._output import Report, Settings, table

METHODS = {"vanilla-bnn": ORANGE, "fbnn-gp": GREEN, "mars-gp": BLUE}
TITLES = {"vanilla-bnn": "(a) vanilla BNN", "fbnn-gp": "(b) fBNN with GP prior", "mars-gp": "(c) MARS"}
TASKS = 20
COLUMNS = {"rmse": "RMSE", "pooled_calibration_error": "calibration", "nll": "NLL", "pooled_coverage90": "coverage 90%"}


def run(settings: Settings) -> Report:
    """Predictions of the three methods on the first unseen task, and their errors on all."""
    whole = environment("student-t-sinusoid")
    env = replace(whole, meta_test=whole.meta_test.take(range(TASKS)))
    quick: dict[str, dict[str, Any]] = {
        "vanilla-bnn": {"inference.steps": 10},
        "fbnn-gp": {"inference.steps": 10},
        "mars-gp": {"network": None},
    }
    priors = {}
    for name in METHODS:
        changes = {} if settings.budget == "full" else quick[name]
        priors[name] = learner(name, **changes).fit(env.meta_train, settings.seed, progress=settings.progress)
    frames = [evaluate(prior, env, settings.seed + 1).assign(method=name) for name, prior in priors.items()]
    frames.append(evaluate_oracle(env).assign(method="oracle"))
    summary = summarise(pd.concat(frames), by=["method"]).reset_index()
    records = {row["method"]: {key: float(row[key]) for key in COLUMNS} for row in summary.to_dict("records")}
    rows = [[name, *(f"{records[name][key]:.3f}" for key in COLUMNS)] for name in (*METHODS, "oracle")]
    made = table(f"{TASKS} unseen tasks (the paper shows one picture)", ["method", *COLUMNS.values()], rows)
    order = sorted(METHODS, key=lambda name: records[name]["rmse"])
    finding = "RMSE: " + ", ".join(f"{name} {records[name]['rmse']:.2f}" for name in (*order, "oracle")) + "."
    curves: dict[str, Any] = {}
    figure = _draw(env, priors, curves, settings.seed + 2)
    return Report({"tasks": TASKS, "errors": records, "curves": curves}, [made], [finding], figure)


def _draw(env: Environment, priors: dict[str, Prior], curves: dict[str, Any], seed: int) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    grid = np.linspace(-5, 5, 161)
    curves["grid"] = grid
    context, target = env.meta_test.context[0], env.meta_test.target[0]
    for ax, (name, prior) in zip(figure.subplots(1, 3, sharey=True), priors.items()):
        # All tasks again: that batch is compiled already.
        predictive = prior.condition_many(env.meta_test.context, seed)[0].predict(grid)
        low, high = predictive.interval(0.9)
        curves[name] = {"mean": predictive.mean, "low90": low, "high90": high}
        posterior_band(ax, grid, predictive, context=context, truth=target, label="prediction", colour=METHODS[name])
        ax.set_title(TITLES[name], fontsize=10)
        ax.set_xlabel("x")
    figure.axes[0].set_ylabel("y")
    figure.axes[0].legend(fontsize=8, loc="upper left")
    return figure
