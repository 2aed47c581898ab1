"""One decision table's text as typed rows, with every problem and not only the first.

Put here: matching the header, reading cells, checking a row as a whole.
Not here: the bytes (`csv_reading`), or what rows say about each other (`contradictions`).
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import Any

from domain.decisions.cells import CellRefused
from domain.decisions.csv_reading import TextRow, read_text_table
from domain.decisions.errors import (
    MOST_PROBLEMS_PER_TABLE,
    UnreadableTable,
    WrongCell,
    WrongColumns,
    listed,
    shown,
)
from domain.decisions.rows import Row
from domain.decisions.table_form import Table
from domain.errors import BadInput

_WHY = "a decision that is read otherwise than it was meant is a wrong bill"


def read_table(table: Table, body: str | bytes) -> tuple[list[Row], list[BadInput]]:
    """The rows that could be read, and everything that is wrong with the others."""
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
    table: Table, header: TextRow, text_row: TextRow
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


def _wrong_columns(table: Table, header: TextRow) -> WrongColumns | None:
    known = [column.name for column in table.columns]
    needed = [column.name for column in table.columns if not column.may_be_absent]
    counts = Counter(header.cells)
    parts = [
        ("missing", [name for name in needed if name not in counts]),
        ("unknown", [_unknown(name, known) for name in counts if name not in known]),
        ("more than once", [shown(name) for name in counts if counts[name] > 1]),
    ]
    seen = "; ".join(f"{what}: {listed(names)}" for what, names in parts if names)
    if not seen:
        return None
    other_separator = len(header.cells) == 1 and any(mark in header.cells[0] for mark in ";\t")
    also = ", separated by commas" if other_separator else ""
    return WrongColumns(
        where=f"{table.file} line {header.line}",
        seen=seen,
        why="a column that is not understood may be the one that matters",
        remedy=f"write the header as{also}: {','.join(known)}",
    )


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name[:80], known, n=1)
    return f"{shown(name)} (is it {near[0]}?)" if near else shown(name)


def _no_header(table: Table) -> WrongColumns:
    return WrongColumns(
        where=table.file,
        seen="no header: the file is empty, or holds comments alone",
        why="an emptied table looks like one in which nothing was decided",
        remedy=f"write the header as: {','.join(c.name for c in table.columns)}",
    )


def _wrong_length(table: Table, header: TextRow, row: TextRow) -> UnreadableTable:
    return UnreadableTable(
        where=f"{table.file} line {row.line}",
        seen=f"{len(row.cells)} cells, and the header has {len(header.cells)}",
        why="with a cell too many or too few the others stand in the wrong columns",
        remedy="put text that holds a comma into double quotes, and write empty cells as ,,",
    )


def _wrong_cell(where: str, seen: str, remedy: str) -> WrongCell:
    return WrongCell(where=where, seen=seen, why=_WHY, remedy=remedy)


def _where(table: Table, line: int, column: str) -> str:
    return f"{table.file} line {line}, column {column}"
