"""Whatever a page, a hint or a cell tells its reader to type can be typed."""

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
"""What stands for any command."""


def pages() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        yield from ((path.name, one) for one in in_page(path.read_text(encoding="utf-8")))


def hints() -> Iterator[tuple[str, str]]:
    """Of every message as it is really said."""
    for path in sorted(GOLDEN.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("  hint:"):
                yield from ((path.name, one) for one in in_message(line))


def code() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from ((str(path.relative_to(ROOT)), one) for one in in_code(path))


def what_to_do() -> Iterator[tuple[str, str]]:
    """Of the pages of errors and findings, what somebody types who has one."""
    for folder in ("errors", "findings"):
        for path in sorted((DOCS / folder).glob("*-*.md")):
            text = path.read_text(encoding="utf-8").split("## What to do\n")[1]
            yield from ((path.name, one) for one in in_page(text))


def faults(found: Iterator[tuple[str, str]], *, may_name: bool) -> list[str]:
    """`may_name`: a text may speak of a command without saying how it is typed."""
    return [
        f"{where}: {command}: {fault}"
        for where, command in sorted(set(found))
        if command not in NOT_OURS
        if not (may_name and names_only(command))
        if (fault := fault_of(command))
    ]


def test_what_pages_tell_to_type_can_be_typed() -> None:
    assert len(set(pages())) > 150
    assert faults(pages(), may_name=True) == []


def test_what_hints_tell_to_type_can_be_typed() -> None:
    assert len(set(hints())) > 30
    assert faults(hints(), may_name=False) == []


def test_what_code_may_say_can_be_typed() -> None:
    assert len(set(code())) > 80
    assert faults(code(), may_name=True) == []


def test_what_is_to_be_done_about_an_error_or_a_finding_can_be_typed() -> None:
    assert len(set(what_to_do())) > 40
    assert faults(what_to_do(), may_name=False) == []


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
def test_what_cannot_be_typed_is_found(command: str) -> None:
    assert fault_of(command)


def test_a_command_is_found_wherever_it_stands() -> None:
    page = "Run `gpu-ledger a\nb`.\n\n```sh\ngpu-ledger c \\\n  d   # why\n```\n"
    assert in_page(page) == ["gpu-ledger a b", "gpu-ledger c d   # why"]
    assert in_message("  hint: `gpu-ledger a b` says so") == ["gpu-ledger a b"]
    assert in_message("  hint: try: gpu-ledger gaps P") == ["gpu-ledger gaps P"]
    assert in_message("the version of gpu-ledger that wrote it") == []
