"""The classes that files may hold, by the names that files know them by.

A file never has an import path in it: it can name nothing but what is listed here or was registered from outside, and
a class may move or be renamed as long as its row here follows. Names in this table are never reused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from scoreprior import _plugins

# name in files -> module:class within this package; a module is imported when a file needs it
CLASSES = {
    # tasks
    "standardizer": "tasks.standardizer:Standardizer",
    "real": "tasks.target_kinds:Real",
    "positive": "tasks.target_kinds:Positive",
    "bounded": "tasks.target_kinds:Bounded",
    "binary-rate": "tasks.target_kinds:BinaryRate",
    "count": "tasks.target_kinds:Count",
    "identity-warp": "tasks.warp:Identity",
    "log-warp": "tasks.warp:Log",
    "logit-warp": "tasks.warp:Logit",
    "input-encoding": "tasks.encoding:InputEncoding",
    "number-input": "tasks.input_kinds:NumberInput",
    "date-input": "tasks.input_kinds:DateInput",
    "category-input": "tasks.input_kinds:CategoryInput",
    "channel-scales": "tasks.channels:ChannelScales",
    "time-axis": "tasks.time_axis:TimeAxis",
    # Gaussian processes
    "gaussian-process": "gp.process:GaussianProcess",
    "conditioned-process": "gp.process:Conditioned",
    "scale-calibration": "gp.scale:ScaleCalibration",
    "matern": "gp.kernels:Matern",
    "linear": "gp.kernels:Linear",
    "spectral-component": "gp.kernels:SpectralComponent",
    "amplitude": "gp.amplitude:Amplitude",
    "modulated": "gp.amplitude:Modulated",
    "basis": "gp.kernels:Basis",
    "sum": "gp.kernels:Sum",
    "zero-mean": "gp.kernels:ZeroMean",
    "linear-mean": "gp.kernels:LinearMean",
    "basis-mean": "gp.kernels:BasisMean",
    # interpolators
    "fitted-gp": "interpolators.gp:FittedGP",
    "fitted-dropout": "interpolators.dropout:FittedDropout",
    "fitted-ensemble": "interpolators.ensemble:FittedEnsemble",
    "fitted-deterministic": "interpolators.deterministic:FittedDeterministic",
    # scores
    "score-network": "scores.network:ScoreNetwork",
    "attention": "scores.attention:Attention",
    "attention-block": "scores.attention:Block",
    "attention-linear": "scores.attention:Linear",
    "anchored-score": "scores.anchored:AnchoredScore",
    "gaussian-process-score": "scores.exact:GaussianProcessScore",
    "student-t-process-score": "scores.exact:StudentTProcessScore",
    "sampled-score": "scores.sampled:SampledScore",
    "noised-score": "scores.noised:NoisedScore",
    "gaussian-tails": "scores.noised:Tails",
    "process-mixture": "interpolators.mixture:ProcessMixture",
    "noise-levels": "scores.levels:NoiseLevels",
    "denoiser": "scores.denoiser:Denoiser",
    "denoiser-ensemble": "scores.denoiser:DenoiserEnsemble",
    "encoder": "scores.encoder:Encoder",
    "encoder-block": "scores.encoder:EncoderBlock",
    "diffusion": "scores.diffusion:Diffusion",
    "noise-predictor": "scores.bidimensional:NoisePredictor",
    "bidimensional-block": "scores.bidimensional:BiDimensionalBlock",
    # estimators of scores from samples
    "kernel-estimator": "scores.regression:KernelEstimator",
    "tikhonov": "scores.regression:Tikhonov",
    "nystrom": "scores.regression:Nystrom",
    "spectral-cutoff": "scores.regression:SpectralCutoff",
    "landweber": "scores.regression:Landweber",
    "nu-method": "scores.regression:NuMethod",
    "gaussian-estimator": "scores.gaussian:Gaussian",
    "shrunk-gaussian-estimator": "scores.gaussian:ShrunkGaussian",
    "whitened-estimator": "scores.whitened:Whitened",
    # inference
    "closed-form": "inference.closed_form:ClosedForm",
    "average": "inference.average:Average",
    "denoised": "inference.denoised:Denoised",
    "denoised-particles": "inference.denoised_particles:DenoisedParticles",
    "reverse-diffusion": "inference.reverse_diffusion:ReverseDiffusion",
    "exact-mixture": "interpolators.exact_posterior:ExactMixture",
    "particles": "inference.particles:Particles",
    "variational-particles": "inference.particles:VariationalParticles",
    "anchored-particles": "inference.anchored:AnchoredParticles",
    "centred-particles": "inference.anchored:CentredParticles",
    "closed-form-draws": "inference.anchored:ClosedFormDraws",
    "warm-start": "inference.anchored:WarmStart",
    "box": "inference.measurement:Box",
    "data-driven": "inference.measurement:DataDriven",
    "fsvgd-config": "inference.fsvgd:FSVGDConfig",
    "fsvgd-hyper": "inference.fsvgd:FSVGDHyper",
    "fvi-config": "inference.fvi:FVIConfig",
    "fvi-hyper": "inference.fvi:FVIHyper",
    "svgd-config": "inference.svgd:SVGDConfig",
    "svgd-hyper": "inference.svgd:SVGDHyper",
    "bnn-config": "inference.bnn:BNNConfig",
    "bnn": "inference.bnn:Network",
    # networks
    "mlp": "networks:MLP",
    # priors, and what only one method's prior has
    "function-prior": "learners._function_prior:FunctionPrior",
    "naive-prior": "learners.naive:NaivePrior",
    "last-value-rule": "learners.naive:_LastValueRule",
    "context-mean-rule": "learners.naive:_ContextMeanRule",
    "newest-lag-rule": "learners.naive:_NewestLagRule",
    "ridge-rule": "learners.naive:_RidgeRule",
    "vanilla-gp-prior": "learners.gaussian_process:VanillaGPPrior",
    "vanilla-bnn-prior": "learners.bnn:VanillaBNNPrior",
    "maml-prior": "learners.maml:MAMLPrior",
    "maml-initialisation": "learners.maml:Initialisation",
    "bmaml-prior": "learners.bmaml:BMAMLPrior",
    "bmaml-hyper": "learners.bmaml:Hyper",
    "bmaml-particle": "learners.bmaml:Particle",
    "mlap-prior": "learners.mlap:MLAPPrior",
    "mlap-weights": "learners.mlap:WeightGaussian",
    "neural-process-prior": "learners.neural_process:NeuralProcessPrior",
    "neural-process-networks": "learners.neural_process:Networks",
    "pacoh-gp-prior": "learners.pacoh_gp:PACOHGPPrior",
    "pacoh-gp-particle": "learners.pacoh_gp:GPPrior",
    "pacoh-nn-prior": "learners.pacoh_nn:PACOHNNPrior",
    "pacoh-nn-regressor": "learners.pacoh_nn:Regressor",
    "guarded-prior-tail": "learners.guarded:Tail",
    "guarded-prior": "learners.guarded:GuardedPrior",
    "stack-prior": "learners.stack:StackPrior",
    "pacoh-nn-weights": "learners.pacoh_nn:WeightPrior",
}

_outside: dict[str, type] = {}


class UnknownClassError(LookupError):
    """A file names what is not registered; the message says so."""


def class_of(name: str) -> type:
    """The class of this name in files."""
    if name in CLASSES:
        module, _, attribute = CLASSES[name].partition(":")
        return getattr(import_module(f"scoreprior.{module}"), attribute)
    if name not in _outside:
        _plugins.load()
    if name in _outside:
        return _outside[name]
    owner, slash, _ = name.partition("/")
    if slash and not any(known.startswith(f"{owner}/") for known in _outside):
        raise UnknownClassError(
            f"it was written with {owner[:80]!r}, which is not registered here; import the module that registers it "
            f"first, or name that module in {_plugins.VARIABLE}"
        )
    raise UnknownClassError(f"it names {name[:80]!r}, which is no registered class")


def name_of(cls: type) -> str | None:
    """The name of a class in files; None if it has none."""
    own = _NAMES.get(f"{cls.__module__}:{cls.__qualname__}")
    if own is not None and class_of(own) is cls:
        return own
    return next((name for name, each in _outside.items() if each is cls), None)


def add_classes(owner: str, classes: Sequence[type]) -> None:
    """Let files hold classes from outside this package, as "owner/Class"; all of them or none.

    A class that was registered under the same name before, from the same place, is replaced: modules get reloaded.
    """
    added: dict[str, type] = {}
    for cls in classes:
        if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
            raise ValueError(f"Files hold equinox modules and dataclasses; {cls!r} is neither.")
        name, known = f"{owner}/{cls.__name__}", name_of(cls)
        before: Any = added.get(name, _outside.get(name))
        if known not in (None, name):
            raise ValueError(f"{cls.__name__} is registered already: files know it as {known!r}.")
        if before is not None and _origin(before) != _origin(cls):
            raise ValueError(
                f"Files know another class of {before.__module__} as {name!r}; give this one another name."
            )
        if name in added:
            raise ValueError(f"{cls.__name__} is given twice.")
        added[name] = cls
    _outside.update(added)


def _origin(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


_NAMES = {f"scoreprior.{place}": name for name, place in CLASSES.items()}
