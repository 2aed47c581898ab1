"""All decision tables together: read, checked against each other, and refused as a whole.

Put here: which files are tables, and the two ways to read them (with problems, or raising).
Not here: one table (`table_reading`), or files on a disk: text and bytes come in as values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from domain.decisions.book import Decisions
from domain.decisions.contradictions import LONGEST_ROW_SHOWN, contradictions
from domain.decisions.errors import DecisionsRefused, UnknownTable, shown
from domain.decisions.price_changes import unsigned_price_changes
from domain.decisions.rates import Rates
from domain.decisions.references import unknown_clusters, unpriced_currencies
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
    rows, problems = _read_tables(files)
    all_read = not problems  # a name may be unknown only because its own row could not be read
    problems += contradictions(rows, _as_in_file)
    problems += Rates(rows[TableName.RATES]).undecided()
    if all_read:
        problems += unknown_clusters(rows.__getitem__)
        problems += unpriced_currencies(rows.__getitem__)
    decisions = _decisions(rows)
    return replace(decisions, problems=tuple(unsigned_price_changes(decisions.rates))), problems


def load_decisions(files: Mapping[str, str | bytes]) -> Decisions:
    """The decisions, or one error that lists what is wrong with them."""
    decisions, problems = read_decisions(files)
    if problems:
        raise DecisionsRefused(problems)
    return decisions


def load_sealed_copy(files: Mapping[str, str | bytes]) -> Decisions:
    """The copy that a close sealed (`canonical_files`), with the checks of its cells and columns.

    Rows are not held against each other again. The copy lacks what held at other times only, such
    as the row that once decided between two prices; and it was whole when it was sealed.
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


def _unknown_table(file: str) -> UnknownTable:
    near = get_close_matches(file[:80], list(TABLE_BY_FILE), n=1)
    remedy = f"rename it to {near[0]}" if near else f"the tables are {', '.join(TABLE_BY_FILE)}"
    return UnknownTable(
        where=f"decisions/{shown(file)[1:-1]}",
        seen="no part of the ledger reads a table of this name",
        why="what is decided in it would have no effect, and nobody would see that",
        remedy=remedy,
    )
