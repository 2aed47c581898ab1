"""GPUs that the idle pruner returned: each stop of a workload, and its savings.

Put here: the rows of the page and of the API, and the page.
Not here: stopping workloads (`idle_pruner`), or the price of a stop (`orchestration.idle_savings`).
"""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
from starlette.responses import Response

from portal.consumption import MonthStatus, month_status
from portal.pages import page
from portal.visits import Visit
from warehouse.reports.opened_facts import Facts

CENT = Decimal("0.01")

_STOPS = """
    select
        tenant, workload_kind, workload_name, device_count, stopped_at, restored_at, hourly_cost,
        currency, reason
    from stops
    order by stopped_at desc, tenant, workload_kind, workload_name
"""


class ReturnedRow(msgspec.Struct, kw_only=True):
    """One stop of an idle workload."""

    tenant: str
    workload_kind: str
    workload_name: str
    devices: int
    stopped_at: datetime
    restored_at: datetime | None
    hours: str
    saved: str  # hourly cost of its pods times the hours; empty where a price is unknown
    currency: str
    reason: str


def returned_rows(facts: Facts, now: datetime) -> list[ReturnedRow]:
    """Every stop, the newest first; a stop that lasts counts until now."""
    return [_row(row, now) for row in facts.rows(_STOPS)]


def _row(row: dict[str, object], now: datetime) -> ReturnedRow:
    stopped_at, restored_at = row["stopped_at"], row["restored_at"]
    assert isinstance(stopped_at, datetime)
    ended_at = restored_at if isinstance(restored_at, datetime) else now
    seconds = Decimal(max(int((ended_at - stopped_at).total_seconds()), 0))
    hourly = str(row["hourly_cost"])
    saved = (Decimal(hourly) * seconds / 3600).quantize(CENT, ROUND_HALF_EVEN) if hourly else ""
    return ReturnedRow(
        tenant=str(row["tenant"]),
        workload_kind=str(row["workload_kind"]),
        workload_name=str(row["workload_name"]),
        devices=int(str(row["device_count"])),
        stopped_at=stopped_at,
        restored_at=ended_at if restored_at is not None else None,
        hours=str((seconds / 3600).quantize(CENT, ROUND_HALF_EVEN)),
        saved=str(saved),
        currency=str(row["currency"]),
        reason=str(row["reason"]),
    )


def tenant_page(visit: Visit) -> Response:
    visit.parameters()
    with visit.facts_of_tenant() as facts:
        rows, status = returned_rows(facts, visit.settings.clock.now()), _newest_month(facts)
    api = f"/api/v1/tenants/{visit.tenant}/returned"
    title, hours = f"GPUs returned by {visit.tenant}", f"/tenants/{visit.tenant}"
    return _page(visit, title, rows, api, status, hours)


def provider_page(visit: Visit) -> Response:
    visit.parameters()
    with visit.facts_of_fleet() as facts:
        rows, status = returned_rows(facts, visit.settings.clock.now()), _newest_month(facts)
    title, api = "GPUs returned by all tenants", "/api/v1/fleet/returned"
    return _page(visit, title, rows, api, status, "/provider")


def _newest_month(facts: Facts) -> MonthStatus | None:
    """The newest month, if any was counted; stops are of all months."""
    return month_status(facts, facts.newest) if facts.periods else None


def _page(
    visit: Visit,
    title: str,
    rows: list[ReturnedRow],
    api: str,
    status: MonthStatus | None,
    hours: str,
) -> Response:
    """`hours` is the address of the page that lists the incomplete hours."""
    totals: dict[str, Decimal] = {}
    for row in rows:
        if row.saved:
            totals[row.currency] = totals.get(row.currency, Decimal(0)) + Decimal(row.saved)
    sums = {currency: str(total) for currency, total in sorted(totals.items())}
    return page(
        visit,
        "returned.html",
        title=title,
        rows=rows,
        sums=sums,
        api=api,
        status=status,
        hours=hours,
    )
