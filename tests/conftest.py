"""Tests marked `data` need the real data sets: `@pytest.mark.data("berkeley")`, or all without a name."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

# Nearly all of the suite's time is compilation, and nothing here runs long enough to earn it back.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# XLA's older emitters compile faster. An option that it does not know would end the process.
if version("jaxlib").startswith("0.10.") and "xla_cpu_use_fusion_emitters" not in os.environ.get("XLA_FLAGS", ""):
    _OLDER_EMITTERS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_OLDER_EMITTERS}".strip()
# Workers and the programs that tests start share what they compile, for this run only.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="scoreprior-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What a test registers, imports from its directory or puts in the environment for that is gone after it."""
    from scoreprior import _plugins, _saved_classes
    from scoreprior.environments import _ENVIRONMENTS
    from scoreprior.learners._methods import _METHODS
    from scoreprior.scores.estimators import _ESTIMATORS

    for registry in (_METHODS, _ENVIRONMENTS, _ESTIMATORS):
        for table in ("_entries", "_origins"):
            monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    monkeypatch.setattr(_saved_classes, "_outside", {})
    monkeypatch.setattr(_plugins, "_loaded", set())
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setenv(_plugins.VARIABLE, "")
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("data")
    if marker is None:
        return
    from scoreprior.environments import _store

    missing = [name for name in marker.args or _store.SOURCES if _store.status(name) == "absent"]
    if missing:
        pytest.skip(
            f"no data for {', '.join(missing)}: set SCOREPRIOR_DATA to a directory with "
            f"{', '.join(_store.SOURCES[name].file for name in missing)}, or run `scoreprior data fetch {missing[0]}`"
        )
