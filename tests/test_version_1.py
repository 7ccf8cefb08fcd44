"""Files that Scoreprior 0.1 wrote load, and predict what 0.1 predicted (data/v0.1/make.py made both)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import scoreprior as sp
from scoreprior import inference, serialization
from scoreprior._saved_classes import CLASSES
from scoreprior._trees import TreeError, decode
from scoreprior._version_1 import convert
from scoreprior.inference import fsvgd
from scoreprior.inference.bnn import init_particles
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.serialization import describe, load_prior
from test_serialization import error_of, forge

FOLDER = Path(__file__).parent / "data" / "v0.1"
FILES = sorted(path.stem for path in FOLDER.glob("*.prior"))
INFERENCES: dict[str, Any] = {
    "pooled-gp": inference.ClosedForm,
    "hierarchical-gp": inference.ClosedForm,
    "hierarchical-gp-average": inference.Average,
    "mars-gp": inference.CentredParticles,
    "mars-other-noise": inference.CentredParticles,
    "mars-gp-widths-average": inference.Average,
    "mars-without-closed-form": inference.AnchoredParticles,
    "mars-network": inference.AnchoredParticles,
    "mars-annealed": inference.AnchoredParticles,
    "mars-gp-paper": inference.Particles,
    "mars-ssge": inference.Particles,
    "mars-gauss-dropout": inference.Particles,
    "mars-gauss-deterministic": inference.Particles,
    "fbnn-gp": inference.Particles,
    "fbnn-gp-vi": inference.VariationalParticles,
}
# Version 0.1 split the key of MARS in three, without an anchor, too; now it is split in two.
OTHER_KEYS = {"mars-gp-paper", "mars-ssge", *(name for name in FILES if name.startswith("mars-gauss"))}
# Particles started as draws of a posterior with the process's noise; now they do with the noise of inference.
OTHER_START = "mars-other-noise"
QUICK = {"last-value", "context-mean", "ridge", "vanilla-gp", "pooled-gp", "hierarchical-gp", "hierarchical-gp-average"}
QUICK |= {"mars-gp-paper", "mars-gp-widths-average", "fbnn-gp", "np"}


@cache
def expected() -> dict[str, Any]:
    return json.loads((FOLDER / "expected.json").read_text())


def same_keys_as_0_1(prior: FunctionPrior) -> FunctionPrior:
    """The prior with the key split as 0.1 did."""

    class Before(inference.Particles):
        def infer(self, context, key):
            start_key, _, run_key = jax.random.split(key, 3)
            start = init_particles(
                start_key, self.config.particles, context.x.shape[-1], self.bnn, self.box.low, self.box.high
            )
            return fsvgd.run(
                self.score, self.levels, self.measurement, self.config, self.hyper, context, start, run_key
            )

    return FunctionPrior(prior.standardizer, Before(**vars(prior.inference)))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FILES]
)
def test_old_files_predict_as_they_did(name):
    prior = load_prior(FOLDER / f"{name}.prior")
    if name in INFERENCES:
        assert type(prior.inference) is INFERENCES[name]
    if name in OTHER_KEYS:
        prior = same_keys_as_0_1(prior)
    context = sp.TaskSet([sp.Task(**task) for task in expected()["context"]])
    predictives = prior.condition_many(context, 1).predict(expected()["query"])
    known = expected()["predictions"][name]
    # Single precision, over ten steps where inference iterates.
    tolerance = 5e-3 if name == OTHER_START else 1e-4
    for predictive, mean, std in zip(predictives, known["mean"], known["std"], strict=True):
        scale = prior.standardizer.y_std
        np.testing.assert_allclose(predictive.mean, mean, atol=1e-4 * scale)
        if not predictive.is_point:
            np.testing.assert_allclose(predictive.std, std, atol=1e-4 * scale, rtol=tolerance)


def test_all_kinds_of_priors_are_among_the_files():
    told = {describe(FOLDER / f"{name}.prior")["class"] for name in FILES}
    assert told == {name for name in CLASSES if name.endswith("-prior")} - {
        "stack-prior",
        "guarded-prior",
    }  # which are newer


@pytest.mark.parametrize("name", FILES)
def test_old_files_can_be_saved_anew(name, tmp_path):
    prior = load_prior(FOLDER / f"{name}.prior")
    assert describe(FOLDER / f"{name}.prior")["version"] == 1
    prior.save(tmp_path / "new.prior")
    assert describe(tmp_path / "new.prior")["version"] == 2
    assert jax.tree.structure(load_prior(tmp_path / "new.prior")) == jax.tree.structure(prior)


def test_the_noise_of_inference_is_the_anchors():
    anchors = {
        name: load_prior(FOLDER / f"{name}.prior").inference.warm_start.anchor
        for name in ("mars-gp", "mars-other-noise")
    }
    assert float(anchors["mars-other-noise"].noise_std) == pytest.approx(0.3)
    assert float(anchors["mars-gp"].noise_std) != pytest.approx(0.3)


def test_a_temperature_is_refused():
    structure, arrays = tree_of("mars-gp")
    label = structure["fields"]["hyper"]["fields"]["temperature"]["jax"]
    with pytest.raises(TreeError, match=r"temperature 0\.5"):
        convert(structure, arrays | {label: np.float32(0.5)})


def test_a_random_start_around_a_process_is_refused():
    structure, arrays = tree_of("mars-gp")
    structure["fields"]["settle"] = 0
    with pytest.raises(TreeError, match="settle=0"):
        convert(structure, arrays)


def test_states_from_before_surprise_was_kept_can_be_read():
    structure, arrays = tree_of("mars-ssge")
    states = structure["fields"]["score"]["fields"]["fitted"]["fields"]["states"]["fields"]
    del arrays[states.pop("surprise")["jax"]]
    prior = decode(*convert(structure, arrays))
    assert prior.inference.score.fitted.states.surprise.shape == (5,)


def tree_of(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Tree and arrays of a file as it stands there."""
    found: dict[str, Any] = {}
    data = (FOLDER / f"{name}.prior").read_bytes()
    forge(data, info=found.update)
    return found["tree"], serialization.safetensors.numpy.load(data)


