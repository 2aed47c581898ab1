"""The invoice as a sealed document: all facts for its receiver, and nothing about other tenants.

Put here: the document of usage, lines and their basis; reading a line back; the summary of measured
hours.
Not here: rounding (`lines`), the record, or rendering.

Amounts are decimal text: `cost` is exact, `billed_cost` is payable. Quantities are whole seconds.
The order of every list follows from its content.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Any

from billing.lines import Line, LineKind, Total
from billing.sealing import Document
from billing.usage import ChargeKey, DocumentUsage, PodUse, WorkloadDay, WorkloadLabels
from domain.billing_period import BillingPeriod
from domain.decisions.rows import AcceptedGap, Party, Policy, Rate
from domain.findings import CoverageState, CoverageStatus
from domain.interval import Interval, format_instant, parse_instant
from domain.money import (
    divide_rounding_half_even,
    format_nanos,
    minor_unit_digits,
    minor_unit_nanos,
    parse_nanos,
)
from domain.tenant import BelongsTo

SCHEMA = "gpu-ledger/invoice/1"


class DocumentKind(StrEnum):
    INVOICE = "invoice"
    VOID = "void"
    CONSUMPTION_STATEMENT = "consumption_statement"


@dataclass(frozen=True, slots=True)
class Header:
    """The parts of a document besides its lines."""

    number: str
    kind: DocumentKind
    period: BillingPeriod
    issued_at: datetime
    tenant: str
    currency: str
    issuer: Party | None
    customer: Party | None
    policies: Sequence[Policy]
    rates: Sequence[Rate]
    cluster_names: Mapping[str, str]
    measured: Sequence[Document]
    stands_on: Mapping[str, str]
    decisions: Mapping[str, list[dict[str, str]]]


def invoice_document(header: Header, total: Total, usage: DocumentUsage) -> Document:
    """The whole document, ready to be sealed."""
    digits = minor_unit_digits(header.currency) if header.currency else 0
    made_of_pods = (LineKind.USAGE, LineKind.CREDIT)
    line_numbers = {line.key: line.number for line in total.lines if line.kind in made_of_pods}
    names = header.cluster_names
    return {
        "schema": SCHEMA,
        "document": header.kind.value,
        "number": header.number,
        "amounts": "final",
        "billing_period": header.period.name,
        "period_started_at": format_instant(header.period.started_at),
        "period_ended_at": format_instant(header.period.ended_at),
        "issued_at": format_instant(header.issued_at),
        "tenant": header.tenant,
        "issuer": party_entry(header.issuer),
        "customer": party_entry(header.customer),
        "currency": header.currency,
        "total_cost": format_nanos(total.exact_nanos),
        "total_billed_cost": format_nanos(total.billed_nanos, digits),
        **_payable(header, total.billed_nanos, digits),
        "lines": [line_entry(line, names, digits) for line in total.lines],
        "workload_days": [_day_entry(day, line_numbers) for day in usage.workload_days],
        "workload_labels": [_labels_entry(labels) for labels in usage.labels],
        "pods": [_pod_entry(pod, line_numbers) for pod in usage.pods],
        "measured": list(header.measured),
        "policies": [policy_entry(policy) for policy in header.policies],
        "rates": [rate_entry(rate) for rate in header.rates],
        "decisions": dict(header.decisions),
        "stands_on": dict(header.stands_on),
        "voids": "",
        "voided": {},
        "reason": "",
    }


def _payable(header: Header, billed_nanos: int, digits: int) -> Document:
    """Tax, the payable total, and the terms of payment; `total_billed_cost` is the net amount."""
    percent = _party_cell(header, "tax_percent")
    tax_nanos = tax_of(billed_nanos, percent, header.currency) if header.currency else 0
    days = _party_cell(header, "payment_days")
    is_due = billed_nanos + tax_nanos > 0 and days is not None
    due_on = header.issued_at.date() + timedelta(days=days) if is_due else None
    bank = next((p.bank_lines for p in (header.customer, header.issuer) if p and p.bank_lines), [])
    return {
        "tax": {
            "percent": percent or "",
            "note": _party_cell(header, "tax_note") or "",
            "amount": format_nanos(tax_nanos, digits),
        },
        "total_payable": format_nanos(billed_nanos + tax_nanos, digits),
        "payment": {
            "due_on": due_on.isoformat() if due_on else "",
            "terms": _party_cell(header, "payment_terms") or "",
            "bank_details": bank,
            "purchase_order": header.customer.purchase_order if header.customer else "",
        },
    }


def tax_of(billed_nanos: int, percent: str, currency: str) -> int:
    """Tax on a net amount, rounded once to payable units; 0 without a decided tax."""
    share = Fraction(percent or 0) / 100 * billed_nanos / minor_unit_nanos(currency)
    units = divide_rounding_half_even(share.numerator, share.denominator)
    return units * minor_unit_nanos(currency)


def _party_cell(header: Header, name: str) -> Any:
    """A cell of the customer's row, or of the issuer's row if the customer's is empty."""
    cells = (getattr(party, name) for party in (header.customer, header.issuer) if party)
    return next((cell for cell in cells if cell not in ("", None)), None)


