"""How much tasks differ from their shared mean at each place: an amplitude of the deviation.

Young plants are all small and old ones are not. A stationary deviation takes the first for a sign of the second, and is
too sure of old plants after it has seen a young one.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scoreprior.gp.kernels import Kernel, Sum
from scoreprior.gp.process import GaussianProcess
from scoreprior.tasks import PaddedTasks

_WIDTH = 0.6
"""Of the bump around a knot, in distances between knots: wider ones overlap, and values at knots must then cancel."""


class Amplitude(eqx.Module):
    """a(x) = exp(sum_j v_j(x_j)): v_j is smooth between its values at knots, and constant beyond them."""

    knots: Float[Array, "k a"]
    log_values: Float[Array, "k a"]
    inputs: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The amplitude at each point."""
        width = _WIDTH * (self.knots[1] - self.knots[0])
        along = x[:, None, jnp.asarray(self.inputs)]
        shares = jax.nn.softmax(-0.5 * ((along - self.knots) / width) ** 2, axis=1)
        return jnp.exp(jnp.sum(shares * self.log_values, axis=(1, 2)))


class Modulated(Kernel):
    """a(x) k(x, z) a(z)."""

    kernel: Kernel
    amplitude: Amplitude

    def __call__(self, x: Float[Array, "a d"], z: Float[Array, "b d"]) -> Float[Array, "a b"]:
        return self.amplitude(x)[:, None] * self.kernel(x, z) * self.amplitude(z)[None, :]

    def diagonal(self, x: Float[Array, "a d"]) -> Float[Array, " a"]:
        return self.amplitude(x) ** 2 * self.kernel.diagonal(x)


def amplitude_of(process: GaussianProcess) -> Amplitude | None:
    """That of a fitted process; None where it is constant."""
    first = process.kernel.parts[0] if isinstance(process.kernel, Sum) else process.kernel
    return first.amplitude if isinstance(first, Modulated) else None


def inputs_with_room(tasks: PaddedTasks) -> tuple[int, ...]:
    """Inputs with more than two values: those of categories are 0 or 1 and have no room for shapes."""
    points = np.asarray(tasks.x)[np.asarray(tasks.mask)]
    return tuple(at for at, column in enumerate(points.T) if len(np.unique(column)) > 2)


def constant_amplitude(tasks: PaddedTasks, knots: int, most_inputs: int) -> Amplitude | None:
    """An amplitude of 1 with so many evenly spaced knots along every input with room; None with more such inputs."""
    inputs = inputs_with_room(tasks)
    if not knots or not 0 < len(inputs) <= most_inputs:
        return None
    points = np.asarray(tasks.x, np.float64)[np.asarray(tasks.mask)][:, list(inputs)]
    with jax.enable_x64(True):
        places = jnp.linspace(points.min(axis=0), points.max(axis=0), knots)
        return Amplitude(places, jnp.zeros_like(places), inputs)
