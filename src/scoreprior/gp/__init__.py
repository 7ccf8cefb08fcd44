"""Gaussian processes: kernels, the process, and one process fitted to all tasks together."""

from scoreprior.gp.amplitude import Amplitude, Modulated
from scoreprior.gp.config import ProcessConfig
from scoreprior.gp.fit import ProcessAverage, fit_average, fit_process
from scoreprior.gp.kernels import (
    Basis,
    BasisMean,
    Kernel,
    Linear,
    LinearMean,
    Matern,
    Mean,
    SpectralComponent,
    Sum,
    ZeroMean,
)
from scoreprior.gp.process import Conditioned, GaussianProcess
from scoreprior.gp.scale import ScaleCalibration

__all__ = [
    "Amplitude",
    "Basis",
    "BasisMean",
    "Conditioned",
    "GaussianProcess",
    "Kernel",
    "Linear",
    "LinearMean",
    "Matern",
    "Mean",
    "Modulated",
    "ProcessAverage",
    "ProcessConfig",
    "ScaleCalibration",
    "SpectralComponent",
    "Sum",
    "ZeroMean",
    "fit_average",
    "fit_process",
]
