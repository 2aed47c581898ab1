"""The folders have the order of the pipeline, and every module names its contents."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP_LEVEL = {
    "domain",
    "clients",
    "ingestion",
    "warehouse",
    "dbt",
    "quality",
    "billing",
    "orchestration",
    "fake_gpu",
    "tests",
    "bench",
    "docs",
    "portal",
    "idle_pruner",
    "amd_exporter",
    "deploy",
    ".ci",
}
TOP_LEVEL_FILES = {
    "pyproject.toml",
    "workspace.yaml",
    "dagster.yaml",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "uv.lock",
    "constraints.txt",
    "mkdocs.yml",
    ".gitignore",
}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}


def tracked(pattern: str = "") -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in names.splitlines() if name.endswith(pattern)]
    return [path for path in paths if path.exists()]


def source_files() -> list[Path]:
    return [p for p in tracked(".py") if p.relative_to(ROOT).parts[0] not in ("tests", "bench")]


def test_the_top_level_is_fixed() -> None:
    parts = [path.relative_to(ROOT).parts for path in tracked()]
    assert {p[0] for p in parts if len(p) > 1} <= TOP_LEVEL
    assert {p[0] for p in parts if len(p) == 1} <= TOP_LEVEL_FILES


def test_no_python_lives_below_the_dbt_folder() -> None:
    """A Python file there would join the installed dbt package and break it."""
    assert [str(p) for p in tracked(".py") if p.relative_to(ROOT).parts[0] == "dbt"] == []


def test_no_file_has_an_empty_name() -> None:
    assert [str(p) for p in tracked() if p.stem in EMPTY_NAMES] == []


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_belongs_in_it(path: Path) -> None:
    if path.name.endswith("_pb2.py"):
        return  # generated
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert docstring, "a module opens with a docstring"
    if path.name != "__init__.py":
        assert "Put here:" in docstring
        assert "Not here:" in docstring


def test_no_file_mentions_its_development_environment() -> None:
    """No file mentions the environment of its development, or a path or host of one machine."""
    words = re.compile(
        r"/work/|\bissue #?\d|\bsub-?agent|\bhelper-\d|\bthis session\b|pypi\.org|proxy\.golang",
        re.IGNORECASE,
    )
    places = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.name not in ("uv.lock", "test_tree.py", "go.sum")
        and path.suffix in (".py", ".md", ".sql", ".yml", ".yaml", ".toml", ".csv", ".txt", "")
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if words.search(line)
    ]
    assert places == []


def test_every_test_asserts_something() -> None:
    assert [test for path in tracked(".py") for test in silent_tests(path)] == []


def test_a_test_that_only_mentions_an_assertion_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(
        "def check(x):\n    assert x\n\n"
        "def test_direct():\n    assert 1\n\n"
        "def test_through_a_function():\n    check(1)\n\n"
        "def test_comment():\n    # assert verify expect raises\n    print('assert')\n"
    )
    assert [name.rpartition(" ")[2] for name in silent_tests(path)] == ["test_comment"]


# Functions of other modules that assert, by the names that tests use.
ASSERTING = {"raises", "warns", "check_invariants", "check_scenario"}


def silent_tests(path: Path) -> list[str]:
    """The tests of a file that neither assert nor call a function that does."""
    if not path.name.startswith("test_"):
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    asserting = set(ASSERTING)
    while more := {f.name for f in functions if f.name not in asserting and asserts(f, asserting)}:
        asserting |= more
    return [
        f"{path.name}:{function.lineno} {function.name}"
        for function in functions
        if function.name.startswith("test_") and function.name not in asserting
    ]


def asserts(function: ast.AST, asserting: set[str]) -> bool:
    """Whether a function contains an assertion or a call of a function that has one."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) if name in asserting:
                    return True
                case ast.Attribute(attr=name) if name in ASSERTING:
                    return True
    return False


def test_architecture_page_names_files_and_models_that_exist() -> None:
    names = set(re.findall(r"`([\w./]+)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    of_a_home = {"decisions/products.csv", "runs/"}
    paths = {name for name in names if "/" in name} - of_a_home
    models = {name for name in names if re.match(r"(int|fct|dim|stg)_", name)}
    known = {path.stem for path in (ROOT / "dbt" / "models").rglob("*.sql")}
    assert len(paths) > 20
    assert len(models) > 5
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert sorted(models - known) == []