def read_line(tenant: str, entry: Mapping[str, Any]) -> Line:
    """A line of a sealed document as a value."""
    return Line(
        number=entry["line"],
        kind=LineKind(entry["kind"]),
        charge_period=entry["charge_period"],
        key=ChargeKey(
            tenant=tenant,
            belongs_to=BelongsTo(entry["belongs_to"]),
            gpu_class=entry["gpu_class"],
            mig_profile=entry["mig_profile"],
            cluster_id=entry["cluster_id"],
            weight=Fraction(entry["weight"]),
            weight_policy=entry["weight_policy"],
            started_at=parse_instant(entry["started_at"]),
            rate_id=entry["rate_id"],
            credited=entry["credited"],
        ),
        ended_at=parse_instant(entry["ended_at"]),
        rate_nanos_per_hour=parse_nanos(entry["rate_per_hour"]),
        device_seconds=entry["device_seconds"],
        cost_nanos=parse_nanos(entry["cost"]),
        billed_nanos=parse_nanos(entry["billed_cost"]),
        reason=entry["reason"],
        seconds_before=entry["device_seconds_before"],
        nanos_before=parse_nanos(entry["cost_before"]),
        refers_to=entry["refers_to"],
    )


def read_lines(document: Mapping[str, Any]) -> list[Line]:
    return [read_line(document["tenant"], entry) for entry in document["lines"]]


def party_entry(party: Party | None) -> Document:
    if party is None:
        return {"name": "", "address": [], "tax_id": "", "tax_id_label": "", "email": ""}
    return {
        "name": party.name,
        "address": party.address_lines,
        "tax_id": party.tax_id,
        "tax_id_label": party.tax_id_label,
        "email": party.email,
    }


def policy_entry(policy: Policy) -> Document:
    return {
        "policy": policy.policy.value,
        "version": policy.version,
        "value": policy.value,
        "valid_from": format_instant(policy.valid_from),
        "valid_until": format_instant(policy.valid_until) if policy.valid_until else "",
        "reason": policy.reason,
        "decided_by": policy.decided_by,
    }


def rate_entry(rate: Rate) -> Document:
    return {
        "rate_id": rate.rate_id,
        "cluster_id": rate.cluster_id,
        "gpu_class": rate.gpu_class,
        "mig_profile": rate.mig_profile,
        "currency": rate.currency,
        "rate_per_hour": format_nanos(rate.rate_nanos_per_hour),
        "valid_from": format_instant(rate.valid_from),
        "valid_until": format_instant(rate.valid_until) if rate.valid_until else "",
        "reason": rate.reason,
        "decided_by": rate.decided_by,
        "second_name": rate.second_name,
    }


def clusters_of(lines: Iterable[Line]) -> list[str]:
    """The clusters of these lines."""
    return sorted({line.key.cluster_id for line in lines})


def line_entry(line: Line, cluster_names: Mapping[str, str], digits: int) -> Document:
    return {
        "line": line.number,
        "kind": line.kind.value,
        "charge_period": line.charge_period,
        "belongs_to": line.key.belongs_to.value,
        "cluster_id": line.key.cluster_id,
        "cluster_name": cluster_names.get(line.key.cluster_id, ""),
        "gpu_class": line.key.gpu_class,
        "mig_profile": line.key.mig_profile,
        "weight": f"{line.key.weight.numerator}/{line.key.weight.denominator}",
        "weight_policy": line.key.weight_policy,
        "rate_id": line.key.rate_id,
        "credited": line.key.credited,
        "rate_per_hour": format_nanos(line.rate_nanos_per_hour),
        "started_at": format_instant(line.key.started_at),
        "ended_at": format_instant(line.ended_at),
        "device_seconds": line.device_seconds,
        "cost": format_nanos(line.cost_nanos),
        "billed_cost": format_nanos(line.billed_nanos, digits),
        "reason": line.reason,
        "device_seconds_before": line.seconds_before,
        "cost_before": format_nanos(line.nanos_before),
        "refers_to": line.refers_to,
    }


