"""The health of GPUs: problems, proposed credits and workloads, as typed rows and as a page.

Put here: the rows of the page and of the API, and the page.
Not here: how they are read (`warehouse.reports.health`), or the look (`templates/health.html`).
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from starlette.responses import Response

from domain.billing_period import BillingPeriod
from portal import consumption
from portal.consumption import amount_text, hours_text, structs
from portal.pages import FIRST_SHOWN, LONG_SHOWN, page
from portal.visits import Visit
from warehouse.reports import health as report
from warehouse.reports.opened_facts import Facts


class ProblemRow(msgspec.Struct, kw_only=True):
    """One problem of a device or node in a month, with the pods that it affected."""

    cluster_name: str
    node_name: str
    device: str  # empty for a problem of the node
    problem: str
    observed: int
    meaning: str
    is_fault_of_provider: bool
    first_hour_started_at: datetime
    last_hour_started_at: datetime
    hour_count: int
    tenants: list[str]
    pods: list[str]


class ProposedCreditRow(msgspec.Struct, kw_only=True):
    """The cost of a tenant's pods in hours with a fault of the provider."""

    tenant: str
    cluster_name: str
    reason: list[str]
    hour_count: int
    credit: str
    currency: str


class WorkloadHealthRow(msgspec.Struct, kw_only=True):
    """One workload of a month by its top owner: its hours with a problem, and its idle time."""

    tenant: str
    workload_kind: str
    workload_name: str
    status: str  # running, affected or ended
    problem_hours: int
    device_hours: str
    idle_hours: str
    cost: str
    idle_cost: str
    currency: str


def problems(facts: Facts, period: BillingPeriod) -> list[ProblemRow]:
    return structs(ProblemRow, report.problems(facts, period))


def credits_proposed(facts: Facts, period: BillingPeriod) -> list[ProposedCreditRow]:
    return [
        ProposedCreditRow(
            tenant=row["tenant"],
            cluster_name=row["cluster_name"],
            reason=row["reason"],
            hour_count=row["hour_count"],
            credit=amount_text(int(row["credit_nanos"]), row["currency"]),
            currency=row["currency"],
        )
        for row in report.credits_proposed(facts, period)
    ]


def workloads(facts: Facts, period: BillingPeriod) -> list[WorkloadHealthRow]:
    """Those with the most hours with a problem first, then the highest cost."""
    rows = [
        WorkloadHealthRow(
            tenant=row["tenant"],
            workload_kind=row["workload_kind"],
            workload_name=row["workload_name"],
            status=row["status"],
            problem_hours=row["problem_hours"],
            device_hours=hours_text(int(row["device_seconds"])),
            idle_hours=hours_text(int(row["idle_seconds"])),
            cost=amount_text(int(row["cost_nanos"]), row["currency"]),
            idle_cost=amount_text(int(row["idle_nanos"]), row["currency"]),
            currency=row["currency"],
        )
        for row in report.owners(facts, period)
    ]
    return sorted(rows, key=lambda row: -row.problem_hours)


def provider_health_page(visit: Visit) -> Response:
    given = visit.parameters("period")
    with visit.facts_of_fleet() as facts:
        period = given.period(facts)
        return page(
            visit,
            "health.html",
            title="Health of GPUs",
            period=period,
            periods=consumption.periods(facts),
            status=consumption.month_status(facts, period),
            problems=problems(facts, period),
            outages=report.outages_proposed(facts, period),
            proposed=credits_proposed(facts, period),
            workloads=workloads(facts, period),
            known=set(visit.known_tenants),
            first=FIRST_SHOWN,
            shown=LONG_SHOWN,
        )
