"""The tour of commands: what they print, what they write, how they exit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import scoreprior as sp
from scoreprior.cli import app
from scoreprior.cli import demo as demo_module

README = Path(__file__).parents[2] / "README.md"


def test_methods_lists_every_method():
    result = CliRunner().invoke(app, ["methods"])
    assert result.exit_code == 0
    for name in sp.methods():
        assert name in result.output


def test_version_and_wrong_calls():
    assert sp.__version__ in CliRunner().invoke(app, ["--version"]).output
    assert CliRunner().invoke(app, ["predict-the-future"]).exit_code == 2
    assert CliRunner().invoke(app, ["demo", "--seed", "today"]).exit_code == 2


def test_demo_prints_the_table_and_writes_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The whole path with quick methods in MARS's place; the real one is the README's command."""
    names = {"mars-gp": "ridge"}
    monkeypatch.setattr(demo_module, "learner", lambda name: sp.learner(names.get(name, name)))
    monkeypatch.setattr(demo_module, "METHODS", ("mars-gp", "vanilla-gp", "last-value"))
    monkeypatch.setattr(demo_module, "TASKS", 5)
    out = tmp_path / "figure.png"
    result = CliRunner().invoke(app, ["demo", "--quiet", "--out", str(out)])
    assert result.exit_code == 0, result.output
    for word in ("RMSE", "calibration", "NLL", "90% coverage", "last-value", "oracle"):
        assert word in result.output
    assert out.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


@pytest.mark.slow
def test_the_readmes_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    scope: dict = {}
    for block in blocks:
        exec(block, scope)
    assert (tmp_path / "sinusoid.prior").exists()


def test_the_readme_shows_both_commands_first():
    top = README.read_text().split("## ")[0]
    assert "make demo" in top
    assert "make test" in top
