"""Files of format version 1, which Scoreprior 0.1 wrote, as version 2: a conversion of plain data.

Version 1 named classes by their import paths, and some had other fields. Nothing of a file is trusted here: what does
not look as 0.1 wrote it is refused, and what comes out is checked as any other file when it is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from scoreprior._trees import Arrays, TreeError

Node: TypeAlias = Any
"""Part of a file's tree: JSON, with {"class": name, "fields": {...}} for objects and {"jax": label} for arrays."""
Fields: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Fields, Arrays], Node]


# classes that only moved or were renamed
_RENAMED = {
    "inference.bnn:BNNConfig": "bnn-config",
    "inference.bnn:Network": "bnn",
    "inference.measurement:Box": "box",
    "inference.measurement:DataDriven": "data-driven",
    "inference.svgd:SVGDHyper": "svgd-hyper",
    "interpolators.deterministic:FittedDeterministic": "fitted-deterministic",
    "interpolators.dropout:FittedDropout": "fitted-dropout",
    "interpolators.ensemble:FittedEnsemble": "fitted-ensemble",
    "interpolators.gp:FittedGP": "fitted-gp",
    "kernels:Basis": "basis",
    "kernels:BasisMean": "basis-mean",
    "kernels:Linear": "linear",
    "kernels:LinearMean": "linear-mean",
    "kernels:Matern": "matern",
    "kernels:Sum": "sum",
    "kernels:Wave": "spectral-component",
    "kernels:ZeroMean": "zero-mean",
    "learners.bmaml:BMAMLPrior": "bmaml-prior",
    "learners.bmaml:Hyper": "bmaml-hyper",
    "learners.bmaml:Particle": "bmaml-particle",
    "learners.bnn:VanillaBNNPrior": "vanilla-bnn-prior",
    "learners.gaussian_process:VanillaGPPrior": "vanilla-gp-prior",
    "learners.maml:Initialisation": "maml-initialisation",
    "learners.maml:MAMLPrior": "maml-prior",
    "learners.mlap:MLAPPrior": "mlap-prior",
    "learners.mlap:WeightGaussian": "mlap-weights",
    "learners.naive:NaivePrior": "naive-prior",
    "learners.naive:_ContextMeanRule": "context-mean-rule",
    "learners.naive:_LastValueRule": "last-value-rule",
    "learners.naive:_NewestLagRule": "newest-lag-rule",
    "learners.naive:_RidgeRule": "ridge-rule",
    "learners.neural_process:Networks": "neural-process-networks",
    "learners.neural_process:NeuralProcessPrior": "neural-process-prior",
    "learners.pacoh_gp:GPPrior": "pacoh-gp-particle",
    "learners.pacoh_gp:PACOHGPPrior": "pacoh-gp-prior",
    "learners.pacoh_nn:PACOHNNPrior": "pacoh-nn-prior",
    "learners.pacoh_nn:Regressor": "pacoh-nn-regressor",
    "learners.pacoh_nn:WeightPrior": "pacoh-nn-weights",
    "scores.attention:Attention": "attention",
    "scores.attention:Block": "attention-block",
    "scores.attention:Linear": "attention-linear",
    "scores.gaussian:Gaussian": "gaussian-estimator",
    "scores.gaussian:ShrunkGaussian": "shrunk-gaussian-estimator",
    "scores.network:ScoreNetwork": "score-network",
    "scores.regression:KernelEstimator": "kernel-estimator",
    "scores.regression:Landweber": "landweber",
    "scores.regression:NuMethod": "nu-method",
    "scores.regression:Nystrom": "nystrom",
    "scores.regression:SpectralCutoff": "spectral-cutoff",
    "scores.regression:Tikhonov": "tikhonov",
    "scores.whitened:Whitened": "whitened-estimator",
    "tasks:Standardizer": "standardizer",
    "widths:Widths": "scale-calibration",
}


def convert(structure: Node, arrays: Arrays) -> tuple[Node, Arrays]:
    """The tree and the arrays of a version-1 prior as version 2 has them."""
    if sorted(_labels(structure)) != sorted(arrays):
        raise TreeError("its tree does not use each of its arrays once")
    known = dict(arrays)  # and those that rules add
    used: Arrays = {}

    def converted(label: str, fields: Fields) -> Node:
        place = label.removeprefix("scoreprior.")
        if place in _RENAMED:
            return _object(_RENAMED[place], **fields)
        if place in _RULES:
            return _RULES[place](fields, known)
        raise TreeError(f"it names {label[:80]!r}, which Scoreprior 0.1 did not write")

    def own(node: Node) -> Node:
        """An array for this place alone: rules may put one at several places."""
        kind, label = _array_of(node)
        unique = label
        while unique in used:
            unique += "'"
        used[unique] = known[label]
        return node | {kind: unique}

    tree = _rebuilt(structure, lambda node: node, converted)
    return _rebuilt(tree, own, lambda name, fields: _object(name, **fields)), used


