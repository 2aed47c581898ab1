"""The reference page of the command line equals the help of the commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from orchestration.cli.main import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def page_of_commands() -> str:
    """Run in a separate process: a command that was run in this one has other help options."""
    said = "from tests.command_line_page import command_line_page as p; print(p(), end='')"
    ran = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, check=True, cwd=PAGE.parents[2]
    )
    return ran.stdout.decode("utf-8")


def test_the_page_equals_the_help_of_the_commands() -> None:
    """To rewrite the page after an intended change, run GPU_LEDGER_WRITE_GOLDEN=1 pytest on this
    file.
    """
    page = page_of_commands()
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_command() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"## gpu-ledger {name}\n" not in page] == []


def test_every_command_shows_its_usage() -> None:
    """A group has commands, each of which shows it."""
    _, *sections = re.split(r"\n#+ gpu-ledger ", PAGE.read_text(encoding="utf-8"))
    assert len(sections) > len(COMMANDS)
    silent = [
        section.splitlines()[0]
        for section in sections
        if "Examples:\n    gpu-ledger " not in section and "Commands:" not in section
    ]
    assert silent == []
