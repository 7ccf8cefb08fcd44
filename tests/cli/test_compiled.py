"""Compiled programs in the user's cache: kept, limited, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from own_table import COLUMNS

from scoreprior.cli import _compiled
from scoreprior.cli._compiled import keep_compiled

SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(_compiled, "cache_directory", lambda: tmp_path / "cache")
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_directory_is_made_and_told_to_jax(cache):
    assert keep_compiled() == cache / "compiled"
    assert jax.config.jax_compilation_cache_dir == str(cache / "compiled")
    assert (cache / "compiled").is_dir()


def test_a_setting_of_the_users_own_is_respected(cache):
    jax.config.update("jax_compilation_cache_dir", "/elsewhere")
    assert keep_compiled() is None
    assert jax.config.jax_compilation_cache_dir == "/elsewhere"
    assert not cache.exists()


def test_a_place_that_cannot_be_written_is_left_alone(cache, monkeypatch):
    cache.write_text("a file where the directory should be")
    assert keep_compiled() is None
    cache.unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert keep_compiled() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_the_oldest_make_room(cache):
    (cache / "compiled").mkdir(parents=True)
    for age, name in enumerate(("newest", "older", "oldest")):
        path = cache / "compiled" / name
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    keep_compiled(most_bytes=250)
    assert {path.name for path in (cache / "compiled").iterdir()} == {"newest", "older"}


@pytest.mark.slow
def test_answers_are_the_same_with_and_without_and_after_damage(table, tmp_path):
    """The real command in the user's cache, as XDG_CACHE_HOME names it."""

    def fit(cache: Path) -> dict:
        out = tmp_path / "p.prior"
        command = [sys.executable, "-m", "scoreprior", "fit", table, *COLUMNS, "--out", out, "--method", "pooled-gp"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_COMPILATION", "JAX_PERSISTENT"))}
        environment["XDG_CACHE_HOME"] = str(cache)
        done = subprocess.run([*command, "--quick", "--json"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["held_out"]

    (tmp_path / "no directory").write_text("")
    expected = fit(tmp_path / "no directory")
    kept = tmp_path / "xdg" / "scoreprior" / "compiled"
    assert fit(tmp_path / "xdg") == expected
    entries = list(kept.glob("*-cache"))
    assert entries
    assert fit(tmp_path / "xdg") == expected
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:50])
    assert fit(tmp_path / "xdg") == expected
