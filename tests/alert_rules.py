"""The Prometheus rules of `deploy/alerts`: recorded series, budget alerts, and provider alerts.

Put here: the rules, made from the table of provider alerts and the names of metrics.
Not here: the table (`portal.alerting.rules`), or writing the files (`tests.deployed_files`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from portal.alerting.alerts import DOCS, NOT_KNOWN, NOT_KNOWN_AFTER, STEP_REACHED
from portal.alerting.rules import PROVIDER_ALERTS, RECORDED, ProviderAlert
from portal.metrics import METRICS, PREFIX

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
