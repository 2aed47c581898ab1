"""Reading decision tables: bytes into text, text into typed rows, all tables into decisions.

Put here: encodings and limits, matching of headers, problems with file and line.
Not here: the columns (`tables`), or files on a disk: text and bytes come in as values.

The reader accepts the habits of spreadsheets: a byte-order mark, CRLF, rows of only commas,
comments in quotes. A row is one line, so every problem has a line number, and a forgotten quote
does not affect the other lines.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from io import StringIO
from typing import Any

from domain.decisions.book import Decisions
from domain.decisions.cells import CellRefused
from domain.decisions.consistency import (
    LONGEST_ROW_SHOWN,
    contradictions,
    unknown_clusters,
    unpriced_currencies,
)
from domain.decisions.problems import (
    MOST_PROBLEMS_PER_TABLE,
    DecisionsRefused,
    InvalidDecision,
    listed,
)
from domain.decisions.rates import Rates, unsigned_price_changes
from domain.decisions.rows import Row, TableName
from domain.decisions.sealed_copies import in_canonical_order
from domain.decisions.table_form import DecisionTable
from domain.decisions.tables import TABLE_BY_FILE, TABLE_BY_NAME, TABLES
from domain.errors import BadInput, shown


def read_decisions(files: Mapping[str, str | bytes]) -> tuple[Decisions, list[BadInput]]:
    """The valid rows, and every problem of every file.

    `files` maps names such as `rates.csv` to their content; a missing table is empty.
    Decisions with problems must not be used for counting.
    """
    rows, problems = _read_tables(files)
    all_read = not problems  # a name may be unknown only because its own row is invalid
    problems += contradictions(rows, _as_in_file)
    problems += Rates(rows[TableName.RATES]).undecided()
    if all_read:
        problems += unknown_clusters(rows.__getitem__)
        problems += unpriced_currencies(rows.__getitem__)
    decisions = _decisions(rows)
    return replace(decisions, problems=tuple(unsigned_price_changes(decisions.rates))), problems


def load_decisions(files: Mapping[str, str | bytes]) -> Decisions:
    """The decisions, or one error that lists their problems."""
    decisions, problems = read_decisions(files)
    if problems:
        raise DecisionsRefused(problems)
    return decisions


def load_sealed_copy(files: Mapping[str, str | bytes]) -> Decisions:
    """The copy that a close sealed (`canonical_files`), with the checks of its cells and columns.

    Rows are not compared with each other: the copy lacks rows that held only at other times, such
    as the row that once decided between two prices. The tables were consistent when it was sealed.
    """
    rows, problems = _read_tables(files)
    if problems:
        raise DecisionsRefused(problems)
    return _decisions(rows)


def _read_tables(
    files: Mapping[str, str | bytes],
) -> tuple[dict[TableName, list[Any]], list[BadInput]]:
    problems: list[BadInput] = [_unknown_table(f) for f in sorted(files) if f not in TABLE_BY_FILE]
    rows: dict[TableName, list[Any]] = {table.name: [] for table in TABLES}
    for table in TABLES:
        if table.file in files:
            rows[table.name], table_problems = read_table(table, files[table.file])
            problems += table_problems
    return rows, problems


def _decisions(rows: dict[TableName, list[Any]]) -> Decisions:
    return Decisions(**{t.name.value: in_canonical_order(t, rows[t.name]) for t in TABLES})


def _as_in_file(table: TableName, row: Row) -> str:
    cells = ",".join(TABLE_BY_NAME[table].cells_of(row))
    return cells if len(cells) <= LONGEST_ROW_SHOWN else f"{cells[:LONGEST_ROW_SHOWN]}…"


def _unknown_table(file: str) -> InvalidDecision:
    near = get_close_matches(file[:80], list(TABLE_BY_FILE), n=1)
    remedy = f"rename it to {near[0]}" if near else f"the tables are {', '.join(TABLE_BY_FILE)}"
    return InvalidDecision(
        where=f"decisions/{shown(file)[1:-1]}",
        seen="gpu-ledger has no table of this name",
        why="its decisions would have no effect, and nothing would show that",
        remedy=remedy,
    )


# One table ----------------------------------------------------------------------------------------


def read_table(table: DecisionTable, body: str | bytes) -> tuple[list[Row], list[BadInput]]:
    """The valid rows, and the problems of the others."""
    text = read_text_table(table.file, body)
    problems: list[BadInput] = list(text.problems)
    if text.header is None:
        return [], problems or [_no_header(table)]
    if wrong_columns := _wrong_columns(table, text.header):
        return [], [*problems, wrong_columns]
    rows: list[Row] = []
    for text_row in text.rows:
        row, row_problems = _read_row(table, text.header, text_row)
        problems += row_problems
        if row is not None:
            rows.append(row)
        if len(problems) >= MOST_PROBLEMS_PER_TABLE:
            break
    return rows, problems


def _read_row(
    table: DecisionTable, header: TextRow, text_row: TextRow
) -> tuple[Row | None, list[BadInput]]:
    if len(text_row.cells) != len(header.cells):
        return None, [_wrong_length(table, header, text_row)]
    texts = dict(zip(header.cells, text_row.cells, strict=True))
    values: dict[str, Any] = {"line": text_row.line}
    problems: list[BadInput] = []
    for column in table.columns:
        try:
            values[column.attribute] = column.cell.read(texts.get(column.name, ""))
        except CellRefused as refused:
            where = _where(table, text_row.line, column.name)
            problems.append(_wrong_cell(where, refused.seen, refused.remedy))
    if problems:
        return None, problems
    row = table.row_class(**values)
    problems = [
        _wrong_cell(_where(table, text_row.line, o.column), o.seen, o.remedy)
        for o in table.check(row)
    ]
    return (None if problems else row), problems


def _wrong_columns(table: DecisionTable, header: TextRow) -> InvalidDecision | None:
    known = [column.name for column in table.columns]
    needed = [column.name for column in table.columns if not column.may_be_absent]
    counts = Counter(header.cells)
    parts = [
        ("missing", [name for name in needed if name not in counts]),
        ("unknown", [_unknown(name, known) for name in counts if name not in known]),
        ("more than once", [shown(name) for name in counts if counts[name] > 1]),
    ]
    seen = "; ".join(f"{kind}: {listed(names)}" for kind, names in parts if names)
    if not seen:
        return None
    other_separator = len(header.cells) == 1 and any(mark in header.cells[0] for mark in ";\t")
    also = ", separated by commas" if other_separator else ""
    return InvalidDecision(
        where=f"{table.file} line {header.line}",
        seen=seen,
        why="an unknown column may be the one that matters",
        remedy=f"write the header as{also}: {','.join(known)}",
    )


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name[:80], known, n=1)
    return f"{shown(name)} (is it {near[0]}?)" if near else shown(name)


def _no_header(table: DecisionTable) -> InvalidDecision:
    return InvalidDecision(
        where=table.file,
        seen="no header: the file is empty or has only comments",
        why="an emptied table looks like a table without decisions",
        remedy=f"write the header as: {','.join(c.name for c in table.columns)}",
    )


def _wrong_length(table: DecisionTable, header: TextRow, row: TextRow) -> InvalidDecision:
    return InvalidDecision(
        where=f"{table.file} line {row.line}",
        seen=f"{len(row.cells)} cells; the header has {len(header.cells)}",
        why="with a cell too many or too few the others are in the wrong columns",
        remedy="put text with a comma into double quotes, and write empty cells as ,,",
    )


def _wrong_cell(where: str, seen: str, remedy: str) -> InvalidDecision:
    why = "the decision cannot be used, and nothing is counted without it"
    return InvalidDecision(where=where, seen=seen, why=why, remedy=remedy)


def _where(table: DecisionTable, line: int, column: str) -> str:
    return f"{table.file} line {line}, column {column}"


# Bytes and lines ----------------------------------------------------------------------------------

LARGEST_FILE_BYTES = 100_000_000
"""A decision table has kilobytes; the limit keeps a wrong file from filling the memory."""

LONGEST_LINE = 65_536
"""In characters: enough for any reason, and below the limit of the csv module."""

MOST_ROWS = 100_000
"""Ten years of daily decisions for 27 clusters."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"

