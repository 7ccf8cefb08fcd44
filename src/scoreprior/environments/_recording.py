"""A recording of SwissFEL's optimisation software: HDF5 tables of evaluations, one row each, with named fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scoreprior._extras import extra
from scoreprior.environments._store import DataError

with extra("data"):
    import h5py


def read_recording(path: Path, key: str, fields: tuple[str, ...], points: int | None = None) -> np.ndarray:
    """The evaluations of dataset `key`, or the first `points` of them, (m,) with at least these fields."""
    if not path.is_file():
        raise DataError(f"{path} is not there; the recordings are missing.")
    try:
        with h5py.File(path, "r") as file:
            if key not in file or not isinstance(file[key], h5py.Dataset):
                raise DataError(f"{path} has no dataset /{key}; it is not the published file.")
            table = file[key][:points]
    except OSError as error:
        raise DataError(f"{path} cannot be read as HDF5: {error}. It may be truncated; get it again.") from error
    for field in fields:
        if table.dtype.names is None or field not in table.dtype.names:
            raise DataError(f"{path}: the dataset /{key} has no field {field!r}.")
    return table
