"""Score-matching objectives and the regularisers of the ablation, all with one signature.

An objective is `loss(score, f, x, key) -> scalar`; those of the process itself call score(f, x), the denoising ones
score(f, x, noise). Here f (b, k) the values of b functions and x (k, d) one
measurement set, or x (b, k, d) one per function. Its expectation over f ~ p is, up to a constant that does
not depend on the score,

    exact_trace, sliced      1/2 E ||s(f) - grad log p(f)||^2, the Fisher divergence of the process itself
    denoising                sigma^2 times the Fisher divergence of the noised process f + sigma eps
    noise_conditional        the mean of the above over log-uniform sigma
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, PRNGKeyArray

from scoreprior.scores.spectral import normalisable, norms

Functions: TypeAlias = Float[Array, "b k"]
Sets: TypeAlias = Float[Array, "*b k d"]
Objective: TypeAlias = Callable[[Any, Functions, Sets, PRNGKeyArray], Float[Array, ""]]


@runtime_checkable
class DivergenceScore(Protocol):
    """A score that gives the trace of its Jacobian along with its value."""

    def value_and_divergence(
        self, f: Float[Array, " k"], x: Float[Array, "k d"]
    ) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """s(f, x) and tr(grad_f s)."""


def exact_trace(score: DivergenceScore, f: Functions, x: Sets, key: PRNGKeyArray) -> Float[Array, ""]:
    """mean_i tr(grad_f s(f_i, x)) + 1/2 ||s(f_i, x)||^2 (eq. 2) of a score that knows its trace; no use of `key`."""
    return _trace_and_square(score.value_and_divergence, f, x)


def exact_trace_of_any(score: Any, f: Functions, x: Sets, key: PRNGKeyArray) -> Float[Array, ""]:
    """`exact_trace` of any score(f, x): the k directional derivatives share one linearisation; no use of `key`."""
    return _trace_and_square(Partial(_value_and_divergence, score), f, x)


def sliced(score: Any, f: Functions, x: Sets, key: PRNGKeyArray) -> Float[Array, ""]:
    """`exact_trace` with Hutchinson's estimate v^T (grad_f s) v of the trace, one Rademacher v a function."""
    probes = jax.random.rademacher(key, f.shape, f.dtype)

    def one(f_i: Array, x_i: Array, v: Array) -> Array:
        value, along = jax.jvp(lambda g: score(g, x_i), (f_i,), (v,))
        return v @ along + 0.5 * value @ value

    return jnp.mean(_map(one, f, x, probes))


def denoising(noise_std: float | Float[Array, ""]) -> Objective:
    """Objective 1/2 E ||sigma s(f + sigma eps, x) + eps||^2: the score of f + sigma eps, weighted by sigma^2.

    The weight keeps the loss of order k at every noise level. The noised process's score, which minimises it,
    grows by at most 1 / sigma^2 per unit of f even where the process itself is singular.
    """
    return Partial(_denoising, jnp.asarray(noise_std))


def noise_conditional(low: float | Float[Array, ""], high: float | Float[Array, ""]) -> Objective:
    """`denoising` of a score(f, x, noise) at levels drawn log-uniformly in [low, high], one per function."""
    return Partial(_noise_conditional, jnp.asarray(low), jnp.asarray(high))


def gradient_penalty(score: Any, f: Functions, x: Sets, key: PRNGKeyArray) -> Float[Array, ""]:
    """mean_i ||grad_f s(f_i, x)||_F^2, estimated as ||(grad_f s) v||^2 with one Rademacher v per function."""
    probes = jax.random.rademacher(key, f.shape, f.dtype)

    def one(f_i: Array, x_i: Array, v: Array) -> Array:
        return jnp.sum(jax.jvp(lambda g: score(g, x_i), (f_i,), (v,))[1] ** 2)

    return jnp.mean(_map(one, f, x, probes))


def spectral_penalty(score: Any, f: Functions, x: Sets, key: PRNGKeyArray) -> Float[Array, ""]:
    """1/2 sum of ||W||^2 over the network's normalisable layers, by their singular vectors; f, x, key unused.

    For a network with normalisation "none"; `spectral.power_iterate` it once per step.
    """
    return 0.5 * sum((jnp.sum(norms(layer) ** 2) for layer in normalisable(score)), jnp.zeros(()))


def regularised(loss: Objective, *terms: tuple[float | Float[Array, ""], Objective]) -> Objective:
    """The objective loss + sum of weight * term, each with its own key."""
    return Partial(_regularised, loss, [(jnp.asarray(weight), Partial(term)) for weight, term in terms])


def _denoising(noise_std: Array, score: Any, f: Functions, x: Sets, key: PRNGKeyArray) -> Float[Array, ""]:
    noise = jax.random.normal(key, f.shape, f.dtype)
    values = _map(lambda f_i, x_i: score(f_i, x_i, noise_std), f + noise_std * noise, x)
    return 0.5 * jnp.mean(jnp.sum((noise_std * values + noise) ** 2, axis=-1))


def _noise_conditional(
    low: Array, high: Array, score: Any, f: Functions, x: Sets, key: PRNGKeyArray
) -> Float[Array, ""]:
    level_key, noise_key = jax.random.split(key)
    levels = low * (high / low) ** jax.random.uniform(level_key, (len(f),), f.dtype)
    noise = jax.random.normal(noise_key, f.shape, f.dtype)
    values = _map(score, f + levels[:, None] * noise, x, levels)
    return 0.5 * jnp.mean(jnp.sum((levels[:, None] * values + noise) ** 2, axis=-1))


def _regularised(
    loss: Objective,
    terms: list[tuple[Array, Objective]],
    score: Any,
    f: Functions,
    x: Sets,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    keys = jax.random.split(key, len(terms) + 1)
    total = loss(score, f, x, keys[0])
    for (weight, term), term_key in zip(terms, keys[1:]):
        total = total + weight * term(score, f, x, term_key)
    return total


def _trace_and_square(divergence: Callable[..., Any], f: Functions, x: Sets) -> Float[Array, ""]:
    values, traces = _map(divergence, f, x)
    return jnp.mean(traces + 0.5 * jnp.sum(values**2, axis=-1))


def _value_and_divergence(score: Any, f: Float[Array, " k"], x: Float[Array, "k d"]) -> tuple[Array, Array]:
    """s(f, x) (k,) and tr(grad_f s) of any score."""
    value, push = jax.linearize(lambda g: score(g, x), f)
    return value, jnp.trace(jax.vmap(push)(jnp.eye(len(f), dtype=f.dtype)))


def _map(function: Callable[..., Any], f: Functions, x: Sets, *more: Array) -> Any:
    """The function of one (f, x, ...) over the batch; x (k, d) is shared."""
    return jax.vmap(function, in_axes=(0, 0 if x.ndim == 3 else None) + (0,) * len(more))(f, x, *more)
