"""The consistency of decision tables: contradicting rows, and references to rows that do not exist.

Put here: the subject of each table's rows, the search for overlaps, the references between tables.
Not here: equally specific prices under different subjects (`rates`), or references that only the
evidence can resolve (namespaces, pods).

A price for a mistyped cluster or profile is worse than none: the more general price applies
instead, and nothing looks wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Protocol, TypeVar

from domain.decisions.problems import DecisionsContradict, InvalidDecision
from domain.decisions.rows import (
    NAMING_A_CLUSTER,
    WHOLE,
    ClusterRole,
    Policy,
    PolicyName,
    Rate,
    Row,
    TableName,
)
from domain.errors import shown
from domain.gpu.catalogue import Catalogue, GpuProduct, Vendor
from domain.interval import format_instant
from domain.mig.profile import NotAMigProfile, parse_profile
from domain.validity import Validity

Rows = dict[TableName, list[Any]]

# The subject of a row: two rows with one subject may not hold at one instant.
_DATED_SUBJECTS: dict[TableName, Callable[[Any], tuple[str, ...]]] = {
    TableName.CLUSTERS: lambda row: (row.cluster_id,),
    TableName.TENANTS: lambda row: (row.namespace,),
    TableName.RATES: lambda row: (row.cluster_id, row.gpu_class, row.mig_profile),
    TableName.POLICIES: lambda row: (row.policy,),
    TableName.PARTIES: lambda row: (row.role, row.tenant),
    TableName.ACCEPTED_GAPS: lambda row: (row.cluster_id, row.source, row.pod_uid),
}

# Where rows with the same decision may overlap: one gap may be accepted in several pieces.
_DECISIONS: dict[TableName, Callable[[Any], Hashable]] = {
    TableName.ACCEPTED_GAPS: lambda row: row.treatment,
}

# Tables without validity: one row per subject.
_UNDATED_SUBJECTS: dict[TableName, Callable[[Any], tuple[str, ...]]] = {
    TableName.BUDGETS: lambda row: (
        row.tenant,
        *filter(None, row.scope),
        str(row.billing_period or "every month"),
    ),
    TableName.PRODUCTS: lambda row: (row.product,),
    TableName.AMENDMENTS: lambda row: (str(row.billing_period), row.amended_table),
}

Cells = Callable[[TableName, Row], str]

LONGEST_ROW_SHOWN = 300
"""In characters: the subject and the value come first, a long reason may be cut."""


def contradictions(rows: Rows, cells: Cells) -> Iterator[DecisionsContradict]:
    """Every contradicting pair; `cells` writes a row as in its file."""
    for table, subject in _DATED_SUBJECTS.items():
        for first, second in overlapping_pairs(rows[table], subject, _DECISIONS.get(table)):
            yield _both_hold(table, subject(second), first, second, cells)
    for table, subject in _UNDATED_SUBJECTS.items():
        yield from _doubled(table, rows[table], subject, cells)
    yield from _versions(rows[TableName.POLICIES], cells)
    yield from _currencies(rows, cells)
    hubs = [row for row in rows[TableName.CLUSTERS] if row.role is ClusterRole.HUB]
    for first, second in overlapping_pairs(hubs, lambda row: row.role, lambda row: row.cluster_id):
        yield _both_hold(TableName.CLUSTERS, (second.role,), first, second, cells)


def _both_hold(
    table: TableName, key: Iterable[str], first: Any, second: Any, cells: Cells
) -> DecisionsContradict:
    return DecisionsContradict(
        where=f"{table.value}.csv line {second.line} and line {first.line}",
        seen=f"from {format_instant(second.validity.valid_from)} both hold for "
        f"{_named(key)}: {cells(table, first)} and {cells(table, second)}",
        why="a bill can follow only one of them",
        remedy="end one of the two where the other begins, or delete one",
    )


def _doubled(
    table: TableName, rows: list[Any], subject: Callable[[Any], tuple[str, ...]], cells: Cells
) -> Iterator[DecisionsContradict]:
    first_by_key: dict[tuple[str, ...], Any] = {}
    for row in rows:
        first = first_by_key.setdefault(subject(row), row)
        if first is not row:
            yield DecisionsContradict(
                where=f"{table.value}.csv line {row.line} and line {first.line}",
                seen=f"{_named(subject(row))} is decided twice: "
                f"{cells(table, first)} and {cells(table, row)}",
                why="a bill can follow only one of them",
                remedy="delete one of the two rows",
            )


def _versions(policies: list[Policy], cells: Cells) -> Iterator[DecisionsContradict]:
    """A version has one value, because invoices print the version."""
    first_by_version: dict[tuple[str, str], Policy] = {}
    for row in policies:
        first = first_by_version.setdefault((row.policy, row.version), row)
        if first.value != row.value:
            table = TableName.POLICIES
            yield DecisionsContradict(
                where=f"{table.value}.csv line {row.line} and line {first.line}",
                seen=f"the version {row.version!r} of {row.policy.value} is two values: "
                f"{cells(table, first)} and {cells(table, row)}",
                why="an invoice prints the version, and its reader looks the value up by it",
                remedy="give one of the two rows a version of its own",
            )


def _currencies(rows: Rows, cells: Cells) -> Iterator[DecisionsContradict]:
    """At one instant a ledger has one currency; it has no exchange rates."""
    policies = [p for p in rows[TableName.POLICIES] if p.policy is PolicyName.CURRENCY]
    dated = [*rows[TableName.RATES], *policies]
    for first, second in overlapping_pairs(dated, lambda _: (), _currency):
        where = " and ".join(f"{_table(r).value}.csv line {r.line}" for r in (second, first))
        yield DecisionsContradict(
            where=where,
            seen=f"from {format_instant(second.validity.valid_from)} two currencies hold: "
            f"{_currency(first)} and {_currency(second)}",
            why="an invoice is one sum, and gpu-ledger has no exchange rates",
            remedy="write all prices of one time in one currency",
        )


def priced_currencies(rates: Iterable[Rate], policies: Iterable[Policy]) -> set[str]:
    """Every currency of the prices, at any time."""
    decided = {p.value for p in policies if p.policy is PolicyName.CURRENCY}
    return decided | {rate.currency for rate in rates}


def _currency(row: Rate | Policy) -> str:
    return row.currency if isinstance(row, Rate) else row.value


def _table(row: Rate | Policy) -> TableName:
    return TableName.RATES if isinstance(row, Rate) else TableName.POLICIES


def _named(key: Iterable[str]) -> str:
    return " / ".join(part or "any" for part in key)


# The search for overlaps --------------------------------------------------------------------------


class HasValidity(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def validity(self) -> Validity: ...


R = TypeVar("R", bound=HasValidity)


def overlapping_pairs(
    rows: Iterable[R],
    subject: Callable[[R], Hashable],
    decision: Callable[[R], Hashable] | None = None,
) -> Iterator[tuple[R, R]]:
    """Pairs of rows with one subject that hold at once; the row that begins first comes first.

    With `decision`, rows with the same decision may overlap. A row is compared with the row before
    it that ends last: that takes n log n, and finds a pair for every row that overlaps an earlier
    one.
    """
    by_subject: defaultdict[Hashable, list[R]] = defaultdict(list)
    for row in rows:
        by_subject[subject(row)].append(row)
    for group in by_subject.values():
        yield from _pairs_in(sorted(group, key=_begin), decision)


def _begin(row: HasValidity) -> tuple[datetime, int]:
    return (row.validity.valid_from, row.line)


def _pairs_in(group: list[R], decision: Callable[[R], Hashable] | None) -> Iterator[tuple[R, R]]:
    last_to_end: dict[Hashable, R] = {}
    for row in group:
        decided = decision(row) if decision else None
        earlier = [last for a, last in last_to_end.items() if decision is None or a != decided]
        clash = next((e for e in earlier if e.validity.overlaps(row.validity)), None)
        if clash is not None:
            yield clash, row
        if decided not in last_to_end or _ends_later(row.validity, last_to_end[decided].validity):
            last_to_end[decided] = row


def _ends_later(one: Validity, other: Validity) -> bool:
    if other.valid_until is None:
        return False
    return one.valid_until is None or one.valid_until > other.valid_until


# References ---------------------------------------------------------------------------------------


def unknown_clusters(rows_of: Callable[[TableName], Iterable[Any]]) -> Iterator[InvalidDecision]:
    """Clusters of other tables that clusters.csv, if it has rows, does not have."""
    known = {row.cluster_id for row in rows_of(TableName.CLUSTERS)}
    for table in NAMING_A_CLUSTER:
        for row in rows_of(table):
            if known and row.cluster_id and row.cluster_id not in known:
                yield _unknown(
                    f"{table.value}.csv line {row.line}, column cluster_id",
                    f"{shown(row.cluster_id)} is in no row of clusters.csv",
                    row.cluster_id,
                    known,
                )


def unpriced_currencies(
    rows_of: Callable[[TableName], Iterable[Any]],
) -> Iterator[InvalidDecision]:
    """Budgets in a currency without prices."""
    known = priced_currencies(rows_of(TableName.RATES), rows_of(TableName.POLICIES))
    for budget in rows_of(TableName.BUDGETS):
        if known and budget.currency not in known:
            yield InvalidDecision(
                where=f"budgets.csv line {budget.line}, column currency",
                seen=f"a budget in {budget.currency}; the prices are in {', '.join(sorted(known))}",
                why="use in one currency cannot be compared with a budget in another",
                remedy="write the budget in the currency of the prices",
            )


def unknown_to_catalogue(rates: Iterable[Rate], catalogue: Catalogue) -> list[InvalidDecision]:
    """Prices for a class, or for a profile of a class, that the product table does not have."""
    products: dict[str, GpuProduct] = {}
    for product in catalogue.products.values():
        if product.is_device:
            products.setdefault(product.gpu_class, product)
    found = (_unknown_gpu(rate, products) for rate in rates)
    return [problem for problem in found if problem is not None]


def _unknown_gpu(rate: Rate, products: dict[str, GpuProduct]) -> InvalidDecision | None:
    product = products.get(rate.gpu_class)
    if product is None:
        return _unknown(
            f"rates.csv line {rate.line}, column gpu_class",
            f"{shown(rate.gpu_class)} is not the class of a product",
            rate.gpu_class,
            products,
        )
    priced = _names_as_priced(rate.mig_profile, product)
    if rate.mig_profile in priced:
        return None
    return _unknown(
        f"rates.csv line {rate.line}, column mig_profile",
        f"{shown(rate.mig_profile)} is not a priced part of {rate.gpu_class}",
        rate.mig_profile,
        priced,
    )


def _names_as_priced(mig_profile: str, product: GpuProduct) -> list[str]:
    """`whole`, and the names under which this profile or its neighbours are priced."""
    if product.geometry is None:
        is_partition = product.vendor is Vendor.AMD and mig_profile[:1].isalpha()
        return [WHOLE, mig_profile] if is_partition else [WHOLE]
    try:
        one_name = product.geometry.canonical(parse_profile(mig_profile))
    except NotAMigProfile:
        one_name = None
    if one_name is not None:
        return [WHOLE, str(one_name)]
    return [WHOLE, *(str(p.profile) for p in product.geometry.profiles)]


def _unknown(where: str, seen: str, typed: str, known: Iterable[str]) -> InvalidDecision:
    names = sorted(known)
    near = get_close_matches(typed, names, n=1, cutoff=0.4) or names[:1]
    return InvalidDecision(
        where=where,
        seen=seen,
        why="the row would never apply, and nothing would show that",
        remedy=f"correct the name (is it {near[0]}?), or add a row for it",
    )
