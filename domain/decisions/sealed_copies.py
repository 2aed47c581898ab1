"""The copy of the decisions of one period: canonical, hashed, sealed by its close.

Put here: the rows of a copy, its text, and the differences of the present tables from it.
Not here: where a copy is kept (the record).

A later decision must not change a copy. So a row that holds beyond the period is copied without its
end. A copy has no amendments, because they are about periods that are already closed; no rows about
clusters that are not measured in the period; no budgets in another currency than its prices.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from domain.billing_period import BillingPeriod
from domain.decisions.consistency import priced_currencies
from domain.decisions.problems import listed
from domain.decisions.rows import (
    NAMING_A_CLUSTER,
    Amendment,
    Budget,
    DatedRow,
    Outage,
    Row,
    TableName,
)
from domain.decisions.table_form import DecisionTable
from domain.decisions.tables import TABLES
from domain.errors import BadInput
from domain.interval import Interval

RowsOf = Callable[[TableName], Iterable[Row]]


def canonical_rows(rows_of: RowsOf) -> dict[str, list[dict[str, str]]]:
    """Every table's rows as text, sorted; empty tables and cells left out.

    Leaving them out keeps the hash of old decisions when a later version knows more tables.
    """
    tables = {table.name.value: _sorted_cells(table, rows_of(table.name)) for table in TABLES}
    return {
        name: [{column: cell for column, cell in row if cell} for row in rows]
        for name, rows in tables.items()
        if rows
    }


def canonical_files(rows_of: RowsOf) -> dict[str, str]:
    """The text of the file of every table that has rows; reading it gives the same rows."""
    files = {}
    for table in TABLES:
        rows = _sorted_cells(table, rows_of(table.name))
        if rows:
            out = StringIO()
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow([column.name for column in table.columns])
            writer.writerows([cell for _, cell in row] for row in rows)
            files[table.file] = out.getvalue()
    return files


def in_canonical_order(table: DecisionTable, rows: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(rows, key=table.cells_of))


def held_in(rows_of: RowsOf, window: Interval) -> dict[str, tuple[Any, ...]]:
    """The rows of every table that hold inside the window, as they are copied."""
    copies: dict[TableName, list[Any]] = {}
    for table in TableName:
        found = (_copied(row, window) for row in rows_of(table))
        copies[table] = [row for row in found if row is not None]
    if any(True for _ in rows_of(TableName.CLUSTERS)):
        measured = {row.cluster_id for row in copies[TableName.CLUSTERS]}
        for table in NAMING_A_CLUSTER:
            copies[table] = [r for r in copies[table] if r.cluster_id in measured | {""}]
    currencies = priced_currencies(copies[TableName.RATES], copies[TableName.POLICIES])
    if currencies:
        budgets = copies[TableName.BUDGETS]
        copies[TableName.BUDGETS] = [b for b in budgets if b.currency in currencies]
    return {table.name.value: in_canonical_order(table, copies[table.name]) for table in TABLES}


def _copied(row: Any, window: Interval) -> Row | None:
    match row:
        case DatedRow():
            copy: Row = _open_beyond(row, "valid_until", row.valid_until, window)
        case Outage():
            copy = _open_beyond(row, "ended_at", row.ended_at, window)
        case Budget(billing_period=period):
            return row if period is None or period.interval.overlaps(window) else None
        case Amendment():
            return None
        case _:
            copy = row
    validity = getattr(row, "validity", None)
    return copy if validity is None or validity.clipped_to(window) else None


def _open_beyond(row: Any, end: str, ended_at: Any, window: Interval) -> Row:
    is_beyond = ended_at is not None and ended_at >= window.ended_at
    copy: Row = replace(row, **{end: None}) if is_beyond else row
    return copy


def _sorted_cells(table: DecisionTable, rows: Iterable[Row]) -> list[list[tuple[str, str]]]:
    names = [column.name for column in table.columns]
    return [list(zip(names, cells, strict=True)) for cells in sorted(map(table.cells_of, rows))]


@dataclass(frozen=True, slots=True, order=True)
class RowDifference:
    """A row that only one of two copies has."""

    table: str
    change: str  # 'gone' from the present decisions, or 'new' in them
    cells: str


def differences(sealed: RowsOf, present: RowsOf) -> list[RowDifference]:
    """The changes since a copy was sealed, as rows that are gone and rows that are new."""
    found = []
    for table in TABLES:
        before = {",".join(table.cells_of(row)) for row in sealed(table.name)}
        now = {",".join(table.cells_of(row)) for row in present(table.name)}
        found += [RowDifference(table.name.value, "gone", cells) for cells in before - now]
        found += [RowDifference(table.name.value, "new", cells) for cells in now - before]
    return sorted(found)


NEVER_BILLED = frozenset({TableName.BUDGETS, TableName.AMENDMENTS})
"""No amount of a closed period depends on these tables; a budget has no validity."""


class ClosedDecisionEdited(BadInput):
    """A row that a closed period was billed by is no longer in the tables."""

    code = "DEC-004"

    def __init__(
        self, period: BillingPeriod, gone: RowDifference, new: Iterable[RowDifference]
    ) -> None:
        now = [f"`{row.cells}`" for row in new]
        super().__init__(
            where=f"decisions/{gone.table}.csv, closed period {period}",
            seen=f"the period was closed with the row `{gone.cells}`, which is missing now; "
            f"rows that the close did not have: {listed(now) or 'none'}",
            why="an edited row has no date and no second name, and the months after the closed one "
            "would be billed by it",
            remedy="restore the row and end it (valid_until) where a new row begins; to correct "
            "the closed period, add a row with two names to amendments.csv",
        )


def edited_since(
    period: BillingPeriod, sealed: RowsOf, present: RowsOf, amended: Iterable[TableName] = ()
) -> list[ClosedDecisionEdited]:
    """The rows of a closed period that were edited or removed since, without amended tables.

    `present`: the copy that the present tables give for the period. An added row is not named: it
    changes no earlier decision, and a recount does not use it.
    """
    exempt = {table.value for table in (*NEVER_BILLED, *amended)}
    found = [row for row in differences(sealed, present) if row.table not in exempt]
    return [
        ClosedDecisionEdited(
            period, gone, (row for row in found if (row.table, row.change) == (gone.table, "new"))
        )
        for gone in found
        if gone.change == "gone"
    ]
