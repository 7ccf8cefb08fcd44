"""Figure 2: ten samples are few. (a) SSGE and the network on a Gaussian; (b, c) the network with and without
spectral normalisation on ten functions of a zero-mean Gaussian process, and the densities their scores integrate to.

The process has unit variance and lengthscale 1 on [-5, 5]; networks are trained on single points, uniform there, and
shown at x = 0, where the true marginal is N(0, 1). What the paper shows by eye is measured: the standard deviation of
the integrated density, 1 if right, below 1 if overconfident.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.plots import BLACK, BLUE, GREEN, GREY, ORANGE
from scoreprior.reproduce._output import Report, Settings, table
from scoreprior.scores import losses, spectral
from scoreprior.scores.fitted_network import SMALL, NetworkEstimator
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.scores.ssge import ABLATION_BANDWIDTH, ssge
from scoreprior.training import TrainingConfig, train

COUNT, GRID = 10, np.linspace(-4, 4, 161)
INPUTS = np.linspace(-5, 5, 201)
NETWORKS = {"with": SMALL, "without": replace(SMALL, normalisation="none")}
TRAINING = NetworkEstimator().training  # as in the tables


def run(settings: Settings) -> Report:
    """Curves for the first seed, implied standard deviations for all seeds; every seed has its own samples."""
    training = replace(TRAINING, steps=settings.scaled(TRAINING.steps, 20))
    gaussian: dict[str, list[np.ndarray]] = {"ssge": [], f"ssge, bandwidth {ABLATION_BANDWIDTH}": [], "network": []}
    process: dict[str, list[np.ndarray]] = {name: [] for name in NETWORKS}
    shown: dict[str, Any] = {}
    for seed in settings.network_seeds:
        rng = np.random.default_rng([2, seed])
        samples, functions = rng.normal(size=(COUNT, 1)).astype(np.float32), _functions(rng)
        shown.setdefault("samples", samples[:, 0])
        shown.setdefault("functions", functions[:, len(INPUTS) // 2])
        for name, curve in _on_gaussian(samples, training, seed).items():
            gaussian[name].append(curve)
        for name, config in NETWORKS.items():
            process[name].append(_on_process(functions, config, training, seed))
    stds = {name: [spread(curve) for curve in curves] for name, curves in {**gaussian, **process}.items()}
    numbers = {
        "grid": GRID,
        "shown": shown,
        "scores": {name: curves[0] for name, curves in {**gaussian, **process}.items()},
        "implied_std": stds,
    }
    rows = [
        [_title(name), f"{np.median(each):.2f}", f"{min(each):.2f} - {max(each):.2f}"] for name, each in stds.items()
    ]
    heading = "Standard deviation of the integrated density (truth: 1; the paper shows curves only)"
    made = table(heading, ["estimate", "median over seeds", "range"], rows)
    medians = {name: float(np.median(each)) for name, each in stds.items()}
    below = {name: f"{np.mean(np.asarray(each) < 1):.0%}" for name, each in stds.items()}
    findings = [
        f"{_title(name)}: implied standard deviation {value:.2f} (median), below 1 for {below[name]} of the seeds."
        for name, value in medians.items()
    ]
    return Report(numbers, [made], findings, _draw(numbers))


def spread(curve: Float[np.ndarray, " g"]) -> float:
    """Standard deviation on the grid of the density whose score this is."""
    weights = density(curve)
    mean = np.average(GRID, weights=weights)
    return float(np.sqrt(np.average((GRID - mean) ** 2, weights=weights)))


def density(curve: Float[np.ndarray, " g"]) -> Float[np.ndarray, " g"]:
    """exp of the score's integral by the trapezoid rule, normalised on the grid."""
    step = GRID[1] - GRID[0]
    log = np.concatenate([[0.0], np.cumsum(0.5 * (curve[1:] + curve[:-1]) * step)])
    weights = np.exp(log - log.max())
    return weights / (weights.sum() * step)


