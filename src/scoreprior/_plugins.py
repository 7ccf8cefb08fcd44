"""Modules from outside the package that register methods, environments and estimators when they are imported.

Installed packages say so by an entry point; other modules are named in the environment variable, which commands and
the benchmark's worker processes read alike.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

VARIABLE = "SCOREPRIOR_PLUGINS"
"""Names of modules with commas between; the working directory is searched, too."""
GROUP = "scoreprior.methods"
"""Entry points of this group are modules to import."""

_loaded: set[str] = set()


class PluginError(ValueError):
    """A module that should register something cannot be imported; the message says which and why."""


def load() -> None:
    """Import every plugin that was not imported yet."""
    for name in _named():
        if name in _loaded:
            continue
        _loaded.add(name)  # before the import, which may ask for the methods that there are
        try:
            import_module(name)
        except Exception as error:
            _loaded.discard(name)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise PluginError(f"{VARIABLE} names {name!r}, which cannot be imported: {reason}") from error
    for point in _installed():
        if point.value not in _loaded:
            _loaded.add(point.value)
            try:
                point.load()
            except Exception as error:  # somebody else's package must not keep this one from working
                warnings.warn(f"The plugin {point.name!r} cannot be imported: {error}", stacklevel=2)


def _named() -> Iterator[str]:
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    if any(names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return filter(None, names)


@cache
def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))
