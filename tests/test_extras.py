"""What a bare install brings, what importing loads, and what is said where an extra is missing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import scoreprior
from scoreprior._extras import MissingExtraError, extra
from scoreprior.cli import app

REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
HEAVY = ("matplotlib", "optuna", "pandas", "scipy.optimize", "scipy.stats", "scoringrules", "typer", "rich", "sklearn")
ASKED_BEFORE = {  # by other means, or by the caller
    ("_progress.py", "rich"),
    ("sklearn.py", "sklearn"),
    ("tasks/files.py", "pyarrow"),
    ("tasks/arrow.py", "pyarrow"),
    *((f"reproduce/{name}.py", "matplotlib") for name in ("score_figure", *(f"figure{i}" for i in (1, 2, 3, 5, 6)))),
}
MODULES = {"pyyaml": "yaml"}  # where a package and its module have different names


@pytest.mark.parametrize(("module", "needed"), [("scoreprior", ()), ("scoreprior.cli", ("typer", "rich"))])
def test_importing_loads_nothing_that_is_used_later_only(module, needed):
    """A mistyped call of the command line is answered after its imports, so these have to be few."""
    later = [name for name in HEAVY if name not in needed]
    code = f"import {module}, sys; print([name for name in {later} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def packages(group: str | None = None) -> set[str]:
    """Modules that the base install brings, or an extra by itself."""
    listed = PROJECT["dependencies"] if group is None else PROJECT["optional-dependencies"][group]
    names = [re.match(r"[A-Za-z0-9_-]+", each).group() for each in listed]  # type: ignore[union-attr]
    return {MODULES.get(name.lower(), name.lower()) for name in names} - {"scoreprior"}


def imports(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return {str(node.module).partition(".")[0]}
    return set()


def asked_for(node: ast.AST) -> str | None:
    """The extra of a `with extra(...)`."""
    call = node.items[0].context_expr if isinstance(node, ast.With) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "extra":
        return str(ast.literal_eval(call.args[0]))
    return None


def foreign_imports(node: ast.AST, group: str | None) -> list[tuple[str | None, str]]:
    """Every imported package that is neither Python's nor ours, with the extra that it is imported under."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return []
    group = asked_for(node) or group
    found = [(group, name) for name in imports(node) if name not in {*sys.stdlib_module_names, "scoreprior"}]
    return found + [each for child in ast.iter_child_nodes(node) for each in foreign_imports(child, group)]


def test_what_is_imported_is_installed_or_named_as_an_extra():
    wrong = []
    for path in sorted((REPOSITORY / "src" / "scoreprior").rglob("*.py")):
        source = path.relative_to(REPOSITORY / "src" / "scoreprior").as_posix()
        group = "cli" if source.startswith("cli/") else None  # its door, `__main__`, has asked for these packages
        for name, package in foreign_imports(ast.parse(path.read_text()), group):
            allowed = packages() | (packages(name) if name else set())
            if package not in allowed and (source, package) not in ASKED_BEFORE:
                wrong.append(f"{source} imports {package}, which is not in {name or 'the base install'}")
    assert wrong == []


def test_everything_for_users_is_in_all():
    named = {"all"}
    for _ in PROJECT["optional-dependencies"]:
        listed = " ".join(each for name in named for each in PROJECT["optional-dependencies"][name])
        named |= {word for inside in re.findall(r"scoreprior\[(.*?)\]", listed) for word in inside.split(",")}
    assert named == {"all", "cli", "plots", "data", "bench", "parquet", "xarray"}


def test_a_missing_package_names_its_extra():
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'scoreprior[bench]'")) as caught, extra("bench"):
        import no_such_package.inside  # type: ignore[import-not-found] # noqa: F401
    assert "needs no_such_package" in str(caught.value)
    with pytest.raises(ModuleNotFoundError) as ours, extra("bench"):
        import scoreprior.no_such_module  # type: ignore[import-not-found] # noqa: F401
    assert not isinstance(ours.value, MissingExtraError)


def test_without_typer_the_command_line_says_in_one_sentence_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from scoreprior.__main__ import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == "Error: This needs typer, which is not installed: pip install 'scoreprior[cli]'\n"


@pytest.mark.parametrize(
    ("package", "group", "used_in", "words"),
    [
        ("matplotlib", "plots", "cli.demo", ["demo"]),
        ("pooch", "data", None, ["data", "fetch", "berkeley"]),  # imported by the function that fetches
        ("optuna", "bench", "bench.tuning", ["bench", "tune", "--env", "sinusoid", "--method", "np", "--workers", "0"]),
    ],
)
def test_commands_say_which_extra_they_need(tmp_path, monkeypatch, package, group, used_in, words):
    monkeypatch.setattr("scoreprior.cli.main.keep_compiled", lambda: None)
    monkeypatch.setenv("SCOREPRIOR_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not there
    if used_in is not None:
        monkeypatch.delitem(sys.modules, f"scoreprior.{used_in}", raising=False)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert result.stderr == f"Error: This needs {package}, which is not installed: pip install 'scoreprior[{group}]'\n"
    assert list(tmp_path.iterdir()) == []


def test_fitting_draws_no_bar_without_rich(monkeypatch):
    from scoreprior import _progress

    monkeypatch.setattr(_progress.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(_progress, "find_spec", lambda name: None)
    with _progress.track(3, "fitting") as advance:
        advance(1)


def test_the_version_is_the_same_everywhere():
    assert "version" in PROJECT["dynamic"]  # pyproject.toml takes it from the package
    assert f"\nversion: {scoreprior.__version__}\n" in (REPOSITORY / "CITATION.cff").read_text()
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    newest = re.search(r"^## \[(\d.*?)\] - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE)
    assert newest is not None
    assert newest[1] == scoreprior.__version__
    assert f"date-released: {newest[2]}" in (REPOSITORY / "CITATION.cff").read_text()
