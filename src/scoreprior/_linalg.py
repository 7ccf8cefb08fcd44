"""The only place with Cholesky factors, jitter and masked solves.

Masked points become independent unit-variance points: they add nothing to a quadratic form over zeros and
nothing to a log determinant, so a ragged batch is one batch of equal matrices.
"""

from __future__ import annotations

import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Bool, Float

JITTER = 1e-5
"""Relative to the mean diagonal; about 100 times the single-precision round-off."""


def mask_gram(gram: Float[Array, "m m"], mask: Bool[Array, " m"]) -> Float[Array, "m m"]:
    """The Gram matrix with the rows and columns of masked points replaced by the identity's."""
    both = mask[:, None] & mask[None, :]
    return jnp.where(both, gram, jnp.eye(len(mask), dtype=gram.dtype))


def cholesky(gram: Float[Array, "m m"], jitter: float = JITTER) -> Float[Array, "m m"]:
    """Lower Cholesky factor of gram + jitter * mean(diag) * I."""
    scale = jnp.mean(jnp.diagonal(gram))
    return jnp.linalg.cholesky(gram + jitter * scale * jnp.eye(gram.shape[-1], dtype=gram.dtype))


def solve_lower(factor: Float[Array, "m m"], b: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    """L^-1 b."""
    return jsl.solve_triangular(factor, b, lower=True)


def solve_cholesky(factor: Float[Array, "m m"], b: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    """(L L^T)^-1 b."""
    return jsl.cho_solve((factor, True), b)


def gaussian_log_prob(
    residual: Float[Array, " m"], factor: Float[Array, "m m"], mask: Bool[Array, " m"]
) -> Float[Array, ""]:
    """log N(residual; 0, L L^T) over the real points; `factor` is of a masked Gram matrix, residual 0 where masked."""
    white = solve_lower(factor, residual)
    log_det = jnp.sum(jnp.where(mask, jnp.log(jnp.diagonal(factor)), 0.0))
    return -0.5 * jnp.sum(white**2) - log_det - 0.5 * jnp.sum(mask) * jnp.log(2 * jnp.pi)
