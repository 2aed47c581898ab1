"""Every command in a page, a remedy or a table cell has a valid syntax."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.every_error import PACKAGES
from tests.typed_commands import fault_of, in_code, in_message, in_page, names_only
from tests.written_pages import DOCS

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "messages" / "golden"
NOT_OURS = {"gpu-ledger COMMAND --help"}
"""Placeholders for any command."""


def pages() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        yield from ((path.name, one) for one in in_page(path.read_text(encoding="utf-8")))


def remedies() -> Iterator[tuple[str, str]]:
    """The commands in the remedies of all golden messages."""
    for path in sorted(GOLDEN.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("  remedy:"):
                yield from ((path.name, one) for one in in_message(line))


def code() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from ((str(path.relative_to(ROOT)), one) for one in in_code(path))


def page_remedies() -> Iterator[tuple[str, str]]:
    """The commands in the remedies of the pages of errors and findings."""
    for folder in ("errors", "findings"):
        for path in sorted((DOCS / folder).glob("*-*.md")):
            text = path.read_text(encoding="utf-8").split("## What to do\n")[1]
            yield from ((path.name, one) for one in in_page(text))


def faults(found: Iterator[tuple[str, str]], *, may_name: bool) -> list[str]:
    """The commands with invalid syntax. With `may_name`, a text may mention a command by name."""
    return [
        f"{where}: {command}: {fault}"
        for where, command in sorted(set(found))
        if command not in NOT_OURS
        if not (may_name and names_only(command))
        if (fault := fault_of(command))
    ]


def test_commands_in_pages_are_valid() -> None:
    assert len(set(pages())) > 150
    assert faults(pages(), may_name=True) == []


def test_commands_in_remedies_of_errors_are_valid() -> None:
    assert len(set(remedies())) > 30
    assert faults(remedies(), may_name=False) == []


def test_commands_in_code_are_valid() -> None:
    assert len(set(code())) > 80
    assert faults(code(), may_name=True) == []


def test_commands_in_remedies_are_valid() -> None:
    assert len(set(page_remedies())) > 40
    assert faults(page_remedies(), may_name=False) == []


@pytest.mark.parametrize(
    "command",
    [
        "gpu-ledger void",
        "gpu-ledger close P --when-ready",
        "gpu-ledger clsoe P",
        "gpu-ledger landing",
        "gpu-ledger pull --hours",
        "gpu-ledger gaps P then repair",
        "gpu-ledger check 2026-13",
    ],
)
def test_an_invalid_command_is_reported(command: str) -> None:
    assert fault_of(command)


def test_a_command_is_found_in_every_kind_of_text() -> None:
    page = "Run `gpu-ledger a\nb`.\n\n```sh\ngpu-ledger c \\\n  d   # why\n```\n"
    assert in_page(page) == ["gpu-ledger a b", "gpu-ledger c d   # why"]
    assert in_message("  remedy: `gpu-ledger a b` says so") == ["gpu-ledger a b"]
    assert in_message("  remedy: try: gpu-ledger gaps P") == ["gpu-ledger gaps P"]
    assert in_message("the version of gpu-ledger that wrote it") == []
