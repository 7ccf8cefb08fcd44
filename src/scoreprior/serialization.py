"""Files of learned priors (and training checkpoints): safetensors with a JSON header, never pickle.

A file is an ordinary safetensors file. Its metadata has one entry, "scoreprior": a JSON object with the
format's name and version, a checksum of the whole file, what a person may want to know (method, config,
standardiser, domain, metrics, versions), and the tree that the arrays hang on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import safetensors.numpy

from scoreprior._files import replace_file
from scoreprior._trees import Arrays, TreeError, decode, encode
from scoreprior._version_1 import convert

if TYPE_CHECKING:
    from scoreprior.learners._base import Prior

FORMAT = "scoreprior"
VERSION = 2
_VERSION_1 = 1  # of Scoreprior 0.1
_LONGEST_HEADER = 100_000_000  # safetensors' own limit
_CHECKSUM = re.compile(rb'\\"checksum\\":\\"([0-9a-f]{64})\\"')
_SUMMARY = ("method", "config", "domain", "metrics")

FilePath = str | os.PathLike[str]


class PriorFileError(ValueError):
    """A file that cannot be written or read; the message says which and why, in one line."""


class Contents(NamedTuple):
    """A verified file: its header, and its tree as structure and arrays."""

    info: dict[str, Any]
    structure: Any
    arrays: Arrays


def save_prior(prior: Prior, path: FilePath, *, metadata: dict[str, Any] | None = None) -> None:
    """Write a prior to a file, all of it or nothing.

    `metadata` may say which `method` and `config` made the prior, its `domain` (low and high of every input
    in training), `metrics`, and anything else made of numbers, text, lists, dicts and dataclasses.
    """
    extra = dict(metadata or {})
    info = {name: extra.pop(name, None) for name in _SUMMARY} | {
        "standardizer": prior.standardizer,
        "versions": {name: version(name) for name in ("scoreprior", "jax", "equinox", "numpy")},
        "extra": extra,
    }
    write_file(path, "prior", info, prior)


def load_prior(path: FilePath) -> Prior:
    """The prior of a file, identical to the one that was saved."""
    from scoreprior.learners._base import (
        Prior,
    )  # a prior knows how to save itself: this way round is the later one

    contents = read_file(path, "prior")
    with _explained("read", path):
        prior = decode(contents.structure, contents.arrays)
        if not isinstance(prior, Prior):
            raise TreeError(f"it holds a {type(prior).__name__}, not a prior")
    return prior


def describe(path: FilePath) -> dict[str, Any]:
    """The header of a file, its arrays' types and shapes, and its size; the tree is not built."""
    contents = read_file(path)
    with _explained("read", path):
        return _unplain(contents.info) | {
            "class": contents.structure.get("class"),
            "arrays": {name: f"{a.dtype}{list(a.shape)}" for name, a in sorted(contents.arrays.items())},
            "bytes": os.path.getsize(path),
        }


def write_file(path: FilePath, kind: str, info: dict[str, Any], tree: Any) -> None:
    """Write a tree with its header; a failure leaves the directory as it was."""
    with _explained("save", path):
        structure, arrays = encode(tree, f"the {kind}")
        # The checksum covers every byte of the file but itself, which counts as zeros.
        head = {"format": FORMAT, "version": VERSION, "checksum": "0" * 64, "kind": kind}
        head |= {name: _plain(value, name) for name, value in info.items()} | {"tree": structure}
        # One metadata entry: safetensors writes several in random order, and equal priors give equal files.
        text = json.dumps(head, allow_nan=False, separators=(",", ":"))
        data = safetensors.numpy.save(arrays, {FORMAT: text})
        replace_file(path, _with_checksum(data))


def read_file(path: FilePath, kind: str | None = None) -> Contents:
    """Read and verify a file (of this kind); an older one comes as this version has it."""
    with _explained("read", path):
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise TreeError("it is a directory")
        if not stat.S_ISREG(status.st_mode):
            raise TreeError("it is not a regular file")
        if status.st_size == 0:
            raise TreeError("the file is empty")
        with open(path, "rb") as file:
            prefix = file.read(8)
            length = int.from_bytes(prefix, "little")
            # Checked before anything is read: a false length must not claim memory.
            if len(prefix) < 8 or length > min(status.st_size - 8, _LONGEST_HEADER):
                raise TreeError("it is not a Scoreprior file, or it is cut short")
            header = file.read(length)
            info = _parse_header(header, status.st_size - 8 - length)
            data = prefix + header + file.read()
        if _CHECKSUM.search(header) is None or _with_checksum(data) != data:
            raise TreeError("its checksum does not match: it was changed or damaged after it was written")
        if kind not in (None, info["kind"]):
            raise TreeError(f"it is a {info['kind']}, not a {kind}")
        del info["checksum"]
        contents = Contents(info, info.pop("tree"), safetensors.numpy.load(data))
        return contents if info["version"] == VERSION else _from_version_1(contents)


def _from_version_1(contents: Contents) -> Contents:
    if contents.info["kind"] != "prior":
        raise TreeError("it is a checkpoint of Scoreprior 0.1, from which this one cannot go on; start training anew")
    return Contents(contents.info, *convert(contents.structure, contents.arrays))


def _parse_header(header: bytes, available: int) -> dict[str, Any]:
    """The header's metadata, once it is known to be of this format and version and the arrays to be there."""
    try:
        outer = json.loads(header, object_pairs_hook=_no_duplicates)
        info = json.loads(outer["__metadata__"][FORMAT], object_pairs_hook=_no_duplicates)
        ours = info["format"] == FORMAT and type(info["version"]) is int
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TreeError("it is not a Scoreprior file, or its header is damaged") from error
    if not ours:
        raise TreeError("it is not a Scoreprior file")
    if info["version"] not in (_VERSION_1, VERSION):
        hint = "; a newer Scoreprior wrote it" if info["version"] > VERSION else ""
        raise TreeError(f"it has format version {info['version']}, this Scoreprior reads 1 and {VERSION}{hint}")
    if not {"checksum", "kind", "tree"} <= set(info):
        raise TreeError("its header is incomplete")
    needed = max([entry["data_offsets"][1] for name, entry in outer.items() if name != "__metadata__"], default=0)
    if needed > available:
        raise TreeError(f"it is cut short: {available} of {needed} bytes of its arrays are there")
    return info


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def _with_checksum(data: bytes) -> bytes:
    """The file with the checksum of all its other bytes filled in."""
    start, end = _CHECKSUM.search(data).span(1)  # type: ignore[union-attr]
    digest = hashlib.sha256(data[:start] + b"0" * 64 + data[end:]).hexdigest()
    return data[:start] + digest.encode() + data[end:]


def _plain(value: Any, where: str) -> Any:
    """JSON for people: dataclasses become dicts, tuples and arrays become lists."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return _plain(value.tolist(), where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}.{i}") for i, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TreeError(f"{where} in its metadata is a {type(value).__name__}; give numbers, text, lists or dicts")


def _unplain(value: Any) -> Any:
    match value:
        case {"float": "inf" | "-inf" | "nan" as text, **rest} if not rest:
            return float(text)
        case dict():
            return {key: _unplain(item) for key, item in value.items()}
        case list():
            return [_unplain(item) for item in value]
    return value


@contextmanager
def _explained(verb: str, path: FilePath) -> Iterator[None]:
    """One line for whatever goes wrong: a damaged or forged file can make any layer below complain."""
    try:
        yield
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        line = " ".join(reason.split()) or type(error).__name__
        raise PriorFileError(f"Cannot {verb} {str(path)!r}: {line}.") from error
