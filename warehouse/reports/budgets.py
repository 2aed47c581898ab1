"""Budgets beside the cost of each hour that counts towards them.

Put here: the budgets of a month, and their costs by hour.
Not here: steps and forecasts (`domain.budgets`), or notifications (`portal.alerting`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.billing_period import BillingPeriod
from domain.budgets import BudgetOfMonth, BudgetSource, HourlyCosts, StepKind, reached_steps
from domain.decisions.price_tables import STEPS
from domain.interval import HOUR
from warehouse.reports.opened_facts import Facts
from warehouse.sql_files import statement

_BUDGETS = """
    select * from dim_budgets where billing_period = $period and state = 'counted'
    order by tenant, budget_name, source
"""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget, the costs that count towards it, and when each of its steps was reached."""

    budget: BudgetOfMonth
    costs: HourlyCosts
    steps: Sequence[tuple[StepKind, int, datetime | None]]


def budgets_of_month(facts: Facts, period: BillingPeriod) -> list[BudgetOfMonth]:
    """The counted budgets of a month, by tenant and name."""
    steps = STEPS.read
    return [
        BudgetOfMonth(
            tenant=row["tenant"],
            source=BudgetSource(row["source"]),
            name=row["budget_name"],
            billing_period=period,
            currency=row["currency"],
            amount_nanos=int(row["budget_nanos"]),
            workload=(row["workload_kind"], row["workload_name"]),
            label=(row["label_key"], row["label_value"]),
            actual_steps=steps(row["actual_steps"]),
            forecast_steps=steps(row["forecast_steps"]),
        )
        for row in facts.rows(_BUDGETS, {"period": period.name})
    ]


def budget_states(
    facts: Facts, period: BillingPeriod, budgets: Iterable[BudgetOfMonth]
) -> list[BudgetState]:
    """The state of each budget, in their order; raises NoFactsYet."""
    facts.require(period.interval)
    listed = list(budgets)
    counted_until = _counted_until(facts, period)
    costs = _costs(facts, period, listed) if listed else {}
    states = []
    for number, budget in enumerate(listed):
        hourly = HourlyCosts.of(period, counted_until, costs.get(number, {}))
        states.append(BudgetState(budget, hourly, reached_steps(budget, hourly)))
    return states


def _costs(
    facts: Facts, period: BillingPeriod, budgets: Sequence[BudgetOfMonth]
) -> dict[int, dict[datetime, int]]:
    given = [
        {
            "budget_number": number,
            "tenant": budget.tenant,
            "currency": budget.currency,
            "workload_kind": budget.workload[0],
            "workload_name": budget.workload[1],
            "label_key": budget.label[0],
            "label_value": budget.label[1],
        }
        for number, budget in enumerate(budgets)
    ]
    rows = facts.rows(
        statement(__file__, "budget_hours"), {"budgets": given, "period": period.name}
    )
    found: defaultdict[int, dict[datetime, int]] = defaultdict(dict)
    for row in rows:
        found[row["budget_number"]][row["hour_started_at"]] = int(row["cost_nanos"])
    return found


def _counted_until(facts: Facts, period: BillingPeriod) -> datetime:
    [row] = facts.rows(statement(__file__, "counted_window"), {"period": period.name})
    last: datetime | None = row["last_hour_started_at"]
    return last + HOUR if last else period.started_at
