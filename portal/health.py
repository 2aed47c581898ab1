"""The page about the health of GPUs: problems, affected tenants, proposed credits, workloads.

Put here: the content of the page.
Not here: its rows (`warehouse.reports.health`), or the look (`templates/health.html`).
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from portal import consumption
from portal.pages import page
from portal.visits import Visit
from warehouse.reports import health as report

ROWS_SHOWN = 200
"""Of each table; `gpu-ledger health -o csv` has all rows."""


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
            problems=report.problems(facts, period),
            proposed=[_with_amounts(row) for row in report.credits_proposed(facts, period)],
            owners=[_with_amounts(row) for row in report.owners(facts, period)],
            known=set(visit.known_tenants),
            shown=ROWS_SHOWN,
        )


def _with_amounts(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name.removesuffix("_nanos"): consumption.amount_text(int(value), row["currency"])
        if name.endswith("_nanos")
        else value
        for name, value in row.items()
    }
