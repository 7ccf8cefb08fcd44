"""A denoiser of function values with a noise level for every point, on top of a Gaussian process's exact denoiser.

Of k points at x some are known (noise 0), some are known up to noise, some are unknown (noise inf). With the anchor
y ~ N(m, C), C = K + sigma^2 I, and values v = y + S eps, S = diag(noise), the Gaussian posterior of every y_i is

    a = G^-1 (v - m),   G = C + S^2
    mean_i = v_i - s_i^2 a_i,    var_i = s_i^2 - s_i^4 G^-1_ii         known up to noise (Tweedie's formula)
    mean_i = m_i + C_i a,        var_i = C_ii - C_i G^-1 C_i^T         unknown

The network adds to the mean in units of that standard deviation, so a network that says nothing leaves the Gaussian
process, and answers with a mixture:

    y_i | v  ~  1/C sum_c N(mean_i + std_i r_ic, (std_i exp(g_ic))^2)

Its mean is the denoiser D(v, x, noise), and (D - v) / noise^2 the score of the noised marginal: the same network gives
the prior's score and, with known points beside, the posterior's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scoreprior._linalg import cholesky, mask_gram, solve_cholesky, solve_lower
from scoreprior._settings import check_counts, check_positive
from scoreprior.gp.process import GaussianProcess
from scoreprior.predictive import Mixture
from scoreprior.scores.encoder import Encoder

_VALUE_REACH = 3.0
"""Standardised deviation from the anchor's mean beyond which the network sees little difference."""
_LOG_SCALES = (-4.0, 3.0)
"""Bounds of the logarithms of factors on the anchor's standard deviation."""
_FEATURES = 6


@dataclass(frozen=True)
class DenoiserConfig:
    """The network of a denoiser.

    Args:
        embedding: width of the tokens.
        blocks: of self-attention and a position-wise network.
        heads: of the attention.
        components: Gaussians of the mixture that answers.
        frequencies: random Fourier features of the inputs, fixed.
        bandwidth: typical frequency of these, in radians per standardised unit.
    """

    embedding: int = 64
    blocks: int = 3
    heads: int = 4
    components: int = 8
    frequencies: int = 16
    bandwidth: float = 2.0

    def __post_init__(self) -> None:
        check_counts(self, "embedding", "blocks", "heads", "components", "frequencies")
        check_positive(self, "bandwidth")
        if self.embedding % self.heads:
            raise ValueError(f"embedding must be a multiple of heads ({self.heads}), not {self.embedding}.")


class Points(NamedTuple):
    """k points of one task: inputs, values, noise of each, and where a value is there at all."""

    x: Float[Array, "k d"]
    values: Float[Array, " k"]
    noise: Float[Array, " k"]
    there: Bool[Array, " k"]


class Denoiser(eqx.Module):
    """The anchor's exact denoiser, and a network that corrects it."""

    anchor: GaussianProcess
    encoder: Encoder
    frequencies: Float[Array, "d f"]
    components: int = eqx.field(static=True)

    def __init__(self, anchor: GaussianProcess, dim: int, config: DenoiserConfig, key: PRNGKeyArray):
        frequency_key, encoder_key = jax.random.split(key)
        self.anchor = replace(anchor, tails=jnp.ones(1), scale=None)  # the closed form's are not used here
        # From slow to fast, a factor of twelve apart: one bandwidth would see either trends or edges.
        spread = config.bandwidth * np.exp(np.linspace(-1.5, 1.0, config.frequencies))
        self.frequencies = jax.random.normal(frequency_key, (dim, config.frequencies)) * spread
        features = dim + 2 * config.frequencies + _FEATURES
        self.encoder = Encoder(
            features, 2 * config.components, config.embedding, config.blocks, config.heads, encoder_key
        )
        self.components = config.components

    def __call__(self, points: Points, observed: int | None = None) -> Mixture:
        """The mixture of each value y_i, locs and scales of shape (components, k).

        Args:
            points: of one task.
            observed: only the first so many may have a value; saves computation where there are many others.
        """
        mean, std, prior_mean, prior_std = gaussian_denoiser(self.anchor, points, observed)
        deviation = (points.values - prior_mean) / (_VALUE_REACH * prior_std)
        exact = points.there & (points.noise == 0)
        tokens = [
            jnp.where(points.there, _VALUE_REACH * jnp.tanh(deviation), 0.0),
            (mean - prior_mean) / prior_std,
            jnp.log(std / prior_std + 1e-3),
            jnp.where(points.there, jnp.log(points.noise + 1e-2), 2.0),
            exact.astype(mean.dtype),
            points.there.astype(mean.dtype),
        ]
        phase = points.x @ jax.lax.stop_gradient(self.frequencies)
        features = jnp.concatenate([points.x, jnp.sin(phase), jnp.cos(phase), jnp.stack(tokens, axis=1)], axis=1)
        # Points without a value say nothing to others: a prediction does not depend on what else is asked.
        shift, log_factor = jnp.split(self.encoder(features, points.there), 2, axis=1)
        start_shift, start_log_factor = _start(self.components)
        factor = jnp.exp(jnp.clip(log_factor + start_log_factor, *_LOG_SCALES))
        return Mixture(mean + std * (shift + start_shift).T, std * factor.T)

    def score(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, " k"]:
        """(D(f, x, noise) - f) / noise^2: the score of the noised marginal, for a noise above 0."""
        level = jnp.broadcast_to(noise, f.shape)
        denoised = self(Points(x, f, level, jnp.ones(len(f), bool)))
        return (jnp.mean(denoised.locs, axis=0) - f) / level**2