def _rebuilt(node: Node, array: Callable[[Node], Node], made: Callable[[str, Fields], Node]) -> Node:
    """The tree with its arrays replaced and, from the leaves up, its objects."""
    match node:
        case None | bool() | int() | float() | str() | {"float": str()}:
            return node
        case list():
            return [_rebuilt(item, array, made) for item in node]
        case {"tuple": list(items)}:
            return {"tuple": [_rebuilt(item, array, made) for item in items]}
        case {"class": str(label), "fields": dict(fields)}:
            return made(label, {name: _rebuilt(item, array, made) for name, item in fields.items()})
    _array_of(node)
    return array(node)


def _array_of(node: Node) -> tuple[str, str]:
    """Kind and label of an array's node."""
    match node:
        case {"key": str(label), "impl": str()}:
            return "key", label
        case {"jax": str(label)} | {"numpy": str(label)} | {"scalar": str(label)} if len(node) == 1:
            return next(iter(node)), label
    raise TreeError(f"its tree holds something unknown, {str(node)[:40]!r}")


def _labels(node: Node) -> list[str]:
    """The arrays that a tree uses."""
    found: list[str] = []

    def note(node: Node) -> Node:
        found.append(_array_of(node)[1])
        return node

    _rebuilt(node, note, lambda name, fields: None)
    return found


def _network(activation: str) -> Rule:
    """Networks of three modules became one class, which says how its units are activated."""
    return lambda fields, arrays: _object("mlp", **fields, activation=activation)


def _config(name: str, *gone: str) -> Rule:
    """What is given beside the config is no longer in it."""
    return lambda fields, arrays: _object(name, **{field: fields[field] for field in fields if field not in gone})


def _hyper(name: str) -> Rule:
    """The temperature was 1 unless somebody asked for another."""

    def rule(fields: Fields, arrays: Arrays) -> Node:
        temperature = float(_array(fields.pop("temperature"), arrays))
        if temperature != 1:
            raise TreeError(f"its prior has the temperature {temperature:g}, and this Scoreprior knows none but 1")
        return _object(name, **fields)

    return rule


def _process(fields: Fields, arrays: Arrays) -> Node:
    return _object("gaussian-process", scale=fields.pop("widths", None), **fields)


def _conditioned(fields: Fields, arrays: Arrays) -> Node:
    if fields.get("surprise") is None:  # the first files have none; their processes make no use of it
        fields["surprise"] = _new(np.zeros(_array(fields["mask"], arrays).shape[:-1], np.float32), arrays)
    return _object("conditioned-process", **fields)


def _noised(name: str) -> Rule:
    """A score that knew its noise; the prior that holds it passes the noise on."""
    return lambda fields, arrays: {"noise": fields.pop("noise_std"), "score": _object(name, **fields)}


def _anchored_score(fields: Fields, arrays: Arrays) -> Node:
    """Taken apart by the prior that holds it."""
    return fields


def _pooled_prior(fields: Fields, arrays: Arrays) -> Node:
    inference = _averaged(_object("closed-form", process=fields["process"]), fields.get("second"))
    return _object("function-prior", standardizer=fields["standardizer"], inference=inference)


def _functional_prior(fields: Fields, arrays: Arrays) -> Node:
    fields["hyper"]["fields"]["noise_std"] = fields["noise_std"]
    shared = {name: fields[name] for name in ("measurement", "box", "hyper", "bnn")} | {"config": fields["inference"]}
    score, noise = fields["score"]["score"], fields["score"]["noise"]
    if fields["inference"]["class"] == "fvi-config":  # its noise is the hyper-parameter function_noise
        inference = _object("variational-particles", score=score, **shared)
    else:
        smoothing = _new(np.zeros((), np.float32), arrays)
        inference = _object("particles", score=score, levels=_levels(noise), smoothing=smoothing, **shared)
    return _object("function-prior", standardizer=fields["standardizer"], inference=inference)


