"""Every method by name: `learner("pooled-gp")`. One row here, one file beside it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from scoreprior.learners._base import MetaLearner, Posterior, Posteriors, Prior
from scoreprior.space import override

# name -> (module, how to build it there, what it is in one line)
_REGISTRY: dict[str, tuple[str, str, str]] = {
    "last-value": ("naive", "LastValue", "carry the last observation forward"),
    "context-mean": ("naive", "ContextMean", "the mean of the context's targets"),
    "newest-lag": ("naive", "NewestLag", "the newest lag, where inputs are lags of the target"),
    "ridge": ("naive", "Ridge", "linear regression shrunk towards the pooled one"),
    "vanilla-gp": ("gaussian_process", "VanillaGP", "RBF Gaussian process fitted to each task alone"),
    "pooled-gp": (
        "gaussian_process",
        "PooledGP",
        "one Gaussian process for all tasks, linear mean, ARD Matern",
    ),
    "hierarchical-gp": (
        "gaussian_process",
        "PooledGP.hierarchical",
        "one Gaussian process for all tasks, shared smooth mean, additive deviations",
    ),
    "mars-gp": (
        "anchored_mars",
        "AnchoredMARS",
        "learned score anchored to the hierarchical process, fSVGD; GP interpolation",
    ),
    "mars-bnn": ("anchored_mars", "AnchoredMARS.dropout", "the same with MC-dropout interpolation"),
    "mars-gp-paper": ("mars", "PlainMARS", "MARS-GP in the paper's configuration; slow"),
    "mars-bnn-paper": ("mars", "PlainMARS.dropout", "MARS-BNN in the paper's configuration; slow"),
    "mars-gauss": (
        "sampled_mars",
        "SampledMARS.gaussian",
        "MARS with the score of a shrunk Gaussian fitted at every measurement set",
    ),
    "mars-ssge": ("sampled_mars", "SampledMARS", "MARS with scores estimated by SSGE at every measurement set"),
    "mars-no-spectral": ("anchored_mars", "AnchoredMARS.no_spectral", "MARS without spectral normalisation"),
    "mars-gp-mean": (
        "anchored_mars",
        "AnchoredMARS.gp_mean",
        "MARS on the means of the interpolating GPs instead of draws",
    ),
    "mars-nn": ("anchored_mars", "AnchoredMARS.nn", "MARS with one deterministic network per task as interpolator"),
    "mars-ensemble": (
        "anchored_mars",
        "AnchoredMARS.ensemble",
        "MARS with an ensemble of networks per task as interpolator",
    ),
    "mars-gauss-paper": ("sampled_mars", "SampledMARS.paper_gaussian", "mars-gauss of the paper's configuration"),
    "mars-ssge-paper": ("sampled_mars", "SampledMARS.paper", "mars-ssge of the paper's configuration"),
    "mars-no-spectral-paper": ("mars", "PlainMARS.no_spectral", "mars-no-spectral of the paper's configuration"),
    "mars-gp-mean-paper": ("mars", "PlainMARS.gp_mean", "mars-gp-mean of the paper's configuration"),
    "mars-nn-paper": ("mars", "PlainMARS.nn", "mars-nn of the paper's configuration"),
    "mars-ensemble-paper": ("mars", "PlainMARS.ensemble", "mars-ensemble of the paper's configuration"),
    "vanilla-bnn": ("bnn", "VanillaBNN", "Bayesian network with a spherical Gaussian prior on its weights, SVGD"),
    "fbnn-gp": ("functional_bnn", "FunctionalBNN", "Bayesian network with a GP prior on its function, fSVGD"),
    "fbnn-gp-vi": ("functional_bnn", "FunctionalVI", "the same by functional variational inference"),
    "mlap": ("mlap", "MLAP", "Gaussian prior on network weights learned by a PAC-Bayes bound"),
    "maml": ("maml", "MAML", "one initialisation adapted by gradient steps, second order; a point predictor"),
    "bmaml": ("bmaml", "BMAML", "MAML with SVGD particles and the chaser loss"),
    "np": ("neural_process", "NeuralProcess", "latent neural process"),
    "pacoh-gp": ("pacoh_gp", "PACOHGP", "SVGD over a hyper-posterior of GP priors, network mean and features"),
    "pacoh-gp-map": ("pacoh_gp", "PACOHGP.map", "the mode of that hyper-posterior, one GP prior"),
    "pacoh-nn": ("pacoh_nn", "PACOHNN", "SVGD over Gaussian priors on network weights, then target SVGD"),
    "anp": ("neural_process", "NeuralProcess.attentive", "latent neural process with cross attention"),
}


def methods() -> dict[str, str]:
    """Name and one-line description of every method."""
    return {name: description for name, (_, _, description) in _REGISTRY.items()}


def learner(name: str, **overrides: Any) -> MetaLearner:
    """A method by name with its defaults, or with settings overridden; "training.steps" is one of a nested config."""
    if name not in _REGISTRY:
        raise ValueError(f"There is no method {name!r}; there are {', '.join(_REGISTRY)}.")
    module, path, _ = _REGISTRY[name]
    build: Callable[..., Any] = import_module(f"scoreprior.learners.{module}")  # type: ignore[assignment]
    for attribute in path.split("."):
        build = getattr(build, attribute)
    return override(build(), overrides)


__all__ = ["MetaLearner", "Posterior", "Posteriors", "Prior", "learner", "methods"]
