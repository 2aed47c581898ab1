"""The plan of a close: every document of a period, with its number, before anything is written.

Put here: the documents of a period, their order and their totals.
Not here: reading the facts (`billed_facts`) or writing the record (`close`). A dry run is a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from billing.basis import Basis
from billing.billed_facts import BilledFacts
from billing.events import INVOICE, STATEMENT, next_position, number_text
from billing.invoice import (
    DocumentKind,
    Header,
    clusters_of,
    invoice_document,
    measured_section,
)
from billing.lines import Line, LineKind, round_lines, usage_lines
from billing.sealing import Document
from billing.statement import statement_document
from billing.usage import NO_USAGE, DocumentUsage, PodUse
from domain.decisions import Outage, PartyRole, Policy, PolicyName, Rate, Row, TableName
from domain.decisions.tables import TABLE_BY_NAME
from domain.findings import CheckResult
from domain.interval import Interval, format_instant

PRINTED_POLICIES = (
    PolicyName.BILLABLE_STATE,
    PolicyName.MIG_WEIGHT,
    PolicyName.ONE_SOURCE_LIMIT,
    PolicyName.UNCERTAINTY_LIMIT,
    PolicyName.GRACE_DAYS,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A document before it is issued: number, tenant and total."""

    number: str
    tenant: str
    billed_nanos: int
    document: Document


@dataclass(frozen=True, slots=True)
class ClosePlan:
    """All documents that a close would seal."""

    basis: Document
    statement: Document
    drafts: tuple[Draft, ...]
    check_result: CheckResult

    @property
    def billed_nanos(self) -> int:
        return sum(draft.billed_nanos for draft in self.drafts)


def plan_close(
    grounds: BilledFacts,
    corrections: Mapping[str, Sequence[Line]],
    issued: Sequence[str],
    issued_at: datetime,
) -> ClosePlan:
    """One document for each tenant with use or a correction, in order of their names."""
    basis = grounds.basis
    by_tenant = grounds.usage.by_tenant()
    tenants = sorted({*by_tenant, *corrections})
    series = INVOICE if basis.currency else STATEMENT
    first = next_position(series, issued)
    stands_on = basis.stands_on()
    drafts = [
        _draft(
            basis,
            by_tenant.get(tenant, NO_USAGE),
            corrections.get(tenant, ()),
            tenant,
            number_text(series, first + index),
            issued_at,
            stands_on,
        )
        for index, tenant in enumerate(tenants)
    ]
    issued_now = [(draft.number, draft.tenant, draft.billed_nanos) for draft in drafts]
    statement = statement_document(basis, grounds.provider, issued_now, issued_at, stands_on)
    return ClosePlan(basis.document(), statement, tuple(drafts), basis.check_result)


def _draft(
    basis: Basis,
    usage: DocumentUsage,
    corrections: Sequence[Line],
    tenant: str,
    number: str,
    issued_at: datetime,
    stands_on: Mapping[str, str],
) -> Draft:
    lines = [_with_outage(line, basis, usage) for line in usage_lines(usage.charges, basis.period)]
    lines += [replace(line, number=len(lines) + n) for n, line in enumerate(corrections, start=1)]
    total = round_lines(lines, basis.currency)
    header = _header(basis, lines, usage, tenant, number, issued_at, stands_on)
    document = invoice_document(header, total, usage)
    return Draft(number, tenant, total.billed_nanos, document)


def _with_outage(line: Line, basis: Basis, usage: DocumentUsage) -> Line:
    """A credit with its outages as the reason."""
    if line.kind is not LineKind.CREDIT:
        return line
    pods = [pod for pod in usage.pods if pod.key == line.key]
    reasons = [
        f"outage from {format_instant(row.started_at)}: {row.reason} ({row.decided_by})"
        for row in basis.decisions.outages
        if any(_is_credited(row, pod) for pod in pods)
    ]
    return replace(line, reason="; ".join(sorted(reasons)))


def _is_credited(outage: Outage, pod: PodUse) -> bool:
    """Whether an outage is a reason of a pod's credited use."""
    use = Interval(pod.first_started_at, pod.last_ended_at)
    return (
        pod.key.credited
        and outage.concerns(pod.key.cluster_id, pod.node_name, pod.pod_uid)
        and outage.validity.clipped_to(use) is not None
    )


def _header(
    basis: Basis,
    lines: Sequence[Line],
    usage: DocumentUsage,
    tenant: str,
    number: str,
    issued_at: datetime,
    stands_on: Mapping[str, str],
) -> Header:
    decisions, period = basis.decisions, basis.period
    last = period.ended_at - timedelta(seconds=1)
    names = {row.cluster_id: row.cluster_name for row in decisions.clusters}
    kind = DocumentKind.INVOICE if basis.currency else DocumentKind.CONSUMPTION_STATEMENT
    return Header(
        number=number,
        kind=kind,
        period=period,
        issued_at=issued_at,
        tenant=tenant,
        currency=basis.currency,
        issuer=basis.issuer,
        customer=decisions.party(PartyRole.CUSTOMER, tenant, last),
        policies=printed_policies(basis),
        rates=_rates_of(basis, lines),
        cluster_names=names,
        measured=measured_section(
            clusters_of(lines),
            names,
            basis.check_result.coverage_statuses,
            decisions.accepted_gaps,
            period.interval,
        ),
        stands_on=stands_on,
        decisions=_decisions_of(basis, usage, tenant, clusters_of(lines)),
    )


def _decisions_of(
    basis: Basis, usage: DocumentUsage, tenant: str, clusters: Sequence[str]
) -> dict[str, list[dict[str, str]]]:
    """The decision rows of this tenant and its clusters, as in the files.

    Outages of single nodes and pods are only on the invoices of tenants that they credit.
    """
    decisions = basis.decisions
    rows: Mapping[TableName, list[Row]] = {
        TableName.CLUSTERS: [row for row in decisions.clusters if row.cluster_id in clusters],
        TableName.TENANTS: [row for row in decisions.tenants if row.namespace == tenant],
        TableName.OUTAGES: [
            row
            for row in decisions.outages
            if any(_is_credited(row, pod) for pod in usage.pods)
            or (row.is_of_whole_cluster and row.cluster_id in ("", *clusters))
        ],
    }
    return {name.value: [_cells(name, row) for row in found] for name, found in rows.items()}


def _cells(name: TableName, row: Row) -> dict[str, str]:
    table = TABLE_BY_NAME[name]
    columns = [column.name for column in table.columns]
    return dict(zip(columns, table.cells_of(row), strict=True))


def printed_policies(basis: Basis) -> list[Policy]:
    """Every version of every policy that held in the period, in order of time."""
    window = basis.period.interval
    instants = [window.started_at, *basis.decisions.cut_points(window)]
    found: list[Policy] = []
    for name in PRINTED_POLICIES:
        for instant in instants:
            policy = basis.decisions.policy(name, instant)
            if policy not in found:
                found.append(policy)
    return found


def _rates_of(basis: Basis, lines: Sequence[Line]) -> list[Rate]:
    used = {line.key.rate_id for line in lines}
    rates = [rate for rate in basis.decisions.rates if rate.rate_id in used]
    return sorted(rates, key=lambda rate: (rate.gpu_class, rate.mig_profile, rate.valid_from))
