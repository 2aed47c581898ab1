"""The rows of the decision tables, typed: a decision, its validity and its names.

Put here: one frozen class per table, with the values that follow from a single row.
Not here: how a row is read and written (`domain.decisions.tables`), or which row applies.

`line` is the line of a row in its file. It is not part of the decision: two rows with the same
cells are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from domain.billing_period import BillingPeriod
from domain.budgets import DEFAULT_ACTUAL_STEPS, DEFAULT_FORECAST_STEPS, WHOLE_TENANT
from domain.gpu.catalogue import Vendor
from domain.identity import sha256
from domain.interval import Interval
from domain.money import Money
from domain.tenant import BelongsTo
from domain.validity import Validity

WHOLE = "whole"


class TableName(StrEnum):
    """The decision tables; each is a file of that name in decisions/."""

    CLUSTERS = "clusters"
    TENANTS = "tenants"
    RATES = "rates"
    BUDGETS = "budgets"
    OUTAGES = "outages"
    ACCEPTED_GAPS = "accepted_gaps"
    POLICIES = "policies"
    PARTIES = "parties"
    PRODUCTS = "products"
    AMENDMENTS = "amendments"


NAMING_A_CLUSTER = (TableName.RATES, TableName.OUTAGES, TableName.ACCEPTED_GAPS)
"""The tables whose rows may name a cluster, except the table of clusters itself."""


class Source(StrEnum):
    """The two sources of evidence."""

    THANOS = "thanos"
    KUBERNETES = "kubernetes"


class Sources(StrEnum):
    """Which of the two sources a cluster is expected to have."""

    BOTH = "both"
    SAMPLES = "samples"
    LIFECYCLE = "lifecycle"


class GapTreatment(StrEnum):
    """How an accepted gap is billed."""

    BILL_LIFECYCLE = "bill_lifecycle"
    BILL_SAMPLES = "bill_samples"
    BILL_NOTHING = "bill_nothing"
    WAIVE = "waive"


class OutageTreatment(StrEnum):
    CREDIT = "credit"


class PolicyName(StrEnum):
    BILLABLE_STATE = "billable_state"
    MIG_WEIGHT = "mig_weight"
    UNCERTAINTY_LIMIT = "uncertainty_limit"
    ONE_SOURCE_LIMIT = "one_source_limit"
    GRACE_DAYS = "grace_days"
    CURRENCY = "currency"


class ClusterRole(StrEnum):
    HUB = "hub"


class PartyRole(StrEnum):
    ISSUER = "issuer"
    CUSTOMER = "customer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The columns of every decision: reason, name and date."""

    reason: str
    decided_by: str
    decided_on: date
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedRow(Row):
    """A decision that holds from an instant until another, or without an end."""

    valid_from: datetime
    valid_until: datetime | None = None

    @property
    def validity(self) -> Validity:
        return Validity(self.valid_from, self.valid_until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(DatedRow):
    """A measured cluster, and its sources."""

    cluster_id: str
    cluster_name: str
    sources: Sources = Sources.BOTH
    sample_interval_seconds: int
    scrape_interval_seconds: int
    role: ClusterRole | None = None

    def expects(self, source: Source) -> bool:
        only = Sources.SAMPLES if source is Source.THANOS else Sources.LIFECYCLE
        return self.sources in (Sources.BOTH, only)

    @property
    def expected_sources(self) -> tuple[Source, ...]:
        return tuple(source for source in Source if self.expects(source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(DatedRow):
    """An exception to the rule for namespaces."""

    namespace: str
    belongs_to: BelongsTo


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate(DatedRow):
    """A price per device-hour: of a whole card and its parts by weight, or of one MIG profile."""

    cluster_id: str = ""  # '' prices every cluster
    gpu_class: str
    mig_profile: str = WHOLE
    currency: str
    rate_nanos_per_hour: int
    second_name: str = ""

    @property
    def rate_id(self) -> str:
        """The ID of the price, from its key, its start and its amount.

        Its end is not a part, so that a charge keeps its ID when the price ends.
        """
        key = [self.cluster_id, self.gpu_class, self.mig_profile]
        parts = [*key, self.valid_from, self.currency, self.rate_nanos_per_hour]
        return "rate-" + sha256(parts)[:16]

    @property
    def specificity(self) -> int:
        return (self.cluster_id != "") + (self.mig_profile != WHOLE)

    @property
    def money_per_hour(self) -> Money:
        return Money(self.rate_nanos_per_hour, self.currency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Row):
    """The budget of a tenant for one period, or for every period."""

    tenant: str
    billing_period: BillingPeriod | None = None
    currency: str
    amount_nanos: int
    workload: tuple[str, str] = ("", "")  # kind and name; ('', '') is the whole tenant
    label: tuple[str, str] = ("", "")  # key and value
    actual_steps: tuple[int, ...] = DEFAULT_ACTUAL_STEPS
    forecast_steps: tuple[int, ...] = DEFAULT_FORECAST_STEPS

    @property
    def name(self) -> str:
        """The limited workload or label; unique among the budgets of a tenant and month."""
        workload, label = "/".join(self.workload), "=".join(self.label)
        return workload.strip("/") or label.strip("=") or WHOLE_TENANT

    @property
    def scope(self) -> tuple[str, str, str, str]:
        """The part of the tenant whose cost is limited: kind and name, key and value."""
        return (*self.workload, *self.label)

    @property
    def amount(self) -> Money:
        return Money(self.amount_nanos, self.currency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage(Row):
    """An interval whose usage is credited, because the provider could not serve."""

    cluster_id: str = ""  # '' is every cluster
    started_at: datetime
    ended_at: datetime | None = None
    treatment: OutageTreatment = OutageTreatment.CREDIT
    node_name: str = ""  # '' is every node
    pod_uid: str = ""  # '' is every pod

    @property
    def validity(self) -> Validity:
        return Validity(self.started_at, self.ended_at)

    @property
    def is_of_whole_cluster(self) -> bool:
        return not (self.node_name or self.pod_uid)

    def concerns(self, cluster_id: str, node_name: str, pod_uid: str) -> bool:
        return (
            self.cluster_id in ("", cluster_id)
            and self.node_name in ("", node_name)
            and self.pod_uid in ("", pod_uid)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedGap(Row):
    """Time without complete evidence, and its accepted treatment."""

    cluster_id: str
    source: Source
    started_at: datetime
    ended_at: datetime
    treatment: GapTreatment
    pod_uid: str = ""  # '' is every pod of the cluster

    @property
    def validity(self) -> Validity:
        return Validity(self.started_at, self.ended_at)

    @property
    def interval(self) -> Interval:
        return Interval(self.started_at, self.ended_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(DatedRow):
    """One rule of the ledger; every invoice has its version."""

    policy: PolicyName
    version: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Party(DatedRow):
    """The issuer of the invoices, or the recipient of a tenant's invoices."""

    role: PartyRole
    tenant: str = ""
    name: str
    address: str = ""
    tax_id: str = ""
    email: str = ""
    tax_id_label: str = ""
    tax_percent: str = ""  # canonical decimal text; '' says nothing about tax
    tax_note: str = ""
    payment_days: int | None = None
    payment_terms: str = ""
    bank_details: str = ""
    purchase_order: str = ""

    @property
    def address_lines(self) -> list[str]:
        return _lines_of(self.address)

    @property
    def bank_lines(self) -> list[str]:
        return _lines_of(self.bank_details)


def _lines_of(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(";") if part.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(Row):
    """A GPU that the shipped product table does not have yet."""

    product: str
    vendor: Vendor
    gpu_class: str
    memory_mib: int | None = None
    compute_slots: int
    memory_slots: int
    mig_geometry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment(Row):
    """Permission of two people to recount a closed period with the present rows of a table."""

    billing_period: BillingPeriod
    amended_table: TableName
    second_name: str