def _mars_prior(fields: Fields, arrays: Arrays) -> Node:
    inference = _mars_inference(fields, arrays)
    notes = fields.get("notes")
    return _object("function-prior", standardizer=fields["standardizer"], inference=inference, notes=notes)


def _mars_inference(prior: Fields, arrays: Arrays) -> Node:
    """The inference that did what the fields of the prior said."""
    moved = {name: prior[name] for name in ("hyper", "smoothing")} | {"config": prior["inference"]}
    places = {name: prior[name] for name in ("measurement", "box", "bnn")}
    score = prior["score"]
    if "noise" in score:  # an estimator at every measurement set
        return _object("particles", score=score["score"], levels=_levels(score["noise"]), **places, **moved)
    network, process = score["network"], score["process"]
    levels = _levels(score["level"], score.get("coarse"))
    if process is None:
        return _object("particles", score=network, levels=levels, **places, **moved)
    warm_start = _warm_start(prior, arrays)
    anchor, moved = warm_start["fields"]["anchor"], moved | {"levels": levels, "warm_start": warm_start}
    if network is not None:
        residual = _object("anchored-score", anchor=anchor, residual=network, reach=score["reach"])
        return _object("anchored-particles", score=residual, **moved)
    if not prior.get("closed_form", False):
        own = _object("gaussian-process-score", mean=process["fields"]["mean"], kernel=process["fields"]["kernel"])
        return _object("anchored-particles", score=own, **moved)
    if process["fields"]["scale"] is not None:
        return _averaged(_object("closed-form-draws", warm_start=warm_start), prior.get("second"))
    return _averaged(_object("centred-particles", **moved), prior.get("second"))


def _warm_start(prior: Fields, arrays: Arrays) -> Node:
    if not prior["settle"]:
        raise TreeError("its particles start at random around a process (settle=0), which this Scoreprior cannot do")
    config, dim = prior["inference"]["fields"], len(_array(prior["box"]["fields"]["low"], arrays))
    points = 9 + 3 * dim if config["measurement_points"] is None else config["measurement_points"]
    # The noise of inference counted, which could differ from that of the process.
    anchor = prior["score"]["process"]["fields"] | {"noise_std": prior["hyper"]["fields"]["noise_std"]}
    return _object(
        "warm-start",
        anchor=_object("gaussian-process", **anchor),
        measurement=prior["measurement"],
        box=prior["box"],
        bnn=prior["bnn"],
        particles=config["particles"],
        points=2 * points,
        steps=prior["settle"],
    )


def _averaged(inference: Node, second: Node) -> Node:
    if second is None:
        return inference
    return _object("average", first=inference, second=_object("closed-form", process=second))


def _levels(fine: Node, coarse: Node = None) -> Node:
    return _object("noise-levels", fine=fine, coarse=coarse)


def _object(name: str, **fields: Any) -> Node:
    return {"class": name, "fields": fields}


def _new(array: np.ndarray, arrays: Arrays) -> Node:
    label = f"new {len(arrays)}"
    arrays[label] = array
    return {"jax": label}


def _array(node: Node, arrays: Arrays) -> np.ndarray:
    return arrays[_array_of(node)[1]]


_RULES: dict[str, Rule] = {
    "inference.fsvgd:FSVGDConfig": _config("fsvgd-config", "noise_std", "temperature"),
    "inference.fsvgd:FSVGDHyper": _hyper("fsvgd-hyper"),
    "inference.fvi:FVIConfig": _config("fvi-config", "noise_std", "temperature"),
    "inference.fvi:FVIHyper": _hyper("fvi-hyper"),
    "inference.svgd:SVGDConfig": _config("svgd-config", "noise_std"),
    "interpolators._mlp:MLP": _network("leaky_relu"),
    "learners.functional_bnn:FunctionalPrior": _functional_prior,
    "learners.gaussian_process:PooledGPPrior": _pooled_prior,
    "learners.mars_prior:MARSPrior": _mars_prior,
    "learners.neural_process:MLP": _network("silu"),
    "learners.pacoh_gp:TanhNetwork": _network("tanh"),
    "process:Conditioned": _conditioned,
    "process:GaussianProcess": _process,
    "scores.anchored:AnchoredScore": _anchored_score,
    "scores.exact:GaussianProcessScore": _noised("gaussian-process-score"),
    "scores.sampled:SampledScore": _noised("sampled-score"),
}
