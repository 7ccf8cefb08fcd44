"""The permutation-equivariant score network s_phi(f^X, X) of MARS (the paper's section 5.1, appendix A.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._settings import check_choice, check_counts, check_positive
from scoreprior.scores.attention import Block, Linear, randomise

AttentionVariant = Literal["tokens", "inputs-as-keys", "separate-embeddings"]
Normalisation = Literal["spectral", "none"]


@dataclass(frozen=True)
class NetworkConfig:
    """Hyper-parameters of the score network.

    The paper grows the embedding with the input dimension and names 32, 8 heads and key size 16 for its
    one-dimensional example (appendix D.2). Here heads * key_size is the embedding, as in the vanilla encoder:
    on a Gaussian process's score it came as close as the larger projections, at half the time per step.
    """

    embedding: int = 32
    heads: int = 4
    key_size: int = 8
    blocks: int = 2  # the paper: 2
    widening: int = 4  # hidden width of the position-wise network over the embedding
    attention: AttentionVariant = "tokens"
    attention_init_scale: float = 2.0  # the paper: 2
    normalisation: Normalisation = "spectral"
    multiplier: float = 1.0  # spectral norm of every normalised layer; the paper: 1
    frequencies: int = 0  # frozen random Fourier features of x beside x, a cosine and a sine of each; the paper: 0

    def __post_init__(self) -> None:
        check_counts(self, "embedding", "heads", "key_size", "blocks", "widening")
        check_positive(self, "multiplier", "attention_init_scale")
        if not (isinstance(self.frequencies, int) and self.frequencies >= 0):
            raise ValueError(f"frequencies must be a whole number of at least 0, not {self.frequencies}.")
        check_choice("attention", self.attention, get_args(AttentionVariant))
        check_choice("normalisation", self.normalisation, get_args(Normalisation))


class ScoreNetwork(eqx.Module):
    """s_phi(f, x): a transformer encoder over the k measurement points, equivariant to their order.

    Tokens are embedded linearly, pass residual blocks of self-attention and a position-wise ELU network
    (without layer norm: the paper mentions none, and it would undo the bound of spectral normalisation), and a
    final linear layer that is never normalised. Any k; `dim=0` estimates the score of a distribution from
    exchangeable samples (appendix D.2). A noise-conditional network has the noise level as one more input. The forward
    pass takes weights as they are: see `spectral.normalise`.
    """

    embed_values: Linear
    embed_inputs: Linear | None
    blocks: tuple[Block, ...]
    final: Linear
    multiplier: Float[Array, ""] | None
    dim: int = eqx.field(static=True)
    attention: AttentionVariant = eqx.field(static=True)
    noise_conditional: bool = eqx.field(static=True)
    frequencies: Float[Array, "d w"] | None = None

    def __init__(
        self,
        dim: int,
        config: NetworkConfig,
        key: PRNGKeyArray,
        *,
        noise_conditional: bool = False,
        lengthscale: Float[Array, ""] | float = 1.0,
    ):
        """The lengthscale is that of the Fourier features, in standardised units of x."""
        if dim < 0 or (dim == 0 and config.attention != "tokens"):
            raise ValueError(f"{config.attention!r} attention needs inputs, but dim is {dim}.")
        values, inputs, width = 1 + noise_conditional, dim + 2 * config.frequencies * (dim > 0), config.embedding
        if config.attention == "tokens":
            layers: list[Linear | None] = [Linear(values + inputs, width), None]
        else:
            half = width // 2 if config.attention == "separate-embeddings" else 0
            layers = [Linear(values, width - half), Linear(inputs, half or width)]
        layers.append(Linear(width, 1, normalisable=False))
        blocks = tuple(Block(config) for _ in range(config.blocks))
        drawn, self.blocks = randomise((layers, blocks), key)
        self.embed_values, self.embed_inputs, self.final = drawn  # type: ignore[assignment]
        self.multiplier = jnp.float32(config.multiplier) if config.normalisation == "spectral" else None
        self.frequencies = None
        if inputs > dim:
            self.frequencies = _matern_frequencies(dim, config.frequencies, jax.random.fold_in(key, 1)) / lengthscale
        self.dim = dim
        self.attention = config.attention
        self.noise_conditional = noise_conditional

    def __call__(
        self,
        f: Float[Array, " k"],
        x: Float[Array, "k d"],
        noise: Float[Array, "*#k"] | None = None,
        there: Bool[Array, " k"] | None = None,
    ) -> Float[Array, " k"]:
        """The score at f (k,) on the measurement set x (k, d); only a noise-conditional network reads the level.

        Points that are not there do not influence the others.
        """
        tokens, addresses = self._embed(f, x, noise)
        for block in self.blocks:
            tokens, _ = block(tokens, addresses, there)
        return self.final(tokens)[:, 0]

    def value_and_divergence(
        self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"] | None = None
    ) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """The score (k,) and tr(grad_f s), exactly, several times cheaper than k forward-mode passes."""
        tokens, addresses = self._embed(f, x, noise)
        addressed = addresses is not None
        direction = self._value_direction()
        last = len(self.blocks) - 1
        tangents = direction
        for depth, block in enumerate(self.blocks):
            tokens, (trace, slope) = block(tokens, addresses)
            if depth == 0:
                eye = jnp.eye(len(f), dtype=f.dtype)[:, :, None]
                tangents = eye * direction + block.attention.spread(trace, direction, addressed)
                if last == 0:
                    tangents = jnp.einsum("jje->je", tangents)
            elif depth < last:
                tangents = tangents + block.attention.carry(trace, tangents, addressed)
            else:
                change = block.attention.gather(trace, tangents, addressed)
                tangents = jnp.einsum("jje->je", tangents) + change
            tangents = block.feed_tangents(slope, tangents)
        return self.final(tokens)[:, 0], jnp.sum(self.final.linear(tangents))

    def _embed(
        self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"] | None
    ) -> tuple[Float[Array, "k e"], Float[Array, "k e"] | None]:
        """Tokens, and the tokens that queries and keys are read from where these differ."""
        values = f[:, None]
        if self.noise_conditional:
            if noise is None:
                raise ValueError("This score network needs a noise level.")
            levels = jnp.broadcast_to(jnp.log(noise), f.shape)[:, None]
            values = jnp.concatenate([values, levels], axis=1)
        if self.frequencies is not None:
            angles = x @ jax.lax.stop_gradient(self.frequencies)
            x = jnp.concatenate([x, jnp.cos(angles), jnp.sin(angles)], axis=1)
        if self.embed_inputs is None:
            return self.embed_values(jnp.concatenate([values, x], axis=1)), None
        embedded, inputs = self.embed_values(values), self.embed_inputs(x)
        if self.attention == "inputs-as-keys":
            return embedded, inputs
        return jnp.concatenate([embedded, inputs], axis=1), None

    def _value_direction(self) -> Float[Array, " e"]:
        """How a token moves with its function value."""
        row = self.embed_values.matrix[0]
        if self.attention != "separate-embeddings" or self.embed_inputs is None:
            return row
        return jnp.concatenate([row, jnp.zeros(len(self.embed_inputs.bias), row.dtype)])


def _matern_frequencies(dim: int, count: int, key: PRNGKeyArray) -> Float[Array, "d w"]:
    """Draws from the spectral density of the Matern-5/2 kernel of lengthscale 1: a multivariate t with 5 degrees."""
    normal_key, scale_key = jax.random.split(key)
    scale = jnp.sqrt(jax.random.chisquare(scale_key, 5, (count,)) / 5)
    return jax.random.normal(normal_key, (dim, count)) / scale
