"""Linear layers, multi-head self-attention and the residual block of the score network.

Besides the forward pass every layer knows how k tangents, one per function value, pass through it. Before
the first attention tangent j lives on token j alone, and of the last block's output only token j of tangent j
is asked for, so the trace of the network's Jacobian costs far less than k forward-mode passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

if TYPE_CHECKING:
    from scoreprior.scores.network import NetworkConfig

T = TypeVar("T")
_TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a unit normal truncated to [-2, 2]."""


@eqx.filter_jit
def randomise(tree: T, key: PRNGKeyArray) -> T:
    """Every leaf times unit-variance truncated normals; one draw, as a draw per leaf is slow to compile."""
    leaves, structure = jax.tree.flatten(tree)
    noise = jax.random.truncated_normal(key, -2.0, 2.0, (sum(leaf.size for leaf in leaves),)) / _TRUNCATED_STD
    parts = jnp.split(noise, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(structure, [leaf * part.reshape(leaf.shape) for leaf, part in zip(leaves, parts)])


class Linear(eqx.Module):
    """x W + b, for p matrices W (in, out) side by side where `stack` = p > 1.

    The weight is stored with its narrow side first, as W or as W^T: the gradient's matrix product then
    transposes the narrow one of its two long operands. `singular` (p, out) holds directions along the leading
    left singular vectors of the maps W^T; it is state of `spectral`, None where a layer is never normalised.
    """

    weight: Float[Array, "narrow wide"]
    bias: Float[Array, " p*out"]
    singular: Float[Array, "p out"] | None
    transposed: bool = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, *, scale: float = 1.0, stack: int = 1, normalisable: bool = True):
        """Leaves hold the standard deviations sqrt(scale / in) of their initial values; `randomise` draws."""
        self.transposed = inputs > stack * outputs
        shape = (stack * outputs, inputs) if self.transposed else (inputs, stack * outputs)
        self.weight = np.full(shape, (scale / inputs) ** 0.5, np.float32)  # type: ignore[assignment]
        self.bias = np.zeros(stack * outputs, np.float32)  # type: ignore[assignment]
        self.singular = np.ones((stack, outputs), np.float32) if normalisable else None  # type: ignore[assignment]

    def __call__(self, x: Float[Array, "*k in"]) -> Float[Array, "*k p*out"]:
        """The p results side by side, from one matrix product."""
        return self.linear(x) + self.bias

    def linear(self, x: Float[Array, "*k in"]) -> Float[Array, "*k p*out"]:
        """x W without the bias: how a tangent passes."""
        return x @ self.matrix

    @property
    def matrix(self) -> Float[Array, "in p*out"]:
        """The matrices W side by side."""
        return self.weight.T if self.transposed else self.weight


class AttentionTrace(eqx.Module):
    """What the forward pass leaves for the tangents: q, k, v, o (k, heads, c) and weights p (heads, i, j)."""

    query: Float[Array, "k h c"]
    key: Float[Array, "k h c"]
    value: Float[Array, "k h c"]
    output: Float[Array, "k h c"]
    weights: Float[Array, "h k k"]


