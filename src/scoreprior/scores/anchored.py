"""A learned score with the tails of a Gaussian process, as prior files of versions up to 0.2 hold it.

    s(f, x, noise) = -(K + noise^2 I)^-1 (f - m) + network(m + squash(f - m), x, noise)

The first term is the closed-form score of the anchor's noised marginal and grows with |f - m|; the network sees a
squashed function, so what it adds is bounded: far from the training functions the Gaussian term dominates, and
particles return.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from scoreprior._types import Score
from scoreprior.gp.process import GaussianProcess


class AnchoredScore(eqx.Module):
    """The closed-form score of the anchor plus a bounded learned residual.

    Args:
        anchor: the Gaussian process whose score is corrected.
        residual: the correction, usually a `ScoreNetwork`.
        reach: standardised deviation from the anchor's mean beyond which the residual sees no difference.
    """

    anchor: GaussianProcess
    residual: Score
    reach: Float[Array, ""]

    def __call__(self, f: Float[Array, " k"], x: Float[Array, "k d"], noise: Float[Array, "*#k"]) -> Float[Array, " k"]:
        """The score at f (k,) on the measurement set x (k, d)."""
        mean = self.anchor.mean(x)
        squashed = mean + self.reach * jnp.tanh((f - mean) / self.reach)
        return self.anchor.score(f, x, noise) + self.residual(squashed, x, noise)
