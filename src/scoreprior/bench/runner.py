"""Who computes cells: one function, `map(cells) -> records`. Here, or in worker processes on this machine.

A record is {"status": "done", ...} with what the work returned, or {"status": "failed", "error": {"type", "message"},
"seconds": {"wall"}}, which older files have without the seconds.
Records come as they are made, not in the order of the cells. A runner never raises because of a cell.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, TypeAlias

from scoreprior.bench import _worker
from scoreprior.bench.cell import Cell

Record: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[Cell], Record]


def does_not_apply(record: Record) -> bool:
    """Whether the method says that it is not for such tasks: an answer, not a failure."""
    return record["status"] == "failed" and record["error"]["type"] == "TaskError"


class Runner(Protocol):
    """Computes cells."""

    def map(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Record]]:
        """Cells and their records, as they are made."""


@dataclass(frozen=True)
class InlineRunner:
    """One cell after the other in this process; a crash takes everything down."""

    work: Work

    def map(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Record]]:
        """One cell after the other, in this process."""
        for cell in cells:
            yield cell, _worker.attempt(self.work, cell)


@dataclass(frozen=True)
class ProcessRunner:
    """Spawned worker processes (JAX does not survive a fork), each with one thread.

    Several have a core each. One alone goes where there is room: others, of another run, may be on any core.

    Args:
        work: an importable function; it runs in the workers.
        workers: how many.
        limit: seconds after which a cell is given up and its worker replaced; None for no limit.
        keep: whether workers wait for the next `map`, with all they have compiled, until this process ends.
    """

    work: Work
    workers: int = 1
    limit: float | None = None
    keep: bool = False
    _idle: dict[int, _Handle] = field(default_factory=dict, init=False, repr=False, compare=False)

    def map(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Record]]:
        """Cells in worker processes, as they finish."""
        waiting = _Waiting(cells)
        pool: list[_Handle] = []
        try:
            for core in range(self.workers):
                cell = waiting.next(None, pool)
                if cell is None:
                    break
                pool.append(self._worker(core))
                pool[-1].start(cell)
            while pool:
                handle, record = self._next_record(pool)
                pool.remove(handle)
                done, following = handle.cell, waiting.next(handle.cell, pool)
                self._dismiss(handle, stays=self.keep or following is not None)
                if following is not None:
                    pool.append(self._worker(handle.core))
                    pool[-1].start(following)
                yield done, record
        finally:
            for handle in pool:
                handle.stop()

    def _worker(self, core: int) -> _Handle:
        """The worker that waits on this core, or a new one."""
        return self._idle.pop(core, None) or _Handle(self.work, core, pinned=self.workers > 1)

    def _dismiss(self, handle: _Handle, stays: bool) -> None:
        if stays and handle.process.is_alive():
            self._idle[handle.core] = handle
        else:
            handle.stop()

    def _next_record(self, pool: list[_Handle]) -> tuple[_Handle, Record]:
        while True:
            ready = wait([each for handle in pool for each in (handle.pipe, handle.process.sentinel)], timeout=1.0)
            for handle in pool:
                if handle.pipe in ready or handle.process.sentinel in ready:
                    record = handle.receive()
                    if record is not None:
                        return handle, record
                elif self.limit is not None and handle.seconds > self.limit:
                    seconds = handle.seconds
                    handle.stop()
                    return handle, _worker.failed("TimeLimit", f"not done after {self.limit:g} seconds", seconds)


def runner_for(work: Work, workers: int, limit: float | None = None, *, keep: bool = False) -> Runner:
    """So many workers, or none: then this process does the work."""
    return ProcessRunner(work, workers, limit, keep) if workers else InlineRunner(work)


class _Waiting:
    """Cells that nobody has begun, by what they compile, which is the same for all seeds.

    Compiling often takes longer than running: a worker goes on with what it has compiled, and begins what no other
    worker is at. Only when there is no such thing does it help another one.
    """

    def __init__(self, cells: Iterable[Cell]):
        self._groups: dict[Cell, deque[Cell]] = {}
        for cell in cells:
            self._groups.setdefault(_compiled_alike(cell), deque()).append(cell)

    def next(self, last: Cell | None, others: Iterable[_Handle]) -> Cell | None:
        """The next cell for a worker that has just done the last one, while others are at theirs; None: no more."""
        busy = {_compiled_alike(handle.cell) for handle in others}
        own = () if last is None else (_compiled_alike(last),)
        untouched = (group for group in self._groups if group not in busy)
        for group in (*own, *untouched, *self._groups):
            if group in self._groups:
                cells = self._groups[group]
                cell = cells.popleft()
                if not cells:
                    del self._groups[group]
                return cell
        return None


def _compiled_alike(cell: Cell) -> Cell:
    return replace(cell, seed=0)


class _Handle:
    """A worker process and the cell it is at."""

    cell: Cell
    begun: float | None
    pipe: Connection

    def __init__(self, work: Work, core: int, pinned: bool):
        self.core = core
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        with _single_threaded():
            self.process: SpawnProcess = context.Process(
                target=_worker.serve,
                args=(theirs, work, core if pinned else None),
                daemon=True,
                name=f"bench worker {core}",
            )
            self.process.start()
        theirs.close()  # the worker's end must close when the worker dies

    def start(self, cell: Cell) -> None:
        self.cell, self.begun = cell, None
        with suppress(OSError):  # it died idle; `receive` says so
            self.pipe.send(cell)

    @property
    def seconds(self) -> float:
        """Since the cell was begun: a new worker needs a while to import everything."""
        return 0.0 if self.begun is None else time.monotonic() - self.begun

    def receive(self) -> Record | None:
        """A record; None if the worker says that it begins."""
        try:
            record = self.pipe.recv()
            self.begun = time.monotonic()
            return record
        except (EOFError, OSError):
            self.process.join()
            return _worker.failed("WorkerDied", _cause_of_death(self.process.exitcode), self.seconds)

    def stop(self) -> None:
        self.process.kill()  # nothing is lost: a worker owns no file
        self.process.join()
        self.pipe.close()


def _cause_of_death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"the worker ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"the worker was ended by {name}" + (": out of memory, perhaps" if name == "SIGKILL" else "")


@contextmanager
def _single_threaded() -> Iterator[None]:
    """The environment in which numerical libraries start with one thread; they read it when they are imported."""
    # JAX takes a thread for every core that it may run on, whatever XLA_FLAGS say, unless one of these two is set.
    jax = ("PJRT_NPROC", "NPROC")
    wanted = dict.fromkeys((*jax, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    wanted["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
