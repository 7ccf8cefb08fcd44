"""Methods, environments and estimators from outside the package: registered, saved, and seen by every command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import scoreprior as sp
from scoreprior import _plugins
from scoreprior.cli import app
from scoreprior.learners.naive import Ridge
from scoreprior.scores import estimator, estimators, register_estimator
from scoreprior.sklearn import MetaRegressor
from test_docs import DOCS, ROOT, blocks

pytestmark = pytest.mark.usefixtures("registries")


@pytest.fixture
def toy(tmp_path, monkeypatch) -> Path:
    """The directory of a new contributor, with the method of docs/extending.md in it as toy.py."""
    source = next(text for _, text in blocks(DOCS / "extending.md") if text.startswith("# shrunk_mean.py"))
    (tmp_path / "toy.py").write_text(source.replace("shrunk-mean", "toy").replace("# shrunk_mean.py", "# toy.py"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outside(*words: str, plugins: str = "toy") -> subprocess.CompletedProcess:
    """A Python program in another process, in this directory."""
    environ = os.environ | {"SCOREPRIOR_PLUGINS": plugins, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run([sys.executable, *words], env=environ, capture_output=True, text=True)


def tasks(seed: int = 0) -> sp.TaskSet:
    rng = np.random.default_rng(seed)
    return sp.TaskSet.from_arrays(rng.normal(size=(6, 5, 1)), rng.normal(size=(6, 1)) + rng.normal(size=(6, 5)))


def test_a_registered_method_is_seen_everywhere(toy, monkeypatch):
    monkeypatch.setenv("SCOREPRIOR_PLUGINS", "toy")
    assert sp.methods()["toy"].startswith("a constant")
    prior = sp.learner("toy", least=0.1).fit(tasks(), 0)
    prior.save("toy.prior")
    loaded = sp.load_prior("toy.prior")
    assert type(loaded) is type(prior)
    assert sp.serialization.describe("toy.prior")["class"] == "toy/ShrunkMeanPrior"
    found = MetaRegressor(loaded).fit([[0.0], [1.0]], [1.0, 3.0]).predict([[5.0]])
    # The formula of the page, by hand.
    scaler, within, between = loaded.standardizer, float(loaded.within), float(loaded.between)
    y = (np.array([1.0, 3.0]) - scaler.y_mean) / scaler.y_std
    shrunk = (y.sum() / within) / (1 / between + 2 / within)
    np.testing.assert_allclose(found, scaler.y_mean + scaler.y_std * shrunk, rtol=1e-5)
    result = CliRunner().invoke(app, ["methods", "--json"])
    assert "toy" in json.loads(result.stdout)["methods"]


def test_a_file_says_which_method_it_needs(toy):
    sys.path.insert(0, str(toy))
    import toy as registering

    sp.learner("toy").fit(tasks(), 0).save("toy.prior")
    assert registering.ShrunkMean.__module__ == "toy"
    program = "import scoreprior as sp; print(sp.load_prior('toy.prior').condition([], [], 0).predict([[0.0]]).mean)"
    found = outside("-c", program, plugins="")
    assert "PriorFileError" in found.stderr
    assert (
        "it was written with 'toy', which is not registered here; import the module that registers it first"
        in found.stderr
    )
    assert outside("-c", program).returncode == 0
    assert outside("-c", f"import toy; {program}", plugins="").returncode == 0


def test_taken_names_are_refused():
    @dataclass(frozen=True)
    class Other(Ridge):
        pass

    sp.register("my-ridge", Ridge, "the same")
    sp.register("my-ridge", Ridge, "the same, again")  # a module that is imported again
    assert sp.methods()["my-ridge"] == "the same, again"
    for name, build in (("my-ridge", Other), ("ridge", Ridge)):
        with pytest.raises(ValueError, match="already"):
            sp.register(name, build, "another")
    for name in ("", "Ridge", "a,b", "toy/ridge", "two words", 3):
        with pytest.raises(ValueError, match="lower-case"):
            sp.register(name, Ridge, "badly named")
    for name in ("all", "oracle"):
        with pytest.raises(ValueError, match="reserved"):
            sp.register(name, Ridge, "badly named")


def test_nothing_is_registered_where_a_class_is_refused():
    with pytest.raises(ValueError, match="files know it as 'naive-prior'"):
        sp.register("thief", Ridge, "another's class", classes=[sp.learner("ridge").fit(tasks(), 0).__class__])
    with pytest.raises(ValueError, match="no method 'thief'"):
        sp.learner("thief")


def test_environments_and_estimators_are_registered_alike():
    def made(*, split: int = 0, data_dir=None) -> sp.Environment:
        pair = tasks(split).context_target(2)
        return sp.Environment("made", tasks(split + 1), pair, pair, None, split)

    @dataclass(frozen=True)
    class Flat:
        def fit(self, samples):
            return np.zeros_like

    sp.register_environment("made", made)
    assert "made" in sp.environments()
    assert sp.environment("made", split=3).split == 3
    register_estimator("flat", Flat())
    assert "flat" in estimators()
    assert estimator("flat") == Flat()
    for register in (sp.register_environment, register_estimator):
        with pytest.raises(ValueError, match="already"):
            register("made" if register is sp.register_environment else "flat", lambda: None)
    with pytest.raises(ValueError, match="already"):
        sp.register_environment("sinusoid", made)


def test_a_plugin_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOREPRIOR_PLUGINS", "no_such_module")
    with pytest.raises(_plugins.PluginError, match="'no_such_module', which cannot be imported"):
        sp.methods()
    result = CliRunner().invoke(app, ["methods"])
    assert result.exit_code == 2
    assert "SCOREPRIOR_PLUGINS names 'no_such_module'" in result.stderr
    assert sp.learner("ridge") == Ridge()  # of the package: needs no plugin
    (tmp_path / "broken_plugin.py").write_text("1 / 0")
    monkeypatch.setenv("SCOREPRIOR_PLUGINS", " broken_plugin ,")
    with pytest.raises(_plugins.PluginError, match="ZeroDivisionError"):
        sp.methods()


def test_installed_packages_are_imported_by_their_entry_points(toy, monkeypatch):
    sys.path.insert(0, str(toy))
    points = (
        EntryPoint("broken", "no_such_package", _plugins.GROUP),
        EntryPoint("toy", "toy", _plugins.GROUP),
    )
    monkeypatch.setattr(_plugins, "_installed", lambda: points)
    with pytest.warns(UserWarning, match="'broken' cannot be imported"):
        assert "toy" in sp.methods()
    sp.methods()  # the second time, nothing is imported, and nothing warned of


@pytest.mark.slow
def test_a_new_contributor_gets_through_everything(toy):
    """With docs/extending.md alone: fit, predict, inspect, check, bench with workers, and the conformance table."""
    rng = np.random.default_rng(0)
    rows = [f"{i},{x},{i % 4 + rng.normal():.3f}" for i in range(12) for x in range(6)]
    Path("table.csv").write_text("\n".join(["task,x,y", *rows]))

    def command(line: str) -> str:
        found = outside("-m", "scoreprior", *line.split())
        assert found.returncode == 0, f"{line}\n{found.stdout}\n{found.stderr}"
        return found.stdout

    command("fit table.csv --task task --inputs x --target y --method toy --out toy.prior")
    assert sp.serialization.describe("toy.prior")["method"] == "toy"
    command("predict toy.prior table.csv --out predictions.csv")
    assert "toy" in command("inspect toy.prior")
    command("check toy.prior table.csv")
    command("bench run --env sinusoid --method toy,context-mean --seeds 2 --workers 2 --out results")
    assert "toy" in command("bench report --out results") + Path("results").joinpath("report.md").read_text()
    # In another process without the variable, the prior is refused.
    assert "'toy', which is not registered" in outside("-m", "scoreprior", "inspect", "toy.prior", plugins="").stderr
    table = str(ROOT / "tests" / "learners" / "test_conformance.py")
    found = outside("-m", "pytest", table, "-q", "-k", "toy", "-p", "no:cacheprovider")
    assert found.returncode == 0, found.stdout
    assert re.search(r"^\.{8,} ", found.stdout), found.stdout
