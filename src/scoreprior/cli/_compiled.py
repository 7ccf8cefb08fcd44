"""Compiled programs, kept between commands: most of a short run is compilation."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import jax

from scoreprior.environments._store import cache_directory

MOST_BYTES = 200_000_000
_SECONDS_WORTH_KEEPING = 0.2


def keep_compiled(most_bytes: int = MOST_BYTES) -> Path | None:
    """Let JAX keep what it compiles in the user's cache; None where that is not possible or JAX is told otherwise."""
    settings = jax.config.values
    told = settings["jax_compilation_cache_dir"] is not None or not settings["jax_enable_compilation_cache"]
    directory = cache_directory() / "compiled"
    if told or not _writable(directory):
        return None
    _forget_oldest(directory, most_bytes)
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SECONDS_WORTH_KEEPING)
    return directory


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


def _forget_oldest(directory: Path, most_bytes: int) -> None:
    """Make room; JAX's own limit needs another package."""
    with suppress(OSError):  # another command may be doing the same
        entries = sorted(((path.stat(), path) for path in directory.iterdir()), key=lambda each: -each[0].st_mtime)
        total = 0
        for status, path in entries:
            total += status.st_size
            if total > most_bytes:
                path.unlink()
