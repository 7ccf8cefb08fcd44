"""Fully connected networks, and how their weights start. Particles of a Bayesian network are `inference/bnn.py`'s."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior._settings import check_choice

Activation = Literal["leaky_relu", "silu", "tanh"]
_ACTIVATIONS = {"leaky_relu": jax.nn.leaky_relu, "silu": jax.nn.silu, "tanh": jnp.tanh}


class MLP(eqx.Module):
    """x -> act(... act(x W_1 + b_1) ...) W_l + b_l; no hidden layer makes it affine. Leading axes make it many."""

    weights: tuple[Float[Array, "..."], ...]  # (in, out) of every layer
    biases: tuple[Float[Array, "..."], ...]
    activation: Activation = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_choice("activation", self.activation, get_args(Activation))

    def __call__(self, x: Float[Array, "*k i"], keep: Float[Array, "*#k u"] | None = None) -> Float[Array, "*k o"]:
        """The outputs at x; `keep` multiplies the hidden units of all layers, u in total."""
        activate, start = _ACTIVATIONS[self.activation], 0
        for weight, bias in zip(self.weights[:-1], self.biases[:-1]):
            x = activate(x @ weight + bias)
            if keep is not None:
                x = x * keep[..., start : start + len(bias)]
                start += len(bias)
        return x @ self.weights[-1] + self.biases[-1]


def uniform(sizes: tuple[int, ...], activation: Activation, key: PRNGKeyArray) -> MLP:
    """Weights uniform within sqrt(3 / fan in), of variance 1 / fan in; zero biases. `sizes` has inputs and outputs."""
    flat = jax.random.uniform(key, (_count(sizes),), minval=-1.0)
    weights = tuple(part * np.sqrt(3 / len(part)) for part in _split(flat, sizes))
    return MLP(weights, _zeros(sizes), activation)


def truncated_normal(sizes: tuple[int, ...], activation: Activation, key: PRNGKeyArray) -> MLP:
    """Weights normal within two standard deviations of 1 / sqrt(fan in), zero biases (Haiku's, as the paper)."""
    flat = jax.random.truncated_normal(key, -2.0, 2.0, (_count(sizes),))
    return MLP(tuple(part / np.sqrt(len(part)) for part in _split(flat, sizes)), _zeros(sizes), activation)


def constant(sizes: tuple[int, ...], activation: Activation, weight: float, bias: float) -> MLP:
    """All weights and all biases the same."""
    weights = tuple(jnp.full(shape, weight) for shape in pairwise(sizes))
    return MLP(weights, tuple(jnp.full(width, bias) for width in sizes[1:]), activation)


def _count(sizes: tuple[int, ...]) -> int:
    return sum(fan_in * fan_out for fan_in, fan_out in pairwise(sizes))


def _split(flat: Float[Array, " p"], sizes: tuple[int, ...]) -> list[Float[Array, "i o"]]:
    """One vector as the weights of all layers: a call of the generator for each would cost a second to compile."""
    shapes = list(pairwise(sizes))
    ends = np.cumsum([fan_in * fan_out for fan_in, fan_out in shapes])
    return [part.reshape(shape) for part, shape in zip(jnp.split(flat, ends[:-1]), shapes)]


def _zeros(sizes: tuple[int, ...]) -> tuple[Float[Array, " o"], ...]:
    return tuple(jnp.zeros(width) for width in sizes[1:])
