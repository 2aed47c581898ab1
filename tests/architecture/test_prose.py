"""Docstrings and comments are plain technical English; see `tests/prose.py` for the words."""

from __future__ import annotations

import ast
import re

import pytest

from tests.prose import (
    PACKAGES,
    PERSONS,
    PERSONS_LIMIT,
    ROOT,
    WHAT,
    WHAT_LIMIT,
    WORD,
    count,
    files_of,
    texts_of,
)

PLAIN = (
    "amd_exporter",
    "bench",
    "billing",
    "clients",
    "domain",
    "fake_gpu",
    "idle_pruner",
    "ingestion",
    "orchestration",
    "portal",
    "quality",
    "tests",
    "warehouse",
)
"""The packages and folders that keep the limits."""

REPLACED = {"estate", "heal", "judge", "owed", "debt", "stretch", "stretches", "witness"}
"""Words in the place of which docs/vocabulary.md has another one."""


@pytest.mark.parametrize("package", PLAIN)
def test_text_of_package_keeps_the_limits(package: str) -> None:
    """On failure, `python -m tests.prose --where PACKAGE` prints the lines."""
    found = count(files_of(package))
    assert found.what_rate < WHAT_LIMIT
    assert found.persons_rate < PERSONS_LIMIT


def test_text_of_pages_keeps_the_limits() -> None:
    """Headings are not counted: those of the error pages ask a question."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    words = len(WORD.findall(text))
    assert 10_000 * len(WHAT.findall(text)) < WHAT_LIMIT * words
    assert 10_000 * len(PERSONS.findall(text)) < PERSONS_LIMIT * words


def test_names_of_functions_and_classes_have_no_replaced_word() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for package in PACKAGES
        for path in files_of(package)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
        if REPLACED & {part.lower() for part in re.findall(r"[A-Z]?[a-z]+", node.name)}
    ]
    assert found == []


def test_docstrings_and_comments_are_counted_and_code_is_not() -> None:
    source = '"""One."""\nx = "not this"  # two\n"""Three of x."""\n\ndef f():\n    """Four."""\n'
    assert sorted(texts_of(source)) == [
        (1, "One."),
        (2, " two"),
        (3, "Three of x."),
        (6, "Four."),
    ]
