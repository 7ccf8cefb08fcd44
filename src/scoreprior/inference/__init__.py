"""Functional Bayesian inference for one new task: network particles, measurement distributions, fSVGD, fVI, SVGD."""

from scoreprior.inference.bnn import BNNConfig, Network, init_network, init_particles
from scoreprior.inference.fsvgd import FSVGDConfig, FSVGDHyper, predict
from scoreprior.inference.fvi import FVIConfig, FVIHyper
from scoreprior.inference.measurement import Box, DataDriven, MeasurementDistribution
from scoreprior.inference.svgd import SVGDConfig, SVGDHyper, svgd_direction

__all__ = [
    "BNNConfig",
    "Box",
    "DataDriven",
    "FSVGDConfig",
    "FSVGDHyper",
    "FVIConfig",
    "FVIHyper",
    "MeasurementDistribution",
    "Network",
    "SVGDConfig",
    "SVGDHyper",
    "init_network",
    "init_particles",
    "predict",
    "svgd_direction",
]
