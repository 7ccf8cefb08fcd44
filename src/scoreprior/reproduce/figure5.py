"""Figure 5: does spectral normalisation hinder the network? Scores of one-dimensional Laplace and Student-t samples.

As appendix D.2: 45 samples; every step draws 8 of them without replacement, which are the network's tokens;
embedding 32, 8 heads of key size 16, 2000 steps of learning rate 0.001. A token's estimate depends on the other tokens,
and the paper does not say which stand beside a point of the plot: here 7 training samples, averaged over 64 draws.
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
from scoreprior.scores.estimators import estimator
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.training import TrainingConfig, train

SAMPLES, TOKENS, DF = 45, 8, 5.0
CONFIG = NetworkConfig(embedding=32, heads=8, key_size=16)
NETWORKS = {"network": CONFIG, "network, not normalised": replace(CONFIG, normalisation="none")}
COLOURS = {"network": BLUE, "network, not normalised": ORANGE, "ssge": GREEN, "shrunk-gaussian": GREY}
TRUTH = {
    "Laplace": (lambda rng, n: rng.laplace(size=n), lambda v: -np.sign(v)),
    "Student-t": (lambda rng, n: rng.standard_t(DF, size=n), lambda v: -(DF + 1) * v / (DF + v**2)),
}


def run(settings: Settings) -> Report:
    """Estimates on a grid, and RMSE at 2000 fresh samples, for every seed"""
    steps, grid = settings.scaled(2000, 20), np.linspace(-5, 5, 101)
    numbers: dict[str, Any] = {"grid": grid, "distributions": {}}
    for i, (name, (draw, score)) in enumerate(TRUTH.items()):
        rng = np.random.default_rng([5, i])
        samples, fresh = (draw(rng, size).astype(np.float32) for size in (SAMPLES, 2000))
        found: dict[str, Any] = {}
        for label, config in NETWORKS.items():
            curves, errors = [], []
            for seed in settings.network_seeds:
                network = fit(samples, config, seed, steps)
                curves.append(estimate(network, samples, grid.astype(np.float32)))
                errors.append(_rmse(estimate(network, samples, fresh), score(fresh)))
            found[label] = {"curve": np.mean(curves, axis=0), "spread": np.std(curves, axis=0), "rmse": errors}
        for label in ("ssge", "shrunk-gaussian"):
            fitted = estimator(label).fit(jnp.asarray(samples)[:, None])
            at = jax.jit(lambda v, fitted=fitted: fitted(v[:, None])[:, 0])
            found[label] = {"curve": np.asarray(at(grid.astype(np.float32))), "rmse": [_rmse(at(fresh), score(fresh))]}
        numbers["distributions"][name] = {"samples": samples, "truth": score(grid), "estimates": found}
    rows = [
        [label, *(_spread(d["estimates"][label]["rmse"]) for d in numbers["distributions"].values())]
        for label in COLOURS
    ]
    heading = "RMSE of the score at fresh samples (the paper shows curves, no numbers)"
    return Report(numbers, [table(heading, ["estimator", *TRUTH], rows)], _findings(numbers), _draw(numbers))


def fit(samples: Float[np.ndarray, " n"], config: NetworkConfig, seed: int, steps: int) -> ScoreNetwork:
    """A network without inputs, trained on random subsets of the samples."""
    start_key, train_key = jax.random.split(jax.random.key(seed))
    start = ScoreNetwork(0, config, start_key)
    training = TrainingConfig(steps=steps, learning_rate=1e-3, chunk=100_000)
    network, _ = train(
        _Subsets(jnp.asarray(samples)),
        start,
        training,
        train_key,
        project=spectral.power_iterate,
        trainable=spectral.trainable(start),
    )
    return spectral.finalise(network)


class _Subsets(eqx.Module):
    samples: Float[Array, " n"]

    def __call__(self, network: ScoreNetwork, key: PRNGKeyArray) -> tuple[Float[Array, ""], dict[str, Array]]:
        f = jax.random.choice(key, self.samples, (1, TOKENS), replace=False)
        return losses.exact_trace(spectral.normalise(network), f, jnp.zeros((TOKENS, 0)), key), {}


@eqx.filter_jit
def estimate(
    network: ScoreNetwork, samples: Float[np.ndarray, " n"], points: Float[np.ndarray, " m"], draws: int = 64
) -> Float[Array, " m"]:
    """The score at every point beside random training samples, averaged over draws of these."""

    def one(key: PRNGKeyArray) -> Float[Array, " m"]:
        others = jax.random.choice(key, jnp.asarray(samples), (TOKENS - 1,), replace=False)
        empty = jnp.zeros((TOKENS, 0))
        return jax.vmap(lambda point: network(jnp.append(others, point), empty)[-1])(points)

    return jnp.mean(jax.lax.map(one, jax.random.split(jax.random.key(0), draws)), axis=0)


def _rmse(values: Any, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.asarray(values) - truth) ** 2)))


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values):.3f}" if len(values) > 1 else "")


def _findings(numbers: dict[str, Any]) -> list[str]:
    lines = []
    for name, each in numbers["distributions"].items():
        means = {label: float(np.mean(found["rmse"])) for label, found in each["estimates"].items()}
        order = ", ".join(f"{label} {means[label]:.2f}" for label in sorted(means, key=lambda label: means[label]))
        lines.append(f"{name}: RMSE {order}.")
    return lines


def _draw(numbers: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for ax, (name, each) in zip(figure.subplots(1, 2, sharey=True), numbers["distributions"].items()):
        grid, found = numbers["grid"], each["estimates"]
        ax.plot(grid, each["truth"], color=BLACK, linewidth=1.8, label="true score")
        for label, colour in COLOURS.items():
            style = "-" if label == "network" else "--"
            ax.plot(grid, found[label]["curve"], style, color=colour, linewidth=1.6, label=label)
        low, high = (found["network"]["curve"] + s * found["network"]["spread"] for s in (-1, 1))
        ax.fill_between(grid, low, high, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(each["samples"], np.full(SAMPLES, -2.8), "|", color=GREY, markersize=8)
        ax.set(title=f"{name}, {SAMPLES} samples", xlabel="x", ylim=(-3, 3), xlim=(-5, 5))
    figure.axes[0].set_ylabel("score")
    figure.axes[1].legend(fontsize=8, loc="upper right")
    return figure
