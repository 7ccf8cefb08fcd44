"""`scoreprior data`: what it prints and how it exits (0 fine, 1 the work failed, 2 the call was wrong)."""

from __future__ import annotations

import hashlib

import pytest
from typer.testing import CliRunner

from scoreprior.cli.data import data_app
from scoreprior.environments import _store

CONTENT = b"readings"


@pytest.fixture(autouse=True)
def _sources(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://127.0.0.1:9/toy.mat"  # nothing listens on the discard port
    digest = hashlib.sha256(CONTENT).hexdigest()
    sources = {
        "toy": _store.Source("toy.mat", url, (digest,), "the shelf", ("toy-env", "toy-env-full")),
        "other": _store.Source("other.mat", url, (digest,), "the shelf", ("other-env",)),
    }
    monkeypatch.setattr(_store, "SOURCES", sources)
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments: object):
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


def test_list_shows_what_is_present_absent_and_damaged(tmp_path):
    (tmp_path / "toy.mat").write_bytes(CONTENT)
    result = run("list", "--data-dir", tmp_path)
    assert result.exit_code == 0
    toy, other = (next(row for row in result.output.splitlines() if f"{name}.mat" in row) for name in ("toy", "other"))
    assert "present" in toy
    assert "0.0 MB" in toy
    assert "toy-env, toy-env-full" in toy
    assert "absent" in other
    assert "MB" not in other
    assert str(tmp_path) in result.output
    (tmp_path / "other.mat").write_bytes(b"half of it")
    assert "damaged" in run("list", "--data-dir", tmp_path).output


def test_path_prints_the_directory_or_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SCOREPRIOR_DATA", str(tmp_path))
    (tmp_path / "toy.mat").write_bytes(CONTENT)
    assert run("path").stdout.strip() == str(tmp_path)
    assert run("path", "toy").stdout.strip() == str(tmp_path / "toy.mat")


def test_path_of_an_absent_file_fails_and_says_what_to_do(tmp_path):
    result = run("path", "other", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "scoreprior data fetch other" in result.stderr


def test_fetch_of_a_present_file_prints_its_path(tmp_path):
    (tmp_path / "toy.mat").write_bytes(CONTENT)
    result = run("fetch", "toy", "--data-dir", tmp_path)
    assert result.exit_code == 0
    assert result.stdout.strip() == str(tmp_path / "toy.mat")


def test_fetch_that_fails_exits_with_one(tmp_path):
    result = run("fetch", "toy", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "could not be fetched" in result.stderr
    assert "the shelf" in result.stderr


@pytest.mark.parametrize("arguments", [("fetch", "nothing"), ("path", "nothing"), ("fetch",), ("list", "--what")])
def test_a_wrong_call_exits_with_two(arguments):
    assert run(*arguments).exit_code == 2
