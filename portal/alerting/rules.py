"""Recording rules and alerts on the metrics of the portal, also as alerts that gpu-ledger posts.

Put here: one table of provider alerts, which `deploy/alerts` and `gpu-ledger alerts send` both use.
Not here: metrics (`portal.metrics`), or budget steps as posted alerts (`portal.alerting.alerts`).

A condition has no memory (`for`): ages are in the metrics, so that both ways agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from prometheus_client import Metric

from clients.alertmanager import Alert
from domain.interval import format_instant
from portal.alerting.alerts import DOCS, LASTS, NOT_KNOWN, NOT_KNOWN_AFTER, STEP_REACHED
from portal.metrics import METRICS, PREFIX

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


SAME_BUDGET = ("namespace", "budget", "source", "period", "kind")


def inhibitions() -> list[tuple[str, str]]:
    """Regular expressions of steps, and of the lower steps that they inhibit, ten by ten.

    Alertmanager compares no numbers: of two steps in one ten, such as 90 and 95, both are notified,
    and of two steps from 200 on.
    """
    over_100 = [(f"1{ten}[0-9]", f"1[0-{ten - 1}][0-9]") for ten in range(9, 0, -1)]
    tens = [
        (f"{ten}[0-9]", f"[1-{ten - 1}]?[0-9]" if ten > 1 else "[0-9]") for ten in range(9, 0, -1)
    ]
    from_200, from_100 = "[2-9][0-9]{2}|[1-9][0-9]{3}", "[1-9][0-9]{2,}"
    return [(from_200, "1[0-9]{2}"), *over_100, (from_100, "[1-9]?[0-9]"), *tens]


def in_namespace(expression: str) -> str:
    """The same series with the tenant's namespace as `namespace`."""
    return f'label_replace({expression}, "namespace", "$1", "tenant_namespace", "(.+)")'


def recorded_groups() -> list[dict[str, Any]]:
    """The recorded series, also for a site on which gpu-ledger sends the alerts."""
    rules = [
        {"record": name, "expr": in_namespace(f"{PREFIX}_{metric}")}
        for name, metric in RECORDED.items()
    ]
    return [{"name": "gpu-ledger-recorded", "interval": "1m", "rules": rules}]


def alert_groups() -> list[dict[str, Any]]:
    """The alerts about budgets and for the provider."""
    not_scraped = {
        "alert": "GpuLedgerNotScraped",
        "expr": f"absent({PREFIX}_snapshot_readable)",
        "for": "15m",
        "labels": {"severity": "warning"},
        "annotations": {
            "summary": "Prometheus has no metrics of the portal.",
            "description": "No other alert of gpu-ledger can fire meanwhile.",
            "runbook_url": f"{DOCS}/how-to/alert-the-provider.html",
        },
    }
    provider = [*(_rule(alert) for alert in PROVIDER_ALERTS), not_scraped]
    return [
        {"name": "gpu-ledger-budgets", "interval": "1m", "rules": list(_budget_rules())},
        {"name": "gpu-ledger-provider", "interval": "1m", "rules": provider},
    ]


# A metric that Prometheus did not scrape keeps its last value for a day: missing data resolves no
# alert.
_LAST_KNOWN = "last_over_time({}[1d])"
_DAY, _INSTANT = '"2006-01-02"', '"2006-01-02T15:04:05Z"'
_MONEY = '{{ with . | first }}{{ printf "%.2f" .Value }} {{ .Labels.currency }}{{ end }}'


def _time_text(form: str) -> str:
    return f"{{{{ (. | first | value | toTime).Format {form} }}}}"


def _shown(metric: str, labels: dict[str, str], text: str, otherwise: str = "not known") -> str:
    """A template that shows the value of another metric, whose labels are those of the alert."""
    matchers = ",".join(f"{label}=%q" for label in labels)
    values = " ".join(f"$labels.{label}" for label in labels.values())
    return (
        f"{{{{ with printf `{metric.replace('{}', f'{{{matchers}}}')}` {values} | query }}}}"
        f"{text}{{{{ else }}}}{otherwise}{{{{ end }}}}"
    )


def _of_budget(metric: str, text: str, otherwise: str = "not known") -> str:
    labels = {"tenant_namespace": "namespace"} | {
        label: label for label in ("budget", "source", "period")
    }
    return _shown(f"{PREFIX}_{metric}", labels, text, otherwise)


def _budget_rules() -> Iterator[dict[str, Any]]:
    tenant, period = "{{ $labels.namespace }}", "{{ $labels.period }}"
    about = f"{{{{ $labels.budget }}}} of {tenant} in {period}"
    reached = _LAST_KNOWN.format(f"{PREFIX}_budget_step_reached")
    yield {
        "alert": STEP_REACHED,
        "expr": in_namespace(f"{reached} == 1"),
        "labels": {},
        "annotations": {
            "summary": f"The {{{{ $labels.kind }}}} step of {{{{ $labels.step }}}} % of the budget "
            f"{about} is reached.",
            "budget": _of_budget("budget_amount{}", _MONEY),
            "amount": _of_budget("budget_cost{}", _MONEY),
            "rate_per_hour": _of_budget("budget_rate_per_hour{}", _MONEY),
            # A budget that is spent at midnight is spent on the day before.
            "spent_on": _of_budget(
                "budget_spent_timestamp_seconds{} - 1",
                _time_text(_DAY),
                "not in this month at the present rate",
            ),
            "measured_until": _shown(
                f"{PREFIX}_counted_until_timestamp_seconds{{}}",
                {"period": "period"},
                _time_text(_INSTANT),
            ),
            "next_action": f"gpu-ledger usage --tenant {tenant} --by workload --period {period}",
            "runbook_url": f"{DOCS}/how-to/budgets.html",
        },
    }
    seconds = int(NOT_KNOWN_AFTER.total_seconds())
    complete = _LAST_KNOWN.format(f"{PREFIX}_tenant_complete_until_timestamp_seconds")
    # A month that is over and complete is known, however long ago it ended.
    over = _LAST_KNOWN.format(f"{PREFIX}_month_open_since_timestamp_seconds")
    missing = f"time() - {complete} > {seconds} unless {complete} >= on (period) group_left {over}"
    amount = _LAST_KNOWN.format(f"{PREFIX}_budget_amount")
    budgets = f"max without (currency) ({amount})"
    yield {
        "alert": NOT_KNOWN,
        "expr": in_namespace(f"{budgets} and on (tenant_namespace, period) ({missing})"),
        "labels": {"severity": "warning"},
        "annotations": {
            "summary": f"The budget {about} is not known: hours have been missing for six hours.",
            "description": "The cost may be higher than what was counted.",
            "measured_until": _shown(
                f"{PREFIX}_tenant_complete_until_timestamp_seconds{{}}",
                {"tenant_namespace": "namespace", "period": "period"},
                _time_text(_INSTANT),
            ),
            "next_action": f"gpu-ledger gaps --period {period}",
            "runbook_url": f"{DOCS}/how-to/backfill-a-gap-and-close-a-month.html",
        },
    }


def _rule(alert: ProviderAlert) -> dict[str, Any]:
    def text(template: str) -> str:
        return re.sub(r"\{(\w+)\}", r"{{ $labels.\1 }}", template)

    annotation, metric = alert.shown
    labels = {name: name for name in METRICS[metric][1]} if metric else {}
    until = {annotation: _shown(f"{PREFIX}_{metric}{{}}", labels, _time_text(_INSTANT))}
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": text(alert.summary),
            "description": text(alert.description),
            **(until if annotation else {}),
            "runbook_url": f"{DOCS}/{alert.page}.html",
        },
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
