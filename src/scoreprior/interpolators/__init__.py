"""Interpolators: from each task's few points to p(f_i | D_i), function draws at any measurement set."""

from scoreprior.interpolators._base import FittedInterpolator, Interpolator, heldout_crps, tune
from scoreprior.interpolators.deterministic import DeterministicInterpolator
from scoreprior.interpolators.dropout import DropoutInterpolator
from scoreprior.interpolators.ensemble import EnsembleInterpolator
from scoreprior.interpolators.gp import GPInterpolator, MaternInterpolator, condition_each

__all__ = [
    "DeterministicInterpolator",
    "DropoutInterpolator",
    "EnsembleInterpolator",
    "FittedInterpolator",
    "GPInterpolator",
    "Interpolator",
    "MaternInterpolator",
    "condition_each",
    "heldout_crps",
    "tune",
]
