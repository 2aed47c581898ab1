"""Rows that answer one question twice: found when the tables are read, and refused.

Put here: what the question is in each table, and how two answers are reported.
Not here: the search (`overlap`), or prices equally specific under different keys (`rates`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from domain.decisions.errors import DecisionsContradict
from domain.decisions.overlap import overlapping_pairs
from domain.decisions.rows import Policy, PolicyName, Rate, Row, TableName
from domain.interval import format_instant

Rows = dict[TableName, list[Any]]

# What one row decides: two rows with the same key may not hold at one instant.
_DATED_QUESTIONS: dict[TableName, Callable[[Any], tuple[str, ...]]] = {
    TableName.CLUSTERS: lambda row: (row.cluster_id,),
    TableName.TENANTS: lambda row: (row.namespace,),
    TableName.RATES: lambda row: (row.cluster_id, row.gpu_class, row.mig_profile),
    TableName.POLICIES: lambda row: (row.policy,),
    TableName.PARTIES: lambda row: (row.role, row.tenant),
    TableName.ACCEPTED_GAPS: lambda row: (row.cluster_id, row.source, row.pod_uid),
}

# Where rows that say the same may overlap: one gap may be signed for in several pieces.
_ANSWERS: dict[TableName, Callable[[Any], Hashable]] = {
    TableName.ACCEPTED_GAPS: lambda row: row.treatment,
}

# Tables without validity: one row per key, and no second.
_UNDATED_QUESTIONS: dict[TableName, Callable[[Any], tuple[str, ...]]] = {
    TableName.BUDGETS: lambda row: (row.tenant, str(row.billing_period or "every month")),
    TableName.PRODUCTS: lambda row: (row.product,),
    TableName.AMENDMENTS: lambda row: (str(row.billing_period), row.amended_table),
}

Cells = Callable[[TableName, Row], str]

LONGEST_ROW_SHOWN = 300
"""In characters: the key and the value stand first; a long reason need not be read twice."""


def contradictions(rows: Rows, cells: Cells) -> Iterator[DecisionsContradict]:
    """Every pair that contradicts; `cells` writes a row as it would stand in its file."""
    for table, question in _DATED_QUESTIONS.items():
        for first, second in overlapping_pairs(rows[table], question, _ANSWERS.get(table)):
            yield _both_hold(table, question(second), first, second, cells)
    for table, question in _UNDATED_QUESTIONS.items():
        yield from _doubled(table, rows[table], question, cells)
    yield from _versions(rows[TableName.POLICIES], cells)
    yield from _currencies(rows, cells)


def _both_hold(
    table: TableName, key: Iterable[str], first: Any, second: Any, cells: Cells
) -> DecisionsContradict:
    return DecisionsContradict(
        where=f"{table.value}.csv line {second.line} and line {first.line}",
        seen=f"from {format_instant(second.validity.valid_from)} both hold for "
        f"{_named(key)}: {cells(table, first)} and {cells(table, second)}",
        why="one question has two answers at one instant, and a bill can follow only one",
        remedy="end one of the two where the other begins, or delete one",
    )


def _doubled(
    table: TableName, rows: list[Any], question: Callable[[Any], tuple[str, ...]], cells: Cells
) -> Iterator[DecisionsContradict]:
    first_by_key: dict[tuple[str, ...], Any] = {}
    for row in rows:
        first = first_by_key.setdefault(question(row), row)
        if first is not row:
            yield DecisionsContradict(
                where=f"{table.value}.csv line {row.line} and line {first.line}",
                seen=f"{_named(question(row))} is decided twice: "
                f"{cells(table, first)} and {cells(table, row)}",
                why="one question has two answers, and only one of them can be meant",
                remedy="delete one of the two rows",
            )


def _versions(policies: list[Policy], cells: Cells) -> Iterator[DecisionsContradict]:
    """A version names one value for ever: it is what an invoice prints."""
    first_by_version: dict[tuple[str, str], Policy] = {}
    for row in policies:
        first = first_by_version.setdefault((row.policy, row.version), row)
        if first.value != row.value:
            table = TableName.POLICIES
            yield DecisionsContradict(
                where=f"{table.value}.csv line {row.line} and line {first.line}",
                seen=f"the version {row.version!r} of {row.policy.value} is two values: "
                f"{cells(table, first)} and {cells(table, row)}",
                why="an invoice prints the version, and its reader must find the value by it",
                remedy="give one of the two rows a version of its own",
            )


def _currencies(rows: Rows, cells: Cells) -> Iterator[DecisionsContradict]:
    """At one instant a ledger has one currency: its invoices add up, and nothing converts."""
    policies = [p for p in rows[TableName.POLICIES] if p.policy is PolicyName.CURRENCY]
    dated = [*rows[TableName.RATES], *policies]
    for first, second in overlapping_pairs(dated, lambda _: (), _currency):
        where = " and ".join(f"{_table(r).value}.csv line {r.line}" for r in (second, first))
        yield DecisionsContradict(
            where=where,
            seen=f"from {format_instant(second.validity.valid_from)} two currencies hold: "
            f"{_currency(first)} and {_currency(second)}",
            why="an invoice is one sum, and no rate of exchange is known here",
            remedy="write all prices of one time in one currency",
        )


def priced_currencies(rates: Iterable[Rate], policies: Iterable[Policy]) -> set[str]:
    """Every currency that prices are in, at whatever time."""
    decided = {p.value for p in policies if p.policy is PolicyName.CURRENCY}
    return decided | {rate.currency for rate in rates}


def _currency(row: Rate | Policy) -> str:
    return row.currency if isinstance(row, Rate) else row.value


def _table(row: Rate | Policy) -> TableName:
    return TableName.RATES if isinstance(row, Rate) else TableName.POLICIES


def _named(key: Iterable[str]) -> str:
    return " / ".join(part or "any" for part in key)
