"""Plots as `f(ax, ...) -> ax`, in colours that colour-blind readers can tell apart (Okabe & Ito)."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprior.predictive import Predictive
from scoreprior.tasks import Task

BLUE, ORANGE, GREEN, BLACK, GREY = "#0072B2", "#E69F00", "#009E73", "#000000", "#7F7F7F"


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
    if truth is not None:
        ax.plot(truth.x[:, 0], truth.y, ".", color=GREY, markersize=3, label="held-out points")
    if context is not None:
        ax.plot(context.x[:, 0], context.y, "o", color=BLACK, markersize=5, label="context points")
    return ax
