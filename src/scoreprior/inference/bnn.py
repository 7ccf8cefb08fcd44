"""Particles of a Bayesian neural network: a small leaky-ReLU network R^d -> R and its initialisation (appendix A.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from scoreprior._settings import check_choice, check_hidden

BiasInit = Literal["steinwart", "constant"]
Skip = Literal["none", "linear"]


@dataclass(frozen=True)
class BNNConfig:
    """Architecture and initialisation; the paper: three hidden layers of 32, He-uniform weights, Steinwart biases."""

    hidden: tuple[int, ...] = (32, 32, 32)
    bias: BiasInit = "steinwart"
    constant: float = 0.01  # every bias under bias="constant"; the paper's comparison
    skip: Skip = "none"  # "linear" adds a.x, so that a linear trend needs no kinks
    slope: float = 0.01  # of the leaky ReLU where it is negative

    def __post_init__(self) -> None:
        check_hidden(self.hidden)
        if not 0 <= self.slope < 1:
            raise ValueError(f"slope lies in [0, 1), not {self.slope}.")
        if not 0 <= self.constant < math.inf:
            raise ValueError(f"constant must not be negative, not {self.constant}.")
        check_choice("bias", self.bias, get_args(BiasInit))
        check_choice("skip", self.skip, get_args(Skip))


class Network(eqx.Module):
    """h(x) = w . act(... act(x W_1 + b_1) ...) + b (+ a . x); a particle, or L of them with a leading axis."""

    weights: tuple[Float[Array, "..."], ...]  # (in, out) for every hidden layer, (in,) for the output
    biases: tuple[Float[Array, "..."], ...]
    linear: Float[Array, "... d"] | None
    slope: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "k d"]) -> Float[Array, " k"]:
        """The outputs at x (k, d)."""
        output = self.hidden(x, len(self.weights) - 1) @ self.weights[-1] + self.biases[-1]
        return output if self.linear is None else output + x @ self.linear

    def hidden(self, x: Float[Array, "k d"], depth: int) -> Float[Array, "k h"]:
        """Activations of hidden layer number `depth`; 0 is the input itself."""
        for layer, (weight, bias) in enumerate(zip(self.weights[:depth], self.biases[:depth])):
            before = (x @ weight if layer == 0 else _product(x, weight)) + bias
            x = jnp.maximum(before, self.slope * before)
        return x


def apply(params: PyTree, x: Float[Array, "k d"]) -> Float[Array, " k"]:
    """One particle's function at x; any callable pytree of arrays is a particle."""
    return params(x)


def init_network(
    key: PRNGKeyArray, dim: int, config: BNNConfig, low: Float[Array, " d"], high: Float[Array, " d"]
) -> Network:
    """A network with He-uniform weights, |w| <= sqrt(6 / fan_in), whose kinks fall into the box [low, high].

    Steinwart: b_i = -<w_i, x*_i>, so unit i's kink passes through x*_i: in the first layer a uniform point of the box,
    in deeper ones the activation of such a point. The output unit has no kink; its bias is 0. The linear skip is 0.
    """
    sizes = (dim, *config.hidden)
    shapes = [*pairwise(sizes), (sizes[-1],)]
    anchors = [(width, dim) for width in config.hidden]
    # One call for all numbers: every call of the generator costs compile time.
    counts = [int(np.prod(shape)) for shape in [*shapes, *anchors]]
    uniform = jnp.split(jax.random.uniform(key, (sum(counts),)), np.cumsum(counts)[:-1])
    parts = [part.reshape(shape) for part, shape in zip(uniform, [*shapes, *anchors])]
    weights = tuple((2 * part - 1) * np.sqrt(6 / len(part)) for part in parts[: len(shapes)])
    start = config.constant if config.bias == "constant" else 0.0
    biases = (*(jnp.full(width, start) for width in config.hidden), jnp.asarray(start))
    network = Network(weights, biases, jnp.zeros(dim) if config.skip == "linear" else None, config.slope)
    if config.bias == "constant":
        return network
    for depth, part in enumerate(parts[len(shapes) :]):
        seen = network.hidden(low + part * (high - low), depth)
        bias = -jnp.einsum("ui,iu->u", seen, network.weights[depth])
        biases = (*network.biases[:depth], bias, *network.biases[depth + 1 :])
        network = Network(network.weights, biases, network.linear, network.slope)
    return network


def init_particles(
    key: PRNGKeyArray, particles: int, dim: int, config: BNNConfig, low: Float[Array, " d"], high: Float[Array, " d"]
) -> Network:
    """L independent networks as one, every leaf with a leading axis L."""
    return jax.vmap(lambda one: init_network(one, dim, config, low, high))(jax.random.split(key, particles))


def function_values(particles: PyTree, x: Float[Array, "k d"]) -> Float[Array, "L k"]:
    """All particles' functions at x, (L, k)."""
    return jax.vmap(apply, in_axes=(0, None))(particles, x)


@jax.custom_vjp
def _product(x: Float[Array, "k i"], weight: Float[Array, "i o"]) -> Float[Array, "k o"]:
    """x W, with x^T g in its gradient written as a fused loop: XLA's batched product of that shape is slow on a CPU."""
    return x @ weight


def _product_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ weight, (x, weight)


def _product_backward(saved: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = saved
    return gradient @ weight.T, jnp.sum(x[:, :, None] * gradient[:, None, :], axis=0)


_product.defvjp(_product_forward, _product_backward)
