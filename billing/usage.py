"""What is billed, as values: charges, and the pods and workload-days that they are made of.

Put here: the rows of the facts as billing takes them.
Not here: how they are read (`reader`), or what an invoice makes of them (`lines`, `invoice`).
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
    """What makes a charge one charge; corrections find their line by it."""

    tenant: str
    belongs_to: BelongsTo
    gpu_class: str
    mig_profile: str
    cluster_id: str
    weight: Fraction
    weight_policy: str
    started_at: datetime  # of the rate's interval: one rate may hold, pause and hold again
    rate_id: str
    credited: bool = False  # what an outage takes back from the charge of the same key

    @property
    def charge(self) -> ChargeKey:
        """The charge itself, of a credit as well."""
        return replace(self, credited=False)


@dataclass(frozen=True, slots=True, order=True)
class Charge:
    """One row of fct_charges, the only place that prices and rounds; or what is taken back of it.

    A credit has its seconds and its cost below zero.
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
    """The part of a charge that one pod used, as far as one method vouches for it."""

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
class Usage:
    """Everything that a period's documents are made of."""

    charges: tuple[Charge, ...]
    workload_days: tuple[WorkloadDay, ...]
    pods: tuple[PodUse, ...]
    labels: tuple[WorkloadLabels, ...] = ()

    def by_tenant(self) -> dict[str, Usage]:
        """Each tenant's part, in order, and nothing of anybody else's or the provider's."""
        charges = _by_tenant(self.charges)
        days = _by_tenant(self.workload_days)
        pods = _by_tenant(self.pods)
        return {
            tenant: Usage(
                tuple(sorted(charges[tenant])),
                tuple(sorted(days.get(tenant, ()))),
                tuple(sorted(pods.get(tenant, ()))),
                tuple(sorted(labels for labels in self.labels if labels.tenant == tenant)),
            )
            for tenant in sorted(charges)
        }


NO_USAGE = Usage((), (), ())


def only_currency(charges: Iterable[Charge]) -> str:
    """The currency of all charges; empty when nothing is priced."""
    currencies = sorted({charge.currency for charge in charges if charge.key.rate_id})
    for other in currencies[1:]:
        raise CurrenciesDiffer(currencies[0], other, "the charges of a period")
    return currencies[0] if currencies else ""


def _by_tenant(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.key.belongs_to is BelongsTo.TENANT:
            found[row.key.tenant].append(row)
    return dict(found)
