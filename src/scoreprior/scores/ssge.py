"""The spectral Stein gradient estimator (Shi, Sun & Zhu, 2018): spectral cut-off with a diagonal RBF kernel.

    s(x) = sum_{j <= J} beta_j psi_j(x),   psi_j(x) = sqrt(n) / l_j sum_m u_jm k(x, x_m),
    beta_j = -1/n sum_m grad psi_j(x_m)

for the eigenpairs (l_j, u_j) of the Gram matrix; J is the smallest number that holds `mass` of their sum.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from scoreprior.scores.regression import KernelEstimator, SpectralCutoff

ABLATION_BANDWIDTH = 0.2
"""Of the paper's ablation (appendix A.1), in place of the median distance."""


def ssge(bandwidth: float | None = None, mass: float = 0.99) -> KernelEstimator:
    """SSGE; without a bandwidth, the median distance between samples."""
    return KernelEstimator(SpectralCutoff(mass), family="rbf", curl_free=False, bandwidth=bandwidth)


def spectral_score(draws: Float[Array, "S k"], mass: float = 0.99) -> Float[Array, "S k"]:
    """SSGE at its own draws, with the median bandwidth."""
    return ssge(mass=mass).fit(draws)(draws)
