"""Counts words in the docstrings and comments of packages: `python -m tests.prose [PACKAGE|FILE]…`.

Plain technical English says `what` two or three times in a thousand words. A higher rate means
clauses in place of nouns ("what was asked" for "the query"), so that sentences must be read twice.
`nobody`, `somebody`, `whoever`, `told` and `owed` treat things as persons.

With `--where` it prints the lines. `tests/architecture/test_prose.py` checks the limits.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.every_error import PACKAGES as WITH_ERRORS

ROOT = Path(__file__).parents[1]
PACKAGES = (*WITH_ERRORS, "amd_exporter", "bench")
WHAT_LIMIT = 30
"""Per 10,000 words. httpx, fava and PUDL have 0 to 5; the rest is room for questions and quotes."""

PERSONS_LIMIT = 5
"""Per 10,000 words, all of them together: a person who acts has a role, such as tenant."""

WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
WHAT = re.compile(r"\bwhat\b", re.IGNORECASE)
PERSONS = re.compile(r"\b(nobody|somebody|whoever|told|owed)\b", re.IGNORECASE)


class Prose(NamedTuple):
    """The counts of one file or package."""

    words: int
    what: int
    persons: int

    @property
    def what_rate(self) -> float:
        return 10_000 * self.what / max(self.words, 1)

    @property
    def persons_rate(self) -> float:
        return 10_000 * self.persons / max(self.words, 1)

    @property
    def is_plain(self) -> bool:
        return self.what_rate < WHAT_LIMIT and self.persons_rate < PERSONS_LIMIT


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings, the strings that describe a constant, and the comments, with their lines."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#")


def files_of(name: str) -> list[Path]:
    """The modules of a package or folder, without generated ones; or one file."""
    path = ROOT / name
    if path.is_file():
        return [path]
    return sorted(p for p in path.rglob("*.py") if not p.name.endswith("_pb2.py"))


def count(paths: Iterable[Path]) -> Prose:
    """The counts of these files together."""
    words = what = persons = 0
    for path in paths:
        for _, text in texts_of(path.read_text(encoding="utf-8")):
            words += len(WORD.findall(text))
            what += len(WHAT.findall(text))
            persons += len(PERSONS.findall(text))
    return Prose(words, what, persons)


def places(paths: Iterable[Path]) -> Iterator[str]:
    """Each line with one of the words, as `path:line: text`."""
    for path in paths:
        for first, text in texts_of(path.read_text(encoding="utf-8")):
            for number, line in enumerate(text.splitlines(), first):
                if WHAT.search(line) or PERSONS.search(line):
                    yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def main(arguments: list[str]) -> int:
    names = [name for name in arguments if name != "--where"] or list(PACKAGES)
    counts = {name: count(files_of(name)) for name in names}
    if "--where" in arguments:
        print(*(place for name in names for place in places(files_of(name))), sep="\n")
    print(f"{'':<20}{'words':>8}{'what':>8}{'persons':>9}   per 10,000 words")
    for name, found in counts.items():
        plain = "" if found.is_plain else f"   (limits {WHAT_LIMIT} and {PERSONS_LIMIT})"
        rates = f"{found.what_rate:>8.1f}{found.persons_rate:>9.1f}"
        print(f"{name:<20}{found.words:>8}{rates}{plain}")
    return 0 if all(found.is_plain for found in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
