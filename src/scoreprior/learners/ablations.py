"""The paper's ablations of MARS (Tables 3, 4, 9, 10): one part of a configuration exchanged.

Every function changes our configuration; its `paper_` sibling changes the paper's. In ours a network that does not
predict held-out tasks better is left out, so ablations of the network or of what it is trained on often coincide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from scoreprior.interpolators import DeterministicInterpolator, EnsembleInterpolator, GPInterpolator
from scoreprior.learners.mars import MARS
from scoreprior.scores.gaussian import ShrunkGaussian
from scoreprior.scores.network import NetworkConfig
from scoreprior.scores.sampled import Estimator
from scoreprior.scores.ssge import ABLATION_BANDWIDTH
from scoreprior.scores.ssge import ssge as spectral_stein

Whole = Callable[[], MARS]


def ssge(whole: Whole = MARS) -> MARS:
    """Scores estimated by SSGE at every measurement set instead of learned; the paper fixes its bandwidth."""
    return _sampled(whole(), spectral_stein(None if whole is MARS else ABLATION_BANDWIDTH))


def gauss(whole: Whole = MARS) -> MARS:
    """The score of a Gaussian with the moments of the drawn functions, shrunk: what a network has to beat."""
    return _sampled(whole(), ShrunkGaussian())


def no_spectral(whole: Whole = MARS) -> MARS:
    """A score network without spectral normalisation."""
    return replace(whole(), network=NetworkConfig(normalisation="none"))


def gp_mean(whole: Whole = MARS) -> MARS:
    """The posterior means of the interpolating GPs instead of draws: their uncertainty is ignored."""
    return replace(whole(), interpolator=GPInterpolator(mode="pooled" if whole is MARS else "paper", mean_only=True))


def nn(whole: Whole = MARS) -> MARS:
    """Interpolation by one deterministic network per task."""
    return replace(whole(), interpolator=DeterministicInterpolator())


def ensemble(whole: Whole = MARS) -> MARS:
    """Interpolation by an ensemble of networks per task."""
    return replace(whole(), interpolator=EnsembleInterpolator())


paper_ssge = partial(ssge, MARS.paper)
paper_gauss = partial(gauss, MARS.paper)
paper_no_spectral = partial(no_spectral, MARS.paper)
paper_gp_mean = partial(gp_mean, MARS.paper)
paper_nn = partial(nn, MARS.paper)
paper_ensemble = partial(ensemble, MARS.paper)


def _sampled(whole: MARS, estimator: Estimator) -> MARS:
    return replace(whole, network=None, estimator=estimator, settle=0)