# Control characters other than tab; marks that reverse the order of text, so that a line looks
# like another one (Trojan Source, CVE-2021-42574); halves of a character.
_STRANGE = re.compile(
    "[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


@dataclass(frozen=True, slots=True)
class TextRow:
    """The cells of one line without surrounding space, and the number of the line."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A header and the rows below it; `header` is None if the file has no line of text."""

    header: TextRow | None
    rows: tuple[TextRow, ...]
    problems: tuple[InvalidDecision, ...]


def read_text_table(file: str, body: str | bytes) -> TextTable:
    """Read a table; a problem of the whole file leaves no rows."""
    try:
        text = _decoded(file, body)
    except InvalidDecision as problem:
        return TextTable(None, (), (problem,))
    header: TextRow | None = None
    rows: list[TextRow] = []
    problems: list[InvalidDecision] = []
    for row in _rows(file, text):
        if isinstance(row, InvalidDecision):
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
            f"{len(body)} bytes, at most {LARGEST_FILE_BYTES} are read",
            "check whether another file was copied here",
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


def _rows(file: str, text: str) -> Iterator[TextRow | InvalidDecision]:
    for number, line in enumerate(StringIO(text, newline="\n"), start=1):
        row = _row(file, number, line.removesuffix("\n"))
        if row is not None:
            yield row


def _row(file: str, number: int, line: str) -> TextRow | InvalidDecision | None:
    where = f"{file} line {number}"
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    if len(line) > LONGEST_LINE:
        remedy = "look for a quote that is not closed"
        return _unreadable(
            where, f"{len(line)} characters, at most {LONGEST_LINE} are read", remedy
        )
    if strange := _STRANGE.search(line):
        seen = f"the character U+{ord(strange[0]):04X} in {shown(line)}"
        return _unreadable(where, seen, "delete it: the character is invisible")
    try:
        cells = tuple(cell.strip() for cell in next(csv.reader([line], strict=True)))
    except csv.Error as error:
        remedy = "close the quote on the same line (a cell has no line break: the lines of an "
        remedy += "address are separated by ;), and double a quote inside a cell"
        return _unreadable(where, f"{error} in {shown(line)}", remedy)
    is_blank_or_comment = not any(cells) or cells[0].startswith("#")
    return None if is_blank_or_comment else TextRow(number, cells)


def _too_many_rows(file: str) -> InvalidDecision:
    remedy = "check whether another file was copied here"
    return _unreadable(file, f"more than {MOST_ROWS} rows", remedy)


def _unreadable(where: str, seen: str, remedy: str) -> InvalidDecision:
    why = "a table that is read in part would decide something else"
    return InvalidDecision(where=where, seen=seen, why=why, remedy=remedy)
