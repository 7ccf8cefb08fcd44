"""Matrix-valued kernels for score estimation: diagonal and curl-free, from one radial function.

With r = x - y and t = |r|^2 / l^2 every kernel here is K(x, y) = a(t) I + b(t) r r^T, scaled so that K(x, x) = I; then
the operator of `regression.py` has norm at most 1 and a regularisation means the same for all of them.

    diagonal     K = phi(t) I                                a = phi, b = 0
    curl-free    K = -c grad_r grad_r^T phi                  a = phi' / phi'(0), b = 2 phi'' / (l^2 phi'(0))

A curl-free kernel's functions are gradients of scalar functions, as scores are. Integration by parts turns the
unknown score into zeta, an average over the samples (Zhou, Shi & Zhu, 2020, eq. 6):

    zeta(y) = E[K(x, y) grad log p(x)] = -E[div_x K(x, y)] = E[e(t) (x - y)]

    diagonal     e = -2 phi' / l^2
    curl-free    e = -(2 (d + 2) phi'' + 4 t phi''') / (l^2 phi'(0))

phi is exp(-t / 2) (RBF), (1 + t)^-1/2 (IMQ) or (1 + t)^-p (IMQp).
"""

from __future__ import annotations

from typing import Literal, get_args

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

Family = Literal["rbf", "imq", "imqp"]
_POWER = {"imq": 0.5, "imqp": 1.0}
_MOST = 1000
"""Samples that the median distance is taken over: the median of more changes little, and sorting pairs is slow."""


class VectorKernel(eqx.Module):
    """K(x, y) = a I + b r r^T with K(x, x) = I."""

    bandwidth: Float[Array, ""]
    family: Family = eqx.field(static=True)
    curl_free: bool = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.family not in get_args(Family):
            raise ValueError(f"A kernel's family is one of {', '.join(get_args(Family))}, not {self.family!r}.")

    def apply(
        self, x: Float[Array, "m d"], y: Float[Array, "n d"], coefficients: Float[Array, "n d"]
    ) -> Float[Array, "m d"]:
        """sum_j K(x_i, y_j) c_j, (m, d), with (m, n) arrays only: the (m d, n d) matrix is never formed."""
        x, y = _centre(x, y)
        a, b, _ = self._profile(_squared(x, y), x.shape[1])
        value = a @ coefficients
        if not self.curl_free:
            return value
        # r . c = x . c_j - y_j . c_j, and sum_j w_ij r_ij = x_i sum_j w_ij - sum_j w_ij y_j.
        along = b * (x @ coefficients.T - jnp.sum(y * coefficients, axis=1))
        return value + jnp.sum(along, axis=1)[:, None] * x - along @ y

    def zeta(self, y: Float[Array, "m d"], samples: Float[Array, "n d"]) -> Float[Array, "m d"]:
        """-mean_i div K(x_i, y), (m, d): the operator's image of the score."""
        y, samples = _centre(y, samples)
        pull = self._profile(_squared(y, samples), y.shape[1])[2] / len(samples)
        return pull @ samples - jnp.sum(pull, axis=1)[:, None] * y

    def gram(self, x: Float[Array, "m d"], y: Float[Array, "n d"]) -> Float[Array, "M N"]:
        """All K(x_i, y_j) as one matrix: (m, n) of a diagonal kernel, (m d, n d) of a curl-free one.

        It multiplies `flatten(c)`: d right-hand sides (n, d) for the first, one (n d, 1) for the second.
        """
        x, y = _centre(x, y)
        a, b, _ = self._profile(_squared(x, y), x.shape[1])
        if not self.curl_free:
            return a
        (m, d), n = x.shape, len(y)
        gaps = x[:, None] - y[None]
        blocks = a[..., None, None] * jnp.eye(d, dtype=x.dtype)
        blocks = blocks + b[..., None, None] * gaps[..., :, None] * gaps[..., None, :]
        return blocks.transpose(0, 2, 1, 3).reshape(m * d, n * d)

    def flatten(self, values: Float[Array, "n d"]) -> Float[Array, "N c"]:
        """Vectors at n points as `gram`'s right-hand sides."""
        return values.reshape(-1, 1) if self.curl_free else values

    def norm_bound(self, samples: Float[Array, "n d"]) -> Float[Array, ""]:
        """An upper bound of the largest eigenvalue of gram / n: the largest row sum of the blocks' norms."""
        samples, _ = _centre(samples, samples)
        squared = _squared(samples, samples)
        a, b, _ = self._profile(squared, samples.shape[1])
        norms = jnp.maximum(jnp.abs(a), jnp.abs(a + b * squared)) if self.curl_free else jnp.abs(a)
        return jnp.max(jnp.mean(norms, axis=1))

    def _profile(self, squared: Float[Array, "m n"], dim: int) -> tuple[Array, Array, Array]:
        """a, b and e at squared distances."""
        scale = self.bandwidth**2
        t = squared / scale
        if self.family == "rbf":
            phi = jnp.exp(-0.5 * t)
            return (phi, -phi / scale, (dim + 2 - t) * phi / scale) if self.curl_free else (phi, phi * 0, phi / scale)
        p, u = _POWER[self.family], 1 + t
        if not self.curl_free:
            phi = u**-p
            return phi, phi * 0, 2 * p * phi / u / scale
        a = u ** (-p - 1)
        second = 2 * (p + 1) * a / u / scale
        return a, -second, second * (dim + 2 - 2 * (p + 2) * t / u)


def median_distance(samples: Float[Array, "n d"]) -> Float[Array, ""]:
    """The median heuristic for a bandwidth: the median distance of the first 1000 samples, 1 if they coincide."""
    few = samples[:_MOST] - jnp.mean(samples[:_MOST], axis=0)
    median = jnp.sqrt(jnp.median(jnp.sum((few[:, None] - few[None]) ** 2, axis=-1)))
    spread = jnp.sqrt(2 * jnp.mean(jnp.sum(few**2, axis=-1)))
    # Many duplicates can bring the median to 0 while the samples still have a scale.
    fallback = jnp.where(spread > 0, spread, 1.0)
    return jnp.where(median > 1e-3 * spread, jnp.maximum(median, 1e-30), fallback)


def _centre(x: Float[Array, "m d"], y: Float[Array, "n d"]) -> tuple[Array, Array]:
    """Both minus y's mean: inner products of centred points keep the digits that raw ones lose."""
    mean = jnp.mean(y, axis=0)
    return x - mean, y - mean


def _squared(x: Float[Array, "m d"], y: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """|x_i - y_j|^2, column by column: unlike the expanded square it is exact for duplicates."""
    total = jnp.zeros((len(x), len(y)), x.dtype)
    for column in range(x.shape[1]):
        total = total + (x[:, column, None] - y[None, :, column]) ** 2
    return total
