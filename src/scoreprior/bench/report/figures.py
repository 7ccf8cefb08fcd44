"""Reliability diagrams and predictions against observations, as SVG text that is the same every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from scoreprior._extras import extra
from scoreprior.bench.catalogue import ALONE, LEARNED, MARS, RULES
from scoreprior.bench.counts import GRID
from scoreprior.bench.report.ranking import best_of, competitors
from scoreprior.bench.report.results import Results
from scoreprior.plots import BLACK, BLUE, GREY, reliability_diagram

with extra("plots"):
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIDDLES = (GRID[1:] + GRID[:-1]) / 2
# Text stays text, and identifiers come from a fixed salt, not from a random one.
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "scoreprior", "font.size": 8, "font.family": "sans-serif"}


@contextmanager
def fixed_style() -> Iterator[None]:
    """Whatever style its reader likes, the same records give the same bytes."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def figures(results: Results) -> dict[str, str]:
    """For every environment with results: an SVG of its reliability diagram and its predictions."""
    drawn = {}
    for environment in results.environments:
        methods = _shown(results, environment)
        if methods:
            with fixed_style():
                drawn[environment] = _svg(_draw(results, environment, methods), environment)
    return drawn


def _shown(results: Results, environment: str) -> list[str]:
    """MARS, and by log score the best other learned method and the best rule."""
    mars = [name for name in MARS if results.get(environment, name) is not None]
    groups = ((*ALONE, *LEARNED), RULES)
    metric = results.log_metric(environment, (*ALONE, *LEARNED, *RULES))
    others = [best_of(competitors(results, environment, metric, group), metric, group) for group in groups]
    return mars + [name for best in others if best is not None for name in [best[1]]]


def _draw(results: Results, environment: str, methods: list[str]) -> Figure:
    figure = Figure(figsize=(2.6 * (1 + len(methods)), 2.7), layout="constrained")
    axes = figure.subplots(1, 1 + len(methods))
    pits = {}
    for name in methods:
        entry = results.get(environment, name)
        if entry is not None and entry.counts:
            # A PIT anywhere in a gap is below the same levels, so its middle draws the same diagram.
            pits[name] = np.repeat(_MIDDLES, np.sum(entry.counts[0], axis=0))
    reliability_diagram(axes[0], pits, levels=len(GRID))
    axes[0].legend(fontsize=6, loc="upper left", frameon=False)
    axes[0].set_title("reliability, one seed", fontsize=8)
    for ax, name in zip(axes[1:], methods):
        _predicted_and_observed(ax, results, environment, name)
    return figure


def _predicted_and_observed(ax: Axes, results: Results, environment: str, method: str) -> None:
    ax.set_title(method, fontsize=8)
    ax.set(xlabel="observed", ylabel="predicted, 90% interval")
    points = results.points(environment, method)
    if points is None:
        ax.text(0.5, 0.5, "no predictions kept", transform=ax.transAxes, ha="center", color=GREY)
        return
    observed, mean, low, high = (np.asarray(points[name], float) for name in ("observed", "mean", "low", "high"))
    ax.vlines(observed, low, high, color=BLUE, alpha=0.3, linewidth=0.8)
    ax.plot(observed, mean, ".", color=BLUE, markersize=3)
    ends = [observed.min(), observed.max()]
    ax.plot(ends, ends, "--", color=BLACK, linewidth=0.8)


def _svg(figure: Figure, environment: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # Several drawings share one page, where identifiers must not collide.
    return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{environment}-", text).strip()
