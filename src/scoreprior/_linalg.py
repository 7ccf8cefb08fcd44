"""The only place with Cholesky factors, jitter and masked solves.

Masked points become independent unit-variance points: they add nothing to a quadratic form over zeros and
nothing to a log determinant, so a ragged batch is one batch of equal matrices.

Factors and triangular solves are our own. On the CPU, jaxlib 0.10 spreads a batch of LAPACK calls over the very threads
that run the program; two such batches at once wait for each other for ever (seen on two cores). A small matrix is a
loop over its rows; a larger one is cut in halves, down to small ones, and all between them is products of matrices,
which is where a processor is fast (benchmarks/factors.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

JITTER = 1e-5
"""Relative to the mean diagonal; about 100 times the single-precision round-off."""

_SMALL = 64
"""Up to this size a loop over rows. With 32, matrices of a hundred rows would be faster, and slower to compile."""


def mask_gram(gram: Float[Array, "m m"], mask: Bool[Array, " m"]) -> Float[Array, "m m"]:
    """The Gram matrix with the rows and columns of masked points replaced by the identity's."""
    both = mask[:, None] & mask[None, :]
    return jnp.where(both, gram, jnp.eye(len(mask), dtype=gram.dtype))


def cholesky(gram: Float[Array, "m m"], jitter: float = JITTER) -> Float[Array, "m m"]:
    """Lower Cholesky factor of gram + jitter * mean(diag) * I."""
    return _factor(_regular(gram, jitter))


def _regular(gram: Float[Array, "m m"], jitter: float) -> Float[Array, "m m"]:
    """gram + jitter * mean(diag) * I."""
    if jitter == 0:
        return gram
    # Not by `jnp.diagonal`, a gather whose gradient is a scatter: both are slow to compile.
    eye = jnp.eye(len(gram), dtype=gram.dtype)
    return gram + (jitter / len(gram) * jnp.sum(gram * eye)) * eye


