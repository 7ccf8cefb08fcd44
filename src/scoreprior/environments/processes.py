"""Tasks drawn from a Gaussian or Student-t process around 2x + 5 sin 2x, with their Bayes-optimal predictive.

The mean, the kernel (squared exponential, lengthscale 1, variance 1) and the use of both processes are the
paper's (Fig. 1, Tables 7-8). It names neither the observation noise nor, for the process, the degrees of
freedom: here they are 0.1 (as for the sinusoids) and 5 (as for the Student-t distribution of its Fig. 5).

The Student-t process has the parametrisation of Shah et al. (2014) and of TensorFlow Probability, which the
paper used: the kernel is the covariance, so the shape matrix is (df - 2) / df K and df > 2. Equivalently
f = m + sqrt(r) g with g ~ GP(0, K) and one r ~ InverseGamma(df / 2, (df - 2) / 2) per function, E r = 1. The
observation noise is Gaussian and does not scale with r.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from scoreprior.environments._base import Card, Environment
from scoreprior.environments._synthetic import (
    X_RANGE,
    check_context,
    describe,
    equal_mass_means,
    simulate,
)
from scoreprior.predictive import Predictive
from scoreprior.tasks import Task
from scoreprior.tasks.checks import check_query

AnyArray = TypeVar("AnyArray", np.ndarray, jax.Array)

LENGTHSCALE = 1.0
VARIANCE = 1.0

_GP_STREAM, _TP_STREAM = 102, 103
# Trapezoid nodes for log r: they span any posterior that matters, 0.006 apart.
_LOG_SCALES = np.linspace(-12.0, 25.0, 6001)


def gp_sinusoid(
    split: int = 0,
    data_dir: str | Path | None = None,
    *,
    tasks: int = 20,
    points: int = 8,
    n_valid: int = 50,
    n_test: int = 100,
    n_target: int = 100,
    noise_std: float = 0.1,
) -> Environment:
    """Functions from GP(2x + 5 sin 2x, squared exponential), x ~ U(-5, 5); `data_dir` is not used."""
    process = ProcessOracle(noise_std)
    sizes = {
        "tasks": tasks,
        "points": points,
        "n_valid": n_valid,
        "n_test": n_test,
        "n_target": n_target,
    }
    return _environment("gp-sinusoid", "Gaussian process around a sinusoid", process, _GP_STREAM, split, sizes)


def student_t_sinusoid(
    split: int = 0,
    data_dir: str | Path | None = None,
    *,
    tasks: int = 20,
    points: int = 8,
    n_valid: int = 50,
    n_test: int = 100,
    n_target: int = 100,
    noise_std: float = 0.1,
    df: float = 5.0,
) -> Environment:
    """Functions from a Student-t process around 2x + 5 sin 2x, x ~ U(-5, 5); `data_dir` is not used."""
    process = ProcessOracle(noise_std, df)
    sizes = {
        "tasks": tasks,
        "points": points,
        "n_valid": n_valid,
        "n_test": n_test,
        "n_target": n_target,
    }
    title = "Student-t process around a sinusoid"
    return _environment("student-t-sinusoid", title, process, _TP_STREAM, split, sizes)


def sinusoidal_mean(x: AnyArray) -> AnyArray:
    """m(x) = 2x + 5 sin 2x: x (k, 1) to (k,), for NumPy arrays (double precision) and JAX arrays."""
    xp: Any = jnp if isinstance(x, jax.Array) else np
    return 2 * x[:, 0] + 5 * xp.sin(2 * x[:, 0])


@dataclass(frozen=True)
class ProcessOracle:
    """The predictive of y at x (q, 1) given a context and the true process; the context may be empty.

    Given the scale r both processes are Gaussian with kernel r K. For the Student-t process p(r | D) is
    evaluated on a fine grid of log r and reduced to `components` equally weighted nodes, each the mean of r
    over a part of equal posterior mass; the Gaussian process has r = 1 and one component.

    Args:
        noise_std: standard deviation of the observation noise, positive.
        df: degrees of freedom, more than 2; None is the Gaussian process.
        components: number of nodes for r.
    """

    noise_std: float = 0.1
    df: float | None = None
    components: int = 256

    def __post_init__(self) -> None:
        if not self.noise_std > 0:
            raise ValueError(f"noise_std must be positive, not {self.noise_std}.")
        if self.df is not None and not self.df > 2:
            raise ValueError(f"df must be more than 2 for the covariance to exist, not {self.df}.")

    def __call__(self, context: Task, x: Any) -> Predictive:
        inputs, y = check_context(context)
        query = check_query(x, 1)
        eigenvalues, basis = np.linalg.eigh(_gram(inputs, inputs))
        eigenvalues = np.maximum(eigenvalues, 0.0)
        white = basis.T @ (y - sinusoidal_mean(context.x))
        cross = basis.T @ _gram(inputs, query[:, 0])  # (m, q)

        r = self._scales(eigenvalues, white)[:, None]
        shrink = r / (r * eigenvalues + self.noise_std**2)  # (L, m): r (r K + noise^2 I)^-1 in the eigenbasis
        locs = sinusoidal_mean(query) + (shrink * white) @ cross
        variances = r * (VARIANCE - shrink @ cross**2) + self.noise_std**2
        return Predictive(locs, np.sqrt(variances))

    def draw(self, rng: np.random.Generator, m: int) -> tuple[np.ndarray, np.ndarray]:
        """One task of m points: x ~ U(-5, 5) and y from the process plus noise."""
        x = rng.uniform(*X_RANGE, size=m)
        r = 1.0 if self.df is None else 0.5 * (self.df - 2) / rng.gamma(0.5 * self.df)
        # y is drawn as a whole: with the noise, unlike without, the covariance has a stable Cholesky factor.
        factor = np.linalg.cholesky(r * _gram(x, x) + self.noise_std**2 * np.eye(m))
        return x, sinusoidal_mean(x[:, None]) + factor @ rng.normal(size=m)

    def _scales(self, eigenvalues: np.ndarray, white: np.ndarray) -> np.ndarray:
        """Equally weighted nodes of p(r | D), (L,)."""
        if self.df is None:
            return np.ones(1)
        r = np.exp(_LOG_SCALES)
        variances = r[:, None] * eigenvalues + self.noise_std**2
        log_likelihood = -0.5 * (white**2 / variances + np.log(variances)).sum(-1)
        log_prior = -0.5 * self.df * _LOG_SCALES - 0.5 * (self.df - 2) / r  # density of log r
        return equal_mass_means(r, log_likelihood + log_prior, self.components)


def _gram(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    return VARIANCE * np.exp(-0.5 * ((x1[:, None] - x2[None, :]) / LENGTHSCALE) ** 2)


def _environment(
    name: str, title: str, process: ProcessOracle, stream: int, split: int, sizes: dict[str, int]
) -> Environment:
    parts = simulate(process.draw, stream, split, **sizes)
    freedom = "" if process.df is None else f" and {process.df:g} degrees of freedom"
    card = Card(
        title=title,
        source="simulated: mean 2x + 5 sin 2x, squared-exponential kernel of lengthscale "
        f"{LENGTHSCALE:g} and variance {VARIANCE:g}{freedom}, observation noise {process.noise_std:g}",
        licence="none needed, generated by this package",
        sizes=describe(parts),
        units="none",
        notes="The oracle is the Bayes-optimal predictive under the true process.",
    )
    return Environment(name, parts.train, parts.valid, parts.test, card, split, oracle=process)
