"""Plots as `f(ax, ...) -> ax`, in colours that colour-blind readers can tell apart (Okabe & Ito)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import binom

from scoreprior.predictive import Predictive
from scoreprior.tasks import Task, TaskSet

BLUE, ORANGE, GREEN, BLACK, GREY = "#0072B2", "#E69F00", "#009E73", "#000000", "#7F7F7F"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", "#D55E00", "#56B4E9", BLACK)
"""Colours of lines that are compared, in this order; markers tell further ones apart."""
_MARKERS = "osD^vP*"


def posterior_band(
    ax: Any,
    x: np.ndarray,
    predictive: Predictive,
    *,
    context: Task | None = None,
    truth: Task | None = None,
    label: str = "prediction",
    colour: str = BLUE,
) -> Any:
    """Predictive mean with its 50% and 90% intervals over one input, the context points and the held-out points."""
    order = np.argsort(np.ravel(x))
    line = np.ravel(x)[order]
    if not predictive.is_point:
        for level, alpha in ((0.9, 0.2), (0.5, 0.25)):
            low, high = predictive.interval(level)
            ax.fill_between(line, low[order], high[order], color=colour, alpha=alpha, linewidth=0)
    ax.plot(line, predictive.mean[order], color=colour, linewidth=1.8, label=label)
    return _points(ax, context, truth)


def posterior_points(
    ax: Any,
    x: np.ndarray,
    predictive: Predictive,
    *,
    context: Task | None = None,
    truth: Task | None = None,
    label: str = "prediction",
    colour: str = BLUE,
) -> Any:
    """The same point by point, for several inputs of which x (q,) is the one that is shown."""
    place = np.ravel(x)
    if not predictive.is_point:
        for level, width in ((0.9, 1.0), (0.5, 3.0)):
            ax.vlines(place, *predictive.interval(level), color=colour, alpha=0.5, linewidth=width)
    ax.plot(place, predictive.mean, "s", color=colour, markersize=4, label=label)
    return _points(ax, context, truth)


def _points(ax: Any, context: Task | None, truth: Task | None) -> Any:
    if truth is not None:
        ax.plot(truth.x[:, 0], truth.y, ".", color=GREY, markersize=4, label="held-out points")
    if context is not None and len(context):
        ax.plot(context.x[:, 0], context.y, "o", color=BLACK, markersize=5, label="known points")
    return ax


def prior_draws(
    ax: Any,
    x: np.ndarray,
    predictive: Predictive | None = None,
    *,
    draws: Float[np.ndarray, "n q"] | None = None,
    tasks: TaskSet | None = None,
    colour: str = BLUE,
) -> Any:
    """Functions (n, q) drawn from a prior at x (q,), what it predicts without any point, and the training tasks."""
    if tasks is not None:
        for i, task in enumerate(tasks):
            order = np.argsort(task.x[:, 0])
            label = "training tasks" if i == 0 else None
            ax.plot(
                task.x[order, 0], task.y[order], ".-", color=GREY, linewidth=0.5, markersize=2, alpha=0.5, label=label
            )
    if predictive is not None:
        posterior_band(ax, x, predictive, label="mean, 50% and 90% intervals", colour=colour)
    order = np.argsort(np.ravel(x))
    for i, draw in enumerate(() if draws is None else draws):
        label = "draws" if i == 0 else None
        ax.plot(np.ravel(x)[order], draw[order], color=ORANGE, linewidth=1.0, alpha=0.9, label=label)
    return ax


def reliability_diagram(ax: Any, pits: Mapping[str, Any], *, levels: int = 101) -> Any:
    """Share of the observations below the predicted quantile of every level: on the diagonal when calibrated.

    The grey band holds 90% of what a calibrated predictor would show with as many independent points as the first has.
    """
    grid = np.linspace(0, 1, levels)
    values = {label: np.asarray(each, float).ravel() for label, each in pits.items()}
    m = len(next(iter(values.values())))
    ax.fill_between(
        grid, binom.ppf(0.05, m, grid) / m, binom.ppf(0.95, m, grid) / m, color=GREY, alpha=0.25, linewidth=0
    )
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="calibrated (90% band)")
    for (label, each), colour in zip(values.items(), _cycle(PALETTE, len(values))):
        ax.plot(grid, (each[:, None] <= grid).mean(0), color=colour, linewidth=1.8, label=label)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="predicted probability", ylabel="observed share below")
    return ax


def pit_histogram(ax: Any, pits: Any, *, bins: int = 10, colour: str = BLUE) -> Any:
    """Density of the PITs: flat when calibrated, a bowl when overconfident, a hill when too wide.

    The grey band holds 90% of the heights of each bar for as many independent points of a calibrated predictor.
    """
    values = np.asarray(pits, float).ravel()
    counts, edges = np.histogram(values, bins, (0.0, 1.0))
    m = len(values)
    ax.bar(
        edges[:-1],
        counts * bins / m,
        1 / bins,
        align="edge",
        color=colour,
        alpha=0.6,
        edgecolor="white",
        label="observed",
    )
    low, high = (binom.ppf(level, m, 1 / bins) * bins / m for level in (0.05, 0.95))
    ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0)
    ax.axhline(1.0, color=GREY, linewidth=1, linestyle="--", label="calibrated (90% band)")
    ax.set(xlim=(0, 1), xlabel="predicted probability of a smaller value", ylabel="density")
    return ax


def learning_curve(
    ax: Any, curves: Mapping[str, tuple[Any, Any, Any]], *, xlabel: str = "training tasks", ylabel: str = "RMSE"
) -> Any:
    """A metric against a size or a step: for every method x (p,), mean (p,) and its standard error (p,) or None."""
    colours, markers = _cycle(PALETTE, len(curves)), _cycle(_MARKERS, len(curves))
    for (label, (x, mean, error)), colour, marker in zip(curves.items(), colours, markers):
        place, height = np.asarray(x, float), np.asarray(mean, float)
        ax.plot(place, height, color=colour, marker=marker, markersize=4, linewidth=1.6, label=label)
        if error is not None:
            reach = 1.96 * np.asarray(error, float)
            ax.fill_between(place, height - reach, height + reach, color=colour, alpha=0.15, linewidth=0)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return ax


def method_comparison(
    ax: Any, summary: pd.DataFrame, metric: str = "rmse", *, reference: str | None = None, highlight: Sequence[str] = ()
) -> Any:
    """One line per method of a `summarise(frame, by="method")`: mean and 95% interval over tasks, best on top.

    `reference` draws a line through that method's mean; `highlight` names those in blue.
    """
    rows = summary.sort_values(metric, ascending=False, na_position="first").dropna(subset=[metric])
    for at, (name, mean, error) in enumerate(zip(rows["method"], rows[metric], rows[f"{metric}_se"])):
        colour = BLUE if name in highlight else BLACK
        reach = 0.0 if np.isnan(error) else 1.96 * error
        ax.errorbar(mean, at, xerr=reach, fmt="o", color=colour, markersize=5, capsize=3, linewidth=1.4)
    if reference is not None:
        ax.axvline(
            float(rows.loc[rows["method"] == reference, metric].iloc[0]), color=GREY, linewidth=1, linestyle="--"
        )
    ax.set_yticks(range(len(rows)), [str(name) for name in rows["method"]])
    ax.set_xlabel(f"{metric} (mean over tasks, 95% interval)")
    ax.grid(axis="x", color=GREY, alpha=0.25)
    return ax


def _cycle(values: Sequence[Any], number: int) -> list[Any]:
    return [values[i % len(values)] for i in range(number)]
