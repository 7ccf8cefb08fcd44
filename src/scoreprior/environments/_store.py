"""Where data files live, whether they are intact, and how they get there.

Files are looked up in one directory: the argument `data_dir`, else the variable SCOREPRIOR_DATA, else the
user's cache. A file counts only if its SHA-256 is one we know: loaders never see a truncated or altered one.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_dir

from scoreprior._extras import extra

VARIABLE = "SCOREPRIOR_DATA"
_TIMEOUT_SECONDS = 60


class DataError(RuntimeError):
    """A data file is absent, damaged or cannot be fetched; the message says what to do."""


@dataclass(frozen=True)
class Source:
    """One data file: its name in the data directory, where it is published, and the checksums we accept.

    `sha256[0]` is the file behind `url`; further ones are copies known to hold the same measurements.
    """

    file: str
    url: str
    sha256: tuple[str, ...]
    elsewhere: str
    used_by: tuple[str, ...]


SOURCES = {
    "berkeley": Source(
        file="berkeley_data.mat",
        # A public copy pinned to a commit. Nobody publishes a checksum for this file; ours decides.
        url=(
            "https://raw.githubusercontent.com/sgarg87/nostill_gp/"
            "b8ee5f91a7fc3463fdcee1e608dbaefd98fb9e9e/berkeley_data.mat"
        ),
        sha256=("666164209b45e8e620dc7eee444881449fa5afd375eb81d49f3152d4dc7c08eb",),
        elsewhere="the archive linked in github.com/jonasrothfuss/pacoh_nn (BERKELEY_SENSOR_URL)",
        used_by=("berkeley", "berkeley-full"),
    ),
    "physionet": Source(
        file="physionet2012-set-a.tar.gz",
        url="https://physionet.org/files/challenge-2012/1.0.0/set-a.tar.gz",
        # As PhysioNet publishes it; and a copy that differs in some Age rows, not in GCS or HCT.
        sha256=(
            "8cb250f179cd0952b4b9ebcf8954b63d70383131670fac1cfee13deaa13ca920",
            "abcd119bae0f9f98d5e63b7bce5b2d37c64328e7c1acacab3836d17787d841df",
        ),
        elsewhere="https://physionet.org/content/challenge-2012/1.0.0/ (set-a.tar.gz)",
        used_by=(
            *("physionet-gcs", "physionet-hct", "physionet-hr", "physionet-nimap", "physionet-temp"),
            *("physionet-glucose", "physionet-k", "physionet-na", "physionet-creatinine", "physionet-wbc"),
        ),
    ),
    "swissfel-lines": Source(
        file="swissfel_line_scans_5.hdf5",
        # Public copies, pinned to commits; as above, our checksums decide.
        url=(
            "https://raw.githubusercontent.com/Mojusko/stpy/"
            "5cbc8bbe4dfdce1035c42167b7174e5b21de79b4/examples/test_functions/evaluations.hdf5"
        ),
        sha256=("08488220b0dabe718c3fb208b3e9a0028f4291437e4ca3a1dc64dd58ff366821",),
        elsewhere="github.com/Mojusko/stpy (evaluations.hdf5 in a folder test_functions)",
        used_by=("swissfel-lines",),
    ),
    "swissfel-lines-bpm": Source(
        file="swissfel_line_scans_bpm26.hdf5",
        url=(
            "https://raw.githubusercontent.com/Mojusko/stpy/"
            "8f612996f4ecc15335a9db15da51f81a4839359a/stpy/test_functions/evaluations_bpm.hdf5"
        ),
        sha256=("98dd979837c6abecb48009c6df59944aa52279b8ded850a6e7b7e07a334520ce",),
        elsewhere="github.com/Mojusko/stpy (stpy/test_functions/evaluations_bpm.hdf5)",
        used_by=("swissfel-lines",),
    ),
    "argus-cogging": Source(
        file="argus_cogging.mat",
        url=(
            "https://raw.githubusercontent.com/jonasrothfuss/f-pacoh-torch/"
            "f493656373596689a929284816c0de8a6796c99e/argus_sim/cogging_data.mat"
        ),
        sha256=("db22f7dec3e999d595a5fb9c9e7a45134e8d47e4ef9e1d2282165702e1b63677",),
        elsewhere="the history of github.com/jonasrothfuss/f-pacoh-torch (argus_sim/cogging_data.mat)",
        used_by=("argus-model",),
    ),
}


def cache_directory() -> Path:
    """The user's cache, for downloads and for what can be rebuilt from them."""
    return Path(user_cache_dir("scoreprior"))


