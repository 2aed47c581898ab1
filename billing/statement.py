"""The provider's statement: the use of all capacity, its own use, and the issued documents.

Put here: the statement as a sealed document, and its CSV.
Not here: the programme's report, which is sealed with it (`ccsp`).

Capacity is in share-seconds of cards, per cluster, class and dimension; its terms add up to
the installed capacity exactly, which the check verifies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from billing.basis import Basis
from billing.ccsp import ReportedClusterHour, ReportedNodeHour, sealed_runs
from billing.invoice import line_entry, party_entry
from billing.lines import round_lines, usage_lines
from billing.sealing import Document
from billing.usage import Charge
from domain.csv_text import csv_bytes
from domain.interval import format_instant
from domain.money import format_nanos, minor_unit_digits

SCHEMA = "gpu-ledger/provider-statement/1"

TERMS = (
    "running",
    "held",
    "idle",
    "unsold",
    "unhealthy",
    "withdrawn",
    "unmeasured",
)
"""The terms of the installed capacity."""

CAPACITY_COLUMNS = (
    "cluster_id",
    "gpu_class",
    "dimension",
    "share_denominator",
    "installed",
    *TERMS,
    "running_of_provider",
    "overallocated",
)


@dataclass(frozen=True, slots=True, order=True)
class Capacity:
    """One class of cards of one cluster, in one dimension; share-seconds over the denominator."""

    cluster_id: str
    gpu_class: str
    dimension: str
    share_denominator: int
    installed: int
    terms: Mapping[str, int]
    overallocated: int
    running_of_provider: Fraction

    def entry(self) -> Document:
        return {
            "cluster_id": self.cluster_id,
            "gpu_class": self.gpu_class,
            "dimension": self.dimension,
            "share_denominator": self.share_denominator,
            "installed": self.installed,
            **{name: self.terms[name] for name in TERMS},
            "overallocated": self.overallocated,
            "running_of_provider": str(self.running_of_provider),
        }


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """The facts for the provider alone."""

    capacity: Sequence[Capacity]
    own_charges: Sequence[Charge]
    cluster_hours: Sequence[ReportedClusterHour]
    node_hours: Sequence[ReportedNodeHour]


def statement_document(
    basis: Basis,
    facts: ProviderFacts,
    issued: Iterable[tuple[str, str, int]],
    issued_at: datetime,
    stands_on: Mapping[str, str],
) -> Document:
    """The statement; `issued` are (number, tenant, billed nanos) of the period's documents."""
    digits = minor_unit_digits(basis.currency) if basis.currency else 0
    documents = [
        {"number": number, "tenant": tenant, "billed_cost": format_nanos(nanos, digits)}
        for number, tenant, nanos in issued
    ]
    own = round_lines(usage_lines(facts.own_charges, basis.period), basis.currency)
    return {
        "schema": SCHEMA,
        "billing_period": basis.period.name,
        "period_started_at": format_instant(basis.period.started_at),
        "period_ended_at": format_instant(basis.period.ended_at),
        "issued_at": format_instant(issued_at),
        "issuer": party_entry(basis.issuer),
        "currency": basis.currency,
        "documents": documents,
        "own_use": [
            {"namespace": line.key.tenant, **line_entry(line, {}, digits)} for line in own.lines
        ],
        "capacity": [capacity.entry() for capacity in sorted(facts.capacity, key=_order)],
        "ccsp_hours": sealed_runs(facts.cluster_hours),
        "ccsp_nodes": sealed_runs(facts.node_hours),
        "stands_on": dict(stands_on),
    }


def capacity_csv(statement: Mapping[str, Any]) -> bytes:
    rows = ([entry[name] for name in CAPACITY_COLUMNS] for entry in statement["capacity"])
    return csv_bytes(CAPACITY_COLUMNS, rows)


def own_use_csv(statement: Mapping[str, Any]) -> bytes:
    """The provider's own use with its cost by the price list; it is not billed."""
    columns = ("namespace", "cluster_id", "gpu_class", "mig_profile", "device_seconds", "cost")
    rows = ([entry[name] for name in columns] for entry in statement["own_use"])
    return csv_bytes(columns, rows)


def _order(capacity: Capacity) -> tuple[str, str, str]:
    return (capacity.cluster_id, capacity.gpu_class, capacity.dimension)
