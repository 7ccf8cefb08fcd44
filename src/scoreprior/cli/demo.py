"""The main job on an embedded default: no download, under three minutes on two cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from rich.table import Table

from scoreprior._extras import extra
from scoreprior.cli._console import FIGURES, Talk, check_output, write_figure
from scoreprior.environments import Environment, environment
from scoreprior.evaluation import evaluate, evaluate_oracle, summarise
from scoreprior.learners import Prior, learner
from scoreprior.plots import BLUE, ORANGE, posterior_band

with extra("plots"):
    from matplotlib.figure import Figure

# MARS; the process that its networks correct, alone; then what it has to beat.
METHODS = ("mars-gp", "hierarchical-gp", "vanilla-gp", "last-value")
TASKS = 40
COLUMNS = {
    "rmse": "RMSE",
    "pooled_calibration_error": "calibration",
    "nll": "NLL",
    "pooled_coverage90": "90% coverage",
}


def run_demo(talk: Talk, out: Path, *, seed: int) -> None:
    """Fit every method on the sinusoid environment, print the table, write the figure."""
    check_output(out, formats=FIGURES)
    whole = environment("sinusoid")
    env = replace(whole, meta_test=whole.meta_test.take(range(TASKS)))
    n, context = len(env.meta_train), len(env.meta_test.context[0])
    talk.say(
        f"Meta-learning on {n} sinusoid tasks of {len(env.meta_train[0])} points; "
        f"testing on {len(env.meta_test)} unseen tasks with {context} points each."
    )
    priors = {name: learner(name).fit(env.meta_train, seed, progress=talk.progress) for name in METHODS}
    frames = [evaluate(prior, env, seed + 1).assign(method=name) for name, prior in priors.items()]
    frames.append(evaluate_oracle(env).assign(method="oracle (knows the truth)"))
    summary = summarise(pd.concat(frames), by=["method"])
    write_figure(out, _figure(env, priors, seed))
    lines = summary.set_index("method")[list(COLUMNS)].to_dict("index")
    talk.result({"methods": lines, "plot": out}, _table(summary), f"Figure: {out}")


def _table(summary: pd.DataFrame) -> Table:
    table = Table(title="Unseen tasks: mean over tasks, in the target's units")
    table.add_column("method")
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    for row in summary.reset_index().to_dict("records"):
        table.add_row(str(row["method"]), *(f"{row[column]:.3f}" for column in COLUMNS))
    return table


def _figure(env: Environment, priors: dict[str, Prior], seed: int) -> Figure:
    shown = {name: priors[name] for name in ("mars-gp", "vanilla-gp")}
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.subplots(len(shown), 3, sharex=True, sharey=True)
    grid = np.linspace(env.meta_train.x.min(), env.meta_train.x.max(), 200)
    for row, (name, prior), colour in zip(axes, shown.items(), (BLUE, ORANGE)):
        # All test tasks again: the batch is compiled already, three tasks would be compiled anew.
        posteriors = prior.condition_many(env.meta_test.context, seed + 2)
        for i, ax in enumerate(row):
            context, target = env.meta_test.context[i], env.meta_test.target[i]
            predictive = posteriors[i].predict(grid)
            posterior_band(ax, grid, predictive, context=context, truth=target, label=name, colour=colour)
            if i == 0:
                ax.set_ylabel("y")
                ax.legend(fontsize=8, loc="upper left")
    for i, ax in enumerate(axes[0]):
        ax.set_title(f"unseen task {i + 1}", fontsize=10)
    for ax in axes[-1]:
        ax.set_xlabel("x")
    figure.suptitle("Predictions with 50% and 90% intervals from 8 points")
    return figure
