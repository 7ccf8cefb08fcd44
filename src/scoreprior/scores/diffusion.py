"""The forward process of denoising diffusion (Ho et al., 2020) with the cosine schedule of Nichol & Dhariwal (2021).

Values y_0 of a function lose their signal in T steps, each coordinate by itself:
    q(y_t | y_{t-1}) = N(sqrt(1 - beta_t) y_{t-1}, beta_t I),     q(y_t | y_0) = N(sqrt(abar_t) y_0, (1 - abar_t) I)
with abar_t the product of 1 - beta_s over s <= t. Given the noise eps in y_t = sqrt(abar_t) y_0 + sqrt(1 - abar_t) eps
that a network predicts, the reverse step is
    p(y_{t-1} | y_t) = N((y_t - beta_t / sqrt(1 - abar_t) eps) / sqrt(1 - beta_t), beta_t I),     the last one its mean.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

_OFFSET = 0.008
"""Nichol & Dhariwal's s: the first steps are not too small."""
_LARGEST_BETA = 0.5
"""As Dutordoir et al. (2023): no single step drowns the signal."""


class Diffusion(eqx.Module):
    """abar_t for t = 0, ..., T; abar_0 = 1."""

    alpha_bars: Float[Array, " T+1"]

    @classmethod
    def cosine(cls, steps: int) -> Diffusion:
        """abar_t proportional to cos^2((t / T + s) / (1 + s) pi / 2), where that makes no beta above 1/2."""
        place = np.arange(steps + 1) / steps
        signal = np.cos((place + _OFFSET) / (1 + _OFFSET) * np.pi / 2) ** 2
        betas = np.minimum(1 - signal[1:] / signal[:-1], _LARGEST_BETA)
        return cls(jnp.asarray(np.concatenate([[1.0], np.cumprod(1 - betas)]), jnp.float32))

    @property
    def steps(self) -> int:
        """T."""
        return len(self.alpha_bars) - 1

    def beta(self, t: Int[Array, ""]) -> Float[Array, ""]:
        """Variance of the noise of step t = 1, ..., T."""
        return 1 - self.alpha_bars[t] / self.alpha_bars[t - 1]

    def noised(self, y: Float[Array, " k"], t: Int[Array, ""], noise: Float[Array, " k"]) -> Float[Array, " k"]:
        """y_t from y_0 and standard normal noise, all steps at once."""
        signal = self.alpha_bars[t]
        return jnp.sqrt(signal) * y + jnp.sqrt(1 - signal) * noise

    def forward(self, y: Float[Array, " k"], t: Int[Array, ""], noise: Float[Array, " k"]) -> Float[Array, " k"]:
        """y_t from y_{t-1} and standard normal noise."""
        beta = self.beta(t)
        return jnp.sqrt(1 - beta) * y + jnp.sqrt(beta) * noise

    def reverse(
        self, y: Float[Array, " k"], predicted: Float[Array, " k"], t: Int[Array, ""], noise: Float[Array, " k"]
    ) -> Float[Array, " k"]:
        """y_{t-1} from y_t, the noise predicted in it, and standard normal noise."""
        beta = self.beta(t)
        mean = (y - beta / jnp.sqrt(1 - self.alpha_bars[t]) * predicted) / jnp.sqrt(1 - beta)
        return mean + jnp.where(t > 1, jnp.sqrt(beta), 0.0) * noise
