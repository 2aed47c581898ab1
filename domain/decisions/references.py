"""Names that point nowhere: a decision about a cluster or a GPU that nobody knows.

Put here: what decisions name and other tables have to know.
Not here: names that only the evidence can know (namespaces, pods).

A price for a mistyped cluster or profile is worse than none: the more general price applies in its
place, and nothing looks wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from domain.decisions.book import Decisions
from domain.decisions.contradictions import priced_currencies
from domain.decisions.errors import UnknownReference, shown
from domain.decisions.rows import NAMING_A_CLUSTER, WHOLE, Rate, TableName
from domain.gpu.catalogue import Catalogue, Product, Vendor
from domain.mig.errors import NotAMigProfile
from domain.mig.profile import parse_profile


def unknown_clusters(rows_of: Callable[[TableName], Iterable[Any]]) -> Iterator[UnknownReference]:
    """Clusters that are named in a table and in no row of clusters.csv, if that has any."""
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
) -> Iterator[UnknownReference]:
    """Budgets in a currency that no price is in."""
    known = priced_currencies(rows_of(TableName.RATES), rows_of(TableName.POLICIES))
    for budget in rows_of(TableName.BUDGETS):
        if known and budget.currency not in known:
            yield UnknownReference(
                where=f"budgets.csv line {budget.line}, column currency",
                seen=f"a budget in {budget.currency}, and prices in {', '.join(sorted(known))}",
                why="a share of the budget cannot be said in two currencies",
                remedy="write the budget in the currency of the prices",
            )


def unknown_to_catalogue(decisions: Decisions, catalogue: Catalogue) -> list[UnknownReference]:
    """Prices for a class, or for a profile of a class, that the product table does not have."""
    products: dict[str, Product] = {}
    for product in catalogue.products.values():
        if product.is_device:
            products.setdefault(product.gpu_class, product)
    found = (_unknown_gpu(rate, products) for rate in decisions.rates)
    return [problem for problem in found if problem is not None]


def _unknown_gpu(rate: Rate, products: dict[str, Product]) -> UnknownReference | None:
    product = products.get(rate.gpu_class)
    if product is None:
        return _unknown(
            f"rates.csv line {rate.line}, column gpu_class",
            f"{shown(rate.gpu_class)} is the class of no product",
            rate.gpu_class,
            products,
        )
    priced = _names_as_priced(rate.mig_profile, product)
    if rate.mig_profile in priced:
        return None
    return _unknown(
        f"rates.csv line {rate.line}, column mig_profile",
        f"{shown(rate.mig_profile)} is not what a part of {rate.gpu_class} is priced as",
        rate.mig_profile,
        priced,
    )


def _names_as_priced(mig_profile: str, product: Product) -> list[str]:
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


def _unknown(where: str, seen: str, typed: str, known: Iterable[str]) -> UnknownReference:
    names = sorted(known)
    near = get_close_matches(typed, names, n=1, cutoff=0.4) or names[:1]
    return UnknownReference(
        where=where,
        seen=seen,
        why="a row about something that nobody knows never applies, and nothing would show that",
        remedy=f"correct the name (is it {near[0]}?), or add what it names",
    )
