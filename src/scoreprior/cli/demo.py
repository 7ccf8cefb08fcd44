"""The main job on embedded defaults: no download, under three minutes on two cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import RenderableType
from rich.table import Table

from scoreprior._extras import extra
from scoreprior.cli._console import FIGURES, Talk, check_output, write_figure
from scoreprior.environments import Environment, environment
from scoreprior.evaluation import evaluate, evaluate_oracle, summarise
from scoreprior.learners import FunctionPrior, Prior, learner
from scoreprior.plots import BLUE, ORANGE, posterior_band

with extra("plots"):
    from matplotlib.figure import Figure

# A Gaussian process is enough for the first; none can follow the second.
ENVIRONMENTS = {"sinusoid": 20, "dose-response": 200}
# MARS with one small network where `sp.MARS()` trains two longer; the process under it alone; a rule to beat.
METHODS: dict[str, dict[str, Any]] = {
    "mars-gp": {"networks": 1, "training.steps": 800, "training.chunk": 100, "training.patience": 3},
    "hierarchical-gp": {},
    "last-value": {},
}
TASKS = 40
SHOWN = {"mars-gp": BLUE, "hierarchical-gp": ORANGE}
DRAWS = 5
LEGEND = "mean, 50% and 90% interval"
COLUMNS = {
    "rmse": "RMSE",
    "nll": "NLL",
    "pooled_calibration_error": "calibration",
    "pooled_coverage90": "90% coverage",
}


def run_demo(talk: Talk, out: Path, *, seed: int) -> None:
    """Fit every method on both environments, print a table of each, write the figure."""
    check_output(out, formats=FIGURES)
    figure = Figure(figsize=(12, 9.6), layout="constrained")
    parts = figure.subfigures(len(ENVIRONMENTS), squeeze=False, hspace=0.04)[:, 0]
    record: dict[str, Any] = {}
    shown: list[RenderableType] = []
    for (name, tasks), part in zip(ENVIRONMENTS.items(), parts):
        whole = environment(name, tasks=tasks)
        env = replace(whole, meta_test=whole.meta_test.take(range(TASKS)))
        talk.say(
            f"Meta-learning on {tasks} {name} tasks of {len(env.meta_train[0])} points; testing on "
            f"{len(env.meta_test)} unseen tasks with {len(env.meta_test.context[0])} points each."
        )
        priors = {
            method: learner(method, **settings).fit(env.meta_train, seed, progress=talk.progress)
            for method, settings in METHODS.items()
        }
        mars = priors["mars-gp"]
        assert isinstance(mars, FunctionPrior)
        # Networks, or the process alone where held-out tasks gained nothing by them.
        summary, inferred = _summary(env, priors, seed), mars.inference.describe()
        _draw(part, env, priors, seed)
        part.suptitle(f"{name}, {tasks} training tasks: MARS is {inferred}", fontsize=11, fontweight="bold")
        record[name] = {"mars": inferred, "methods": summary.set_index("method")[list(COLUMNS)].to_dict("index")}
        shown += [_table(name, summary), f"On {name}, MARS is {inferred}.\n"]
    write_figure(out, figure)
    talk.result({"environments": record, "plot": out}, *shown, f"Figure: {out}")


def _summary(env: Environment, priors: dict[str, Prior], seed: int) -> pd.DataFrame:
    frames = [evaluate(prior, env, seed + 1).assign(method=name) for name, prior in priors.items()]
    frames.append(evaluate_oracle(env).assign(method="oracle (knows the truth)"))
    return summarise(pd.concat(frames), by=["method"])


def _table(name: str, summary: pd.DataFrame) -> Table:
    table = Table(title=f"{name}, unseen tasks: mean over tasks, in the target's units")
    table.add_column("method")
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    for row in summary.reset_index().to_dict("records"):
        table.add_row(str(row["method"]), *(f"{row[column]:.3f}" for column in COLUMNS))
    return table


def _draw(part: Any, env: Environment, priors: dict[str, Prior], seed: int) -> None:
    """One row for each method of SHOWN: draws of its prior, then its predictions of three unseen tasks."""
    axes = part.subplots(len(SHOWN), 4, sharex=True, sharey=True)
    grid = np.linspace(env.meta_train.x.min(), env.meta_train.x.max(), 100)
    for row, (name, colour) in zip(axes, SHOWN.items()):
        prior = priors[name]
        assert isinstance(prior, FunctionPrior)
        row[0].plot(grid, prior.sample(grid[:, None], seed + 2, DRAWS).T, color=colour, linewidth=1)
        # All test tasks again: the batch is compiled already, three tasks would be compiled anew.
        posteriors = prior.condition_many(env.meta_test.context, seed + 3)
        for i, ax in enumerate(row[1:]):
            context, target = env.meta_test.context[i], env.meta_test.target[i]
            predictive = posteriors[i].predict(grid)
            posterior_band(ax, grid, predictive, context=context, truth=target, label=LEGEND, colour=colour)
        row[0].set_ylabel(name)
    axes[0, 1].legend(fontsize=7)
    titles = ["draws from the prior", *(f"unseen task {i + 1}" for i in range(3))]
    for ax, title in zip(axes[0], titles):
        ax.set_title(title, fontsize=10)
    for ax in axes[-1]:
        ax.set_xlabel("x")
