"""The lines of `gpu-ledger doctor` about alerts: the ways to send them, and the missing parts.

Put here: checks of the Alertmanagers, and of the metrics and rules in the sample stores.
Not here: sending (`orchestration.alerting`), or printing (`orchestration.cli.doctor`).

Whether a Prometheus scrapes the portal and has the rules is read from its series: this needs no
rights in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from clients.alertmanager import AlertmanagerFailed
from clients.prometheus import PrometheusClient
from domain.errors import LedgerError
from ingestion.doctor_lines import DoctorLine
from ingestion.settings import ThanosSettings
from orchestration import alerting
from orchestration.open_home import OpenHome
from portal.alerting.alerts import STEP_REACHED
from portal.alerting.rules import RECORDED
from portal.metrics import PREFIX
from warehouse.snapshot_reader import PROVIDER, SnapshotMissing, Snapshots

ALERTMANAGER_CHECK = "Alertmanager can be reached"
SENDING_CHECK = "gpu-ledger can send alerts"
RULES_CHECK = "PrometheusRules can raise alerts"
SENT_ONCE_CHECK = "alerts are sent once"
PAGE = "see docs/how-to/alert-the-provider.md"
[RECORDED_COST] = [name for name, metric in RECORDED.items() if metric == "tenant_cost"]


class _Sample(msgspec.Struct):
    metric: dict[str, str]


class _Samples(msgspec.Struct):
    result: list[_Sample]


class _Rule(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    rules: list[_Rule] = []


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Vector(msgspec.Struct):
    data: _Samples


class _Rules(msgspec.Struct):
    data: _Groups


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to send alerts; where it is not open, the remedy."""

    check: str
    is_open: bool
    seen: str
    remedy: str = ""


def alert_lines(opened: OpenHome) -> list[DoctorLine]:
    """With [alerts] send: each Alertmanager, and that no rule raises the same alerts.

    Otherwise both ways. If neither is open, this is a problem only if there are budgets.
    """
    if opened.settings.alerts.send:
        return [*alertmanager_lines(opened), *_find_duplicates(opened)]
    ways = [_check_sending(opened), _check_rules(opened)]
    is_fine = any(way.is_open for way in ways) or not _budget_count(opened)
    return [
        DoctorLine(
            way.check,
            is_fine,
            way.seen if way.is_open or not is_fine else f"{way.seen}; {way.remedy}",
            way.remedy,
        )
        for way in ways
    ]


def alertmanager_lines(opened: OpenHome) -> list[DoctorLine]:
    """Whether each of them lists alerts, which needs the same token as posting them."""
    lines = []
    for peer in alerting.alertmanagers(opened):
        with closing(peer):
            try:
                count = len(peer.present(()))
                lines.append(DoctorLine(ALERTMANAGER_CHECK, True, f"{peer.name}: {count} alerts"))
            except AlertmanagerFailed as failed:
                lines.append(
                    DoctorLine(
                        ALERTMANAGER_CHECK, False, f"{failed.where}: {failed.seen}", failed.remedy
                    )
                )
    return lines


def _check_sending(opened: OpenHome) -> _Way:
    if not opened.settings.alerts.alertmanagers:
        seen = "no: [alerts] of config.toml names no alertmanagers"
        return _Way(SENDING_CHECK, False, seen, f"write alertmanagers and send = true; {PAGE}")
    bad = [line for line in alertmanager_lines(opened) if not line.is_fine]
    if bad:
        return _Way(SENDING_CHECK, False, f"no: {bad[0].seen}", bad[0].remedy)
    return _Way(SENDING_CHECK, True, "yes: every Alertmanager lists its alerts; write send = true")


