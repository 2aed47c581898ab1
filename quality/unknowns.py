"""Use without a price, devices without a class, large price changes with one name, edited
decisions, recreated namespaces, GpuBudgets that do not count, and contradictions of a journal, as
findings.

Put here: the findings that no gap and no identity explains.
Not here: classification (`domain.gpu`) or the choice of a rate (`domain.decisions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from domain.errors import LedgerError
from domain.findings import Finding
from domain.interval import HOUR, format_instant, hour_of
from domain.money import Money
from quality.finding_catalogue import CATALOGUE


@dataclass(frozen=True, slots=True, order=True)
class UnknownUse:
    """Device seconds of one kind in one cluster, and in which hours they lie."""

    cluster_id: str
    gpu_class: str
    mig_profile: str
    resource: str
    tenants: tuple[str, ...]
    first_hour_started_at: datetime
    last_hour_started_at: datetime
    device_seconds: int


def unpriced_findings(uses: Iterable[UnknownUse], has_price_list: bool) -> list[Finding]:
    """Use without a rate; without any price list there is nothing to miss."""
    if not has_price_list:
        return []
    return [_use("usage_without_price", use) for use in sorted(uses)]


def unknown_device_findings(uses: Iterable[UnknownUse]) -> list[Finding]:
    return [_use("device_unknown", use) for use in sorted(uses)]


def price_change_findings(changes: Iterable[LedgerError]) -> list[Finding]:
    """Large changes of price that one person signed, as `domain.decisions` found them."""
    kind = CATALOGUE["price_change_needs_second_name"]
    return [kind.finding(where=c.where, seen=c.seen, what_to_do=c.remedy) for c in changes]


def edited_decision_findings(edits: Iterable[LedgerError]) -> list[Finding]:
    """Rows that closed periods were billed by, and that were edited since."""
    kind = CATALOGUE["closed_decision_edited"]
    return [kind.finding(where=e.where, seen=e.seen, what_to_do=e.remedy) for e in edits]


@dataclass(frozen=True, slots=True, order=True)
class NamespaceSeen:
    """One UID of a namespace, and when it was seen."""

    cluster_id: str
    namespace: str
    namespace_uid: str
    first_seen_at: datetime
    last_seen_at: datetime


def recreated_uid_findings(lives: Sequence[NamespaceSeen]) -> list[Finding]:
    """One finding for each time that a name passed from one UID to the next."""
    return [
        CATALOGUE["namespace_recreated"].finding(
            where=f"cluster {after.cluster_id}, namespace {after.namespace}",
            seen=f"{before.namespace_uid} until {format_instant(before.last_seen_at)}, "
            f"{after.namespace_uid} from {format_instant(after.first_seen_at)}",
            cluster_id=after.cluster_id,
            tenant=after.namespace,
            started_at=hour_of(before.last_seen_at),
            ended_at=hour_of(after.first_seen_at) + HOUR,
        )
        for before, after in pairwise(lives)
        if (before.cluster_id, before.namespace) == (after.cluster_id, after.namespace)
    ]


@dataclass(frozen=True, slots=True, order=True)
class Contradictions:
    """All contradictions of one kind that one cluster's journal has."""

    cluster_id: str
    contradiction: str
    count: int
    example: str
    first_at: datetime
    last_at: datetime


def contradiction_findings(found: Iterable[Contradictions]) -> list[Finding]:
    """One finding per cluster and kind of contradiction, with how many there are."""
    return [
        CATALOGUE["journal_contradicts_itself"].finding(
            where=f"cluster {one.cluster_id}, {one.contradiction}",
            seen=f"{one.count} from {format_instant(one.first_at)} "
            f"to {format_instant(one.last_at)}; the first: {one.example}",
            cluster_id=one.cluster_id,
            started_at=hour_of(one.first_at),
            ended_at=hour_of(one.last_at) + HOUR,
        )
        for one in sorted(found)
    ]


@dataclass(frozen=True, slots=True)
class BudgetNotCounted:
    """A GpuBudget that has a problem, and the one of another cluster that counts instead."""

    cluster_id: str
    tenant: str
    name: str
    state: str  # of dim_budgets
    invalid_reason: str
    amount: Money | None
    other_cluster_id: str
    other_amount: Money | None


def budget_findings(budgets: Iterable[BudgetNotCounted]) -> list[Finding]:
    """One finding for each GpuBudget that does not count because of a problem."""
    findings = []
    for budget in budgets:
        differs = budget.state == "differs"
        kind = CATALOGUE["budget_differs_between_clusters" if differs else "budget_not_counted"]
        seen = {
            "differs": f"{budget.amount}, and {budget.other_amount} in cluster "
            f"{budget.other_cluster_id}, which counts; amount, month, subject or steps differ",
            "invalid": budget.invalid_reason,
            "other_currency": f"{budget.amount}; the prices are in another currency",
            "too_many": "the tenant has more than 50 budgets",
        }[budget.state]
        where = f"cluster {budget.cluster_id}, GpuBudget {budget.tenant}/{budget.name}"
        findings.append(
            kind.finding(where=where, seen=seen, cluster_id=budget.cluster_id, tenant=budget.tenant)
        )
    return findings


def _use(name: str, use: UnknownUse) -> Finding:
    shape = f"{use.gpu_class or 'unknown class'} {use.mig_profile or 'unknown profile'}"
    return CATALOGUE[name].finding(
        where=f"cluster {use.cluster_id}, {use.resource} ({shape})",
        seen=f"{use.device_seconds} device seconds of {len(use.tenants)} tenants "
        f"({', '.join(use.tenants[:5])})",
        cluster_id=use.cluster_id,
        tenant=use.tenants[0] if len(use.tenants) == 1 else "",
        started_at=use.first_hour_started_at,
        ended_at=use.last_hour_started_at + HOUR,
        seconds=use.device_seconds,
    )
