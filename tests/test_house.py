"""The rules of the house, checked by walking the package: sizes, docstrings, imports between rooms, settings, words."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import scoreprior

PACKAGE = Path(scoreprior.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
MOST_LINES = 300

FORMER_NAMES = {"settle", "settled", "strain", "beside", "widen", "widths", "opinion", "opinions"}
"""Words that are plain English in a sentence, but no names."""
METAPHORS = re.compile(
    r"second opinion|foresight|foresee|foretold|foretell|\bheard\b|\b_?(LIGHTLY|BRIEFLY)\b|points? home|\bclimb"
)


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def modules() -> Iterator[str]:
    for found in pkgutil.walk_packages([str(PACKAGE)], "scoreprior."):
        if not found.name.endswith("__main__"):
            yield found.name


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_module_is_longer_than_300_lines(path):
    assert len(path.read_text().splitlines()) <= MOST_LINES


def public(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Public functions, classes and their public methods."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield f"{prefix}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{node.name}.")


INHERITED = {"infer", "evaluate", "draw", "sample", "fit", "solve", "covariance", "diagonal", "bare", "about", "chunk"}
"""Documented where they are abstract."""


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_public_function_has_a_docstring(path):
    missing = [
        found
        for found, node in public(TREES[path])
        if ast.get_docstring(node) is None
        and not ("." in found and found.rpartition(".")[2] in INHERITED)
        and not any(
            isinstance(each, ast.Name) and each.id == "overload" for each in getattr(node, "decorator_list", [])
        )
    ]
    assert not missing


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


METHODS = [path for path in FILES if path.parent.name == "learners" and not path.name.startswith("_")]


@pytest.mark.parametrize("path", METHODS, ids=name)
def test_no_method_imports_another(path):
    others = {f"scoreprior.learners.{each.stem}" for each in METHODS if each != path}
    assert not imported(TREES[path]) & others


# In the order of the flow of data (docs/architecture.md): a room imports from those before it, not from those after.
ROOMS = ["tasks", "predictive", "gp", "scores", "inference", "interpolators", "learners", "evaluation", "diagnostics"]
ALLOWED = {
    ("scores", "interpolators"),  # a score from samples draws its functions from the tasks' interpolators
    ("interpolators", "inference"),  # which measure them where inference does
}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_room_imports_from_a_later_one(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room not in ROOMS:
        return
    later = ROOMS[ROOMS.index(room) + 1 :]
    wrong = {
        (room, other)
        for module in imported(TREES[path])
        for other in later
        if module == f"scoreprior.{other}" or module.startswith(f"scoreprior.{other}.")
    }
    assert wrong <= ALLOWED


def reads(tree: ast.AST) -> Iterator[str]:
    """Names of attributes that are read, but not by what only checks a config or makes another of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name in ("__post_init__", "with_budget"):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        yield from reads(node)


def reads_of(config: type) -> set[str]:
    """Names of attributes that are read where a config, or what it inherits from, is defined or imported."""
    owners = [each for each in config.__mro__ if each.__module__.startswith("scoreprior.")]
    found: set[str] = set()
    for path, tree in TREES.items():
        here = ".".join(("scoreprior", *path.relative_to(PACKAGE).with_suffix("").parts))
        names = {module.rpartition(".")[2] for module in imported(tree)}
        if any(each.__module__ == here or each.__name__ in names for each in owners):
            found |= set(reads(tree))
    return found


def configs() -> dict[str, type]:
    """Frozen dataclasses whose fields all have defaults: what people set."""
    found = {}
    for module in modules():
        for each in vars(importlib.import_module(module)).values():
            own = isinstance(each, type) and dataclasses.is_dataclass(each) and each.__module__ == module
            if own and each.__dataclass_params__.frozen and all(map(has_default, dataclasses.fields(each))):
                found[f"{module}.{each.__qualname__}"] = each
    return found


SET_BY_THE_PACKAGE = ("scoreprior.environments.", "scoreprior.bench.", "scoreprior.tasks.")
"""What people do not construct, or construct from data that is checked elsewhere."""


def accepts(config: type, name: str, value: object) -> bool:
    try:
        config(**{name: value})
    except (ValueError, TypeError):
        return False
    return True


def nonsense(value: object) -> tuple[object, ...]:
    """Values of the kind of a default that mean nothing: negative or broken counts, no numbers, unknown choices."""
    if isinstance(value, bool) or value is None:
        return ()
    if isinstance(value, int):
        return (-1, 1.5)
    if isinstance(value, float):
        return (-1.0, float("nan"))
    return ("nonsense",) if isinstance(value, str) else ()


def test_every_config_refuses_nonsense_where_it_is_constructed():
    found = [
        (where, field.name, wrong)
        for where, config in configs().items()
        if not where.startswith(SET_BY_THE_PACKAGE)
        for field in dataclasses.fields(config)
        if field.init
        for wrong in nonsense(getattr(config(), field.name))
        if accepts(config, field.name, wrong)
    ]
    assert not found


def has_default(field: dataclasses.Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def unread(config: type) -> list[str]:
    known = reads_of(config)
    return [field.name for field in dataclasses.fields(config) if field.name not in known]


def test_every_field_of_a_config_is_read_where_the_config_is_known():
    assert not {where: unread(each) for where, each in configs().items() if unread(each)}


def test_a_field_that_only_other_configs_have_a_use_for_is_found():
    lying = dataclasses.make_dataclass("VanillaGP", [("steps", int, 1), ("particles", int, 1)], frozen=True)
    lying.__module__ = "scoreprior.learners.gaussian_process"
    assert unread(lying) == ["particles"]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_metaphor_stands_for_a_name_of_the_field(path):
    assert not METAPHORS.findall(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_former_name_is_an_identifier(path):
    names = {getattr(node, field, None) for node in ast.walk(TREES[path]) for field in ("id", "attr", "arg", "name")}
    parts = {part for each in names if isinstance(each, str) for part in each.lower().split("_")}
    assert not parts & FORMER_NAMES