FORGERIES = {
    "foreign class": (lambda info: info["tree"].update({"class": "os:system"}), "'os:system', which"),
    "class of today": (lambda info: info["tree"].update({"class": "function-prior"}), "did not write"),
    "class of the package": (
        lambda info: info["tree"].update({"class": "scoreprior.cli.main:app"}),
        "'scoreprior.cli.main:app', which Scoreprior 0.1 did not write",
    ),
    "score in the place of a prior": (lambda info: info.update(tree=info["tree"]["fields"]["score"]), "each of its"),
    "missing field": (lambda info: info["tree"]["fields"].pop("settle"), ""),
    "array used twice": (
        lambda info: info["tree"]["fields"].update(smoothing=info["tree"]["fields"]["hyper"]["fields"]["noise_std"]),
        "each of its arrays once",
    ),
    "checkpoint": (lambda info: info.update(kind="checkpoint"), "checkpoint"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_old_files_are_refused_in_a_sentence(name, tmp_path):
    edit, message = FORGERIES[name]
    path = tmp_path / "forged.prior"
    path.write_bytes(forge((FOLDER / "mars-gp.prior").read_bytes(), info=edit))
    assert message in error_of(load_prior, path)


def test_old_checkpoints_are_refused(tmp_path):
    path = tmp_path / "some.checkpoint"
    data = (FOLDER / "mars-gp.prior").read_bytes()
    path.write_bytes(forge(data, info=lambda info: info.update(kind="checkpoint")))
    assert "cannot go on" in error_of(serialization.read_file, path, "checkpoint")
