"""The budgets of a home, and sending the alerts about them.

Put here: joining decisions, facts, records and the Alertmanagers of the settings.
Not here: the arithmetic (`domain.budgets`), alerts and records (`portal.alerting`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from clients.alertmanager import Alert, Alertmanager, peer_addresses
from clients.credentials import make_tls_context, read_token
from domain.billing_period import BillingPeriod
from domain.errors import InvalidSetting
from domain.interval import parse_instant
from orchestration.open_home import OpenHome
from orchestration.open_hours import retention_days
from portal.alerting.alerts import NOT_KNOWN_AFTER, not_known_alert
from portal.alerting.deliveries import Deliveries, delivered_at, step_key
from portal.alerting.rules import provider_alerts
from portal.alerting.sending import SendResult, send_alerts
from portal.metrics import LedgerCollector
from warehouse.reports.budgets import BudgetState, budget_states, budgets_of_month
from warehouse.reports.opened_facts import Facts, open_facts
from warehouse.snapshot_reader import PROVIDER, SnapshotMissing, Snapshots
from warehouse.snapshots import BudgetStep


def states_of_month(facts: Facts, period: BillingPeriod) -> list[BudgetState]:
    """The budgets of a counted month; raises NoFactsYet."""
    return budget_states(facts, period, budgets_of_month(facts, period))


def send(opened: OpenHome) -> SendResult:
    """Post all due alerts to every Alertmanager of the settings, and record them.

    Raises InvalidSetting, AlertmanagerFailed.
    """
    settings = opened.settings.alerts
    if not settings.send:
        raise InvalidSetting(
            where=f"{opened.home.config_path}: [alerts]",
            seen="send is not true",
            why="on this site the PrometheusRules of deploy/alerts may send the same alerts; "
            "then each alert would be notified twice",
            remedy="write send = true and alertmanagers, and remove the PrometheusRules; see "
            "gpu-ledger doctor",
        )
    now = opened.clock.now().replace(microsecond=0)
    with open_facts(opened.home) as facts:
        months = {
            period: states_of_month(facts, period) for period in _months_to_send(opened, facts, now)
        }
    others = [
        *not_known_alerts(opened, months, now),
        *provider_alerts(metrics_of(opened).collect(), now),
    ]
    peers = alertmanagers(opened)
    try:
        return send_alerts(peers, Deliveries(opened.record.store), months, others, now)
    finally:
        for peer in peers:
            peer.close()


def _months_to_send(opened: OpenHome, facts: Facts, now: datetime) -> list[BillingPeriod]:
    """The present month, and the one before it until it is closed."""
    closed = opened.record.closed_periods()
    present = BillingPeriod.containing(now)
    months = [present.previous(), present]
    return [one for one in months if one.name in facts.periods and one.name not in closed]


def not_known_alerts(
    opened: OpenHome, months: Mapping[BillingPeriod, Sequence[BudgetState]], now: datetime
) -> list[Alert]:
    """An alert for each budget whose tenant's data are hours late."""
    complete = _complete_until(opened)
    alerts = []
    for period, states in months.items():
        for state in states:
            tenant = state.budget.tenant
            until = complete.get((tenant, period.name), state.costs.counted_until)
            if until < min(now - NOT_KNOWN_AFTER, period.ended_at):
                alerts.append(not_known_alert(state.budget, until, now))
    return alerts


def _complete_until(opened: OpenHome) -> dict[tuple[str, str], datetime]:
    """The end of the complete data of each tenant's clusters, by tenant and month."""
    try:
        with Snapshots(opened.home.snapshots).opened(PROVIDER) as facts:
            rows = facts.rows("from tenant_periods", {})
    except SnapshotMissing:  # another alert reports it
        return {}
    return {(row["tenant"], row["billing_period"]): row["data_complete_to"] for row in rows}


def metrics_of(opened: OpenHome) -> LedgerCollector:
    """The metrics of a home, from its snapshots."""
    days = {name: retention_days(opened, name) for name in opened.settings.clusters}
    return LedgerCollector(Snapshots(opened.home.snapshots), opened.clock, days)


def alertmanagers(opened: OpenHome) -> list[Alertmanager]:
    """Every peer of the settings; raises CredentialUnreadable."""
    settings = opened.settings.alerts
    files = (settings.ca_file, settings.client_certificate_file, settings.client_key_file)
    ca, certificate, key = (Path(name) if name else None for name in files)
    tls = make_tls_context(ca, certificate, key)
    token_file = Path(settings.token_file)
    token = (lambda: read_token(token_file)) if settings.token_file else (lambda: "")
    return [
        Alertmanager(url, address, token, tls)
        for url in settings.alertmanagers
        for address in peer_addresses(url)
    ]


def budget_steps(opened: OpenHome, states: Sequence[BudgetState]) -> list[BudgetStep]:
    """One row per budget and step, with its delivery."""
    deliveries = Deliveries(opened.record.store)
    periods = {state.budget.billing_period for state in states}
    delivered = {period: delivered_at(deliveries.events(period)) for period in periods}
    rows = []
    for state in states:
        budget, costs = state.budget, state.costs
        for kind, step, reached_at in state.steps:
            sent = delivered[budget.billing_period].get(step_key(budget, kind, step))
            rows.append(
                BudgetStep(
                    billing_period=budget.billing_period.name,
                    tenant=budget.tenant,
                    budget=budget.name,
                    source=budget.source.value,
                    workload_kind=budget.workload[0],
                    workload_name=budget.workload[1],
                    label_key=budget.label[0],
                    label_value=budget.label[1],
                    currency=budget.currency,
                    amount_nanos=budget.amount_nanos,
                    cost_nanos=costs.cost_nanos,
                    forecast_nanos=costs.forecast_nanos(),
                    forecast_method=costs.forecast_method,
                    rate_nanos_per_hour=costs.rate_nanos_per_hour,
                    spent_at=costs.spent_at(budget.amount_nanos),
                    counted_until=costs.counted_until,
                    step_kind=kind.value,
                    step_pct=step,
                    state="delivered" if sent else "reached" if reached_at else "not reached",
                    reached_at=reached_at,
                    delivered_at=parse_instant(sent) if sent else None,
                )
            )
    return rows


def all_budget_steps(opened: OpenHome) -> list[BudgetStep]:
    """The steps of every counted month, for the snapshots."""
    with open_facts(opened.home) as facts:
        states = [
            state for name in facts.periods for state in states_of_month(facts, BillingPeriod(name))
        ]
    return budget_steps(opened, states)
