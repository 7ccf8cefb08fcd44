"""The built package in new environments, without the repository; needs pip's index."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

USE = """
import importlib.util
import numpy as np, pandas as pd
import scoreprior as sp

for name in ("typer", "rich", "matplotlib", "optuna", "h5py", "yaml", "pooch", "pyarrow", "pytest"):
    assert importlib.util.find_spec(name) is None, name
rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, size=(12, 6))
y = np.sin(x) + rng.normal(size=(12, 1))
table = pd.DataFrame({"task": np.repeat(np.arange(12), 6), "x": x.ravel(), "y": y.ravel()})
tasks = sp.TaskSet.from_frame(table, task="task", inputs="x", target="y")
prior = sp.learner("pooled-gp").fit(tasks, key=0)
prior.save("made.prior")
for each in (prior, sp.load_prior("made.prior")):
    predictive = each.condition([0.0, 1.0], [2.0, 2.9], key=1).predict([0.5])
    assert abs(predictive.mean[0] - 2.5) < 0.5, predictive.mean
    print(predictive.to_frame().to_json())
print(sp.__version__)
"""


def run(*words: str | Path, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}
    environ["PIP_CONSTRAINT"] = str(REPOSITORY / "constraints.txt")
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environ, capture_output=True, text=True, timeout=1200)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", place, REPOSITORY, cwd=place)
    (sdist,) = place.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "tests/test_package.py"} <= names
    (wheel,) = place.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"scoreprior", wheel.name.rpartition("-py3")[0] + ".dist-info"}
    tracked = {str(path.relative_to(REPOSITORY / "src")) for path in (REPOSITORY / "src/scoreprior").rglob("*.py")}
    assert tracked <= set(names)
    assert {"scoreprior/py.typed", "scoreprior/bench/paper_figures.json"} <= set(names)


@pytest.mark.slow
def test_a_bare_install_fits_and_predicts_and_two_extras_run_the_demo(wheel, tmp_path):
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    programs = tmp_path / "venv" / "bin"
    run(programs / "pip", "install", "-q", wheel, cwd=tmp_path)
    one, other, version = run(programs / "python", "-c", USE, cwd=tmp_path).stdout.splitlines()
    assert one == other
    assert f"-{version}-" in wheel.name
    told = run(programs / "scoreprior", "demo", cwd=tmp_path, code=1)
    assert told.stderr.count("\n") == 1
    assert "pip install 'scoreprior[cli]'" in told.stderr
    run(programs / "pip", "install", "-q", f"{wheel}[cli,plots]", cwd=tmp_path)
    shown = run(programs / "scoreprior", "demo", "--out", "demo.png", cwd=tmp_path)
    assert "mars-gp" in shown.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
