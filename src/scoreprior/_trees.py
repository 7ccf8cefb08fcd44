"""Trees of modules as plain data and back: JSON-able structure, and arrays by their path in the tree.

A tree is made of JSON scalars, lists, tuples, dicts, arrays, and equinox modules or dataclasses that are registered by
name (`_saved_classes.py`). Building one from data sets fields and runs no code of the data's choosing.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scoreprior._saved_classes import UnknownClassError, class_of, name_of

Arrays = dict[str, np.ndarray]

_DTYPES = {"bool", "float16", "float32", "float64", "complex64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


class TreeError(ValueError):
    """A tree that cannot be written down, or data that is no tree; the message names the place."""


def encode(tree: Any, name: str) -> tuple[Any, Arrays]:
    """The tree's structure, made of what JSON knows, and its arrays; `name` is what errors call the tree."""
    arrays: Arrays = {}

    def store(array: Any, where: str) -> str:
        array = np.asarray(array)
        if array.dtype.name not in _DTYPES:
            raise TreeError(f"{where} is an array of type {array.dtype}, which files do not hold")
        label = where.removeprefix(name).removeprefix(".") or "value"
        while label in arrays or label == "__metadata__":
            label += "'"
        arrays[label] = np.array(array, array.dtype.newbyteorder("="), order="C")
        return label

    def walk(node: Any, where: str) -> Any:
        kind = type(node)
        if node is None or kind in (bool, int, str) or (kind is float and math.isfinite(node)):
            return node
        if kind is float:
            return {"float": str(node)}
        if kind in (list, tuple):
            items = [walk(item, f"{where}.{i}") for i, item in enumerate(node)]
            return items if kind is list else {"tuple": items}
        if kind is dict and all(type(key) is str for key in node):
            return {"dict": {key: walk(item, f"{where}.{key}") for key, item in node.items()}}
        if isinstance(node, jax.Array):
            if not jax.dtypes.issubdtype(node.dtype, jax.dtypes.prng_key):
                return {"jax": store(node, where)}
            return {"key": store(jax.random.key_data(node), where), "impl": str(jax.random.key_impl(node))}
        if kind is np.ndarray or isinstance(node, np.generic):
            return {"numpy" if kind is np.ndarray else "scalar": store(node, where)}
        label = _class_name(kind, where)
        fields = {f.name: walk(getattr(node, f.name), f"{where}.{f.name}") for f in dataclasses.fields(node)}
        return {"class": label, "fields": fields}

    return walk(tree, name), arrays


def decode(structure: Any, arrays: Arrays) -> Any:
    """The tree of which `encode` made the structure and the arrays."""
    left = dict(arrays)

    def take(label: str) -> np.ndarray:
        if label not in left:
            raise TreeError(f"its array {label[:80]!r} is missing or used twice")
        return left.pop(label)

    def build(node: Any) -> Any:
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [build(item) for item in node]
            case {"float": "inf" | "-inf" | "nan" as value}:
                return float(value)
            case {"tuple": list(items)}:
                return tuple(build(item) for item in items)
            case {"dict": dict(items)}:
                return {key: build(item) for key, item in items.items()}
            case {"jax": str(label)}:
                return _jax_array(take(label))
            case {"numpy": str(label)}:
                return np.array(take(label))
            case {"scalar": str(label)}:
                return take(label)[()]
            case {"key": str(label), "impl": str(impl)}:
                return jax.random.wrap_key_data(_jax_array(take(label)), impl=impl)
            case {"class": str(label), "fields": dict(fields)}:
                return _instance(_class(label), {name: build(item) for name, item in fields.items()})
        raise TreeError(f"its tree holds something unknown, {str(node)[:40]!r}")

    tree = build(structure)
    if left:
        raise TreeError(f"its tree does not use the array {min(left)[:80]!r}")
    return tree


def _class_name(cls: type, where: str) -> str:
    name = name_of(cls)
    if name is None:
        raise TreeError(
            f"{where} is a {cls.__module__}.{cls.__qualname__}; files hold numbers, text, lists, tuples, dicts with "
            "text keys, arrays, and registered classes (for one of your own: scoreprior.register(..., classes=...))"
        )
    return name


def _class(name: str) -> type:
    try:
        return class_of(name)
    except UnknownClassError as error:
        raise TreeError(str(error)) from error


def _instance(cls: type, fields: dict[str, Any]) -> Any:
    """An object with these fields, made as equinox unflattens modules: no __init__ runs.

    A field that the file is too old to have takes its default: a field added to what files hold must default to what
    was before.
    """
    known = dataclasses.fields(cls)
    fields = {f.name: f.default for f in known if f.default is not dataclasses.MISSING} | fields
    if set(fields) != {field.name for field in known}:
        raise TreeError(f"its {cls.__name__} has other fields than this Scoreprior's; the versions differ")
    made: Any = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _jax_array(array: np.ndarray) -> jax.Array:
    # Without x64 JAX would turn doubles into singles; what comes out has the type of what went in.
    with jax.enable_x64(True):
        return jnp.asarray(array)
