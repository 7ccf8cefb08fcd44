"""Settings of the score estimators, chosen on 20 validation measurement sets per problem that no table reports.

Every nonparametric estimator gets the one regularisation with the smallest relative RMSE, averaged over the sets of all
four problems. This needs the true score, so it flatters the estimators: nobody has it in practice. The network's
remedies (objective, anchor, rotations, reweighting, steps) are compared in the same way, on fewer sets.
"""

from __future__ import annotations

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from scoreprior._progress import track
from scoreprior.reproduce._measure import measure_network
from scoreprior.reproduce._output import Report, Settings, table
from scoreprior.reproduce.marginals import MARGINALS, Sets, draw_sets
from scoreprior.scores.fitted_network import NetworkEstimator
from scoreprior.scores.gaussian import Gaussian
from scoreprior.scores.kernels_vector import Family, VectorKernel, median_distance
from scoreprior.scores.regression import NuMethod, shrunk
from scoreprior.training import TrainingConfig

STRENGTHS = tuple(10.0 ** (-0.25 * i) for i in range(1, 21))
# name -> (kernel, curl-free, filter)
TUNED: dict[str, tuple[Family, bool, str]] = {
    "kef, kef-cg-rbf, nkef": ("rbf", True, "tikhonov"),
    "kef-cg-imq": ("imq", True, "tikhonov"),
    "nu-method-rbf": ("rbf", True, "nu"),
    "nu-method-imq": ("imq", True, "nu"),
    "nu-method-imqp": ("imqp", True, "nu"),
    "landweber": ("rbf", True, "landweber"),
    "spectral-cutoff": ("rbf", True, "cutoff"),
    "stein": ("rbf", False, "tikhonov"),
}
_PAPER = TrainingConfig(steps=2000, chunk=100_000)


def _training(steps: int, rate: float) -> TrainingConfig:
    return TrainingConfig(steps=steps, learning_rate=rate, schedule="cosine", chunk=100_000)


_ELLIPTICAL = NetworkEstimator(anchor=Gaussian(), rotate=True, reweight=20)
REMEDIES: dict[str, NetworkEstimator] = {
    "as the paper, 2000 steps": NetworkEstimator(training=_PAPER),
    "as the paper, 200 steps": NetworkEstimator(training=_training(200, 1e-3)),
    "denoising 0.3": NetworkEstimator(objective="denoising", level=0.3, training=_PAPER),
    "anchored": NetworkEstimator(anchor=Gaussian(), training=_training(300, 1e-3)),
    "anchored, denoising 0.3": NetworkEstimator(
        objective="denoising", level=0.3, anchor=Gaussian(), training=_training(1000, 1e-3)
    ),
    "anchored, rotated, 1e-2": replace(_ELLIPTICAL, reweight=0, training=_training(1000, 1e-2)),
    "all three, 1e-3": replace(_ELLIPTICAL, training=_training(1000, 1e-3)),
    "all three, 3e-3": replace(_ELLIPTICAL, training=_training(1000, 3e-3)),
    "all three, 1e-2": replace(_ELLIPTICAL, training=_training(1000, 1e-2)),
    "all three, 3e-3, 2000 steps": replace(_ELLIPTICAL, training=_training(2000, 3e-3)),
}


def run(settings: Settings) -> Report:
    """Both choices."""
    count = settings.scaled(20, 3)
    sets = {name: draw_sets(marginal, "validation", count) for name, marginal in MARGINALS.items()}
    strengths = choose_strengths(sets)
    remedies = choose_remedy(sets, settings.scaled(8, 1), settings)
    best = {name: min(found, key=lambda s: found[s]) for name, found in strengths.items()}
    rows = [[name, f"{best[name]:.3g}", f"{strengths[name][best[name]]:.3f}"] for name in strengths]
    remedy_rows = [
        [name, *(f"{each[p]['relative']:.2f}" for p in sets), f"{np.mean([each[p]['relative'] for p in sets]):.2f}"]
        for name, each in remedies.items()
    ]
    tables = [
        table("Regularisation chosen on validation sets", ["estimator", "strength", "relative RMSE"], rows),
        table("Relative RMSE of networks on validation sets", ["network", *sets, "mean"], remedy_rows),
    ]
    chosen = min(remedies, key=lambda name: np.mean([remedies[name][p]["relative"] for p in sets]))
    findings = [f"Chosen network: {chosen}."]
    return Report({"strengths": strengths, "chosen": best, "remedies": remedies}, tables, findings)


