"""Append-only files of JSON lines that survive `kill -9` and power cuts, with one writer at a time."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from scoreprior.bench.cell import canonical

_OTHER_FILES = 256  # workers' pipes, libraries, data


class InUseError(OSError):
    """Another process is writing this file."""

    def __init__(self, path: Path):
        super().__init__(errno.EAGAIN, "another run is writing it; wait for its end, or use another --out", str(path))


class DamagedError(OSError):
    """A line inside the file is no JSON: that is no interrupted write, and nothing is repaired by guessing."""

    def __init__(self, path: Path, line: int):
        super().__init__(errno.EILSEQ, f"line {line} is damaged; restore the file or delete that line", str(path))


class LineFile:
    """The one writer of a file of JSON lines: `with LineFile(path) as file: file.append({...})`.

    A line is one write, on disk before `append` returns. What an interrupted write leaves at the end of the file is
    removed when the file is opened again.
    """

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _lock(self._fd, path)
            whole = _whole_length(path.read_bytes())
            if whole != os.fstat(self._fd).st_size:
                os.ftruncate(self._fd, whole)
            os.fsync(self._fd)
            self.lines = read_lines(path)
        except BaseException:
            os.close(self._fd)
            raise
        # A new name lasts once its directory is on disk, the name of that directory too; not every system lets one open
        # a directory.
        with suppress(OSError):
            for place in (path.parent, path.parent.parent):
                directory = os.open(place, os.O_RDONLY)
                os.fsync(directory)
                os.close(directory)

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line; when this returns, it is on disk."""
        data = (canonical(line) + "\n").encode()
        before = os.fstat(self._fd).st_size
        written = os.write(self._fd, data)
        if written != len(data):  # a full disk: leave no half line for the next writer to follow
            os.ftruncate(self._fd, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        os.fsync(self._fd)
        self.lines.append(json.loads(data))

    def close(self) -> None:
        """Let others write."""
        os.close(self._fd)

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines; an interrupted write at the end is left out. No file, no lines."""
    return parse_lines(path.read_bytes(), path) if path.exists() else []


def parse_lines(data: bytes, path: Path) -> list[dict[str, Any]]:
    """The same of bytes that were read; `path` is for the message if they are damaged."""
    lines = []
    for number, line in enumerate(data[: _whole_length(data)].splitlines(), start=1):
        try:
            lines.append(json.loads(line))
        except ValueError:
            raise DamagedError(path, number) from None
    return lines


@contextmanager
def in_place(out: Path, *, alone: bool = False) -> Iterator[None]:
    """Keep the files of a directory where they are: writers share it, whoever moves files needs it `alone`."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / ".lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(fd, path, shared=not alone)
        yield
    finally:
        os.close(fd)


def allow_open_files(number: int) -> None:
    """Let this process hold so many files at once, if the system allows it: macOS starts with 256."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _whole_length(data: bytes) -> int:
    """Bytes up to the end of the last whole line: the last one may be cut, or zeros where the disk never got it."""
    end = data.rfind(b"\n") + 1
    last = data[data.rfind(b"\n", 0, end - 1) + 1 : end] if end else b""
    try:
        json.loads(last or b"{}")
    except ValueError:
        return end - len(last)
    return end


def _lock(fd: int, path: Path, *, shared: bool = False) -> None:
    try:
        import fcntl
    except ImportError:  # Windows, where two writers are not kept apart
        return
    try:
        # The system takes this lock back when the process ends, however it ends: there is no stale lock file.
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUseError(path) from None