def _day_entry(day: WorkloadDay, line_numbers: Mapping[ChargeKey, int]) -> Document:
    return {
        "line": line_numbers[day.key],
        "day": day.day.isoformat(),
        "workload_kind": day.workload_kind,
        "workload_name": day.workload_name,
        "device_seconds": day.device_seconds,
        "cost": format_nanos(day.cost_nanos),
    }


def _labels_entry(labels: WorkloadLabels) -> Document:
    return {
        "cluster_id": labels.cluster_id,
        "workload_kind": labels.workload_kind,
        "workload_name": labels.workload_name,
        "labels": dict(labels.labels),
    }


def _pod_entry(pod: PodUse, line_numbers: Mapping[ChargeKey, int]) -> Document:
    return {
        "line": line_numbers[pod.key],
        "pod_uid": pod.pod_uid,
        "pod_name": pod.pod_name,
        "node_name": pod.node_name,
        "resource": pod.resource,
        "workload_kind": pod.workload_kind,
        "workload_name": pod.workload_name,
        "method": pod.method,
        "device_count": pod.device_count,
        "started_at": format_instant(pod.first_started_at),
        "ended_at": format_instant(pod.last_ended_at),
        "device_seconds": pod.device_seconds,
        "uncertain_device_seconds": pod.uncertain_device_seconds,
        "cost": format_nanos(pod.cost_nanos),
    }


# Measured hours -----------------------------------------------------------------------------------


def measured_section(
    clusters: Iterable[str],
    names: Mapping[str, str],
    coverage_statuses: Sequence[CoverageStatus],
    accepted_gaps: Sequence[AcceptedGap],
    window: Interval,
) -> list[Document]:
    """One entry per cluster, in order; `clusters` are those of the document."""
    return [
        {
            "cluster_id": cluster,
            "cluster_name": names.get(cluster, ""),
            **_hour_counts(
                coverage_status
                for coverage_status in coverage_statuses
                if coverage_status.cluster_id == cluster
            ),
            "signed": _accepted_entries(accepted_gaps, cluster, window),
        }
        for cluster in sorted(clusters)
    ]


def _hour_counts(coverage_statuses: Iterable[CoverageStatus]) -> Document:
    expected: defaultdict[datetime, list[CoverageState]] = defaultdict(list)
    by_source: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for coverage_status in coverage_statuses:
        by_source[coverage_status.source][coverage_status.state.value] += 1
        if coverage_status.state is not CoverageState.NOT_EXPECTED:
            expected[coverage_status.hour_started_at].append(coverage_status.state)
    complete_counts = [states.count(CoverageState.COMPLETE) for states in expected.values()]
    source_counts = [len(states) for states in expected.values()]
    one_of_two = [
        complete_count == 1 and source_count > 1
        for complete_count, source_count in zip(complete_counts, source_counts, strict=True)
    ]
    return {
        "hours_expected": len(expected),
        "hours_measured": sum(count > 0 for count in complete_counts),
        "hours_with_one_source_of_two": sum(one_of_two),
        "hours_not_wholly_measured": complete_counts.count(0),
        "hours_by_source": {
            source: dict(sorted(counts.items())) for source, counts in sorted(by_source.items())
        },
    }


def _accepted_entries(
    accepted_gaps: Iterable[AcceptedGap], cluster: str, window: Interval
) -> list[Document]:
    entries: list[Document] = []
    for gap in accepted_gaps:
        inside = gap.interval.clipped_to(window)
        if gap.cluster_id == cluster and inside and not gap.pod_uid:
            entries.append(
                {
                    "source": gap.source.value,
                    "started_at": format_instant(inside.started_at),
                    "ended_at": format_instant(inside.ended_at),
                    "treatment": gap.treatment.value,
                    "reason": gap.reason,
                    "decided_by": gap.decided_by,
                    "decided_on": gap.decided_on.isoformat(),
                }
            )
    return sorted(entries, key=lambda entry: sorted((k, str(v)) for k, v in entry.items()))
