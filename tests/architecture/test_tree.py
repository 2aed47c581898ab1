"""The tree reads like the pipeline, and every file says what belongs in it."""

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
    """One stray file there joins the installed dbt package and breaks it."""
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


def test_the_project_speaks_of_itself_alone() -> None:
    """No word about the place where it was made, and no path or host of a machine."""
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
    """A test without an assertion passes for ever."""
    pattern = re.compile(r"\bassert\b|raises|check_|verify|expect|match|\b(both\.|_)same\(")
    silent = []
    for path in tracked(".py"):
        if not path.name.startswith("test_"):
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                body = ast.get_source_segment(text, node) or ""
                if not pattern.search(body):
                    silent.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert silent == []
