"""Steps of budgets as typed rows that pages and the API share.

Put here: the rows of one tenant, or of all for the provider.
Not here: when a step is reached (`domain.budgets`), or notifications (`portal.alerting`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby

import msgspec

from domain.billing_period import BillingPeriod
from portal.consumption import amount_text, pct_text
from warehouse.reports.opened_facts import Facts


class BudgetStepRow(msgspec.Struct, kw_only=True):
    """One step of a budget of the month."""

    tenant: str
    budget: str
    source: str  # decisions: the provider; cluster: a GpuBudget in the tenant's namespace
    workload_kind: str  # empty for a budget of the whole tenant, or of a label
    workload_name: str
    label_key: str
    label_value: str
    currency: str
    amount: str
    cost: str  # so far, before outage credits
    used_pct: str
    forecast: str
    forecast_method: str  # empty while too little was counted for forecast steps
    rate_per_hour: str
    spent_at: datetime | None  # at this rate; none in this month
    counted_until: datetime
    kind: str  # actual or forecast
    step_pct: int
    state: str  # not reached, reached or delivered
    reached_at: datetime | None
    delivered_at: datetime | None


_STEPS = """
    select * from budget_steps
    where billing_period = $period
    order by tenant, source, budget, step_kind, step_pct
"""
_SAME = (
    "tenant",
    "budget",
    "source",
    "workload_kind",
    "workload_name",
    "label_key",
    "label_value",
    "currency",
    "forecast_method",
    "spent_at",
    "counted_until",
    "step_pct",
    "state",
    "reached_at",
    "delivered_at",
)


def budget_steps(facts: Facts, period: BillingPeriod) -> list[BudgetStepRow]:
    """Every step of every budget in a snapshot."""
    rows = []
    for row in facts.rows(_STEPS, {"period": period.name}):
        currency, amount = row["currency"], int(row["amount_nanos"])
        rows.append(
            BudgetStepRow(
                **{name: row[name] for name in _SAME},
                kind=row["step_kind"],
                amount=amount_text(amount, currency),
                cost=amount_text(int(row["cost_nanos"]), currency),
                used_pct=pct_text(int(row["cost_nanos"]) * 100, amount) if amount else "",
                forecast=amount_text(int(row["forecast_nanos"]), currency),
                rate_per_hour=amount_text(int(row["rate_nanos_per_hour"]), currency),
            )
        )
    return rows


def budgets_with_steps(rows: Iterable[BudgetStepRow]) -> list[list[BudgetStepRow]]:
    """The steps of each budget together, in their order."""
    of_budget = groupby(rows, lambda row: (row.tenant, row.source, row.budget))
    return [list(steps) for _, steps in of_budget]
