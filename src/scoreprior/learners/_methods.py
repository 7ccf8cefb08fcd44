"""Every method by name: `learner("pooled-gp")`. One row here, one file beside it; others by `register`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from scoreprior._registry import Registry
from scoreprior._saved_classes import add_classes
from scoreprior.learners._base import MetaLearner
from scoreprior.space import override

# name -> (module, how to build it there, what it is in one line)
_OWN: dict[str, tuple[str, str, str]] = {
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
    "stack": ("stack", "Stack", "both pooled processes and the last value, weighed by stacking"),
    "mars-gp": ("denoised_mars", "DenoisedMARS", "denoising networks on the hierarchical process, one pass per task"),
    "mars-fsvgd": (
        "denoised_mars",
        "DenoisedMARS.fsvgd",
        "the same, with networks as particles moved along the score by fSVGD",
    ),
    "mars-gp-paper": ("mars", "PlainMARS", "MARS-GP without an anchor: the paper's configuration, repaired"),
    "mars-bnn-paper": ("mars", "PlainMARS.dropout", "the same with MC-dropout interpolation"),
    "mars-gp-exact": ("mars", "PlainMARS.exact", "mars-gp-paper with the exact score of the interpolated process"),
    "interpolated-mixture": ("interpolated", "InterpolatedMixture", "the interpolated process's exact posterior"),
    "mars-gp-letter": ("mars", "PlainMARS.letter", "MARS-GP to the letter of the paper; slow"),
    "mars-no-spectral-letter": ("mars", "PlainMARS.letter_no_spectral", "the same without spectral normalisation"),
    "mars-gp-mean-letter": ("mars", "PlainMARS.letter_gp_mean", "the same on means of the interpolators"),
    "mars-nn-letter": ("mars", "PlainMARS.letter_nn", "the same, interpolated by one network per task"),
    "mars-ensemble-letter": ("mars", "PlainMARS.letter_ensemble", "the same, interpolated by an ensemble per task"),
    "mars-bnn-letter": ("mars", "PlainMARS.letter_dropout", "MARS-BNN to the letter of the paper; slow"),
    "mars-gauss": (
        "sampled_mars",
        "SampledMARS.gaussian",
        "MARS with the score of a shrunk Gaussian fitted at every measurement set",
    ),
    "mars-ssge": ("sampled_mars", "SampledMARS", "MARS with scores estimated by SSGE at every measurement set"),
    "mars-gauss-letter": ("sampled_mars", "SampledMARS.paper_gaussian", "mars-gauss to the letter of the paper"),
    "mars-ssge-letter": ("sampled_mars", "SampledMARS.paper", "mars-ssge to the letter of the paper"),
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
    "ndp": (
        "neural_diffusion_process",
        "NeuralDiffusionProcess",
        "diffusion model of a function's values, joint samples",
    ),
}


class _Method(NamedTuple):
    """How a method is built, and what it is."""

    build: Callable[[], MetaLearner]
    description: str


def _build(module: str, path: str) -> MetaLearner:
    """A method of this package; its module is imported only now."""
    build: Any = import_module(f"scoreprior.learners.{module}")
    for attribute in path.split("."):
        build = getattr(build, attribute)
    return build()


_METHODS = Registry(
    "method",
    {name: _Method(partial(_build, module, path), told) for name, (module, path, told) in _OWN.items()},
    reserved=("all", "auto", "oracle"),
)


def methods() -> dict[str, str]:
    """Name and one-line description of every method."""
    return {name: method.description for name, method in _METHODS.all().items()}


def learner(name: str, **overrides: Any) -> MetaLearner:
    """A method by name with its defaults, or with settings overridden; "training.steps" is one of a nested config."""
    return override(_METHODS[name].build(), overrides)


def method_of(learner: Any) -> str:
    """The registered name of a meta-learner of this package; with other settings, of the one it differs least from."""
    alike: dict[str, MetaLearner] = {}
    for name, (module, path, _) in _OWN.items():
        if type(learner).__module__ == f"scoreprior.learners.{module}":
            built = _build(module, path)
            if type(built) is type(learner):
                alike[name] = built

    def agreement(name: str) -> int:
        return sum(getattr(learner, each.name) == getattr(alike[name], each.name) for each in fields(learner))

    return max(alike, key=agreement, default=type(learner).__name__)


def register(name: str, build: Callable[[], MetaLearner], description: str, classes: Sequence[type] = ()) -> None:
    """Add a method from outside the package, so that its name works wherever a method's name does.

    Args:
        name: what `learner`, the command line and the benchmark call it; lower-case words with hyphens.
        build: called without arguments, returns the meta-learner with its defaults; the class itself will do.
        description: what it is, in one line.
        classes: what its priors are made of beside classes of this package, if they are to be saved: equinox modules
            and dataclasses, which files call "name/Class".
    """
    _METHODS.check(name, build)
    add_classes(name, classes)
    _METHODS.add(name, _Method(build, description), build)
