"""The reference of the command line is the command line's own help."""

from __future__ import annotations

import os
from pathlib import Path

from orchestration.cli.reference import reference_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_is_what_the_commands_say() -> None:
    """After a change that is meant: GPU_LEDGER_WRITE_GOLDEN=1 pytest, with this file."""
    page = reference_page()
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")


def test_every_command_is_on_it() -> None:
    page = reference_page()
    from orchestration.cli.main import COMMANDS

    assert [name for name in COMMANDS if f"## gpu-ledger {name}\n" not in page] == []
