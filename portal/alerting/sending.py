"""One run: read the present alerts, post the due ones to every peer, and record them.

Put here: the order of requests and records.
Not here: which steps are due (`portal.alerting.plan`), or where states come from.

A step is recorded after an Alertmanager accepted it. A process that ends in between posts it again
in the next run, with the same labels: it is the same alert to Alertmanager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from clients.alertmanager import Alert, Alertmanager, AlertmanagerFailed
from domain.billing_period import BillingPeriod
from portal.alerting.alerts import STEP_REACHED, key_of_labels, step_alert
from portal.alerting.deliveries import Deliveries, StepKey
from portal.alerting.plan import plan_steps
from warehouse.reports.budgets import BudgetState

ALERTS_OF_POST = 500
"""Of one request: about half a megabyte."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of one run."""

    posted: tuple[StepKey, ...]
    delivered: tuple[StepKey, ...]
    rearmed: tuple[StepKey, ...]
    other_alert_count: int
    problems: tuple[AlertmanagerFailed, ...] = field(default=())


def send_alerts(
    peers: Sequence[Alertmanager],
    deliveries: Deliveries,
    months: Mapping[BillingPeriod, Sequence[BudgetState]],
    others: Sequence[Alert],
    now: datetime,
) -> SendResult:
    """`others` are alerts that are posted by every run while their condition holds.

    Raises AlertmanagerFailed where no peer accepted the alerts; peers that failed beside one that
    accepted them are problems of the result.
    """
    problems: list[AlertmanagerFailed] = []
    plans = {}
    for period, states in months.items():
        present = _present_steps(peers, period, problems)
        plans[period] = plan_steps(states, deliveries.events(period), present, now)
    for period, plan in plans.items():
        deliveries.append(period, plan.to_record)
    alerts = [step_alert(post, now) for plan in plans.values() for post in plan.to_post]
    _post_to_all(peers, [*alerts, *others], problems)
    for period, plan in plans.items():
        deliveries.append(period, [post.event for post in plan.to_post])
    recorded = [event for plan in plans.values() for event in plan.to_record]
    return SendResult(
        posted=tuple(post.event.key for plan in plans.values() for post in plan.to_post),
        delivered=tuple(event.key for event in recorded if event.event == "delivered"),
        rearmed=tuple(event.key for event in recorded if event.event == "rearmed"),
        other_alert_count=len(others),
        problems=tuple({one.where: one for one in problems}.values()),
    )


def _present_steps(
    peers: Sequence[Alertmanager], period: BillingPeriod, problems: list[AlertmanagerFailed]
) -> dict[StepKey, str]:
    """The fingerprint of each step that any peer has, and for which it has a receiver."""
    found: dict[StepKey, str] = {}
    matchers = (f'alertname="{STEP_REACHED}"', f'period="{period.name}"')
    for peer in peers:
        try:
            alerts = peer.present(matchers)
        except AlertmanagerFailed as failed:
            problems.append(failed)
            continue
        for alert in alerts:
            key = key_of_labels(alert.labels)
            if key is not None and alert.receivers:
                found[key] = alert.fingerprint
    return found


def _post_to_all(
    peers: Sequence[Alertmanager], alerts: Sequence[Alert], problems: list[AlertmanagerFailed]
) -> None:
    parts = [alerts[n : n + ALERTS_OF_POST] for n in range(0, len(alerts), ALERTS_OF_POST)]
    accepted = 0
    for peer in peers:
        try:
            for part in parts:
                peer.post(part)
            accepted += 1
        except AlertmanagerFailed as failed:
            problems.append(failed)
    if alerts and not accepted:
        raise problems[-1]
