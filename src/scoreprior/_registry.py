"""Things by name: the package's own, and those that were registered from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from scoreprior import _plugins
from scoreprior._suggestions import did_you_mean

Entry = TypeVar("Entry")

_NAME = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)*")


class Registry(Generic[Entry]):
    """Entries by name.

    Args:
        what: what errors call an entry.
        own: the package's entries.
        reserved: names that mean something else where names are given.
    """

    def __init__(self, what: str, own: Mapping[str, Entry], reserved: tuple[str, ...] = ("all",)):
        self._what = what
        self._entries = dict(own)
        self._reserved = reserved
        self._origins: dict[str, tuple[str, str] | None] = dict.fromkeys(own)

    def all(self) -> dict[str, Entry]:
        """Every entry, after plugins have been imported."""
        _plugins.load()
        return dict(self._entries)

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            _plugins.load()
        if name not in self._entries:
            listed = f"there are {', '.join(self._entries)}."
            raise ValueError(f"There is no {self._what} {name!r}; {did_you_mean(name, self._entries, listed)}")
        return self._entries[name]

    def check(self, name: str, source: Any) -> None:
        """Refuse a name that is taken, unless by the same source: modules get reloaded."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"A name has lower-case letters and digits, with hyphens between, unlike {name!r}.")
        if name in self._reserved:
            raise ValueError(f"{name!r} is reserved; give the {self._what} another name.")
        if name in self._entries and self._origins[name] != _origin(source):
            raise ValueError(f"There is a {self._what} {name!r} already; give this one another name.")

    def add(self, name: str, entry: Entry, source: Any) -> None:
        """Add an entry; `source` is the function or class that tells it from another of the same name."""
        self.check(name, source)
        self._entries[name], self._origins[name] = entry, _origin(source)


def _origin(source: Any) -> tuple[str, str]:
    named = source if hasattr(source, "__qualname__") else type(source)
    return named.__module__, named.__qualname__
