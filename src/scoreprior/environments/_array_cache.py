"""Arrays that take long to make, kept in a file of the user's cache."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np


def kept(path: Path, names: Sequence[str], make: Callable[[], Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
    """The arrays of these names, from the file if it is sound, else made and kept there."""
    try:
        with np.load(path) as stored:
            return {name: stored[name] for name in names}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        arrays = make()
    _save(path, arrays)
    return arrays


def _save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Whole or not at all; a cache that cannot be written only costs time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            unfinished = Path(folder) / path.name
            np.savez(unfinished, **arrays)  # type: ignore[arg-type]
            os.replace(unfinished, path)
