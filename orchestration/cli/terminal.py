"""Terminals: control characters of any text are spelled out before they reach one.

Put here: the guard of stdout and stderr.
Not here: tables and progress (`output`).
"""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    """The text with its control characters spelled out, because they could hide other text.

    Marks that reverse the order of text are spelled out too; tabs and line ends are not.
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class EscapingStream:
    """A stream to a terminal that spells out control characters."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        return self.terminal.write(escape_controls(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def guard_terminals() -> None:
    """Spell out the control characters of all output to terminals; files and pipes are exact."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)).isatty():
            setattr(sys, name, EscapingStream(stream))
