"""A decision table's bytes as a header and rows of text: strict, bounded, and never half-read.

Put here: encodings, limits, comments, quotes.
Not here: what the cells mean (`domain.decisions.cells`).

What spreadsheets do is met: a byte-order mark, CRLF, rows of nothing but commas, comments in
quotes. A row is one line, so that every problem has a line number and a forgotten quote cannot
swallow the rest of the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

from domain.decisions.errors import MOST_PROBLEMS_PER_TABLE, UnreadableTable, shown

LARGEST_FILE_BYTES = 100_000_000
"""A table written by people has kilobytes; this keeps a wrong file from filling the memory."""

LONGEST_LINE = 65_536
"""In characters: longer than any reason that anyone reads, shorter than the csv module's limit."""

MOST_ROWS = 100_000
"""Ten years of daily decisions for 27 clusters; a table beyond it was made by a machine."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"

# Control characters other than tab; marks that reverse the order of text, so that a line looks
# like another one (Trojan Source, CVE-2021-42574); halves of a character.
_STRANGE = re.compile(
    "[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


@dataclass(frozen=True, slots=True)
class TextRow:
    """One line's cells, stripped of surrounding space, and where it stands."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A header and the rows below it; `header` is None when the file holds no line of text."""

    header: TextRow | None
    rows: tuple[TextRow, ...]
    problems: tuple[UnreadableTable, ...]


def read_text_table(file: str, body: str | bytes) -> TextTable:
    """Read a table; with a problem that spoils the whole file there are no rows at all."""
    try:
        text = _decoded(file, body)
    except UnreadableTable as problem:
        return TextTable(None, (), (problem,))
    header: TextRow | None = None
    rows: list[TextRow] = []
    problems: list[UnreadableTable] = []
    for row in _rows(file, text):
        if isinstance(row, UnreadableTable):
            problems.append(row)
        elif header is None:
            header = row
        else:
            rows.append(row)
        if len(rows) > MOST_ROWS:
            return TextTable(None, (), (_too_many_rows(file),))
        if len(problems) >= MOST_PROBLEMS_PER_TABLE:
            break
    return TextTable(header, tuple(rows), tuple(problems))


def _decoded(file: str, body: str | bytes) -> str:
    if len(body) > LARGEST_FILE_BYTES:
        raise _unreadable(
            file,
            f"{len(body)} bytes, and at most {LARGEST_FILE_BYTES} are read",
            "look whether another file was copied here",
        )
    if isinstance(body, str):
        return body.removeprefix(_BOM).replace("\r\n", "\n")
    if body.startswith(_UTF16_MARKS):
        raise _unreadable(file, "the file is UTF-16", "save it again as CSV UTF-8")
    try:
        return body.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise _unreadable(
            f"{file} line {line}",
            f"byte 0x{body[error.start]:02x} at offset {error.start} is not UTF-8",
            "save it again as CSV UTF-8",
        ) from None


def _rows(file: str, text: str) -> Iterator[TextRow | UnreadableTable]:
    for number, line in enumerate(StringIO(text, newline="\n"), start=1):
        row = _row(file, number, line.removesuffix("\n"))
        if row is not None:
            yield row


def _row(file: str, number: int, line: str) -> TextRow | UnreadableTable | None:
    where = f"{file} line {number}"
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    if len(line) > LONGEST_LINE:
        remedy = "look for a quote that is never closed"
        return _unreadable(
            where, f"{len(line)} characters, at most {LONGEST_LINE} are read", remedy
        )
    if strange := _STRANGE.search(line):
        seen = f"the character U+{ord(strange[0]):04X} in {shown(line)}"
        return _unreadable(where, seen, "delete it: it cannot be seen, and hides what is decided")
    try:
        cells = tuple(cell.strip() for cell in next(csv.reader([line], strict=True)))
    except csv.Error as error:
        remedy = "close the quote on the same line (a cell has no line break: the lines of an "
        remedy += "address are separated by ;), and double a quote inside a cell"
        return _unreadable(where, f"{error} in {shown(line)}", remedy)
    is_blank_or_comment = not any(cells) or cells[0].startswith("#")
    return None if is_blank_or_comment else TextRow(number, cells)


def _too_many_rows(file: str) -> UnreadableTable:
    remedy = "look whether another file was copied here"
    return _unreadable(file, f"more than {MOST_ROWS} rows", remedy)


def _unreadable(where: str, seen: str, remedy: str) -> UnreadableTable:
    why = "a table of which a part cannot be read decides something else than was written"
    return UnreadableTable(where=where, seen=seen, why=why, remedy=remedy)
