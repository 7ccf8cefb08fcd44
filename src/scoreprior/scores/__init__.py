"""Scores of process marginals: learned, estimated from samples, and exact."""

from scoreprior.scores.estimators import estimator, estimators, register_estimator
from scoreprior.scores.exact import GaussianProcessScore, StudentTProcessScore
from scoreprior.scores.fitted_network import NetworkEstimator, elliptical_network
from scoreprior.scores.gaussian import Gaussian, ShrunkGaussian
from scoreprior.scores.kernels_vector import VectorKernel
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.scores.objectives import Denoising, ExactTrace, Sliced
from scoreprior.scores.regression import KernelEstimator, Landweber, NuMethod, Nystrom, SpectralCutoff, Tikhonov
from scoreprior.scores.sampled import SampledScore
from scoreprior.scores.ssge import ssge
from scoreprior.scores.whitened import Whitened

__all__ = [
    "Denoising",
    "ExactTrace",
    "Gaussian",
    "GaussianProcessScore",
    "KernelEstimator",
    "Landweber",
    "NetworkConfig",
    "NetworkEstimator",
    "NuMethod",
    "Nystrom",
    "SampledScore",
    "ScoreNetwork",
    "ShrunkGaussian",
    "Sliced",
    "SpectralCutoff",
    "StudentTProcessScore",
    "Tikhonov",
    "VectorKernel",
    "Whitened",
    "elliptical_network",
    "estimator",
    "estimators",
    "register_estimator",
    "ssge",
]
