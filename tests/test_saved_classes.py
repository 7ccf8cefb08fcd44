"""Names in files: one for each class, and none for anything else; test_conformance.py has every method's prior."""

from __future__ import annotations

import dataclasses
import sys
from importlib import import_module
from types import ModuleType

import equinox as eqx
import pytest

import scoreprior as sp
from learners.test_conformance import make
from scoreprior import _saved_classes
from scoreprior._saved_classes import CLASSES, add_classes, class_of, name_of
from scoreprior.serialization import describe


def test_every_name_stands_for_one_class_and_every_class_has_one_name():
    assert len(set(CLASSES.values())) == len(CLASSES)
    for name, place in CLASSES.items():
        found = class_of(name)
        assert name_of(found) == name
        assert dataclasses.is_dataclass(found)
        # Where it is defined, not where it was imported to.
        assert f"{found.__module__}:{found.__qualname__}" == f"scoreprior.{place}"
        assert "/" not in name  # which outside classes have


@pytest.mark.parametrize(
    "module",
    ["gp.kernels", "inference.anchored", "inference.average", "inference.particles", "scores.exact", "scores.anchored"],
)
def test_whatever_a_prior_may_be_built_of_by_hand_has_a_name(module):
    found = import_module(f"scoreprior.{module}")
    states = {"AnchoredState", "ScaledNetwork"}  # of a task's posterior, which no file holds
    for name, cls in vars(found).items():
        own = isinstance(cls, type) and cls.__module__ == found.__name__ and issubclass(cls, eqx.Module)
        if own and not cls.__abstractmethods__ and name not in states:
            assert name_of(cls) is not None, name


def test_a_renamed_class_needs_a_new_row_and_nothing_else(tmp_path, monkeypatch):
    train, test = make("ridge")
    sp.learner("ridge").fit(train, 0).save(tmp_path / "old.prior")
    naive = import_module("scoreprior.learners.naive")
    moved = ModuleType("scoreprior.elsewhere")
    renamed = type("Shrunk", (naive._RidgeRule,), {"__module__": moved.__name__, "__doc__": "Moved and renamed."})
    moved.Shrunk = renamed  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, moved.__name__, moved)
    monkeypatch.setitem(CLASSES, "ridge-rule", "elsewhere:Shrunk")
    prior = sp.load_prior(tmp_path / "old.prior")
    assert type(prior.rule) is renamed
    context = test.context[0]
    assert prior.condition(context.x, context.y, 0).predict(context.x).mean.shape == (len(context),)


def test_files_hold_no_import_paths(tmp_path):
    train, _ = make("ridge")
    sp.learner("ridge").fit(train, 0).save(tmp_path / "some.prior")
    assert b"scoreprior." not in (tmp_path / "some.prior").read_bytes()
    assert describe(tmp_path / "some.prior")["class"] == "naive-prior"


@dataclasses.dataclass(frozen=True)
class Own:
    """A class from outside."""


def test_classes_from_outside_are_added_once(monkeypatch):
    monkeypatch.setattr(_saved_classes, "_outside", {})
    add_classes("toy", (Own,))
    add_classes("toy", (Own,))  # the very same
    assert class_of("toy/Own") is Own
    assert name_of(Own) == "toy/Own"
    with pytest.raises(ValueError, match="files know it as 'toy/Own'"):
        add_classes("other", (Own,))
    with pytest.raises(ValueError, match="files know it as 'matern'"):
        add_classes("other", (class_of("matern"),))
    with pytest.raises(ValueError, match="neither"):
        add_classes("other", (int,))
    reloaded = dataclasses.make_dataclass("Own", [], namespace={"__module__": Own.__module__})
    add_classes("toy", (reloaded,))  # a module that was imported again
    assert class_of("toy/Own") is reloaded
    stranger = dataclasses.make_dataclass("Own", [], namespace={"__module__": "elsewhere"})
    with pytest.raises(ValueError, match="another class"):
        add_classes("toy", (stranger,))
    with pytest.raises(LookupError, match="'toy/Other', which is no registered class"):
        class_of("toy/Other")
