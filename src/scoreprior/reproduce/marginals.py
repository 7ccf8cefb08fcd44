"""The four estimation problems of appendix D.1: marginals of a Gaussian and a Student-t process, with true scores.

Mean 2x + 5 sin 2x, RBF kernel with lengthscale and variance 1; two or three points, uniform in [-5, 5] (GP) or [-1, 1]
(TP); 50 or 200 samples. The paper does not name the degrees of freedom (5 here, as in its Fig. 5), where the error is
measured (here: at 1000 fresh samples of the marginal), or its measurement set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scoreprior._linalg import JITTER
from scoreprior.environments.processes import sinusoidal_mean
from scoreprior.gp.kernels import Matern
from scoreprior.scores.exact import GaussianProcessScore, StudentTProcessScore

DF = 5.0
FRESH = 1000
_STREAMS = {"one": 0, "many": 1, "validation": 2}


@dataclass(frozen=True)
class Marginal:
    """One of the four problems."""

    process: str
    points: int
    samples: int
    steps: int
    half_width: float
    stream: int

    @property
    def truth(self) -> GaussianProcessScore | StudentTProcessScore:
        """The exact score, with the process's draws."""
        kernel = Matern(jnp.ones(()), jnp.ones(1), math.inf)
        if self.process == "GP":
            return GaussianProcessScore(sinusoidal_mean, kernel)
        return StudentTProcessScore(sinusoidal_mean, kernel, DF)


MARGINALS = {
    "GP-2D": Marginal("GP", 2, 50, 2000, 5.0, 0),
    "GP-3D": Marginal("GP", 3, 200, 5000, 5.0, 1),
    "TP-2D": Marginal("TP", 2, 50, 2000, 1.0, 2),
    "TP-3D": Marginal("TP", 3, 200, 5000, 1.0, 3),
}


class Sets(NamedTuple):
    """Measurement sets (S, k, 1) with samples to fit (S, n, k), fresh samples (S, m, k) and true scores there."""

    x: Float[np.ndarray, "S k 1"]
    samples: Float[np.ndarray, "S n k"]
    fresh: Float[np.ndarray, "S m k"]
    scores: Float[np.ndarray, "S m k"]


def draw_sets(marginal: Marginal, purpose: str, count: int) -> Sets:
    """Measurement sets of a purpose: "one" and "many" are reported, "validation" serves choices.

    Drawn in double precision, with the jitter of `scores.exact`, whose scores these are.
    """
    rng = np.random.default_rng([7, marginal.stream, _STREAMS[purpose]])
    drawn = [_draw(marginal, rng) for _ in range(count)]
    return Sets(*(np.stack(part).astype(np.float32) for part in zip(*drawn)))


def _draw(marginal: Marginal, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    k = marginal.points
    x = rng.uniform(-marginal.half_width, marginal.half_width, (k, 1))
    gram = np.exp(-0.5 * (x - x.T) ** 2) + JITTER * np.eye(k)
    size = marginal.samples + FRESH
    residual = rng.normal(size=(size, k)) @ np.linalg.cholesky(gram).T
    if marginal.process == "TP":
        residual *= np.sqrt(0.5 * (DF - 2) / rng.gamma(0.5 * DF, size=(size, 1)))
    directions = np.linalg.solve(gram, residual.T).T
    scores = -directions
    if marginal.process == "TP":
        scores *= (DF + k) / (DF - 2 + np.sum(residual * directions, axis=1, keepdims=True))
    f = sinusoidal_mean(x) + residual
    return x, f[: marginal.samples], f[marginal.samples :], scores[marginal.samples :]


def errors(estimate: Float[Array, "m k"], truth: Float[Array, "m k"]) -> dict[str, Float[Array, ""]]:
    """RMSE over points and coordinates, the same over the true score's root mean square, and mean cosine similarity."""
    rmse = jnp.sqrt(jnp.mean((estimate - truth) ** 2))
    product = jnp.sum(estimate * truth, axis=1)
    sizes = jnp.linalg.norm(estimate, axis=1) * jnp.linalg.norm(truth, axis=1)
    return {
        "rmse": rmse,
        "relative": rmse / jnp.sqrt(jnp.mean(truth**2)),
        "cosine": jnp.mean(product / jnp.maximum(sizes, 1e-12)),
    }
