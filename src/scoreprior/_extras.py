"""Optional packages: imported where they are used, with an error that names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A package of an extra is not installed; the message says how to install it."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports of packages that only `scoreprior[name]` installs."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "scoreprior"):  # a mistake of ours, which no extra repairs
            raise
        raise MissingExtraError(
            f"This needs {package}, which is not installed: pip install 'scoreprior[{name}]'", name=error.name
        ) from error
