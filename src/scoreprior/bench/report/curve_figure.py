"""Learning curves drawn: one column per environment, one row per metric."""

from __future__ import annotations

import io

import numpy as np

from scoreprior._extras import extra
from scoreprior.bench.cell import ORACLE
from scoreprior.bench.curve import METRICS, Curves, Place
from scoreprior.bench.report.figures import fixed_style
from scoreprior.bench.report.significance import standard_error
from scoreprior.plots import BLACK, learning_curve

with extra("plots"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

_NO_DATE = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


def curve_figure(curves: Curves, metrics: list[str]) -> dict[str, bytes]:
    """The figure as SVG and PNG, the same bytes from the same records."""
    names = curves.environments
    with fixed_style():
        figure = Figure(figsize=(0.8 + 3.2 * len(names), 0.5 + 2.5 * len(metrics)), layout="constrained")
        axes = figure.subplots(len(metrics), len(names), squeeze=False, sharex="col")
        for row, metric in zip(axes, metrics):
            for ax, name in zip(row, names):
                _panel(ax, curves, name, metric)
                ax.set_xlabel("training tasks" if metric == metrics[-1] else "")
                ax.set_title(name if metric == metrics[0] else "", fontsize=9)
        labelled = {label: line for ax in axes.flat for line, label in zip(*ax.get_legend_handles_labels())}
        figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=4, frameon=False)
        return {kind: _drawn(figure, kind) for kind in ("svg", "png")}


def _panel(ax: Axes, curves: Curves, name: str, metric: str) -> None:
    known = curves.known(name, metric)
    lines = {}
    for method in curves.methods:
        points = [
            (tasks, values.mean(), standard_error(values))
            for tasks in curves.tasks(name)
            if (values := curves.values(curves.entries.get(Place(name, method, tasks)), known)) is not None
        ]
        finite = [point for point in points if np.isfinite(point).all()]
        x, mean, error = np.reshape(finite, (-1, 3)).T
        lines[method] = (x, mean, error)  # also without a point: a method keeps its colour
    learning_curve(ax, lines, ylabel=METRICS[known])
    truth = curves.values(curves.oracles.get(name), known)
    if truth is not None:
        ax.axhline(truth.mean(), color=BLACK, linewidth=1.2, linestyle="--", label=ORACLE)
    ax.set_xscale("log")
    ax.set_xticks(curves.tasks(name), [str(tasks) for tasks in curves.tasks(name)])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(which="minor", length=0)


def _drawn(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=120, metadata=_NO_DATE[kind])
    return buffer.getvalue()