class DenoiserEnsemble(eqx.Module):
    """Several denoisers as one: the equally weighted mixture of theirs.

    Args:
        members: one denoiser whose arrays have a leading axis, the number of members.
    """

    members: Denoiser

    @classmethod
    def of(cls, denoisers: Sequence[Denoiser]) -> DenoiserEnsemble:
        """The ensemble of denoisers that differ in their arrays only."""
        return cls(jax.tree.map(lambda *leaves: jnp.stack(leaves), *denoisers))

    @property
    def anchor(self) -> GaussianProcess:
        """That of the first member."""
        return jax.tree.map(lambda leaf: leaf[0], self.members.anchor)

    def __call__(self, points: Points, observed: int | None = None) -> Mixture:
        """The mixture of each value y_i, locs and scales of shape (members * components, k)."""
        mixtures = jax.vmap(lambda member: member(points, observed))(self.members)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), mixtures)


def _start(components: int) -> tuple[Float[np.ndarray, " c"], float]:
    """Shifts and the log factor of components that together have the anchor's mean and variance."""
    shifts = 1.3 * np.linspace(-1, 1, components, dtype=np.float32) if components > 3 else np.zeros(components)
    return shifts.astype(np.float32), float(0.5 * np.log(1 - np.mean(shifts**2)))


def gaussian_denoiser(
    anchor: GaussianProcess, points: Points, observed: int | None = None
) -> tuple[Float[Array, " k"], Float[Array, " k"], Float[Array, " k"], Float[Array, " k"]]:
    """Posterior mean and standard deviation of every y_i under the anchor, and those of its prior.

    Only the first `observed` points may have a value.
    """
    n = len(points.x) if observed is None else observed
    x, there, white = points.x[:n], points.there[:n], anchor.noise_std**2
    noise = jnp.where(there, points.noise[:n], 0.0)
    mean, prior_variance = anchor.mean(points.x), anchor.kernel.diagonal(points.x) + white
    values = jnp.where(there, points.values[:n], mean[:n])
    cross = jnp.where(there[None, :], anchor.kernel(points.x, x), 0.0)
    gram = anchor.kernel(x, x) + (white + noise**2) * jnp.eye(n)
    factor = cholesky(mask_gram(gram, there))
    weights = solve_cholesky(factor, jnp.where(there, values - mean[:n], 0.0))
    precision = jnp.sum(solve_lower(factor, jnp.eye(n)) ** 2, axis=0)
    denoised = mean + cross @ weights
    variance = prior_variance - jnp.sum(solve_lower(factor, cross.T) ** 2, axis=0)
    denoised = denoised.at[:n].set(jnp.where(there, values - noise**2 * weights, denoised[:n]))
    variance = variance.at[:n].set(jnp.where(there, noise**2 - noise**4 * precision, variance[:n]))
    return denoised, jnp.sqrt(jnp.maximum(variance, 1e-8)), mean, jnp.sqrt(prior_variance)