def solve_lower(factor: Float[Array, "m m"], b: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    """L^-1 b."""
    return jax.lax.custom_linear_solve(
        lambda x: factor @ x,
        b,
        lambda _, b: _substitute(factor, b),
        transpose_solve=lambda _, b: _substitute_back(factor, b),
    )


def solve_upper(factor: Float[Array, "m m"], b: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    """L^-T b."""
    return jax.lax.custom_linear_solve(
        lambda x: factor.T @ x,
        b,
        lambda _, b: _substitute_back(factor, b),
        transpose_solve=lambda _, b: _substitute(factor, b),
    )


def solve_cholesky(factor: Float[Array, "m m"], b: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    """(L L^T)^-1 b."""
    return solve_upper(factor, solve_lower(factor, b))


def whitener(gram: Float[Array, "m m"], jitter: float = JITTER) -> Float[Array, "m m"]:
    """L^-1 of the factor L of gram + jitter * mean(diag) * I.

    Solves become products of matrices, which are faster, and whose gradients need no further loops over rows to compile
    and to run; they are less exact, which counts in single precision.
    """
    return _whiten(_regular(gram, jitter))


def _halves(gram: Float[Array, "m m"]) -> tuple[Float[Array, "m m"], Float[Array, "m m"]]:
    """L and L^-1; NaN where the matrix is not positive definite.

    With A = [[A1, B^T], [B, A2]]: L1 of A1, C = B L1^-T, L2 of A2 - C C^T, and
        L = [[L1, 0], [C, L2]],  L^-1 = [[L1^-1, 0], [-L2^-1 C L1^-1, L2^-1]].
    """
    if len(gram) <= _SMALL:
        return _rows(gram)
    half = len(gram) // 2
    first, first_inverse = _halves(gram[:half, :half])
    corner = gram[half:, :half]
    below = corner @ first_inverse.T
    # An inverse alone loses the digits that jitter needs in single precision; one step of refinement gets them back.
    below = below + (corner - below @ first.T) @ first_inverse.T
    second, second_inverse = _halves(gram[half:, half:] - below @ below.T)
    empty = jnp.zeros((half, len(gram) - half), gram.dtype)
    return (
        jnp.block([[first, empty], [below, second]]),
        jnp.block([[first_inverse, empty], [-(second_inverse @ below) @ first_inverse, second_inverse]]),
    )


def _rows(gram: Float[Array, "m m"]) -> tuple[Float[Array, "m m"], Float[Array, "m m"]]:
    """L and L^-1, whose row j is known as soon as column j of L is. XLA leaves out the one that nobody asks for."""
    eye, rows = jnp.eye(len(gram), dtype=gram.dtype), jnp.arange(len(gram))

    def step(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        factor, inverse = carry
        left = gram[:, j] - factor @ factor[j]
        pivot = jnp.sqrt(left[j])
        factor = factor.at[:, j].set(jnp.where(rows >= j, left / pivot, 0.0))
        return factor, inverse.at[j].set((eye[j] - factor[j] @ inverse) / pivot)

    return jax.lax.fori_loop(0, len(gram), step, (jnp.zeros_like(gram), jnp.zeros_like(gram)))


@jax.custom_jvp
def _factor(gram: Float[Array, "m m"]) -> Float[Array, "m m"]:
    return _halves(gram)[0]


@_factor.defjvp
def _factor_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """dL = L Phi(L^-1 dA L^-T), Phi the lower triangle with half its diagonal."""
    factor = _factor(primals[0])
    tangent = 0.5 * (tangents[0] + tangents[0].T)
    return factor, factor @ _lower(solve_lower(factor, solve_lower(factor, tangent).T))


def _lower(middle: Float[Array, "m m"]) -> Float[Array, "m m"]:
    return middle * jnp.asarray(np.tri(len(middle)) - 0.5 * np.eye(len(middle)), middle.dtype)


@jax.custom_jvp
def _whiten(gram: Float[Array, "m m"]) -> Float[Array, "m m"]:
    return _halves(gram)[1]


@_whiten.defjvp
def _whiten_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """dL^-1 = -Phi(L^-1 dA L^-T) L^-1."""
    inverse = _whiten(primals[0])
    tangent = 0.5 * (tangents[0] + tangents[0].T)
    return inverse, -_lower(inverse @ tangent @ inverse.T) @ inverse


def _substitute(factor: Float[Array, "m m"], b: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    if len(factor) > _SMALL:
        half = len(factor) // 2
        first = _substitute(factor[:half, :half], b[:half])
        return jnp.concatenate([first, _substitute(factor[half:, half:], b[half:] - factor[half:, :half] @ first)])

    def row(j: Array, x: Array) -> Array:
        return x.at[j].set((b[j] - factor[j] @ x) / factor[j, j])

    return jax.lax.fori_loop(0, len(b), row, jnp.zeros_like(b))


def _substitute_back(factor: Float[Array, "m m"], b: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    if len(factor) > _SMALL:
        half = len(factor) // 2
        last = _substitute_back(factor[half:, half:], b[half:])
        return jnp.concatenate([_substitute_back(factor[:half, :half], b[:half] - factor[half:, :half].T @ last), last])

    def row(i: Array, x: Array) -> Array:
        j = len(b) - 1 - i
        return x.at[j].set((b[j] - factor[:, j] @ x) / factor[j, j])

    return jax.lax.fori_loop(0, len(b), row, jnp.zeros_like(b))


def gaussian_log_prob(
    residual: Float[Array, " m"], gram: Float[Array, "m m"], mask: Bool[Array, " m"], jitter: float = JITTER
) -> Float[Array, ""]:
    """log N(residual; 0, gram + jitter) over the real points: gram masked by `mask_gram`, residual 0 where masked."""
    return _gaussian_log_prob(residual, _regular(gram, jitter), mask)


@jax.custom_jvp
def _gaussian_log_prob(residual: Array, gram: Array, mask: Array) -> Array:
    return _log_density(_whiten(gram), residual, mask)


def _log_density(inverse: Array, residual: Array, mask: Array) -> Array:
    """Of the residual, by the inverse of the covariance's factor."""
    log_det = jnp.sum(jnp.where(mask, jnp.log(jnp.diagonal(inverse)), 0.0))
    return log_det - 0.5 * jnp.sum((inverse @ residual) ** 2) - 0.5 * jnp.sum(mask) * jnp.log(2 * jnp.pi)


@_gaussian_log_prob.defjvp
def _gaussian_log_prob_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    """-b . dr + tr((b b^T - C^-1) dC) / 2 with b = C^-1 r: cheaper than the derivative of a factor."""
    residual, gram, mask = primals
    inverse = _whiten(gram)
    weights = inverse.T @ (inverse @ residual)
    slope = 0.5 * (weights[:, None] * weights[None, :] - inverse.T @ inverse)
    both = mask[:, None] & mask[None, :]
    tangent = jnp.sum(jnp.where(both, slope, 0.0) * tangents[1]) - weights @ tangents[0]
    return _log_density(inverse, residual, mask), tangent


class SharedEvidence(NamedTuple):
    """log p(y_1..n) under y_i = features_i w + N(0, blocks_i), w ~ N(0, I); and w's posterior N(mean, S S^T)."""

    log_prob: Float[Array, ""]
    mean: Float[Array, " r"]
    spread: Float[Array, "r r"]


def shared_evidence(
    blocks: Float[Array, "n m m"],
    features: Float[Array, "n m r"],
    y: Float[Array, "n m"],
    mask: Bool[Array, "n m"],
) -> SharedEvidence:
    """Evidence of tasks that share w; `blocks` are masked Gram matrices, `features` and `y` are 0 where masked."""
    parts = _shared_parts(blocks, features, y)
    return SharedEvidence(_shared_log_prob(parts, y, mask), parts.mean, parts.whitener.T)


@jax.custom_vjp
def shared_log_prob(
    blocks: Float[Array, "n m m"],
    features: Float[Array, "n m r"],
    y: Float[Array, "n m"],
    mask: Bool[Array, "n m"],
) -> Float[Array, ""]:
    """`shared_evidence(...).log_prob` with its gradient in closed form, cheaper than going through the factors.

    With C = blockdiag(blocks) + features features^T and b = C^-1 y the gradient in C is (b b^T - C^-1) / 2.
    """
    return _shared_log_prob(_shared_parts(blocks, features, y), y, mask)


def _shared_forward(blocks: Array, features: Array, y: Array, mask: Array) -> tuple[Array, tuple[Any, ...]]:
    parts = _shared_parts(blocks, features, y)
    return _shared_log_prob(parts, y, mask), (parts, features, mask)


def _shared_backward(saved: tuple[Any, ...], cotangent: Array) -> tuple[Array | None, ...]:
    parts, features, mask = saved
    solved = parts.white @ (parts.whitener.T @ parts.whitener)
    inverse = parts.inverse - parts.white @ jnp.swapaxes(solved, -1, -2)
    outer = parts.weights[:, :, None] * parts.weights[:, None, :]
    to_blocks = 0.5 * (outer - inverse)
    to_features = parts.weights[:, :, None] * jnp.einsum("nm,nmr->r", parts.weights, features) - solved
    both = mask[:, :, None] & mask[:, None, :]
    return (
        cotangent * jnp.where(both, to_blocks, 0.0),
        cotangent * jnp.where(mask[..., None], to_features, 0.0),
        -cotangent * parts.weights,
        None,
    )


shared_log_prob.defvjp(_shared_forward, _shared_backward)


class _SharedParts(NamedTuple):
    inverse: Float[Array, "n m m"]  # of every block
    log_diagonal: Float[Array, "n m"]  # of every block's factor
    white: Float[Array, "n m r"]  # block^-1 features
    whitener: Float[Array, "r r"]  # of I + sum_i features_i^T block_i^-1 features_i
    mean: Float[Array, " r"]
    weights: Float[Array, "n m"]  # C^-1 y


def _shared_parts(blocks: Array, features: Array, y: Array) -> _SharedParts:
    whiteners = jax.vmap(lambda block: whitener(block, 0.0))(blocks)
    inverse = jnp.swapaxes(whiteners, -1, -2) @ whiteners
    white = inverse @ features
    precision = jnp.einsum("nmr,nms->rs", features, white) + jnp.eye(features.shape[-1], dtype=features.dtype)
    root = whitener(precision, 1e-12)
    mean = root.T @ (root @ jnp.einsum("nmr,nm->r", white, y))
    weights = jnp.einsum("nml,nl->nm", inverse, y) - white @ mean
    return _SharedParts(inverse, -jnp.log(jnp.einsum("nmm->nm", whiteners)), white, root, mean, weights)


def _shared_log_prob(parts: _SharedParts, y: Array, mask: Array) -> Float[Array, ""]:
    return (
        -0.5 * jnp.sum(y * parts.weights)
        - jnp.sum(jnp.where(mask, parts.log_diagonal, 0.0))
        + jnp.sum(jnp.log(jnp.diagonal(parts.whitener)))
        - 0.5 * jnp.sum(mask) * jnp.log(2 * jnp.pi)
    )
