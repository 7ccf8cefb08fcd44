"""Figures of the commands, made of `scoreprior.plots`; drawn without pyplot: no window, no global state."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

import numpy as np
import pandas as pd

from scoreprior._extras import extra
from scoreprior.cli._console import CallError
from scoreprior.cli._notes import Notes, line
from scoreprior.cli._partial import Varied
from scoreprior.cli._tables import Columns
from scoreprior.diagnostics import Stretch
from scoreprior.learners import Prior
from scoreprior.plots import (
    GREY,
    ORANGE,
    pit_histogram,
    posterior_band,
    posterior_points,
    prior_draws,
    reliability_diagram,
)
from scoreprior.predictive import NoDistributionError, Predictive
from scoreprior.tasks import Task, TaskSet

with extra("plots"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWS = 8
"""Functions in a figure of a prior."""


def predictions(
    columns: Columns,
    notes: Notes,
    shown: list[tuple[str, np.ndarray, Task | None]],
    predictives: list[Predictive],
    *,
    of: int,
    curves: bool,
    truths: Sequence[Task | None] = (),
) -> Figure:
    """One panel per task (name, inputs, known points), the first few of a longer list; curves or single points.

    Truths are observations at the inputs that were asked for, where they are known.
    """
    down = -(-len(shown) // 4)
    across = -(-len(shown) // down)
    figure = Figure(figsize=(3.2 * across + 0.8, 2.6 * down + 0.6), layout="constrained")
    axes = np.ravel(figure.subplots(down, across, sharex=True, squeeze=False))
    draw = posterior_band if curves else posterior_points
    truths = truths or [None] * len(shown)
    for ax, (name, x, context), predictive, truth in zip(axes, shown, predictives, truths):
        draw(ax, x[:, 0], predictive, context=context, truth=truth)
        ax.set_title(name, fontsize=10)
    asked = np.concatenate([x[:, 0] for _, x, _ in shown])
    for ax in axes[: len(shown)]:  # once all panels have their common range
        if notes.domain is not None and len(asked):
            _shade_extrapolation(ax, notes.domain[:, 0], asked)
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    for ax in axes[::across]:
        ax.set_ylabel(columns.target)
    for ax in axes[max(0, len(shown) - across) : len(shown)]:
        ax.set_xlabel(notes.first_input(columns))
        ax.xaxis.set_tick_params(labelbottom=True)
    axes[0].legend(fontsize=8)
    more = f" (the first {len(shown)} of {of} tasks)" if of > len(shown) else ""
    figure.suptitle(f"Predictions with 50% and 90% intervals{more}", fontsize=11)
    return figure


def dependences(
    columns: Columns,
    shown: list[tuple[str, np.ndarray, Task | None]],
    varied: list[list[Varied]],
    truths: list[Task | None],
    *,
    of: int,
) -> Figure:
    """A row of panels for every task, one for each input that varies while the others stay; own axes for each task."""
    across = len(varied[0])
    figure = Figure(figsize=(2.9 * across + 1.2, 2.4 * len(shown) + 0.9), layout="constrained")
    axes = figure.subplots(len(shown), across, sharex="col", sharey="row", squeeze=False)
    for row, (name, _, context), inputs, truth in zip(axes, shown, varied, truths):
        for ax, each in zip(row, inputs):
            draw = posterior_points if each.ticks else posterior_band
            own, later = (None if task is None or not len(task) else each.of(task) for task in (context, truth))
            aside = 0.2 if each.ticks else 0.0  # known points of a category would cover what is predicted of it
            draw(ax, each.place + aside, each.predictive, context=own, truth=later)
            if each.ticks:
                ax.set_xticks(each.place, [tick if len(tick) <= 10 else f"{tick[:9]}…" for tick in each.ticks])
                ax.set_xlim(-0.5, len(each.ticks) - 0.5)
        row[0].set_ylabel(f"{name}\n{columns.target}", fontsize=9)
    for ax, each in zip(axes[-1], varied[0]):
        ax.set_xlabel(each.name)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    more = f" (the first {len(shown)} of {of} tasks)" if of > len(shown) else ""
    title = f"Predictions with 50% and 90% intervals as one input varies{more}"
    note = "other inputs at their median among the task's known points, or as at the last of them"
    width = round(14 * figure.get_size_inches()[0])  # letters of this size
    figure.suptitle("\n".join(fill(each, width) for each in (title, note)), fontsize=9)
    return figure


def _shade_extrapolation(ax: Axes, domain: np.ndarray, x: np.ndarray) -> None:
    """Grey where some query x (q,) lies outside the range of training (2,)."""
    low, high = ax.get_xlim()
    label = "outside the range of training"
    for start, stop, shaded in ((low, domain[0], x.min() < domain[0]), (domain[1], high, x.max() > domain[1])):
        if shaded:
            ax.axvspan(start, stop, color=GREY, alpha=0.15, linewidth=0, label=label)
            label = ""  # one line in the legend
    ax.set_xlim(low, high)


def prior(learned: Prior, notes: Notes, tasks: TaskSet | None, seed: int, wide: Sequence[Stretch] = ()) -> Figure:
    """Functions drawn from a prior, what it predicts without any point, and where that is wider than the data."""
    x = line(learned, notes, 100)
    predictive = learned.condition([], [], seed).predict(x)
    try:
        draws = learned.sample(x, seed + 1, DRAWS)
    except NoDistributionError:  # a rule has no functions
        draws = None
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = prior_draws(figure.subplots(), x[:, 0], predictive, draws=draws, tasks=tasks)
    for at, stretch in enumerate(wide):
        label = None if at else f"wider than the data (up to {max(each.ratio for each in wide):.1f} times)"
        ax.axvspan(stretch.low, stretch.high, color=ORANGE, alpha=0.15, linewidth=0, label=label)
    columns = notes.columns
    ax.set_xlabel("x" if columns is None else notes.first_input(columns))
    ax.set_ylabel("y" if columns is None else columns.target)
    alone = learned.dim == 1 or (notes.encoding is not None and len(notes.encoding.inputs) == 1)
    others = "" if alone else ", other inputs at their means"
    ax.set_title(f"The prior, before any point of a new task{others}", fontsize=10)
    ax.legend(fontsize=8)
    return figure


def calibration(frame: pd.DataFrame) -> Figure:
    """Reliability diagram and PIT histogram of the rows of `evaluate`."""
    pits = np.concatenate(frame["pit"].to_list())
    if not np.isfinite(pits).all():
        raise CallError("This method predicts points without error bars: there is no reliability diagram to draw.")
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    reliability_diagram(left, {"this prior": pits})
    pit_histogram(right, pits)
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    figure.suptitle(f"{len(pits)} points of {len(frame)} tasks", fontsize=11)
    return figure
