"""Every code block and command of the README and the docs runs; so do the examples; the site builds without warnings.

Blocks of a page run in order, in one directory and one scope; one that begins with `# name.py` is that file. Commands
run in this process, except those that install.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scoreprior.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {"README.md": ROOT / "README.md"} | {
    path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))
}
_FILE = re.compile(r"# (\w+\.py)\n")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

QUICK = {
    *("api.md", "architecture.md", "experiment-log.md", "file-format.md", "gallery.md", "results.md"),
    *("troubleshooting.md", "when-not-to-use-it.md", "methods/rules.md", "methods/bayesian-networks.md"),
}
NEEDS_DATA = {"your-own-table.md"}
# They install, download, or run for long and have tests of their own: here they are only asked for their options.
NOT_HERE = (
    "pip install",
    "git clone",
    "scoreprior demo",
    "scoreprior reproduce",
    "scoreprior data fetch",
)


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, registries: None) -> None:
    """Without touching the user's cache, the settings of the other tests' JAX, or what is registered."""
    monkeypatch.setattr("scoreprior.cli.main.keep_compiled", lambda: None)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _BLOCK.finditer(page.read_text())]


def commands(text: str) -> Iterator[list[str]]:
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def run_page(page: Path) -> None:
    sys.path.insert(0, os.getcwd())
    scope: dict = {"__name__": "__page__"}
    for language, text in blocks(page):
        if language == "python" and (named := _FILE.match(text)):
            Path(named[1]).write_text(text)
        elif language == "python":
            exec(compile(text, str(page), "exec"), scope)
        elif language == "bash":
            for words in commands(text):
                run_command(words, page)


def run_command(words: list[str], page: Path) -> None:
    line = " ".join(words)
    if words[0] == "export":
        os.environ.update([words[1].split("=")])
    elif words[0] == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif line.startswith(NOT_HERE):
        if words[0] == "scoreprior":
            check_options(words[1:], page.name)
    elif words[0] == "scoreprior":
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{page.name}: {line}\n{result.output}"
    else:
        subprocess.run([sys.executable, *words[1:]] if words[0] == "python" else words, check=True, cwd=ROOT)


def put_tables(folder: Path) -> None:
    """The tables that the README's commands name, but do not make."""
    rng = np.random.default_rng(0)
    for name, tasks, points in (("readings.csv", 12, 6), ("new.csv", 2, 3), ("held-out.csv", 6, 6)):
        lines = [f"p{i},{hour},{10 + i % 5 + rng.normal():.2f}" for i in range(tasks) for hour in range(points)]
        (folder / name).write_text("\n".join(["patient,hour,gcs", *lines]))


def pages(slow: bool) -> list:
    marks = {name: [pytest.mark.data("physionet")] if name in NEEDS_DATA else [] for name in PAGES}
    return [pytest.param(name, marks=marks[name]) for name in PAGES if (name not in QUICK) == slow]


@pytest.mark.parametrize("name", pages(slow=False))
def test_the_blocks_of_a_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(PAGES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", pages(slow=True))
def test_the_blocks_of_a_long_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "README.md":
        put_tables(tmp_path)
    run_page(PAGES[name])


@pytest.mark.parametrize("name", PAGES)
def test_blocks_say_what_they_are_and_python_compiles(name):
    for language, text in blocks(PAGES[name]):
        assert language in {"python", "bash", "text"}, text
        if language == "python":
            compile(text, name, "exec")


def inline_commands() -> list[tuple[str, str]]:
    return [
        (name, found)
        for name, path in PAGES.items()
        for found in re.findall(r"`(scoreprior [a-z][^`]*)`", path.read_text())
    ]


def check_options(words: list[str], page: str) -> None:
    """The command exists, and so do the options that it is called with."""
    depth = 2 if words[0] in ("data", "bench") and len(words) > 1 and not words[1].startswith("-") else 1
    result = CliRunner().invoke(app, [*words[:depth], "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, f"{page}: {words}"
    for word in words:
        if word.startswith("--"):
            assert word in result.output, f"{page}: {words}"


@pytest.mark.parametrize(("name", "command"), inline_commands())
def test_commands_in_the_text_exist_with_their_options(name, command):
    check_options(shlex.split(command)[1:], name)


def test_the_readme_is_short():
    assert len(PAGES["README.md"].read_text().split()) <= 500


@pytest.mark.parametrize("name", PAGES)
def test_lines_are_short_enough_to_read(name):
    """But for the rows of the tables that the benchmark's report writes."""
    written_by_hand = re.sub(r"<!-- tables -->.*<!-- /tables -->", _without_rows, PAGES[name].read_text(), flags=re.S)
    assert max(map(len, written_by_hand.splitlines())) <= 200


def _without_rows(found: re.Match[str]) -> str:
    return "\n".join(line for line in found[0].splitlines() if not line.startswith("|"))


METAPHORS = (
    r"second opinion|foresight|foretold|points? home|drawn in|\bheard\b|\bwidths\b"
    r"|\bsettl(e|es|ed|ing(?! time))\b"  # a settling time is a term of control
)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "migration.md"])  # that page has the old names
def test_pages_use_the_names_of_the_field(name):
    assert not re.findall(METAPHORS, PAGES[name].read_text())


@pytest.mark.parametrize("name", PAGES)
def test_links_between_pages_and_figures_lead_somewhere(name):
    page = PAGES[name]
    for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{name}: {link}"


def example(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


@pytest.mark.parametrize("name", ["compare_methods.py", "prior_and_posterior.py"])
def test_examples_run_on_a_small_budget(name, tmp_path, monkeypatch):
    example(name, monkeypatch, "--quick", "--out", str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_of_environments_is_drawn(tmp_path, monkeypatch):
    example("environments.py", monkeypatch, "--out", str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("plants_with_treatment.py", "day: RMSE"),
        ("daily_sales.py", "ridge: RMSE"),
        ("dose_response.py", "any number: RMSE"),
        ("machines.py", "ridge: RMSE"),
        ("many_small_tasks.py", "ridge: RMSE"),
        ("two_targets.py", "ridge, heights known: RMSE of width"),
    ],
)
def test_examples_with_tables_run_with_a_quick_method(name, first, monkeypatch, capsys):
    example(name, monkeypatch, "--method", "ridge")
    assert capsys.readouterr().out.startswith(first)


@pytest.mark.slow
def test_the_example_with_a_table_runs(monkeypatch, capsys):
    example("own_table.py", monkeypatch)
    assert "TaskSet(n=15" in capsys.readouterr().out


def test_the_site_builds_without_warnings(tmp_path):
    # Not --quiet: what is not logged is not counted, and warnings would pass.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "posterior_band" in (tmp_path / "site" / "api" / "index.html").read_text()
