"""Functional Bayesian inference for one new task: network particles, measurement distributions, fSVGD, fVI, SVGD."""

from scoreprior.inference._base import Inference, NeedsAllTasksError
from scoreprior.inference.anchored import AnchoredParticles, CentredParticles, ClosedFormDraws, WarmStart
from scoreprior.inference.average import Average
from scoreprior.inference.bnn import BNNConfig, Network, init_network, init_particles
from scoreprior.inference.closed_form import ClosedForm
from scoreprior.inference.fsvgd import FSVGDConfig, FSVGDHyper, predict
from scoreprior.inference.fvi import FVIConfig, FVIHyper
from scoreprior.inference.measurement import Box, DataDriven, MeasurementDistribution
from scoreprior.inference.particles import Particles, VariationalParticles
from scoreprior.inference.svgd import SVGDConfig, SVGDHyper, svgd_direction

__all__ = [
    "AnchoredParticles",
    "Average",
    "BNNConfig",
    "Box",
    "CentredParticles",
    "ClosedForm",
    "ClosedFormDraws",
    "DataDriven",
    "FSVGDConfig",
    "FSVGDHyper",
    "FVIConfig",
    "FVIHyper",
    "Inference",
    "MeasurementDistribution",
    "NeedsAllTasksError",
    "Network",
    "Particles",
    "SVGDConfig",
    "SVGDHyper",
    "VariationalParticles",
    "WarmStart",
    "init_network",
    "init_particles",
    "predict",
    "svgd_direction",
]
