"""All decision tables together: read, checked against each other, and refused as a whole.

Put here: which files are tables, and the two ways to read them (with problems, or raising).
Not here: one table (`table_reading`), or files on a disk: text and bytes come in as values.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from domain.decisions.book import Decisions
from domain.decisions.contradictions import contradictions
from domain.decisions.errors import DecisionsRefused, UnknownTable, shown
from domain.decisions.rates import Rates
from domain.decisions.rows import Row, TableName
from domain.decisions.sealing import in_canonical_order
from domain.decisions.table_reading import read_table
from domain.decisions.tables import TABLE_BY_FILE, TABLE_BY_NAME, TABLES
from domain.errors import BadInput


def read_decisions(files: Mapping[str, str | bytes]) -> tuple[Decisions, list[BadInput]]:
    """The rows that could be read, and every problem of every file.

    `files` maps names such as `rates.csv` to their content; a table that is not there is empty.
    Decisions with problems are for showing the problems, never for counting.
    """
    problems: list[BadInput] = [_unknown_table(f) for f in sorted(files) if f not in TABLE_BY_FILE]
    rows: dict[TableName, list[Any]] = {table.name: [] for table in TABLES}
    for table in TABLES:
        if table.file in files:
            rows[table.name], table_problems = read_table(table, files[table.file])
            problems += table_problems
    problems += contradictions(rows, _as_in_file)
    problems += Rates(rows[TableName.RATES]).undecided()
    tables = {t.name.value: in_canonical_order(t, rows[t.name]) for t in TABLES}
    return Decisions(**tables), problems


def load_decisions(files: Mapping[str, str | bytes]) -> Decisions:
    """The decisions, or one error that lists what is wrong with them."""
    decisions, problems = read_decisions(files)
    if problems:
        raise DecisionsRefused(problems)
    return decisions


def _as_in_file(table: TableName, row: Row) -> str:
    return ",".join(TABLE_BY_NAME[table].cells_of(row))


def _unknown_table(file: str) -> UnknownTable:
    near = get_close_matches(file[:80], list(TABLE_BY_FILE), n=1)
    remedy = f"rename it to {near[0]}" if near else f"the tables are {', '.join(TABLE_BY_FILE)}"
    return UnknownTable(
        where=f"decisions/{shown(file)[1:-1]}",
        seen="no part of the ledger reads a table of this name",
        why="what is decided in it would have no effect, and nobody would see that",
        remedy=remedy,
    )