def _check_rules(opened: OpenHome) -> _Way:
    """Check the first store that has the portal's metrics."""
    problems = []
    for store in _stores(opened):
        try:
            with PrometheusClient(store.connection.access) as client:
                if _labels(client, f"{PREFIX}_snapshot_readable"):
                    return _check_rules_in(client, store.name)
        except LedgerError as error:
            problems.append(f"{error.where}: {error.seen}")
    seen = "; ".join(["no: no store of config.toml has the metrics of the portal", *problems])
    remedy = f"scrape the portal with deploy/portal/components/monitoring; {PAGE}"
    return _Way(RULES_CHECK, False, seen, remedy)


def _check_rules_in(client: PrometheusClient, store: str) -> _Way:
    if _labels(client, f"{PREFIX}_tenant_cost"):
        recorded = _labels(client, RECORDED_COST)
        if not recorded:
            remedy = f"apply deploy/portal/components/monitoring; {PAGE}"
            return _Way(RULES_CHECK, False, f"no: {store} has no series {RECORDED_COST}", remedy)
        foreign = [one for one in recorded if one.get("namespace") != one.get("tenant_namespace")]
        if foreign:
            place = foreign[0].get("namespace", "")
            seen = (
                f"no: {store} replaces the namespace of {len(foreign)} tenants by {place!r}, so "
                "that no tenant's route matches"
            )
            remedy = (
                f"add {place} to namespacesWithoutLabelEnforcement in the ConfigMap "
                "user-workload-monitoring-config of openshift-user-workload-monitoring"
            )
            return _Way(RULES_CHECK, False, seen, remedy)
    rules = _rules(client)
    if rules is None:
        return _Way(
            RULES_CHECK, True, f"yes, if {store} has the rules of deploy/alerts: it lists none"
        )
    if STEP_REACHED not in rules:
        seen = f"no: {store} has no rule {STEP_REACHED}"
        return _Way(RULES_CHECK, False, seen, f"kubectl apply -k deploy/alerts; {PAGE}")
    return _Way(RULES_CHECK, True, f"yes: {store} has the metrics of the portal and the rules")


def _find_duplicates(opened: OpenHome) -> Iterator[DoctorLine]:
    for store in _stores(opened):
        with PrometheusClient(store.connection.access) as client:
            firing = _labels(client, f'ALERTS{{alertname="{STEP_REACHED}"}}')
            if firing or STEP_REACHED in (_rules(client) or ()):
                seen = f"{store.name} has the rule {STEP_REACHED}, too: steps are notified twice"
                remedy = f"remove the rules of deploy/alerts, or write send = false; {PAGE}"
                yield DoctorLine(SENT_ONCE_CHECK, False, seen, remedy)


def _stores(opened: OpenHome) -> list[ThanosSettings]:
    """Each sample store of the settings, once: an alert may concern any cluster."""
    stores = [one.thanos for one in opened.settings.clusters.values() if one.thanos]
    found = {one.name: one for one in stores}
    return [found[name] for name in sorted(found)]


def _labels(client: PrometheusClient, query: str) -> list[dict[str, str]]:
    """The labels of each series of a query; empty if the response is invalid."""
    reply = client.get("/api/v1/query", {"query": query})
    decoded = _decoded(reply.body, _Vector)
    return [one.metric for one in decoded.data.result] if decoded else []


def _rules(client: PrometheusClient) -> set[str] | None:
    """The names of all alert rules; None where the store does not list them."""
    decoded = _decoded(client.get("/api/v1/rules", {"type": "alert"}).body, _Rules)
    if decoded is None:
        return None
    return {rule.name for group in decoded.data.groups for rule in group.rules}


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError):
        return None


def _budget_count(opened: OpenHome) -> int:
    """Budgets of the snapshots; before the first refresh, rows of decisions/budgets.csv."""
    try:
        with Snapshots(opened.home.snapshots).opened(PROVIDER) as facts:
            [row] = facts.rows(
                "select count(distinct (tenant, source, budget)) as n from budget_steps", {}
            )
    except SnapshotMissing:
        return len(opened.decisions.budgets)
    return int(row["n"])
