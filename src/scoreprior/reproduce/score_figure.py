"""Tables 7 and 8 as a picture: one panel per problem, one row per estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprior.plots import BLACK, BLUE, GREY, ORANGE
from scoreprior.reproduce.paper_scores import PROBLEMS, paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(results: dict[str, Any], kind: str, title: str) -> Figure:
    """The paper's figure, ours on one set, and the mean over sets with its standard error."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    names = [name for name in results if name != "zero"]
    at = np.arange(len(names))[::-1]
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    for ax, problem in zip(figure.subplots(1, len(PROBLEMS), sharey=True), PROBLEMS):
        theirs = [paper(name, problem, kind) for name in names]
        one = [results[name][problem]["one"][kind]["mean"] for name in names]
        many = [results[name][problem]["many"][kind] for name in names]
        mean, error = (np.asarray([each[key] for each in many]) for key in ("mean", "error"))
        ax.plot([np.nan if v is None else v for v in theirs], at, "x", color=ORANGE, markersize=6, label="the paper")
        ax.plot(one, at, "o", color=BLUE, markersize=5, markerfacecolor="none", label="ours, one set")
        ax.errorbar(mean, at, xerr=error, fmt="o", color=BLACK, markersize=4, linewidth=1.2, label="ours, mean of sets")
        if kind == "rmse":
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.axvline(
                results["zero"][problem]["many"][kind]["mean"],
                color=GREY,
                linestyle="--",
                linewidth=1,
                label="size of the true score",
            )
        ax.set_title(problem, fontsize=10)
        ax.set_xlabel(title)
        ax.grid(axis="both", color=GREY, alpha=0.2)
        ax.set_yticks(at, names)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9, frameon=False)
    return figure
