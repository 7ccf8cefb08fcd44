"""Every score estimator by name: `estimator("ssge").fit(samples)(points)`.

Kernel bandwidths are the median distance between samples. Regularisations were chosen, one per estimator for all of
GP-2D, GP-3D, TP-2D and TP-3D, on measurement sets that no table reports (`scoreprior.reproduce.choose`).
"""

from __future__ import annotations

from scoreprior._registry import Registry
from scoreprior._saved_classes import add_classes, name_of
from scoreprior.scores.gaussian import Gaussian, ShrunkGaussian
from scoreprior.scores.regression import KernelEstimator, Landweber, NuMethod, Nystrom, SpectralCutoff, Tikhonov
from scoreprior.scores.sampled import Estimator
from scoreprior.scores.ssge import ssge

_OWN: dict[str, Estimator] = {
    "kef": KernelEstimator(Tikhonov(1e-2), "rbf", curl_free=True),
    "nkef": KernelEstimator(Nystrom(1e-2), "rbf", curl_free=True),
    "kef-cg-imq": KernelEstimator(Tikhonov(3e-2, solver="cg"), "imq", curl_free=True),
    "kef-cg-rbf": KernelEstimator(Tikhonov(1e-2, solver="cg"), "rbf", curl_free=True),
    "nu-method-imq": KernelEstimator(NuMethod(5e-2), "imq", curl_free=True),
    "nu-method-imqp": KernelEstimator(NuMethod(1e-1), "imqp", curl_free=True),
    "nu-method-rbf": KernelEstimator(NuMethod(1e-2), "rbf", curl_free=True),
    "landweber": KernelEstimator(Landweber(2e-2), "rbf", curl_free=True),
    "spectral-cutoff": KernelEstimator(SpectralCutoff(strength=1e-2), "rbf", curl_free=True),
    "ssge": ssge(),
    "stein": KernelEstimator(Tikhonov(5.6e-3), "rbf", curl_free=False),
    "gaussian": Gaussian(),
    "shrunk-gaussian": ShrunkGaussian(),
}


_ESTIMATORS = Registry("score estimator", _OWN)


def estimators() -> list[str]:
    """Names of all estimators that need samples alone."""
    return list(_ESTIMATORS.all())


def estimator(name: str) -> Estimator:
    """An estimator by name, with its default bandwidth and regularisation."""
    return _ESTIMATORS[name]


def register_estimator(name: str, estimator: Estimator) -> None:
    """Add an estimator from outside the package, a frozen dataclass; priors that hold it can then be saved."""
    _ESTIMATORS.check(name, estimator)
    if name_of(type(estimator)) is None:
        add_classes(name, (type(estimator),))
    _ESTIMATORS.add(name, estimator, estimator)
