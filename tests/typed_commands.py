"""gpu-ledger commands in texts for readers: found, and parsed without running them.

Put here: finding `gpu-ledger …` in pages, messages and code, and checking it with click.
Not here: the choice of texts, or permission to name a command only (the test about them).
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import click

from domain.errors import LedgerError
from orchestration.cli.main import COMMANDS, cli

PROGRAM = "gpu-ledger"
HOUR = "2026-10-03T07"
"""Replaces words in capitals and the braces of f-strings."""
PLACEHOLDERS = {
    "P": "2026-10",
    "FROM": f"{HOUR}:00:00Z",
    "UNTIL": f"{HOUR}:00:00Z",
    "A..B": f"{HOUR}..2026-10-03T09",
    "FROM..UNTIL": f"{HOUR}..2026-10-03T09",
    "SOURCE": "thanos",
    "TREATMENT": "bill_lifecycle",
}
FILLED_IN = {
    r"(?<=--period )\{[^{}]*\}|\{period[^{}]*\}": "2026-10",
    r"(?<=--hours )\{[^ ]*\}": PLACEHOLDERS["A..B"],
    r"(?<=--from )\{[^{}]*\}|(?<=--to )\{[^{}]*\}": PLACEHOLDERS["FROM"],
    r"(?<=--source )\{[^{}]*\}": "thanos",
    r"(?<=--port )\{[^{}]*\}": "3001",
    r"\{cluster\}|\{whose\}": "--cluster ID",
    r"\{opened\.option\}": "--home HOME",
    r"\{[^{}]*\}": "VALUE",
}
FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(rf"`({PROGRAM}(?: [^`]*)?)`")
LINE = re.compile(rf"^\s*(?:\$ )?((?:[A-Z_]+=\S+ )*{PROGRAM} .*)$", re.MULTILINE)
# The end of a command: a comment in its own column, the next program, or a redirection.
ENDS = re.compile(r"\s{2,}|\s#|\s[|<>]|\s\d?>|\s?&&?|;|\)|, then |, and with | recomputes | walks ")
BARE = re.compile(rf"(?<![\w`/-])({PROGRAM} (?:{'|'.join(map(re.escape, COMMANDS))})\b[^`\n]*)")


def in_page(text: str) -> list[str]:
    """The commands in Markdown: in backticks, and in lines of blocks that begin with a command."""
    blocks = re.sub(r"\\\n(?:> )?\s*", "", "\n".join(FENCED.findall(text)))
    prose = " ".join(FENCED.sub("", text).split())
    return [*QUOTED.findall(prose), *LINE.findall(blocks)]


def in_message(text: str) -> list[str]:
    """The commands in a remedy: in backticks; otherwise from the command to the end of its line."""
    return [*QUOTED.findall(text), *BARE.findall(QUOTED.sub("", text))]


def in_code(path: Path) -> Iterator[str]:
    """The commands in all strings of a module, with braces in place of inserted values."""
    inner: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):  # from the outside in
        match node:
            case ast.Call(func=ast.Name(id="command_cell"), args=[_, *parts]):
                inner |= {id(child) for part in parts for child in ast.walk(part)}
                yield from in_message(" ".join(map(_text_of, parts)))
            case ast.JoinedStr(values=values) if id(node) not in inner:
                inner |= {id(value) for value in values}
                yield from in_message(_text_of(node))
            case ast.Constant(value=str(text)) if id(node) not in inner:
                if "Examples:" not in text:  # these are on the page of help
                    yield from in_message(" ".join(text.split()))


def _text_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(_text_of, values))
        case ast.FormattedValue(value=ast.Name() | ast.Attribute() | ast.Subscript()):
            return f"{{{ast.unparse(node.value)}}}"
        case ast.Name(id=name):
            return f"{{{name}}}"
    return "{}"


def words_of(command: str) -> list[str]:
    """The words after the program, with placeholders filled in."""
    for braced, value in FILLED_IN.items():
        command = re.sub(braced, value, command)
    command = ENDS.split(re.sub(r"^(?:[A-Z_]+=\S+ )+", "", command))[0]
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(command)[1:]]


def names_only(command: str) -> bool:
    """Whether it is only the name of the program or of a command, without arguments."""
    found, words = _command_of(command)
    return found is not None and not words


def _command_of(command: str) -> tuple[click.Command | None, list[str]]:
    """The command that the first words name, if any, and the words after them."""
    try:
        words = words_of(command)
    except ValueError:  # an unclosed quotation
        return None, []
    found: click.Command | None = cli
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        found = found.get_command(click.Context(found), words.pop(0))
    return found, words


def fault_of(command: str) -> str:
    """The reason why the command is invalid; empty if it is valid."""
    found, words = _command_of(command)
    if found is None:
        return "there is no such command"
    if isinstance(found, click.Group) and not words:
        return "names a group of commands"
    try:
        # Files of a reader do not exist here.
        with (
            patch.object(click.Path, "convert", lambda self, value, param, ctx: Path(value)),
            patch.object(click.File, "convert", lambda self, value, param, ctx: StringIO()),
            redirect_stdout(StringIO()),  # --help
        ):
            found.make_context(found.name, words)
    except click.exceptions.Exit:
        return ""  # --help, --version
    except click.ClickException as error:
        return error.format_message()
    except LedgerError as error:
        return error.message()
    return ""
