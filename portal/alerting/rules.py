"""Alerts for the provider on the metrics of the portal, as gpu-ledger posts them.

Put here: one table of provider alerts, which `deploy/alerts` and `gpu-ledger alerts send` both use.
Not here: metrics (`portal.metrics`), budget steps as posted alerts (`portal.alerting.alerts`), or
the rules of `deploy/alerts` (`tests.alert_rules`).

A condition has no memory (`for`): ages are in the metrics, so that both ways agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from prometheus_client import Metric

from clients.alertmanager import Alert
from domain.interval import format_instant
from portal.alerting.alerts import DOCS, LASTS
from portal.metrics import PREFIX

HOUR, DAY = 3600, 86_400


class AlertCondition(Enum):
    """How a value of a metric raises an alert, as PromQL."""

    ABOVE = "{metric} > {threshold}"
    IS = "{metric} == {threshold}"
    OLDER = "time() - {metric} > {threshold}"  # seconds
    LESS_LEFT = "{metric} - time() < {threshold}"  # seconds

    def holds(self, value: float, threshold: float, now: float) -> bool:
        match self:
            case AlertCondition.ABOVE:
                return value > threshold
            case AlertCondition.IS:
                return value == threshold
            case AlertCondition.OLDER:
                return now - value > threshold
            case AlertCondition.LESS_LEFT:
                return value - now < threshold


@dataclass(frozen=True, slots=True)
class ProviderAlert:
    """An alert for the provider. `{label}` in its texts is a label of the metric."""

    name: str
    metric: str
    condition: AlertCondition
    threshold: int
    severity: str
    summary: str
    description: str
    page: str
    matcher: tuple[str, str] = ("", "")  # label and regular expression
    shown: tuple[str, str] = ("", "")  # an annotation, and the metric whose time it shows

    @property
    def expression(self) -> str:
        label, form = self.matcher
        metric = f"{PREFIX}_{self.metric}" + (f'{{{label}=~"{form}"}}' if label else "")
        return self.condition.value.format(metric=metric, threshold=self.threshold)


PROVIDER_ALERTS = (
    ProviderAlert(
        "GpuLedgerHourMissing",
        "oldest_due_hour_timestamp_seconds",
        AlertCondition.OLDER,
        7 * HOUR,
        "warning",
        "An hour of {cluster} ({source}) has been incomplete for six hours.",
        "Its usage may be missing from the bill. `gpu-ledger gaps` names the hours and the command "
        "that backfills each.",
        "how-to/backfill-a-gap-and-close-a-month",
        shown=("backfill_until", "backfill_until_timestamp_seconds"),
    ),
    ProviderAlert(
        "GpuLedgerBackfillEnds",
        "backfill_until_timestamp_seconds",
        AlertCondition.LESS_LEFT,
        7 * DAY,
        "critical",
        "The samples of an incomplete hour of {cluster} are deleted within seven days.",
        "Afterwards the hour cannot be backfilled, only waived. Run `gpu-ledger pull` now.",
        "how-to/backfill-a-gap-and-close-a-month",
    ),
    ProviderAlert(
        "GpuLedgerCollectorSilent",
        "newest_complete_hour_timestamp_seconds",
        AlertCondition.OLDER,
        3 * HOUR,
        "critical",
        "No complete hour of the journal of {cluster} has arrived for three hours.",
        "The Kubernetes API does not answer for the past: events are lost while no collector "
        "watches. `gpu-ledger doctor` checks the collector.",
        "how-to/watch-a-cluster",
        ("source", "kubernetes"),
    ),
    ProviderAlert(
        "GpuLedgerSamplesSilent",
        "newest_complete_hour_timestamp_seconds",
        AlertCondition.OLDER,
        3 * HOUR,
        "warning",
        "No complete hour of samples of {cluster} has arrived for three hours.",
        "`gpu-ledger doctor` checks the sample store. Missing hours are backfilled later.",
        "how-to/query-an-acm-hub",
        ("source", "thanos"),
    ),
    ProviderAlert(
        "GpuLedgerCloseBlocked",
        "findings",
        AlertCondition.ABOVE,
        0,
        "warning",
        "Findings {code} block the close of {period}.",
        "`gpu-ledger check` lists them, with the remedy of each.",
        "how-to/backfill-a-gap-and-close-a-month",
        ("blocks", "true"),
    ),
    ProviderAlert(
        "GpuLedgerCheckFailed",
        "findings",
        AlertCondition.ABOVE,
        0,
        "critical",
        "A required check of {period} failed ({code}).",
        "Facts contradict each other, or a check could not run. `gpu-ledger check` lists the rows.",
        "findings/index",
        ("code", "CHECK-.*|CONS-.*"),
    ),
    ProviderAlert(
        "GpuLedgerDeviceOrPriceUnknown",
        "findings",
        AlertCondition.ABOVE,
        0,
        "warning",
        "A device or a price of {period} is unknown ({code}).",
        "Usage of a device without a class or price cannot be billed. Add a row to "
        "decisions/products.csv or decisions/rates.csv.",
        "findings/index",
        ("code", "DEV-.*|PRICE-.*"),
    ),
    ProviderAlert(
        "GpuLedgerMonthNotClosed",
        "month_open_since_timestamp_seconds",
        AlertCondition.OLDER,
        10 * DAY,
        "critical",
        "{period} has been over for ten days and is not closed.",
        "`gpu-ledger close` shows in a dry run why.",
        "how-to/backfill-a-gap-and-close-a-month",
    ),
    ProviderAlert(
        "GpuLedgerDeviceAnomalies",
        "device_anomalies",
        AlertCondition.ABOVE,
        0,
        "info",
        "Readings of devices of {cluster} are not as expected ({rule}).",
        "Look for use without an allocation, or for a defective card: `gpu-ledger query` lists "
        "them.",
        "findings/index",
    ),
    ProviderAlert(
        "GpuLedgerSnapshotsOld",
        "snapshot_timestamp_seconds",
        AlertCondition.OLDER,
        6 * HOUR,
        "warning",
        "The snapshots of the portal are older than six hours.",
        "The pipeline does not run, or cannot write them: look at Dagster's runs.",
        "how-to/run-the-portal",
    ),
    ProviderAlert(
        "GpuLedgerSnapshotsUnreadable",
        "snapshot_readable",
        AlertCondition.IS,
        0,
        "critical",
        "The portal cannot read its snapshots.",
        "Tenants see no pages, and no other metric of the ledger is known. Run "
        "`gpu-ledger publish`.",
        "how-to/run-the-portal",
    ),
)

# Recorded with the tenant's namespace, so that a PrometheusRule of the tenant may use them.
RECORDED = {
    "gpu_ledger:budget_used:ratio": "budget_used_ratio",
    "gpu_ledger:budget_forecast:ratio": "budget_forecast_ratio",
    "gpu_ledger:tenant_cost": "tenant_cost",
    "gpu_ledger:tenant_burn_rate:per_hour": "tenant_burn_rate_per_hour",
    "gpu_ledger:tenant_idle_cost": "tenant_idle_cost",
}


def provider_alerts(families: Iterable[Metric], now: datetime) -> list[Alert]:
    """The provider alerts whose condition holds, for Alertmanager; posted while it holds."""
    samples = {family.name: family.samples for family in families}

    def shown(alert: ProviderAlert, labels: dict[str, str]) -> dict[str, str]:
        annotation, metric = alert.shown
        times = [s.value for s in samples.get(f"{PREFIX}_{metric}", ()) if s.labels == labels]
        text = format_instant(datetime.fromtimestamp(times[0], UTC)) if times else "not known"
        return {annotation: text} if annotation else {}

    return [
        Alert(
            labels={"alertname": alert.name, "severity": alert.severity, **sample.labels},
            annotations={
                "summary": alert.summary.format(**sample.labels),
                "description": alert.description.format(**sample.labels),
                **shown(alert, sample.labels),
                "runbook_url": f"{DOCS}/{alert.page}.html",
            },
            starts_at=now,
            ends_at=now + LASTS,
        )
        for alert in PROVIDER_ALERTS
        for sample in samples.get(f"{PREFIX}_{alert.metric}", ())
        if _matches(alert, sample.labels)
        and alert.condition.holds(sample.value, alert.threshold, now.timestamp())
    ]


def _matches(alert: ProviderAlert, labels: dict[str, str]) -> bool:
    label, form = alert.matcher
    return not label or re.fullmatch(form, labels.get(label, "")) is not None
