"""A table, and a prior fitted to it by a method that is quick."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_table import COLUMNS, rows, run

from scoreprior import diagnostics


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a wide screen, and without touching the user's cache or the settings of the other tests' JAX."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("scoreprior.cli.main.keep_compiled", lambda: None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["patient,hour,mood,gcs", *rows()]) + "\n")
    return path


@pytest.fixture
def no_gp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pooled process, which takes seconds to compile."""
    rules = tuple(name for name in diagnostics.RULES if name != "pooled-gp")
    monkeypatch.setattr(diagnostics, "RULES", rules)


@pytest.fixture
def prior(table: Path, no_gp: None) -> Path:
    path = table.with_name("gcs.prior")
    result = run("fit", table, *COLUMNS, "--out", path, "--method", "ridge", "--no-hold-out")
    assert result.exit_code == 0, result.output
    return path
