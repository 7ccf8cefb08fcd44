"""The data store: intact files only, and downloads that continue where they stopped."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from scoreprior.environments import _store
from scoreprior.environments._store import DataError, Source, fetch, locate, status

CONTENT = np.random.default_rng(0).bytes(300_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `content` at every path; remembers the Range header of each request."""

    def __init__(self, content: bytes, ranges: bool):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.ranges = content, ranges
        self.stop_after: int | None = None  # bytes of a body after which the connection is dropped
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        total = len(self.server.content)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        if start >= total:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{total}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.stop_after])

    def log_message(self, *args: object) -> None:
        """Keep the test output clean."""


@contextmanager
def serve(content: bytes = CONTENT, *, ranges: bool = True) -> Iterator[Server]:
    server = Server(content, ranges)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def register(monkeypatch: pytest.MonkeyPatch, url: str, *others: str) -> None:
    source = Source("file.bin", url, (DIGEST, *others), "the shelf", ("nothing",))
    monkeypatch.setattr(_store, "SOURCES", {"toy": source})


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "http://127.0.0.1:9/file.bin")


def test_the_data_directory_is_the_argument_then_the_variable_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SCOREPRIOR_DATA", str(tmp_path / "variable"))
    assert _store.data_directory(tmp_path / "argument") == tmp_path / "argument"
    assert _store.data_directory() == tmp_path / "variable"
    monkeypatch.setenv("SCOREPRIOR_DATA", "")
    assert _store.data_directory() == _store.cache_directory()
    monkeypatch.delenv("SCOREPRIOR_DATA")
    assert _store.data_directory() == _store.cache_directory()


def test_an_intact_file_is_located(tmp_path, toy):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    assert locate("toy", tmp_path) == tmp_path / "file.bin"
    assert status("toy", tmp_path) == "present"


def test_a_known_second_copy_is_accepted_and_not_downloaded_over(tmp_path, monkeypatch):
    other = b"same measurements, other bytes"
    register(monkeypatch, "http://127.0.0.1:9/file.bin", hashlib.sha256(other).hexdigest())
    (tmp_path / "file.bin").write_bytes(other)
    assert fetch("toy", tmp_path).read_bytes() == other


def test_an_absent_file_says_how_to_get_it(tmp_path, toy):
    assert status("toy", tmp_path) == "absent"
    with pytest.raises(DataError, match=r"file\.bin is not there.*scoreprior data fetch toy.*the shelf"):
        locate("toy", tmp_path)


@pytest.mark.parametrize("damaged", [CONTENT[:-1], b"", CONTENT[:1000] + b"\0" + CONTENT[1001:]])
def test_a_damaged_file_is_an_error_with_both_checksums(tmp_path, toy, damaged):
    (tmp_path / "file.bin").write_bytes(damaged)
    assert status("toy", tmp_path) == "damaged"
    with pytest.raises(DataError) as caught:
        locate("toy", tmp_path)
    for part in (str(tmp_path / "file.bin"), DIGEST, hashlib.sha256(damaged).hexdigest(), "data fetch toy"):
        assert part in str(caught.value)


def test_a_file_is_hashed_once_and_again_when_it_changes(tmp_path, toy, monkeypatch):
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    reads = []
    digest = hashlib.file_digest
    monkeypatch.setattr(_store.hashlib, "file_digest", lambda *args: reads.append(args) or digest(*args))
    for _ in range(3):
        locate("toy", tmp_path)
    assert len(reads) == 1
    before = path.stat()
    path.write_bytes(CONTENT[::-1])  # the same size; only the time tells
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(DataError, match="damaged"):
        locate("toy", tmp_path)
    assert len(reads) == 2


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="There is no data set 'mnist'; there are berkeley, physionet"):
        locate("mnist", tmp_path)


def test_fetch_downloads_once_into_a_new_directory(tmp_path, monkeypatch):
    directory = tmp_path / "not" / "yet"
    with serve() as server:
        register(monkeypatch, server.url)
        for _ in range(2):
            assert fetch("toy", directory).read_bytes() == CONTENT
    assert server.asked == [None]
    assert os.listdir(directory) == ["file.bin"]


@pytest.mark.parametrize("ranges", [True, False], ids=["server with Range", "server without Range"])
def test_an_interrupted_download_continues(tmp_path, monkeypatch, ranges):
    part = tmp_path / "file.bin.part"
    with serve(ranges=ranges) as server:
        register(monkeypatch, server.url)
        server.stop_after = 100_000
        with pytest.raises(DataError, match="ended after 100000 of 300000 bytes; fetch again to continue"):
            fetch("toy", tmp_path)
        assert part.read_bytes() == CONTENT[:100_000]
        assert os.listdir(tmp_path) == ["file.bin.part"]
        server.stop_after = None
        assert fetch("toy", tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]
    assert os.listdir(tmp_path) == ["file.bin"]


def test_a_part_as_long_as_the_file_or_longer_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    with serve() as server:
        register(monkeypatch, server.url)
        assert fetch("toy", tmp_path).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_wrong_file_is_refused_and_nothing_is_kept(tmp_path, monkeypatch):
    with serve(CONTENT[:-1] + b"!") as server:
        register(monkeypatch, server.url)
        with pytest.raises(DataError, match=f"not the expected file.*{DIGEST}.*the shelf"):
            fetch("toy", tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_part_of_another_file_is_found_out_and_dropped(tmp_path, monkeypatch):
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    with serve() as server:
        register(monkeypatch, server.url)
        with pytest.raises(DataError, match="not the expected file"):
            fetch("toy", tmp_path)
        assert os.listdir(tmp_path) == []
        assert fetch("toy", tmp_path).read_bytes() == CONTENT


def test_a_damaged_file_is_replaced_only_by_a_good_one(tmp_path, monkeypatch):
    path = tmp_path / "file.bin"
    path.write_bytes(b"damaged")
    with serve(b"wrong") as server:
        register(monkeypatch, server.url)
        with pytest.raises(DataError):
            fetch("toy", tmp_path)
        assert path.read_bytes() == b"damaged"
        server.content = CONTENT
        assert fetch("toy", tmp_path).read_bytes() == CONTENT


def test_an_unreachable_server_names_the_other_way(tmp_path, toy):
    with pytest.raises(DataError, match=r"could not be fetched from http://127\.0\.0\.1:9.*from the shelf and put"):
        fetch("toy", tmp_path)
    assert os.listdir(tmp_path) == []


def test_every_source_is_used_by_environments_that_exist():
    from scoreprior.environments import environments

    for source in _store.SOURCES.values():
        assert set(source.used_by) <= set(environments())
        assert source.url.startswith("https://")
        assert all(len(digest) == 64 and int(digest, 16) for digest in source.sha256)


@pytest.mark.data
def test_the_real_files_are_intact():
    assert [Path(locate(name)).name for name in _store.SOURCES] == [s.file for s in _store.SOURCES.values()]