def _on_gaussian(samples: np.ndarray, training: TrainingConfig, seed: int) -> dict[str, np.ndarray]:
    points = jnp.asarray(GRID[:, None], jnp.float32)
    estimates = {"ssge": ssge(), f"ssge, bandwidth {ABLATION_BANDWIDTH}": ssge(ABLATION_BANDWIDTH)}
    found = {name: np.asarray(_evaluate(each, jnp.asarray(samples), points)) for name, each in estimates.items()}
    network = NetworkEstimator(training=training, batch=None).fit(jnp.asarray(samples), jnp.zeros((1, 1)), seed)
    found["network"] = np.asarray(eqx.filter_jit(network)(points)[:, 0])
    return found


@eqx.filter_jit
def _evaluate(estimator: Any, samples: Array, points: Array) -> Array:
    return estimator.fit(samples)(points)[:, 0]


def _functions(rng: np.random.Generator) -> Float[np.ndarray, "10 i"]:
    gram = np.exp(-0.5 * (INPUTS[:, None] - INPUTS[None]) ** 2) + 1e-6 * np.eye(len(INPUTS))
    return (rng.normal(size=(COUNT, len(INPUTS))) @ np.linalg.cholesky(gram).T).astype(np.float32)


def _on_process(functions: np.ndarray, config: NetworkConfig, training: TrainingConfig, seed: int) -> np.ndarray:
    start_key, train_key = jax.random.split(jax.random.key(seed))
    start = ScoreNetwork(1, config, start_key)
    loss = _Points(jnp.asarray(functions), jnp.asarray(INPUTS, jnp.float32))
    options: dict[str, Any] = {"project": spectral.power_iterate, "trainable": spectral.trainable(start)}
    network = spectral.finalise(train(loss, start, training, train_key, **options)[0])
    return np.asarray(_at_zero(network, jnp.asarray(GRID[:, None], jnp.float32)))


class _Points(eqx.Module):
    """All functions at 4 random inputs, each a measurement set of one point."""

    functions: Float[Array, "n i"]
    inputs: Float[Array, " i"]

    def __call__(self, network: ScoreNetwork, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        chosen = jax.random.randint(key, (4,), 0, len(self.inputs))
        f = self.functions[:, chosen].reshape(-1, 1)
        x = jnp.tile(self.inputs[chosen], len(self.functions))[:, None, None]
        return losses.exact_trace(spectral.normalise(network), f, x, key), {}


@eqx.filter_jit
def _at_zero(network: ScoreNetwork, points: Float[Array, "g 1"]) -> Float[Array, " g"]:
    return jax.vmap(lambda f: network(f, jnp.zeros((1, 1))))(points)[:, 0]


def _title(name: str) -> str:
    return {"with": "process, normalised", "without": "process, not normalised"}.get(name, f"Gaussian, {name}")


def _draw(numbers: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    scores, shown = numbers["scores"], numbers["shown"]
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for ax, samples in ((left, shown["samples"]), (middle, shown["functions"])):
        ax.plot(GRID, -GRID, color=BLACK, linewidth=1.8, label="true score")
        ax.plot(samples, np.full(len(samples), -7.5), "|", color=GREY, markersize=10)
        ax.set(ylim=(-8, 8), xlabel="f(x)", ylabel="score")
    for name, colour in zip(("ssge", f"ssge, bandwidth {ABLATION_BANDWIDTH}", "network"), (GREEN, GREY, BLUE)):
        left.plot(GRID, scores[name], color=colour, linewidth=1.6, label=name)
    right.plot(GRID, np.exp(-0.5 * GRID**2) / np.sqrt(2 * np.pi), color=BLACK, linewidth=1.8, label="true density")
    for name, colour in (("with", BLUE), ("without", ORANGE)):
        middle.plot(GRID, scores[name], color=colour, linewidth=1.6, label=f"{name} normalisation")
        right.plot(GRID, density(scores[name]), color=colour, linewidth=1.6, label=f"{name} normalisation")
    left.set_title("(a) ten samples of a Gaussian", fontsize=10)
    middle.set_title("(b) ten functions of a process, x = 0", fontsize=10)
    right.set_title("(c) integrated densities of (b)", fontsize=10)
    right.set(xlabel="f(x)", ylabel="density")
    for ax in (left, middle, right):
        ax.legend(fontsize=7.5)
    return figure
