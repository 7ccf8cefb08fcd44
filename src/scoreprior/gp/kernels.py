"""Kernels and mean functions with parameters to learn: functions of whole input sets, cheap to batch.

Parameters are arrays in the pytree, so a gradient step or a new value never retraces.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Kernel(eqx.Module):
    """A positive-definite function of two input sets."""

    @abstractmethod
    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        """Gram matrix k(x, z)."""

    @abstractmethod
    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """k(x_i, x_i)."""


class Mean(eqx.Module):
    """A mean function."""

    @abstractmethod
    def __call__(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        """m(x)."""


class Matern(Kernel):
    """std^2 times the Matern kernel of order 1/2, 3/2 or 5/2 (or its limit, the RBF kernel: order inf), with ARD."""

    std: Float[Array, ""]
    lengthscale: Float[Array, "#d"]
    order: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        squared = squared_distances(x / self.lengthscale, z / self.lengthscale)
        return self.std**2 * _matern(squared, self.order)

    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return jnp.broadcast_to(self.std**2, (len(x),))


class Linear(Kernel):
    """Random affine functions: offset_std^2 + sum_j slope_std_j^2 x_j z_j."""

    offset_std: Float[Array, ""]
    slope_std: Float[Array, "#d"]

    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        return self.offset_std**2 + (x * self.slope_std**2) @ z.T

    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return self.offset_std**2 + jnp.sum((x * self.slope_std) ** 2, axis=1)


class SpectralComponent(Kernel):
    """One component of a spectral mixture (Wilson & Adams, 2013): std^2 exp(-r^2 / 2 l^2) cos(frequency . (x - z))."""

    std: Float[Array, ""]
    lengthscale: Float[Array, "#d"]
    frequency: Float[Array, " d"]

    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        phase = (x @ self.frequency)[:, None] - (z @ self.frequency)[None, :]
        return (
            self.std**2 * jnp.exp(-0.5 * squared_distances(x / self.lengthscale, z / self.lengthscale)) * jnp.cos(phase)
        )

    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return jnp.broadcast_to(self.std**2, (len(x),))


class Basis(Kernel):
    """A few random coefficients on fixed shapes: B(x) B(z)^T with B(x) = k(x, centres) @ coefficients."""

    kernel: Kernel
    centres: Float[Array, "c d"]
    coefficients: Float[Array, "c r"]

    def features(self, x: Float[Array, "a d"]) -> Float[Array, "a r"]:
        """B(x)."""
        return self.kernel(x, self.centres) @ self.coefficients

    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        return self.features(x) @ self.features(z).T

    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return jnp.sum(self.features(x) ** 2, axis=1)


class Sum(Kernel):
    """Independent parts added up."""

    parts: tuple[Kernel, ...]

    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        return sum((part(x, z) for part in self.parts), jnp.zeros((len(x), len(z))))

    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return sum((part.diagonal(x) for part in self.parts), jnp.zeros(len(x)))


class ZeroMean(Mean):
    """m(x) = 0."""

    def __call__(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return jnp.zeros(len(x))


class LinearMean(Mean):
    """m(x) = offset + slope . x."""

    offset: Float[Array, ""]
    slope: Float[Array, " d"]

    def __call__(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return self.offset + x @ self.slope


class BasisMean(Mean):
    """m(x) = k(x, centres) @ weights."""

    kernel: Kernel
    centres: Float[Array, "c d"]
    weights: Float[Array, " c"]

    def __call__(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return self.kernel(x, self.centres) @ self.weights


@jax.custom_jvp
def squared_distances(x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
    """|x_i - z_j|^2, by differences: the expanded square loses all digits when the lengthscale is short."""
    return jnp.sum((x[:, None, :] - z[None, :, :]) ** 2, axis=-1)


@squared_distances.defjvp
def _squared_distances_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """2 (x_i - z_j) . (dx_i - dz_j), expanded: a gradient is then two products of matrices, without an (a, b, d) array.

    What cancels here is of the order of the inputs, not of their squares.
    """
    (x, z), (dx, dz) = primals, tangents
    own = jnp.sum(x * dx, axis=1)[:, None] + jnp.sum(z * dz, axis=1)[None, :]
    return squared_distances(x, z), 2 * (own - x @ dz.T - dx @ z.T)


def _matern(squared: Float[Array, "a b"], order: float) -> Float[Array, "a b"]:
    if order == jnp.inf:
        return jnp.exp(-0.5 * squared)
    # The derivative of sqrt at 0 is infinite; a tiny floor keeps gradients finite on the diagonal.
    scaled = jnp.sqrt(2 * order * squared + 1e-10)
    if order == 0.5:
        return jnp.exp(-scaled)
    if order == 1.5:
        return (1 + scaled) * jnp.exp(-scaled)
    if order == 2.5:
        return (1 + scaled + scaled**2 / 3) * jnp.exp(-scaled)
    raise ValueError(f"Matern kernels of order 0.5, 1.5, 2.5 and inf are offered, not {order}.")
