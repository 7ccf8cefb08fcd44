"""Checkpoints of training: files like a prior's, tied to the run that wrote them."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from scoreprior._trees import TreeError, decode
from scoreprior.serialization import PriorFileError, read_file, write_file


class Record(NamedTuple):
    """One chunk: steps done at its end, means of loss and auxiliary values, validation loss, seconds."""

    step: int
    loss: float
    validation: float | None
    seconds: float
    aux: dict[str, float]


@dataclass(frozen=True)
class Run:
    """A run between two chunks; `best` holds the model's arrays with the least validation loss so far."""

    state: Any
    best: PyTree = None
    best_loss: float = math.inf
    waited: int = 0
    history: tuple[Record, ...] = ()

    @property
    def step(self) -> int:
        """Steps done."""
        return self.history[-1].step if self.history else 0


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or gone on from; the message says why, in one line."""


def fingerprint(run: PyTree) -> str:
    """A hash of the structure of a run and of all its arrays; functions count by their names."""
    digest = hashlib.sha256()
    leaves, structure = jax.tree.flatten(run)
    # Functions print with their address, which is another one in the next process.
    digest.update(re.sub(r" at 0x[0-9a-fA-F]+", "", str(structure)).encode())
    for leaf in leaves:
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if isinstance(leaf, (jax.Array, np.ndarray)):
            array = np.asarray(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        elif isinstance(leaf, (bool, int, float, str)):
            digest.update(repr(leaf).encode())
        else:
            named = leaf if hasattr(leaf, "__qualname__") else type(leaf)
            digest.update(f"{named.__module__}.{named.__qualname__}".encode())
    return digest.hexdigest()


def write(path: str | os.PathLike[str], run: Run, config: Any, mark: str) -> None:
    """Put the run, with its config and fingerprint, in the place of the last checkpoint."""
    # Only leaves: the types of optax's states are not ours to name in a file, and the next run knows them.
    best = None if run.best is None else jax.tree.leaves(run.best)
    history = [tuple(record) for record in run.history]
    progress = vars(run) | {"state": jax.tree.leaves(run.state), "best": best, "history": history}
    tree = {"run": progress, "config": dataclasses.asdict(config), "fingerprint": mark}
    try:
        write_file(path, "checkpoint", {"config": config, "step": run.step}, tree)
    except PriorFileError as error:
        raise CheckpointError(str(error)) from error


def read(path: str | os.PathLike[str], start: Run, config: Any, mark: str) -> Run:
    """The run that was written, if it began as `start` and had this config and fingerprint."""
    try:
        contents = read_file(path, "checkpoint")
        tree = decode(contents.structure, contents.arrays)
    except PriorFileError as error:
        raise CheckpointError(str(error)) from error
    except TreeError as error:
        raise CheckpointError(f"Cannot read {str(path)!r}: {error}.") from error
    written, given = tree["config"], dataclasses.asdict(config)
    changed = [name for name in given if written.get(name) != given[name]]
    if changed or tree["fingerprint"] != mark:
        reason = "it belongs to another model, loss or key"
        if changed:
            before, now = ({name: values.get(name) for name in changed} for values in (written, given))
            reason = f"it was written with {before}, this run has {now}"
        raise CheckpointError(f"Cannot go on from {str(path)!r}: {reason}; delete it to start anew.")
    progress, best = tree["run"], tree["run"]["best"]
    return Run(
        jax.tree.unflatten(jax.tree.structure(start.state), progress["state"]),
        None if best is None else jax.tree.unflatten(jax.tree.structure(start.state.arrays), best),
        progress["best_loss"],
        progress["waited"],
        tuple(Record(*record) for record in progress["history"]),
    )
