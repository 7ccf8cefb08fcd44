"""A transformer encoder over a set of points in which only some may be attended to."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class EncoderBlock(eqx.Module):
    """Pre-normalised residual self-attention, then a pre-normalised residual position-wise network (GELU)."""

    projections: Float[Array, "e 3e"]
    out: Float[Array, "e e"]
    hidden: Float[Array, "e w"]
    hidden_bias: Float[Array, " w"]
    output: Float[Array, "w e"]
    output_bias: Float[Array, " e"]
    heads: int = eqx.field(static=True)

    def __init__(self, embedding: int, heads: int, key: PRNGKeyArray):
        width = 2 * embedding
        shapes = [(embedding, 3 * embedding), (embedding, embedding), (embedding, width), (width, embedding)]
        self.projections, self.out, self.hidden, self.output = _normal(shapes, key)
        self.hidden_bias, self.output_bias = jnp.zeros(width), jnp.zeros(embedding)
        self.heads = heads

    def __call__(self, tokens: Float[Array, "k e"], attended: Bool[Array, "k k"]) -> Float[Array, "k e"]:
        """The tokens after the block; token i attends to token j where attended[i, j]."""
        projected = layer_norm(tokens) @ self.projections
        query, key, value = (part.reshape(len(tokens), self.heads, -1) for part in jnp.split(projected, 3, axis=1))
        logits = jnp.einsum("ihc,jhc->hij", query * query.shape[-1] ** -0.5, key)
        weights = jax.nn.softmax(jnp.where(attended, logits, -1e9))
        tokens = tokens + jnp.einsum("hij,jhc->ihc", weights, value).reshape(tokens.shape) @ self.out
        hidden = jax.nn.gelu(layer_norm(tokens) @ self.hidden + self.hidden_bias)
        return tokens + hidden @ self.output + self.output_bias


class Encoder(eqx.Module):
    """Features (k, f) -> outputs (k, o), equivariant to the order of the points; starts at zero."""

    embed: Float[Array, "f e"]
    embed_bias: Float[Array, " e"]
    blocks: tuple[EncoderBlock, ...]
    final: Float[Array, "e o"]
    final_bias: Float[Array, " o"]

    def __init__(self, features: int, outputs: int, embedding: int, blocks: int, heads: int, key: PRNGKeyArray):
        embed_key, *block_keys = jax.random.split(key, blocks + 1)
        (self.embed,) = _normal([(features, embedding)], embed_key)
        self.embed_bias = jnp.zeros(embedding)
        self.blocks = tuple(EncoderBlock(embedding, heads, one) for one in block_keys)
        self.final, self.final_bias = jnp.zeros((embedding, outputs)), jnp.zeros(outputs)

    def __call__(self, features: Float[Array, "k f"], there: Bool[Array, " k"]) -> Float[Array, "k o"]:
        """Every point attends to itself and to those that are there."""
        attended = there[None, :] | jnp.eye(len(features), dtype=bool)
        tokens = features @ self.embed + self.embed_bias
        for block in self.blocks:
            tokens = block(tokens, attended)
        return layer_norm(tokens) @ self.final + self.final_bias


def layer_norm(tokens: Float[Array, "k e"]) -> Float[Array, "k e"]:
    """Every token with mean 0 and variance 1; scales and shifts are left to the next matrix."""
    centred = tokens - jnp.mean(tokens, axis=-1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def _normal(shapes: list[tuple[int, int]], key: PRNGKeyArray) -> list[Float[Array, "i o"]]:
    """Matrices of variance 1 / fan in, from one draw: every call of the generator costs compile time."""
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    parts = jnp.split(jax.random.normal(key, (int(ends[-1]),)), ends[:-1])
    return [part.reshape(shape) / np.sqrt(shape[0]) for part, shape in zip(parts, shapes)]
