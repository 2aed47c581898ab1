"""Pages with commands and their output: read, run again, compared.

Put here: reading `console` blocks, running them in a shell, comparing the output.
Not here: the list of pages, or the folder in which they run (`tests/scenarios`).

A line that begins with `$ ` is a command (with its continuations, which begin with `> `); the lines
until the next command are its output. In the output `…` stands for any text within a line, and a
line with only `…` for any lines. The page must show the status of a command that fails: the next
command is `echo $?`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A page that takes longer hangs; the longest takes less than a minute on an idle machine.
PAGE_SECONDS = 600
_AFTER = "<<< after command"
ANY = "…"
ASKS_FOR_THE_CODE = "echo $?"


@dataclass(frozen=True, slots=True)
class PageCommand:
    """One command of a page, and its output on the page."""

    where: str  # page:line
    command: str
    said: tuple[str, ...]


def commands(page: Path) -> list[PageCommand]:
    """All commands of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1)) + 1
        found += list(_of_block(page.name, first, block.group(1).splitlines()))
    return found


def _of_block(name: str, first: int, lines: list[str]) -> Iterator[PageCommand]:
    typed: list[str] = []
    said: list[str] = []
    where = ""
    for number, line in enumerate(lines, first):
        if line.startswith("$ "):
            if typed:
                yield PageCommand(where, "\n".join(typed), tuple(said))
            where, typed, said = f"{name}:{number}", [line[2:]], []
        elif (line == ">" or line.startswith("> ")) and typed and not said:
            typed.append(line[2:])
        else:
            assert typed, f"{name}:{number}: output before any command"
            said.append(line)
    if typed:
        yield PageCommand(where, "\n".join(typed), tuple(said))


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The output of a command: both streams, and its exit status."""

    text: str
    code: int = 0


def type_page(
    typed: Sequence[PageCommand], folder: Path, variables: Mapping[str, str] | None = None
) -> list[CommandOutput]:
    """Run all commands in one shell like a reader; returns the output of each.

    The folder's own path is removed from the output; background processes are stopped at the end.
    """
    # Restores the status, so that the next command can print it.
    after = f"_code=$?; echo; echo {_AFTER!r} $_code; (exit $_code)"
    script = "\n".join(f"{one.command}\n{after}" for one in typed)
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **(variables or {})}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-c", script + "\nkill $(jobs -p) 2>/dev/null\n"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        really, _ = shell.communicate(timeout=PAGE_SECONDS)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    plain = really.replace(f"{folder}/", "").replace(str(folder), ".")
    said = re.split(rf"\n{_AFTER} (\d+)\n", plain)
    assert len(said) == 2 * len(typed) + 1, f"the shell ended early:\n{really}"
    return [
        CommandOutput(text, int(code)) for text, code in zip(said[:-1:2], said[1::2], strict=True)
    ]


def stale(typed: Sequence[PageCommand], really: Sequence[CommandOutput]) -> list[str]:
    """The commands whose output differs from the page, or whose failure the page does not show."""
    found = []
    after = [one.command for one in typed[1:]] + [""]
    for one, came, then in zip(typed, really, after, strict=True):
        other = difference(one.said, came.text)
        if came.code and then != ASKS_FOR_THE_CODE:
            other += f"\nit ends with {came.code}, and the page does not say so:\n{came.text}"
        found += [f"{one.where} $ {one.command}\n{other}"] if other else []
    return found


def difference(said: tuple[str, ...], really: str) -> str:
    """Empty if the page is right; otherwise both texts."""
    if _matches(_stripped(said), _stripped(really.splitlines())):
        return ""
    return "the page says:\n" + "\n".join(said) + "\n\nit really says:\n" + really


def _stripped(lines: tuple[str, ...] | list[str]) -> list[str]:
    kept = [line.rstrip() for line in lines]
    return [line for line in kept if line]


def _matches(said: list[str], really: list[str]) -> bool:
    if not said:
        return not really
    if said[0].strip() == ANY:
        return any(_matches(said[1:], really[skip:]) for skip in range(len(really) + 1))
    return bool(really) and _same(said[0], really[0]) and _matches(said[1:], really[1:])


def _same(said: str, really: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in said.split(ANY))
    return re.fullmatch(pattern, really) is not None