def data_directory(data_dir: str | Path | None = None) -> Path:
    """The directory that holds the data files: the argument, else SCOREPRIOR_DATA, else the user's cache."""
    chosen = data_dir if data_dir is not None else os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_directory()


def expected_path(name: str, data_dir: str | Path | None = None) -> Path:
    """Where the file of this data set belongs, whether it is there or not."""
    return data_directory(data_dir) / _source(name).file


def status(name: str, data_dir: str | Path | None = None) -> Literal["present", "absent", "damaged"]:
    """Whether the file of this data set is there and intact."""
    path = expected_path(name, data_dir)
    if not path.is_file():
        return "absent"
    return "present" if checksum(path) in _source(name).sha256 else "damaged"


def locate(name: str, data_dir: str | Path | None = None) -> Path:
    """The intact file of this data set, or a `DataError` that says what is wrong and what to do."""
    source, path = _source(name), expected_path(name, data_dir)
    if not path.is_file():
        raise DataError(
            f"{path} is not there. Run `scoreprior data fetch {name}`, or get it from {source.elsewhere} and "
            f"put it there; {VARIABLE} names the directory."
        )
    actual = checksum(path)
    if actual not in source.sha256:
        raise DataError(
            f"{path} is damaged or is another file: its SHA-256 is {actual}, expected "
            f"{' or '.join(source.sha256)}. Run `scoreprior data fetch {name}` to replace it, or get it from "
            f"{source.elsewhere}."
        )
    return path


def fetch(name: str, data_dir: str | Path | None = None) -> Path:
    """Download the file of this data set unless it is there and intact; an interrupted download is continued.

    Bytes arrive in `<file>.part`; the file appears under its own name only once its checksum is right.
    """
    source, path = _source(name), expected_path(name, data_dir)
    by_hand = f"You can get {source.file} from {source.elsewhere} and put it into {path.parent}."
    try:
        if status(name, data_dir) != "present":
            with extra("data"):
                import pooch
            pooch.retrieve(
                source.url,
                known_hash=f"sha256:{source.sha256[0]}",
                fname=path.name,
                path=path.parent,
                downloader=_Resumable(path.with_name(f"{path.name}.part")),
            )
    except ValueError as error:  # what pooch raises when the checksum is wrong; the bytes are gone by then
        raise DataError(f"{source.url} is not the expected file, and nothing was kept: {error} {by_hand}") from error
    except (OSError, http.client.HTTPException) as error:  # OSError includes urllib's errors and time-outs
        raise DataError(f"{source.file} could not be fetched from {source.url}: {error}. {by_hand}") from error
    return locate(name, data_dir)


def checksum(path: Path) -> str:
    """SHA-256 of a file; a file already hashed by this process is not read again unless it has changed."""
    stat = path.stat()
    key = (path.resolve(), stat.st_size, stat.st_mtime_ns)
    if key not in _CHECKSUMS:
        with path.open("rb") as stream:
            _CHECKSUMS[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _CHECKSUMS[key]


_CHECKSUMS: dict[tuple[Path, int, int], str] = {}


@dataclass(frozen=True)
class _Resumable:
    """A downloader for pooch that keeps what has arrived in `part` and asks for the rest the next time."""

    part: Path

    def __call__(self, url: str, output_file: str, caller: Any) -> None:
        have = self.part.stat().st_size if self.part.is_file() else 0
        try:
            self._append(url, have)
        except urllib.error.HTTPError as error:
            if error.code != 416:  # Range Not Satisfiable: the part is longer than the file, so it is of no use
                raise
            self._append(url, 0)
        os.replace(self.part, output_file)

    def _append(self, url: str, have: int) -> None:
        headers = {"User-Agent": "scoreprior"} | ({"Range": f"bytes={have}-"} if have else {})
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_SECONDS) as answer:
            # A server that ignores Range sends the whole file with status 200: start over.
            continues = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if answer.status == 206 and not continues:
                raise OSError(f"the server continued at {answer.headers.get('Content-Range')}, not at byte {have}")
            length = answer.headers.get("Content-Length")
            with self.part.open("ab" if continues else "wb") as stream:
                shutil.copyfileobj(answer, stream)
        # A dropped connection ends the stream without an error.
        arrived, whole = (
            self.part.stat().st_size,
            int(length) + (have if continues else 0) if length else None,
        )
        if whole is not None and arrived < whole:
            raise OSError(f"the connection ended after {arrived} of {whole} bytes; fetch again to continue from there")


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ValueError(f"There is no data set {name!r}; there are {', '.join(SOURCES)}.")
    return SOURCES[name]
