"""A `repr` that says what is not as usual: a method's full settings are in its fields."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

MOST = 200
Class = TypeVar("Class", bound=type)


def short_repr(config: Class) -> Class:
    """Give a dataclass of settings the repr of those that differ from their defaults, in one line."""
    config.__repr__ = _repr  # type: ignore[method-assign, assignment]
    return config


def _repr(self: Any) -> str:
    usual = type(self)() if all(map(_has_default, fields(self))) else None
    values = {each.name: getattr(self, each.name) for each in fields(self)}
    changed = [f"{name}={value!r}" for name, value in values.items() if usual is None or value != getattr(usual, name)]
    text = f"{type(self).__name__}({', '.join(changed)})"
    return text if len(text) <= MOST else f"{text[: MOST - 4]}...)"


def _has_default(field: Field) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