class Attention(eqx.Module):
    """softmax(Q K^T / sqrt(c)) V W_o over several heads; Q and K may be read from other tokens than V."""

    projections: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, config: NetworkConfig):
        inner, scale = config.heads * config.key_size, config.attention_init_scale
        self.projections = Linear(config.embedding, inner, scale=scale, stack=3)
        self.out = Linear(inner, config.embedding, scale=scale)
        self.heads = config.heads

    def __call__(
        self,
        tokens: Float[Array, "k e"],
        addresses: Float[Array, "k e"] | None,
        there: Bool[Array, " k"] | None = None,
    ) -> tuple[Float[Array, "k e"], AttentionTrace]:
        """Attend: queries and keys from `addresses` (from `tokens` if None), values from `tokens` that are there."""
        projected = self.projections(tokens) if addresses is None else self._address(tokens, addresses)
        # Split, unlike slices, has a cheap transpose: one concatenation instead of three padded sums.
        query, key, value = (part.reshape(len(tokens), self.heads, -1) for part in jnp.split(projected, 3, axis=1))
        logits = jnp.einsum("ihc,jhc->hij", query * query.shape[-1] ** -0.5, key)
        weights = jax.nn.softmax(logits if there is None else jnp.where(there, logits, -1e9))
        output = jnp.einsum("hij,jhc->ihc", weights, value)
        return self.out(output.reshape(len(tokens), -1)), AttentionTrace(query, key, value, output, weights)

    def spread(self, trace: AttentionTrace, direction: Float[Array, " e"], addressed: bool) -> Float[Array, "k k e"]:
        """Tangents (j, i, e) of the output's token i when token j, and no other, moves along `direction`.

        With a = q dk, c = k dq (both over sqrt(c)) and d the move: token j changes as a key and value by
        p_ij (dv + a_i (v_j - o_i)) at every i, and as a query by sum_m p_jm c_m (v_m - o_j) at itself.
        """
        p, query, key, value = trace.weights, trace.query, trace.key, trace.value
        mix = self.out.matrix.reshape(*query.shape[1:], -1)
        moved = self._heads(self.projections.linear(direction), 3)
        by_token = jnp.einsum("hc,hce->he", moved[2], mix)
        if addressed:
            return jnp.einsum("hij,he->jie", p, by_token)
        scale = query.shape[-1] ** -0.5
        as_key = jnp.einsum("ihc,hc->ih", query, moved[1]) * scale
        as_query = jnp.einsum("mhc,hc->mh", key, moved[0]) * scale
        at_query = by_token - as_key[..., None] * jnp.einsum("ihc,hce->ihe", trace.output, mix)
        at_key = jnp.einsum("jhc,hce->jhe", value, mix)
        spread = jnp.einsum("hij,ihe->jie", p, at_query)
        spread = spread + jnp.einsum("hij,ih,jhe->jie", p, as_key, at_key)
        mean = jnp.einsum("him,mh->ih", p, as_query)
        own = jnp.einsum("him,mhc->ihc", p, as_query[..., None] * value) - mean[..., None] * trace.output
        return spread + _on_diagonal(self.out.linear(own.reshape(len(own), -1)))

    def carry(self, trace: AttentionTrace, tangents: Float[Array, "k k e"], addressed: bool) -> Float[Array, "k k e"]:
        """Tangents of the output for tangents (j, i, e) of the tokens."""
        moved = self._heads(self.projections.linear(tangents), 3)
        change = jnp.einsum("him,jmhc->jihc", trace.weights, moved[:, :, 2])
        if not addressed:
            scale = trace.query.shape[-1] ** -0.5
            logits = jnp.einsum("jihc,mhc->jhim", moved[:, :, 0], trace.key)
            logits = (logits + jnp.einsum("ihc,jmhc->jhim", trace.query, moved[:, :, 1])) * scale
            change = change + jnp.einsum("jhim,mhc->jihc", _softmax_tangent(trace.weights, logits), trace.value)
        return self.out.linear(change.reshape(*tangents.shape[:2], -1))

    def gather(self, trace: AttentionTrace, tangents: Float[Array, "k k e"], addressed: bool) -> Float[Array, "k e"]:
        """Token j of tangent j of the output, (j, e), for tangents (j, i, e) of the tokens.

        One query per tangent: the key and value matrices act on k tokens rather than k^2 tangents.
        """
        p, matrices = trace.weights, self._heads(self.projections.matrix, 3)
        to_query, to_key, to_value = matrices[:, 0], matrices[:, 1], matrices[:, 2]
        change = jnp.einsum("hjm,jme->jhe", p, tangents)
        change = jnp.einsum("jhe,ehc->jhc", change, to_value)
        if not addressed:
            scale = trace.query.shape[-1] ** -0.5
            own = jnp.einsum("jje,ehc->jhc", tangents, to_query)
            seen = jnp.einsum("jhc,ehc->jhe", trace.query, to_key)
            logits = jnp.einsum("jhc,mhc->hjm", own, trace.key) + jnp.einsum("jhe,jme->hjm", seen, tangents)
            change = change + jnp.einsum("hjm,mhc->jhc", _softmax_tangent(p, logits * scale), trace.value)
        return self.out.linear(change.reshape(len(change), -1))

    def _heads(self, projected: Float[Array, "*k phc"], stack: int) -> Float[Array, "*k p h c"]:
        return projected.reshape(*projected.shape[:-1], stack, self.heads, -1)

    def _address(self, tokens: Float[Array, "k e"], addresses: Float[Array, "k e"]) -> Float[Array, "k 3*h*c"]:
        """Queries and keys of the addresses, values of the tokens, side by side."""
        pair, value = jnp.split(self.projections.matrix, [2 * len(self.out.matrix)], axis=1)
        return jnp.concatenate([addresses @ pair, tokens @ value], axis=1) + self.projections.bias


class Block(eqx.Module):
    """Residual attention, then a residual position-wise network with one ELU layer; no layer norm."""

    attention: Attention
    hidden: Linear
    output: Linear

    def __init__(self, config: NetworkConfig):
        width = config.widening * config.embedding
        self.attention = Attention(config)
        self.hidden = Linear(config.embedding, width)
        self.output = Linear(width, config.embedding)

    def __call__(
        self,
        tokens: Float[Array, "k e"],
        addresses: Float[Array, "k e"] | None,
        there: Bool[Array, " k"] | None = None,
    ) -> tuple[Float[Array, "k e"], tuple[AttentionTrace, Float[Array, "k w"]]]:
        """The tokens after the block, and what tangents through it need."""
        attended, trace = self.attention(tokens, addresses, there)
        tokens = tokens + attended
        before = self.hidden(tokens)
        return tokens + self.output(elu(before)), (trace, elu_slope(before))

    def feed_tangents(self, slope: Float[Array, "k w"], tangents: Float[Array, "*j k e"]) -> Float[Array, "*j k e"]:
        """Tangents through the position-wise network."""
        return tangents + self.output.linear(slope * self.hidden.linear(tangents))


def elu(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """x where positive, exp(x) - 1 elsewhere; the plain difference is exact enough and faster than expm1."""
    return jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0.0)) - 1.0)


def elu_slope(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Derivative of `elu`."""
    return jnp.exp(jnp.minimum(x, 0.0))


def _softmax_tangent(p: Float[Array, "*s m"], change: Float[Array, "*s m"]) -> Float[Array, "*s m"]:
    return p * (change - jnp.sum(p * change, axis=-1, keepdims=True))


def _on_diagonal(rows: Float[Array, "k e"]) -> Float[Array, "k k e"]:
    return jnp.eye(len(rows), dtype=rows.dtype)[:, :, None] * rows
