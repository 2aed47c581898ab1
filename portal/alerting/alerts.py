"""The alerts about budgets: their labels, and sentences with amounts.

Put here: one alert of a step, and of a budget whose state is not known.
Not here: when an alert is posted (`portal.alerting.plan`).

A changed label is another alert to Alertmanager: labels never contain amounts or times.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from clients.alertmanager import Alert
from domain.budgets import BudgetOfMonth, StepKind
from domain.interval import HOUR, format_instant
from domain.money import (
    divide_rounding_half_even,
    format_nanos,
    minor_unit_digits,
    minor_unit_nanos,
)
from portal.alerting.deliveries import StepKey
from portal.alerting.plan import SEND_EVERY, StepToPost
from warehouse.reports.budgets import BudgetState

STEP_REACHED = "GpuBudgetStepReached"
NOT_KNOWN = "GpuBudgetNotKnown"
LASTS = 3 * SEND_EVERY
"""An alert ends by itself after two missed runs. Until it is delivered, each run posts it again."""
NOT_KNOWN_AFTER = 6 * HOUR
"""An hour is pulled again after 3 hours; missing data is reported when that did not help."""
DOCS = "https://gpu-ledger.io/docs"
"""Where the pages of docs/ are published."""


def severity_of(kind: StepKind, step: int) -> str:
    if step < 90:
        return "info"
    return "critical" if kind is StepKind.ACTUAL and step >= 100 else "warning"


def step_labels(budget: BudgetOfMonth, kind: StepKind, step: int) -> dict[str, str]:
    return {
        "alertname": STEP_REACHED,
        "namespace": budget.tenant,
        "budget": budget.name,
        "source": budget.source.value,
        "period": budget.billing_period.name,
        "kind": kind.value,
        "step": str(step),
        # Of a budget that was changed, a step is another alert.
        "version": budget.version,
        "severity": severity_of(kind, step),
    }


def key_of_labels(labels: dict[str, str]) -> StepKey | None:
    """The step that an alert of ours is about."""
    try:
        names = ("namespace", "source", "budget", "kind")
        tenant, source, budget, kind = (labels[name] for name in names)
        return tenant, source, budget, kind, int(labels["step"])
    except (KeyError, ValueError):
        return None


def step_alert(post: StepToPost, now: datetime) -> Alert:
    budget, costs = post.state.budget, post.state.costs
    measure = "The forecast" if post.kind is StepKind.FORECAST else "The cost"
    subject = f"{budget.tenant} ({budget.scope})" if budget.scope else budget.tenant
    summary = (
        f"{measure} of {subject} in {budget.billing_period} has reached {post.step} % of its "
        f"budget of {_amount(budget.amount_nanos, budget.currency)}."
    )
    return Alert(
        labels=step_labels(budget, post.kind, post.step),
        annotations={
            "summary": summary,
            "description": _description(post.state),
            "amount": _amount(costs.cost_nanos, budget.currency),
            "forecast": _amount(costs.forecast_nanos(), budget.currency),
            "rate_per_hour": _amount(costs.rate_nanos_per_hour, budget.currency),
            "spent_on": spent_on(post.state),
            "measured_until": format_instant(costs.counted_until),
            "next_action": f"gpu-ledger usage --tenant {budget.tenant} --by workload "
            f"--period {budget.billing_period}",
            "runbook_url": f"{DOCS}/how-to/budgets.html",
        },
        starts_at=post.starts_at,
        ends_at=now + LASTS,
    )


def not_known_alert(budget: BudgetOfMonth, complete_until: datetime, now: datetime) -> Alert:
    """Data of the tenant's clusters is missing: the cost may be higher than counted."""
    until, period = format_instant(complete_until), budget.billing_period
    return Alert(
        labels={
            "alertname": NOT_KNOWN,
            "namespace": budget.tenant,
            "budget": budget.name,
            "source": budget.source.value,
            "period": budget.billing_period.name,
            "severity": "warning",
        },
        annotations={
            "summary": f"The budget {budget.name} of {budget.tenant} in {budget.billing_period} "
            f"is not known: data is complete until {until} only.",
            "description": "The cost of the hours after it may be higher than what was counted; "
            "steps may be reported late. The provider backfills the hours or accepts the gap.",
            "measured_until": until,
            "next_action": f"gpu-ledger gaps --period {period}",
            "runbook_url": f"{DOCS}/how-to/backfill-a-gap-and-close-a-month.html",
        },
        starts_at=complete_until + NOT_KNOWN_AFTER,
        ends_at=now + LASTS,
    )


def spent_on(state: BudgetState) -> str:
    """The day on which the amount is spent at the present pace, as text."""
    spent = state.costs.spent_at(state.budget.amount_nanos)
    if spent is None:
        return "not in this month at the present rate"
    return (spent - timedelta(microseconds=1)).date().isoformat()


def _description(state: BudgetState) -> str:
    budget, costs = state.budget, state.costs
    return (
        f"{_amount(costs.cost_nanos, budget.currency)} were counted until "
        f"{format_instant(costs.counted_until)}, at present "
        f"{_amount(costs.rate_nanos_per_hour, budget.currency)} per hour. "
        f"Amount spent: {spent_on(state)}."
    )


def _amount(nanos: int, currency: str) -> str:
    unit = minor_unit_nanos(currency)
    rounded = divide_rounding_half_even(nanos, unit) * unit
    return f"{format_nanos(rounded, minor_unit_digits(currency))} {currency}"
