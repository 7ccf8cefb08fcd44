"""Published results: one zip archive per environment, whose members are working files under their usual names.

Runs and tuning write small files that survive `kill -9`; hundreds of them are no way to publish. `pack` folds them into
`published/<environment>.zip`. What an archive has is read as if the file were there; a working file goes before it.
Members are compressed one by one: those that did not change keep their bytes, so a repository grows by the others only.
"""

from __future__ import annotations

import errno
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scoreprior._files import replace_file
from scoreprior.bench.cell import canonical
from scoreprior.bench.line_file import DamagedError, in_place, parse_lines

_WORKING = ("records/*/*.jsonl", "points/*.json", "selected/*.json", "tuning/*.journal")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


class ArchiveError(OSError):
    """The file is no archive of results."""

    def __init__(self, path: Path):
        super().__init__(errno.EILSEQ, "it is a damaged archive; restore it", str(path))


def archive_path(out: Path, environment: str) -> Path:
    """The archive of an environment; "*" matches all."""
    return out / "published" / f"{environment}.zip"


def has_results(out: Path) -> bool:
    """Whether there are records, working or published."""
    return (out / "records").is_dir() or any(out.glob("published/*.zip"))


def published(out: Path, environment: str) -> Mapping[str, bytes]:
    """The archive's members by name, such as "records/sinusoid/ridge.jsonl"; empty without an archive."""
    path = archive_path(out, environment)
    try:
        stat = path.stat()
    except FileNotFoundError:
        return {}
    return _members(path, stat.st_mtime_ns, stat.st_size)


def read_result(out: Path, environment: str, path: Path) -> bytes | None:
    """The working file, else its published copy, if there is either."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return published(out, environment).get(_name(out, path))


def restore(out: Path, environment: str, path: Path) -> None:
    """Put the published copy of a file in its place, to go on writing it."""
    data = None if path.exists() else published(out, environment).get(_name(out, path))
    if data is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)


def pack(out: Path) -> list[Path]:
    """Fold all working files into the archives and remove them; the archives that were written.

    No run may be writing in `out` meanwhile. Each archive appears whole or not at all, before its files are removed:
    after an interruption, packing again gives the same archives. Of every cell the last record is kept.
    """
    by_environment: dict[str, list[Path]] = {}
    with in_place(out, alone=True):
        for pattern in _WORKING:
            for path in sorted(out.glob(pattern)):
                by_environment.setdefault(_environment(out, path), []).append(path)
        for environment, paths in sorted(by_environment.items()):
            members = dict(published(out, environment))
            for path in paths:
                name = _name(out, path)
                if folded := _folded(members.get(name), path):  # a run that was stopped at once leaves an empty file
                    members[name] = folded
            archive = archive_path(out, environment)
            archive.parent.mkdir(exist_ok=True)
            replace_file(archive, _zipped(members))
            for path in paths:
                path.unlink()
        for place in sorted(out.glob("records/*")) + [out / pattern.partition("/")[0] for pattern in _WORKING]:
            with suppress(OSError):  # absent, or not empty
                place.rmdir()
    return [archive_path(out, environment) for environment in sorted(by_environment)]


def _folded(before: bytes | None, path: Path) -> bytes:
    """A working file and what was published of it, as one."""
    data = path.read_bytes()
    if path.suffix == ".jsonl":
        lines = [*parse_lines(before or b"", path), *parse_lines(data, path)]
        return b"".join(f"{canonical(line)}\n".encode() for line in last_lines(lines).values())
    if path.suffix == ".journal":
        parse_lines(data, path)  # damage is to be found now, not when the journal is continued
        return data
    try:
        json.loads(data)
    except ValueError:
        raise DamagedError(path, 1) from None
    return data


def last_lines(lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The last record of every cell, by its key."""
    return {line["key"]: line for line in lines}


def _zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.external_attr = 0o644 << 16
            archive.writestr(info, members[name], zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


@lru_cache(maxsize=32)
def _members(path: Path, mtime_ns: int, size: int) -> Mapping[str, bytes]:
    """Read once for as long as the file is the same: a report asks for hundreds of members."""
    try:
        with zipfile.ZipFile(path) as archive:
            return MappingProxyType({name: archive.read(name) for name in archive.namelist()})
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ArchiveError(path) from error


def _name(out: Path, path: Path) -> str:
    return path.relative_to(out).as_posix()


def _environment(out: Path, path: Path) -> str:
    """Of a working file: the directory of records, or the beginning of the name."""
    parts = path.relative_to(out).parts
    return parts[1] if parts[0] == "records" else parts[1].partition("--")[0]
