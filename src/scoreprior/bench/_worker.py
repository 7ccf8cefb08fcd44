"""The inside of a worker process. Imports little: what a cell needs is imported with the work."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from scoreprior._memory import keep_freed_memory
from scoreprior.bench.cell import Cell

_LONGEST_MESSAGE = 500


def serve(pipe: Connection, work: Callable[[Cell], dict[str, Any]], core: int | None) -> None:
    """Receive cells, say when one is begun, send its record, until nobody is there any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it ends the workers
    if core is not None:
        _stay_on(core)
    keep_freed_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            cell = pipe.recv()
            pipe.send(None)  # begun
            pipe.send(attempt(work, cell))
        except (EOFError, OSError):
            return


def attempt(work: Callable[[Cell], dict[str, Any]], cell: Cell) -> dict[str, Any]:
    """The record of a cell, also of one that fails."""
    begun = time.perf_counter()
    try:
        return {"status": "done", **work(cell)}
    except Exception as error:
        message = " ".join(str(error).split())[:_LONGEST_MESSAGE]
        return failed(type(error).__name__, message, time.perf_counter() - begun)


def failed(kind: str, message: str, seconds: float) -> dict[str, Any]:
    """The record of a cell that failed after so many seconds."""
    return {"status": "failed", "error": {"type": kind, "message": message}, "seconds": {"wall": round(seconds, 4)}}


def _stay_on(core: int) -> None:
    # Two workers whose threads wander fight over the cores; not every system can pin.
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[core % len(allowed)]})


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers, which would compute for nobody."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