def choose_strengths(sets: dict[str, Sets]) -> dict[str, dict[float, float]]:
    """Mean relative RMSE over all problems and sets, by estimator and strength; a set counts at most 10.

    One eigendecomposition per kernel and set serves every regularisation: s = g(0) zeta + K U f(sigma) U^T h with
    f = (g(sigma) - g(0)) / (n sigma).
    """
    totals = {name: np.zeros(len(STRENGTHS)) for name in TUNED}
    number = sum(len(each.x) for each in sets.values())
    for each in sets.values():
        for samples, fresh, scores in zip(*each[1:]):
            for family, curl_free in dict.fromkeys(row[:2] for row in TUNED.values()):
                parts = _Parts(samples, fresh, family, curl_free)
                for name, (*kernel, kind) in TUNED.items():
                    if kernel == [family, curl_free]:
                        found = [_relative(parts.estimate(kind, strength), scores) for strength in STRENGTHS]
                        totals[name] += np.minimum(found, 10.0) / number
    return {name: dict(zip(STRENGTHS, map(float, total))) for name, total in totals.items()}


class _Parts:
    """A kernel's spectrum at the samples and its matrices at the fresh points, in double precision."""

    def __init__(self, samples: np.ndarray, fresh: np.ndarray, family: Family, curl_free: bool):
        gram, h, cross, zeta, bound = (np.asarray(a, np.float64) for a in _pieces(samples, fresh, family, curl_free))
        self.count, self.bound, self.zeta = len(samples), float(bound), zeta
        values, self.vectors = np.linalg.eigh(gram / self.count)
        self.values = np.maximum(values, 1e-12)
        self.cross, self.projected = cross @ self.vectors, self.vectors.T @ h

    def estimate(self, kind: str, strength: float) -> np.ndarray:
        """The estimate at the fresh points."""
        g, at_zero = self._filter(kind, shrunk(strength, self.count))
        coefficients = ((g - at_zero) / (self.count * self.values))[:, None] * self.projected
        return (self.cross @ coefficients).reshape(self.zeta.shape) + at_zero * self.zeta

    def _filter(self, kind: str, strength: float) -> tuple[np.ndarray, float]:
        """g(sigma) at the eigenvalues, and g(0)."""
        relative = self.values / self.bound
        if kind == "tikhonov":
            return 1 / (self.values + strength), 1 / strength
        if kind == "cutoff":
            return np.where(self.values >= strength * self.values[-1], 1 / self.values, 0.0), 0.0
        if kind == "landweber":
            steps = math.ceil(1 / strength)
            return -np.expm1(steps * np.log1p(-np.minimum(relative, 1 - 1e-12))) / self.values, steps / self.bound
        u, w = NuMethod().rates(math.ceil(strength**-0.5))
        before = now = np.zeros(len(relative) + 1)
        sigma = np.append(relative, 0.0)
        for momentum, step in zip(u, w):
            before, now = now, now + momentum * (now - before) + step * (1 - sigma * now)
        return now[:-1] / self.bound, float(now[-1]) / self.bound


@eqx.filter_jit
def _pieces(samples: ArrayLike, fresh: ArrayLike, family: Family, curl_free: bool) -> tuple[jax.Array, ...]:
    samples, fresh = jnp.asarray(samples), jnp.asarray(fresh)
    kernel = VectorKernel(median_distance(samples), family, curl_free)
    h = kernel.flatten(kernel.zeta(samples, samples))
    return (
        kernel.gram(samples, samples),
        h,
        kernel.gram(fresh, samples),
        kernel.zeta(fresh, samples),
        kernel.norm_bound(samples),
    )


def _relative(estimate: np.ndarray, scores: np.ndarray) -> float:
    return float(np.sqrt(np.mean((estimate - scores) ** 2) / np.mean(scores**2)))


def choose_remedy(sets: dict[str, Sets], count: int, settings: Settings) -> dict[str, dict[str, dict[str, float]]]:
    """Mean errors of every network variant over the first `count` sets of each problem."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    with track(len(REMEDIES), "Networks", settings.progress) as advance:
        for name, variant in REMEDIES.items():
            steps = settings.scaled(variant.training.steps, 20)
            seeds = [settings.seed + i for i in range(count)]
            each = {p: measure_network(variant, s, seeds, steps) for p, s in sets.items()}
            found[name] = {p: {kind: float(np.mean(values)) for kind, values in e.items()} for p, e in each.items()}
            advance(1)
    return found
