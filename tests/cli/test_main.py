"""The tour of commands: what they print, what they write, how they exit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import scoreprior as sp
from scoreprior.cli import app
from scoreprior.cli import demo as demo_module
from scoreprior.gp import GaussianProcess
from scoreprior.gp.kernels import Matern, ZeroMean
from scoreprior.inference import ClosedForm
from scoreprior.learners import FunctionPrior
from scoreprior.tasks import Standardizer

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


COMMANDS = (("fit",), ("predict",), ("inspect",), ("check",), ("demo",), ("methods",))
COMMANDS += (("data", "list"), ("data", "fetch"), ("data", "path"), ("reproduce",))
COMMANDS += (
    ("bench", "run"),
    ("bench", "tune"),
    ("bench", "report"),
    ("bench", "curve"),
    ("bench", "suite"),
    ("bench", "draws"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_the_common_options(command):
    text = CliRunner().invoke(app, [*command, "--help"]).stdout
    assert f"Example: scoreprior {' '.join(command)}" in text
    for option in ("--seed", "--quiet", "--json", "--debug"):
        assert option in text


def test_help_reads_like_a_tour():
    text = CliRunner().invoke(app, ["--help"]).stdout
    places = [text.index(f"scoreprior {command}") for command in ("fit", "inspect", "predict", "check", "methods")]
    assert places == sorted(places)


class Given:
    """A Gaussian process that is not fitted."""

    def fit(self, tasks: sp.TaskSet, key: int, *, progress: bool) -> FunctionPrior:
        process = GaussianProcess(ZeroMean(), Matern(np.ones(()), np.ones(1), 2.5), np.array(0.1))
        return FunctionPrior(Standardizer.fit(tasks), ClosedForm(process))


def test_demo_prints_the_tables_and_writes_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The whole path with a process that is not fitted in MARS's place; the real one is the README's command."""
    monkeypatch.setattr(demo_module, "learner", lambda name, **_: sp.learner(name) if "gp" not in name else Given())
    monkeypatch.setattr(demo_module, "ENVIRONMENTS", {"sinusoid": 5, "dose-response": 6})
    monkeypatch.setattr(demo_module, "TASKS", 5)
    out = tmp_path / "figure.png"
    result = CliRunner().invoke(app, ["demo", "--quiet", "--out", str(out)])
    assert result.exit_code == 0, result.output
    for word in ("sinusoid", "dose-response", "RMSE", "calibration", "NLL", "90% coverage", "last-value", "oracle"):
        assert word in result.output
    assert "On dose-response, MARS is a Gaussian process in closed form." in result.output
    assert out.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


def test_the_readme_shows_both_commands_first():
    top = README.read_text().split("## Ten lines")[0]
    assert "make demo" in top
    assert "make test" in top
