"""The billed usage of a period: charges, and the pods and workload-days of each charge.

Put here: classes for the rows of facts that billing uses.
Not here: reading them (`billed_facts`), or the lines of an invoice (`lines`, `invoice`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import TypeVar

from domain.money import CurrenciesDiffer
from domain.tenant import BelongsTo


@dataclass(frozen=True, slots=True, order=True)
class ChargeKey:
    """The key of a charge, by which a correction finds the line that it corrects."""

    tenant: str
    belongs_to: BelongsTo
    gpu_class: str
    mig_profile: str
    cluster_id: str
    weight: Fraction
    weight_policy: str
    started_at: datetime  # of one interval of the rate, which may have several
    rate_id: str
    credited: bool = False  # a credit for an outage, for the charge of the same key

    @property
    def charge(self) -> ChargeKey:
        """The same key; for a credit, the key of the charge that it reduces."""
        return replace(self, credited=False)


@dataclass(frozen=True, slots=True, order=True)
class Charge:
    """One row of fct_charges, or a credit for one.

    A credit has negative seconds and a negative cost.
    """

    key: ChargeKey
    ended_at: datetime
    rate_nanos_per_hour: int
    currency: str
    device_seconds: int
    cost_nanos: int


@dataclass(frozen=True, slots=True, order=True)
class WorkloadDay:
    """The part of a charge that one workload used on one day."""

    key: ChargeKey
    day: date
    workload_kind: str
    workload_name: str
    device_seconds: int
    cost_nanos: int


@dataclass(frozen=True, slots=True, order=True)
class PodUse:
    """The part of a charge that one pod used and one method of reconciliation measured."""

    key: ChargeKey
    pod_uid: str
    pod_name: str
    node_name: str
    resource: str
    workload_kind: str
    workload_name: str
    method: str
    device_count: int
    first_started_at: datetime
    last_ended_at: datetime
    device_seconds: int
    uncertain_device_seconds: int
    cost_nanos: int


@dataclass(frozen=True, slots=True, order=True)
class WorkloadLabels:
    """The labels that all pods of a workload have in a period."""

    tenant: str
    cluster_id: str
    workload_kind: str
    workload_name: str
    labels: tuple[tuple[str, str], ...]


Row = TypeVar("Row", Charge, WorkloadDay, PodUse)


@dataclass(frozen=True, slots=True)
class DocumentUsage:
    """The usage that all documents of a period bill."""

    charges: tuple[Charge, ...]
    workload_days: tuple[WorkloadDay, ...]
    pods: tuple[PodUse, ...]
    labels: tuple[WorkloadLabels, ...] = ()

    def by_tenant(self) -> dict[str, DocumentUsage]:
        """The usage of each tenant, sorted by name, without the provider's own usage."""
        charges = _by_tenant(self.charges)
        days = _by_tenant(self.workload_days)
        pods = _by_tenant(self.pods)
        return {
            tenant: DocumentUsage(
                tuple(sorted(charges[tenant])),
                tuple(sorted(days.get(tenant, ()))),
                tuple(sorted(pods.get(tenant, ()))),
                tuple(sorted(labels for labels in self.labels if labels.tenant == tenant)),
            )
            for tenant in sorted(charges)
        }


NO_USAGE = DocumentUsage((), (), ())


def only_currency(charges: Iterable[Charge]) -> str:
    """The one currency of all charges; empty if no charge has a price."""
    currencies = sorted({charge.currency for charge in charges if charge.key.rate_id})
    for other in currencies[1:]:
        raise CurrenciesDiffer(currencies[0], other, "the charges of a period")
    return currencies[0] if currencies else ""


def _by_tenant(rows: Iterable[Row]) -> dict[str, list[Row]]:
    tenant_rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.key.belongs_to is BelongsTo.TENANT:
            tenant_rows[row.key.tenant].append(row)
    return dict(tenant_rows)
