"""Nonparametric score estimators as one regularised vector-valued regression (Zhou, Shi & Zhu, 2020).

The score s of p solves L s = zeta with L f = E_p[K(., x) f(x)] and zeta = -E_p[div_x K(x, .)] (`kernels_vector.py`).
Both are averages over the samples x_1..n, and an estimator is a regularised inverse g(L) applied to zeta:

    s = g(L) zeta,   g(sigma) -> 1 / sigma as the regularisation goes to zero

    regulariser       g(sigma)                            estimator
    Tikhonov          1 / (sigma + lambda)                Stein (diagonal K), kernel exponential family (curl-free K)
    Nystrom           the same on span{K(., z_j)}         NKEF
    SpectralCutoff    1 / sigma if sigma >= cut, else 0   SSGE (diagonal K)
    Landweber         sum_{i<t} eta (1 - eta sigma)^i     Landweber iteration
    NuMethod          the nu-method's polynomial          nu-method

L has the eigenvalues of gram / n, so all is linear algebra with h = zeta(x_1..n), and every estimator has the form

    s(x) = weight * zeta(x) + sum_j K(x, basis_j) c_j

A regularisation lambda is that at 100 samples and shrinks as n^-1/2: a fixed one would leave a bias that no number of
samples removes. K(x, x) = I makes lambda a number without units.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scoreprior._linalg import cholesky, solve_cholesky, solve_lower, solve_upper
from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior.scores.kernels_vector import Family, VectorKernel, median_distance

_JITTER = 1e-6
_Momentum = tuple[Array, Array, Array, Array]  # coefficients and weight, each now and one step before


class Solution(NamedTuple):
    """s(x) = weight * zeta(x) + sum_j K(x, basis_j) c_j; no weight is weight 0."""

    basis: Float[Array, "b d"]
    coefficients: Float[Array, "b d"]
    weight: Float[Array, ""] | None


class KernelScore(eqx.Module):
    """A fitted nonparametric score: points (m, d) -> (m, d)."""

    kernel: VectorKernel
    samples: Float[Array, "n d"]
    basis: Float[Array, "b d"]
    coefficients: Float[Array, "b d"]
    weight: Float[Array, ""] | None

    def __call__(self, points: Float[Array, "m d"]) -> Float[Array, "m d"]:
        value = self.kernel.apply(points, self.basis, self.coefficients)
        return value if self.weight is None else value + self.weight * self.kernel.zeta(points, self.samples)


@dataclass(frozen=True)
class Regulariser:
    """How L s = zeta is solved."""

    @abstractmethod
    def solve(self, kernel: VectorKernel, samples: Float[Array, "n d"]) -> Solution:
        """The regularised solution."""


@dataclass(frozen=True)
class KernelEstimator:
    """Kernel x regulariser.

    Args:
        family: radial function of the kernel.
        curl_free: curl-free, or diagonal (every component of the score on its own).
        bandwidth: length scale of the kernel; None takes the median distance between samples.
    """

    regulariser: Regulariser
    family: Family = "rbf"
    curl_free: bool = False
    bandwidth: float | None = None

    def fit(self, samples: Float[Array, "n d"]) -> KernelScore:
        """The score of the distribution that the samples (n, d) come from; pure and vmappable."""
        if samples.ndim != 2 or len(samples) < 2:
            raise ValueError(f"A score is estimated from samples (n, d) with n >= 2, not from shape {samples.shape}.")
        width = median_distance(samples) if self.bandwidth is None else jnp.asarray(self.bandwidth, samples.dtype)
        kernel = VectorKernel(width, self.family, self.curl_free)
        return KernelScore(kernel, samples, *self.regulariser.solve(kernel, samples))


@dataclass(frozen=True)
class Tikhonov(Regulariser):
    """(L + lambda) s = zeta: weight 1 / lambda and (gram + n lambda I) c = -h / lambda.

    Args:
        solver: "cholesky", or "cg" for conjugate gradients, which never form the matrix.
        tolerance, iterations: when the conjugate gradients stop.
    """

    strength: float = 1e-3  # lambda at 100 samples; [1e-5, 1]
    solver: Literal["cholesky", "cg"] = "cholesky"
    tolerance: float = 1e-5
    iterations: int = 200

    def __post_init__(self) -> None:
        check_positive(self, "strength", "tolerance")
        check_counts(self, "iterations")
        check_choice("solver", self.solver, ("cholesky", "cg"))

    def solve(self, kernel: VectorKernel, samples: Float[Array, "n d"]) -> Solution:
        count, strength = len(samples), shrunk(self.strength, len(samples))
        right = -kernel.zeta(samples, samples) / strength
        if self.solver == "cg":

            def shifted(c: Float[Array, "n d"]) -> Float[Array, "n d"]:
                return kernel.apply(samples, samples, c) + count * strength * c

            solved, _ = jax.scipy.sparse.linalg.cg(shifted, right, tol=self.tolerance, maxiter=self.iterations)
            return Solution(samples, solved, jnp.asarray(1 / strength, samples.dtype))
        gram = kernel.gram(samples, samples)
        factor = cholesky(gram + count * strength * jnp.eye(len(gram), dtype=gram.dtype), _JITTER)
        solved = solve_cholesky(factor, kernel.flatten(right)).reshape(samples.shape)
        return Solution(samples, solved, jnp.asarray(1 / strength, samples.dtype))


@dataclass(frozen=True)
class Nystrom(Regulariser):
    """Tikhonov within span{K(., z_j)}: (G_zx G_xz / n + lambda G_zz) c = zeta(z).

    With every sample in the basis this is the orthogonal projection of Tikhonov's solution on the span: the same values
    at the samples. The basis is chosen farthest point first from the one next to the mean, so that it depends on
    neither a seed nor the samples' order, and holds no duplicate before all distinct points.
    """

    strength: float = 1e-3
    points: int = 25

    def __post_init__(self) -> None:
        check_positive(self, "strength")
        check_counts(self, "points")

    def solve(self, kernel: VectorKernel, samples: Float[Array, "n d"]) -> Solution:
        strength = shrunk(self.strength, len(samples))
        basis = samples[farthest_points(samples, min(self.points, len(samples)))]
        # Coordinates that are orthonormal in the function space keep the condition number from being squared.
        factor = cholesky(kernel.gram(basis, basis), _JITTER)
        features = solve_lower(factor, kernel.gram(basis, samples))
        normal = features @ features.T / len(samples)
        target = solve_lower(factor, kernel.flatten(kernel.zeta(basis, samples)))
        inner = cholesky(normal + strength * jnp.eye(len(normal), dtype=normal.dtype), _JITTER * 1e-2)
        return Solution(basis, solve_upper(factor, solve_cholesky(inner, target)).reshape(basis.shape), None)


@dataclass(frozen=True)
class SpectralCutoff(Regulariser):
    """The leading eigenpairs (sigma_j, u_j) of gram / n: c = sum_j u_j u_j^T h / (n sigma_j^2).

    Args:
        mass: share of the eigenvalues' sum that the leading ones hold (Shi et al., 2018), or
        strength: the smallest relative eigenvalue kept at 100 samples (Zhou et al.); then `mass` is not used.
    """

    mass: float = 0.99
    strength: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, "strength")
        if not 0 < self.mass <= 1:
            raise ValueError(f"mass is a share above 0 and at most 1, not {self.mass}.")

    def solve(self, kernel: VectorKernel, samples: Float[Array, "n d"]) -> Solution:
        gram = kernel.gram(samples, samples) / len(samples)
        values, vectors = eigh(gram)
        if self.strength is None:
            before = jnp.cumsum(values[::-1])[::-1] - values
            keep = before < self.mass * jnp.sum(values)
        else:
            keep = values >= shrunk(self.strength, len(samples)) * values[-1]
        # No eigenvalue below round-off is information.
        keep = keep & (values > 1e-6 * values[-1])
        inverse = jnp.where(keep, 1 / jnp.where(keep, values, 1.0) ** 2, 0.0)[:, None] / len(samples)
        projected = vectors.T @ kernel.flatten(kernel.zeta(samples, samples))
        return Solution(samples, (vectors @ (inverse * projected)).reshape(samples.shape), None)


@dataclass(frozen=True)
class Landweber(Regulariser):
    """s_t = s_{t-1} + eta (zeta - L s_{t-1}) with eta = 1 / |L|; 1 / lambda steps."""

    strength: float = 1e-2

    def __post_init__(self) -> None:
        check_positive(self, "strength")

    def solve(self, kernel: VectorKernel, samples: Float[Array, "n d"]) -> Solution:
        steps = math.ceil(1 / shrunk(self.strength, len(samples)))
        return _iterate(kernel, samples, np.zeros(steps), np.ones(steps))


@dataclass(frozen=True)
class NuMethod(Regulariser):
    """Landweber with the momentum of the nu-method (Engl, Hanke & Neubauer, 1996, sec. 6.3): lambda^-1/2 steps suffice.

    s_t = s_{t-1} + u_t (s_{t-1} - s_{t-2}) + w_t / |L| (zeta - L s_{t-1}).
    """

    strength: float = 1e-2
    nu: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "strength", "nu")

    def solve(self, kernel: VectorKernel, samples: Float[Array, "n d"]) -> Solution:
        return _iterate(kernel, samples, *self.rates(math.ceil(shrunk(self.strength, len(samples)) ** -0.5)))

    def rates(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """u_t and w_t for t = 1..steps."""
        nu, t = self.nu, 1.0 + np.arange(steps)
        below = (t + 2 * nu - 1) * (2 * t + 4 * nu - 1)
        momentum = (t - 1) * (2 * t - 3) * (2 * t + 2 * nu - 1) / (below * (2 * t + 2 * nu - 3))
        step = 4 * (2 * t + 2 * nu - 1) * (t + nu - 1) / below
        momentum[0], step[0] = 0.0, (4 * nu + 2) / (4 * nu + 1)
        return momentum, step


def farthest_points(samples: Float[Array, "n d"], count: int) -> Array:
    """Indices (count,): the sample next to the mean, then always the one farthest from those chosen."""
    centred = samples - jnp.mean(samples, axis=0)
    first = jnp.argmin(jnp.sum(centred**2, axis=1))

    def choose(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        index, distance = carry
        distance = jnp.minimum(distance, jnp.sum((samples - samples[index]) ** 2, axis=1)).at[index].set(-1.0)
        return (jnp.argmax(distance), distance), index

    start = (first, jnp.full(len(samples), jnp.inf, samples.dtype))
    return jax.lax.scan(choose, start, None, count)[1]


def _iterate(kernel: VectorKernel, samples: Float[Array, "n d"], momentum: np.ndarray, step: np.ndarray) -> Solution:
    """The iterates in the form weight * zeta + K c: L maps (weight, c) to (0, (weight h + gram c) / n)."""
    h = kernel.zeta(samples, samples)
    bound = kernel.norm_bound(samples)

    def one(carry: _Momentum, rates: tuple[Array, Array]) -> tuple[_Momentum, None]:
        (u, w), (c, c_before, weight, weight_before) = rates, carry
        image = (weight * h + kernel.apply(samples, samples, c)) / len(samples)
        new = c + u * (c - c_before) - w / bound * image
        return (new, c, weight + u * (weight - weight_before) + w / bound, weight), None

    zero = jnp.zeros((), samples.dtype)
    start = (jnp.zeros_like(samples), jnp.zeros_like(samples), zero, zero)
    rates = (jnp.asarray(momentum, samples.dtype), jnp.asarray(step, samples.dtype))
    coefficients, _, weight, _ = jax.lax.scan(one, start, rates)[0]
    return Solution(samples, coefficients, weight)


@jax.custom_batching.sequential_vmap
def eigh(matrix: Float[Array, "N N"]) -> tuple[Float[Array, " N"], Float[Array, "N N"]]:
    """Eigenpairs, one matrix after the other under vmap: see `_linalg` on batches of LAPACK calls."""
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


def shrunk(strength: float, count: int) -> float:
    """The regularisation for `count` samples, given that for 100."""
    return strength * (100 / count) ** 0.5
