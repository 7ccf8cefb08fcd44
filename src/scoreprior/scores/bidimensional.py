"""The noise predictor of neural diffusion processes: attention over points and over input dimensions.

A token (n, j) belongs to point n and input dimension j; it starts from x_nj and the noised value y_n. A block attends
over the points, for each dimension alone, and over the dimensions, for each point alone, so the network is equivariant
to the order of points and, after the mean over dimensions, invariant to the order of these:
    a = s + w(t),   (r, skip) = gelu(points(a) + dimensions(a)),   s <- (s + r) / sqrt(2)
The answer is a function of the sum of the blocks' skips (Dutordoir et al., 2023, section 4.1 and appendix A).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from scoreprior import networks as nets
from scoreprior._settings import check_counts
from scoreprior.networks import MLP

_SLOWEST = 10_000.0
"""Largest period of the embedding of t, over 2 pi (Vaswani et al., 2017)."""


@dataclass(frozen=True)
class NoisePredictorConfig:
    """The network that predicts noise.

    Args:
        width: of the tokens.
        blocks: of attention over points and over input dimensions.
        heads: of each attention.
    """

    width: int = 32
    blocks: int = 3
    heads: int = 4

    def __post_init__(self) -> None:
        check_counts(self, "width", "blocks", "heads")
        if self.width % (2 * self.heads):
            raise ValueError(f"width must be a multiple of twice the heads ({2 * self.heads}), not {self.width}.")


class BiDimensionalBlock(eqx.Module):
    """Attention over points plus attention over input dimensions; a residual half and a skip half."""

    time: MLP
    points: tuple[MLP, MLP]  # to queries, keys and values; to the output
    dimensions: tuple[MLP, MLP]
    heads: int = eqx.field(static=True)

    def __init__(self, config: NoisePredictorConfig, key: PRNGKeyArray):
        width = config.width
        keys = jax.random.split(key, 5)
        self.time = _linear(width, width, keys[0])
        self.points = (_linear(width, 3 * width, keys[1]), _linear(width, 2 * width, keys[2]))
        self.dimensions = (_linear(width, 3 * width, keys[3]), _linear(width, 2 * width, keys[4]))
        self.heads = config.heads

    def __call__(
        self, tokens: Float[Array, "k d e"], time: Float[Array, " e"], mask: Bool[Array, " k"]
    ) -> tuple[Float[Array, "k d e"], Float[Array, "k d e"]]:
        """The tokens after the block, and its skip; no point attends to one that is not there."""
        seen = tokens + self.time(time)
        over_points = self._attend(self.points, jnp.swapaxes(seen, 0, 1), mask)
        over_dimensions = self._attend(self.dimensions, seen, None)
        both = jax.nn.gelu(jnp.swapaxes(over_points, 0, 1) + over_dimensions)
        residual, skip = jnp.split(both, 2, axis=-1)
        return (tokens + residual) / np.sqrt(2), skip

    def _attend(
        self, maps: tuple[MLP, MLP], tokens: Float[Array, "b n e"], mask: Bool[Array, " n"] | None
    ) -> Float[Array, "b n 2*e"]:
        """Self-attention along the middle axis."""
        project, out = maps
        query, key, value = (
            part.reshape(*tokens.shape[:2], self.heads, -1) for part in jnp.split(project(tokens), 3, axis=-1)
        )
        logits = jnp.einsum("bihc,bjhc->bhij", query * query.shape[-1] ** -0.5, key)
        if mask is not None:
            logits = jnp.where(mask, logits, -1e9)
        mixed = jnp.einsum("bhij,bjhc->bihc", jax.nn.softmax(logits), value)
        return out(mixed.reshape(tokens.shape))


class NoisePredictor(eqx.Module):
    """eps(y_t, x, t): the noise (k,) in the values y_t (k,) at x (k, d); starts at zero."""

    embed: MLP
    time: MLP
    blocks: tuple[BiDimensionalBlock, ...]
    final: MLP

    def __init__(self, config: NoisePredictorConfig, key: PRNGKeyArray):
        width = config.width
        embed_key, time_key, final_key, *block_keys = jax.random.split(key, config.blocks + 3)
        self.embed = _linear(2, width, embed_key)
        self.time = nets.uniform((width, width, width), "silu", time_key)
        self.blocks = tuple(BiDimensionalBlock(config, one) for one in block_keys)
        final = nets.uniform((width, width, 1), "silu", final_key)
        self.final = eqx.tree_at(lambda net: net.weights[-1], final, jnp.zeros((width, 1)))

    def __call__(
        self,
        values: Float[Array, " k"],
        x: Float[Array, "k d"],
        t: Int[Array, ""],
        mask: Bool[Array, " k"],
    ) -> Float[Array, " k"]:
        """The noise predicted at every point; points outside the mask say nothing to others."""
        pairs = jnp.stack([x, jnp.broadcast_to(values[:, None], x.shape)], axis=-1)
        tokens = jax.nn.gelu(self.embed(pairs))
        time = self.time(embed_step(t, tokens.shape[-1]))
        skips: Sequence[Float[Array, "k d e"]] = ()
        for block in self.blocks:
            tokens, skip = block(tokens, time, mask)
            skips = (*skips, skip)
        summed = sum(skips) / np.sqrt(len(skips))
        return self.final(jnp.mean(summed, axis=1))[:, 0]


def embed_step(t: Int[Array, ""], width: int) -> Float[Array, " e"]:
    """Sines and cosines of the step at frequencies from 1 down to 1 / 10,000."""
    frequencies = _SLOWEST ** -np.linspace(0, 1, width // 2, dtype=np.float32)
    phase = t * frequencies
    return jnp.concatenate([jnp.sin(phase), jnp.cos(phase)])


def _linear(inputs: int, outputs: int, key: PRNGKeyArray) -> MLP:
    return nets.uniform((inputs, outputs), "silu", key)
