"""Figure 6: epistemic uncertainty. No training task has data in [-2, 2]; the score is learned from draws of the
interpolating Gaussian processes, or from their means.

As the paper: 10 sinusoid tasks with 5 points each in [-5, -2] and [2, 5], the plain network and its exact objective
(`PlainMARS.letter`), new tasks of 4 points in [-5, 5]. Fewer steps than the paper's main experiments. Beside the
picture: the spread of the particles inside and outside the gap, averaged over 10 new tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scoreprior.environments.sinusoid import sinusoid
from scoreprior.inference.fsvgd import FSVGDConfig
from scoreprior.interpolators import MaternInterpolator
from scoreprior.learners.mars import PlainMARS
from scoreprior.plots import BLUE, GREEN, GREY, ORANGE, posterior_band
from scoreprior.reproduce._output import Report, Settings, table
from scoreprior.tasks import Standardizer, Task, TaskSet
from scoreprior.training import TrainingConfig

TASKS, POINTS, NEW, CONTEXT = 10, 5, 10, 4
GRID = np.linspace(-5, 5, 121)
GAP = np.abs(GRID) < 2
NAMES = {"means": ("GP means", ORANGE), "draws": ("GP draws", BLUE)}


def run(settings: Settings) -> Report:
    """MARS on means and on draws; the same tasks, seeds and network."""
    tasks, new = _tasks()
    spreads: dict[str, dict[str, float]] = {}
    bands: dict[str, Any] = {}
    for name in NAMES:
        prior = _learner(name == "means", settings).fit(tasks, settings.seed, progress=settings.progress)
        predictives = [posterior.predict(GRID) for posterior in prior.condition_many(new, settings.seed + 1)]
        stds = np.stack([each.std for each in predictives])
        spreads[name] = {"in the gap": float(stds[:, GAP].mean()), "outside": float(stds[:, ~GAP].mean())}
        bands[name] = predictives[0]
    rows = [[NAMES[name][0], *(f"{value:.2f}" for value in each.values())] for name, each in spreads.items()]
    ratio = {name: each["in the gap"] / each["outside"] for name, each in spreads.items()}
    gap = {name: each["in the gap"] for name, each in spreads.items()}
    finding = (
        f"Predictive standard deviation in the gap: {gap['draws']:.2f} trained on draws, {gap['means']:.2f} on means; "
        f"over that outside: {ratio['draws']:.2f} and {ratio['means']:.2f}."
    )
    heading = f"Predictive standard deviation, {NEW} new tasks (the paper shows one picture)"
    made = table(heading, ["trained on", "in [-2, 2]", "outside"], rows)
    curves = {name: {"mean": band.mean, "std": band.std} for name, band in bands.items()}
    figure = _draw(tasks, new, bands)
    return Report({"grid": GRID, "spreads": spreads, "curves": curves}, [made], [finding], figure)


def _learner(means: bool, settings: Settings) -> PlainMARS:
    training = TrainingConfig(steps=settings.scaled(4000, 20), chunk=1000)
    inference = FSVGDConfig(steps=settings.scaled(3000, 20), measurement_points=8)
    letter = PlainMARS.letter(MaternInterpolator(mean_only=means))
    return replace(letter, training=training, inference=inference)


def _tasks() -> tuple[TaskSet, TaskSet]:
    """Training tasks without points in the gap, and the contexts of new tasks anywhere."""
    many = sinusoid(tasks=TASKS, points=200, n_valid=1, n_test=NEW, n_target=CONTEXT)
    kept = []
    for task in many.meta_train:
        outside = np.flatnonzero(np.abs(task.x[:, 0]) > 2)[:POINTS]
        kept.append(Task(task.x[outside], task.y[outside]))
    return TaskSet(kept), TaskSet([Task(t.x[:CONTEXT], t.y[:CONTEXT]) for t in many.meta_test.target])


def _draw(tasks: TaskSet, new: TaskSet, bands: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.2), layout="constrained")
    axes = figure.subplots(1, 4, sharey=True)
    for ax, index in zip(axes, (0, 1)):
        _interpolation(ax, tasks, index)
    for ax, (name, (title, colour)) in zip(axes[2:], NAMES.items()):
        posterior_band(ax, GRID, bands[name], context=new[0], label="fBNN", colour=colour)
        ax.set_title(f"fBNN, score of {title}", fontsize=10)
    for ax in axes:
        ax.axvspan(-2, 2, color=GREY, alpha=0.12, linewidth=0)
        ax.set_xlabel("x")
    axes[0].set_ylabel("y")
    axes[2].legend(fontsize=8, loc="upper left")
    return figure


def _interpolation(ax: Any, tasks: TaskSet, index: int) -> None:
    """The posterior of the paper's interpolator on one training task."""
    standardizer = Standardizer.fit(tasks)
    fitted = MaternInterpolator().fit(standardizer.apply(tasks).padded(), 0)
    state = jax.tree.map(lambda leaf: leaf[index], fitted.states)
    mean, variance = fitted.process.predict_marginals(
        state, jnp.asarray(standardizer.scale_x(GRID[:, None]), jnp.float32)
    )
    centre = standardizer.unscale_y(np.asarray(mean, np.float64))
    std = standardizer.unscale_y(np.sqrt(np.asarray(variance, np.float64))) - standardizer.unscale_y(np.zeros(1))
    ax.fill_between(GRID, centre - 1.645 * std, centre + 1.645 * std, color=GREEN, alpha=0.25, linewidth=0)
    ax.plot(GRID, centre, color=GREEN, linewidth=1.8)
    ax.plot(tasks[index].x[:, 0], tasks[index].y, "o", color="black", markersize=5)
    ax.set_title(f"GP fitted to training task {index + 1}", fontsize=10)
