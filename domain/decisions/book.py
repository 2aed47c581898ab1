"""The decisions of a home: all tables together, and the rows that hold.

Put here: the rows of an instant and of a period, and the instants of changes.
Not here: reading tables (`reading`), or the effect of a decision on a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import cached_property

from domain.billing_period import BillingPeriod
from domain.decisions.policies import DEFAULT_POLICIES, BillableState, value_of
from domain.decisions.rates import PriceChangeNeedsSecondName, Rates
from domain.decisions.rows import (
    AcceptedGap,
    Amendment,
    Budget,
    Cluster,
    DatedRow,
    Outage,
    Party,
    PartyRole,
    Policy,
    PolicyName,
    Product,
    Rate,
    Row,
    Source,
    TableName,
    Tenant,
)
from domain.decisions.sealed_copies import canonical_rows, held_in
from domain.gpu.weights import WeightPolicy
from domain.identity import sha256
from domain.interval import HOUR, Interval, hour_of, union
from domain.tenant import Ownership


@dataclass(frozen=True)
class Decisions:
    """Every table's rows, in canonical order; equal decisions are equal values."""

    clusters: tuple[Cluster, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    rates: tuple[Rate, ...] = ()
    budgets: tuple[Budget, ...] = ()
    outages: tuple[Outage, ...] = ()
    accepted_gaps: tuple[AcceptedGap, ...] = ()
    policies: tuple[Policy, ...] = ()
    parties: tuple[Party, ...] = ()
    products: tuple[Product, ...] = ()
    amendments: tuple[Amendment, ...] = ()
    problems: tuple[PriceChangeNeedsSecondName, ...] = field(default=(), compare=False)
    """Valid rows that lack a second name."""

    def rows(self, table: TableName) -> tuple[Row, ...]:
        rows: tuple[Row, ...] = getattr(self, table.value)
        return rows

    @cached_property
    def sha256(self) -> str:
        """One hash of all decisions, independent of order, spelling and comments of the files."""
        return sha256(canonical_rows(self.rows))

    # Prices ---------------------------------------------------------------------------------

    @cached_property
    def price_list(self) -> Rates:
        return Rates(self.rates)

    def currency(self, instant: datetime) -> str | None:
        """The ledger's currency: by policy, or that of the prices; None without either."""
        decided = next(
            (p for p in self.policies if p.policy is PolicyName.CURRENCY and holds(p, instant)),
            None,
        )
        if decided is not None:
            return decided.value
        return next((rate.currency for rate in self.rates if holds(rate, instant)), None)

    # Who and where --------------------------------------------------------------------------

    @cached_property
    def ownership(self) -> Ownership:
        return Ownership(self.tenants)

    def cluster_at(self, cluster_id: str, instant: datetime) -> Cluster | None:
        """The decision to measure a cluster, or None at instants at which it is not measured."""
        rows = (c for c in self.clusters if c.cluster_id == cluster_id and holds(c, instant))
        return next(rows, None)

    def cluster_in_hour(self, cluster_id: str, hour: datetime) -> Cluster | None:
        """The first decision to measure a cluster that holds at any instant of an hour."""
        within = Interval(hour_of(hour), hour_of(hour) + HOUR)
        rows = (c for c in self.clusters if c.cluster_id == cluster_id)
        return min(
            (row for row in rows if row.validity.clipped_to(within)),
            key=lambda row: row.valid_from,
            default=None,
        )

    def measured(self, window: Interval) -> list[tuple[Interval, Cluster]]:
        """When each cluster is measured inside the window, and how; by cluster and time."""
        pieces = [(row.validity.clipped_to(window), row) for row in self.clusters]
        found = [(piece, row) for piece, row in pieces if piece]
        return sorted(found, key=lambda pair: (pair[1].cluster_id, pair[0]))

    def expected_hours(self, window: Interval) -> Iterator[tuple[str, Source, datetime]]:
        """Every (cluster, source, hour) that the calendar expects in the window."""
        seen: set[tuple[str, Source, datetime]] = set()
        for piece, row in self.measured(window):
            for source in row.expected_sources:
                for hour in piece.hours():
                    key = (row.cluster_id, source, hour)
                    if key not in seen:
                        seen.add(key)
                        yield key

    def party(self, role: PartyRole, tenant: str, instant: datetime) -> Party | None:
        rows = (p for p in self.parties if (p.role, p.tenant) == (role, tenant))
        return next((p for p in rows if holds(p, instant)), None)

    def budgets_of(self, period: BillingPeriod) -> list[Budget]:
        """At most one budget of each tenant, workload and label: the period's own row, or else the
        row for every period.

        A budget in another currency than the period's prices is none: there is no share of it.
        """
        currency = self.currency(period.started_at)
        found: dict[tuple[str, ...], Budget] = {}
        for row in self.budgets:
            key = (row.tenant, *row.scope)
            if currency not in (None, row.currency) or row.billing_period not in (None, period):
                continue
            if key not in found or row.billing_period == period:
                found[key] = row
        return list(found.values())

    # Policies -------------------------------------------------------------------------------

    def policy(self, name: PolicyName, instant: datetime) -> Policy:
        """The version that holds: a decided one, or the default that ships."""
        rows = (p for p in self.policies if p.policy is name and holds(p, instant))
        decided = next(rows, None)
        return decided if decided is not None else DEFAULT_POLICIES[name]

    def billable_state(self, instant: datetime) -> BillableState:
        return BillableState(value_of(self.policy(PolicyName.BILLABLE_STATE, instant)))

    def mig_weight(self, instant: datetime) -> WeightPolicy:
        return WeightPolicy(value_of(self.policy(PolicyName.MIG_WEIGHT, instant)))

    def uncertainty_limit(self, instant: datetime) -> Fraction:
        return Fraction(value_of(self.policy(PolicyName.UNCERTAINTY_LIMIT, instant)))

    def one_source_limit(self, instant: datetime) -> Fraction:
        return Fraction(value_of(self.policy(PolicyName.ONE_SOURCE_LIMIT, instant)))

    def grace_days(self, instant: datetime) -> int:
        return int(value_of(self.policy(PolicyName.GRACE_DAYS, instant)))

    # Exceptions -----------------------------------------------------------------------------

    def outage_intervals(
        self, cluster_id: str, window: Interval, node_name: str = "", pod_uid: str = ""
    ) -> list[Interval]:
        """Outages of exactly a cluster, node or pod in the window, overlapping ones united."""
        scope = (node_name, pod_uid)
        rows = (
            row
            for row in self.outages
            if row.cluster_id in ("", cluster_id) and (row.node_name, row.pod_uid) == scope
        )
        pieces = (row.validity.clipped_to(window) for row in rows)
        return union(piece for piece in pieces if piece)

    # Time -----------------------------------------------------------------------------------

    def cut_points(
        self, window: Interval, tables: Iterable[TableName] = TableName
    ) -> list[datetime]:
        """The instants strictly inside the window at which something that is decided changes."""
        rows = [row for table in tables for row in self.rows(table)]
        dated = [row for row in rows if isinstance(row, DatedRow | Outage | AcceptedGap)]
        edges = {edge for row in dated for edge in row.validity.edges()}
        return sorted(e for e in edges if window.started_at < e < window.ended_at)

    def valid_in(self, window: Interval) -> Decisions:
        """The copies that a close seals; see `sealed_copies` for the rows that they omit."""
        problems = tuple(p for p in self.problems if p.change.applies_in(window))
        return Decisions(**held_in(self.rows, window), problems=problems)


def holds(row: DatedRow, instant: datetime) -> bool:
    return row.validity.contains(instant)
