"""The files of deploy/ that are generated: from code, and PrometheusRules from files of rules.

Put here: their text. A test compares them; GPU_LEDGER_WRITE_GOLDEN=1 writes them again.
Not here: rules (`tests.alert_rules`) and dashboards (`tests.dashboards`).
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import yaml

from portal.alerting.rules import PROVIDER_ALERTS, RECORDED
from portal.metrics import METRICS, PREFIX
from tests.alert_rules import SAME_BUDGET, alert_groups, inhibitions, recorded_groups
from tests.dashboards import DASHBOARDS, Dashboard, grafana, openshift_console
from tests.shipped_rules import groups

DASHBOARDS_MADE = "# Made from tests/dashboards.py; tests/unit/test_deployed_files.py compares.\n"
MADE = "# Made from tests/alert_rules.py; tests/unit/test_deployed_files.py compares.\n"


def rules_file() -> str:
    """For `rule_files` of a Prometheus."""
    return MADE + _yaml({"groups": [*recorded_groups(), *alert_groups()]})


def prometheus_rule(
    name: str, rule_groups: list[dict[str, Any]], namespace: str = "gpu-ledger", made: str = MADE
) -> str:
    """For the Prometheus operator and monitoring of OpenShift."""
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "gpu-ledger"},
        },
        "spec": {"groups": rule_groups},
    }
    return made + _yaml(document)


def gpu_health_rule() -> str:
    """The rules of deploy/gpu-health; OpenShift evaluates them where the metrics of GPUs are."""
    made = "# Made from rules.yml; tests/unit/test_deployed_files.py compares.\n"
    found = groups("gpu-health")
    return prometheus_rule("gpu-ledger-gpu-health", found, "nvidia-gpu-operator", made)


def acm_rules() -> str:
    """For the Thanos Ruler of an ACM hub, which reads this name and key."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "thanos-ruler-custom-rules",
            "namespace": "open-cluster-management-observability",
        },
        "data": {"custom_rules.yaml": _yaml({"groups": [*recorded_groups(), *alert_groups()]})},
    }
    return MADE + _yaml(document)


def alertmanager() -> str:
    """The configuration of an Alertmanager whose operator adds a route for each tenant."""
    tenant = {
        "matchers": ['namespace="vision"', 'alertname=~"GpuBudget.+"'],
        "receiver": "vision",
    }
    hook = {"url": "https://chat.example.com/hooks/vision", "send_resolved": False}
    document = {
        "route": {"receiver": "provider", "group_by": ["namespace"], "routes": [tenant]},
        "inhibit_rules": [
            {
                "source_matchers": [f'step=~"{higher}"'],
                "target_matchers": [f'step=~"{lower}"'],
                "equal": list(SAME_BUDGET),
            }
            for higher, lower in inhibitions()
        ],
        "receivers": [{"name": "provider"}, {"name": "vision", "webhook_configs": [hook]}],
    }
    return MADE + _yaml(document)


def alertmanager_config() -> str:
    """The same for the Prometheus operator, in the namespace of a tenant."""

    def steps(form: str) -> list[dict[str, str]]:
        return [{"name": "step", "matchType": "=~", "value": form}]

    hook = {"urlSecret": {"name": "gpu-budget-webhook", "key": "url"}, "sendResolved": False}
    document = {
        "apiVersion": "monitoring.coreos.com/v1beta1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": "gpu-budgets"},
        "spec": {
            "route": {
                "receiver": "team",
                "groupBy": ["namespace"],
                "matchers": [{"name": "alertname", "matchType": "=~", "value": "GpuBudget.+"}],
            },
            "inhibitRules": [
                {"sourceMatch": steps(higher), "targetMatch": steps(lower), "equal": [*SAME_BUDGET]}
                for higher, lower in inhibitions()
            ],
            "receivers": [{"name": "team", "webhookConfigs": [hook]}],
        },
    }
    return MADE + _yaml(document)


def metrics_page() -> str:
    """The reference of the metrics, rules and recorded series."""
    lines = [
        "# Metrics of the portal",
        "",
        "`gpu-ledger portal --metrics-port 9403` serves these metrics at `/metrics`, on an address"
        " of their own,\nwithout TLS and tokens: only the provider's Prometheus may reach it. They"
        " are read from the provider's\nsnapshot at each scrape; a month that is closed has no"
        " series. This page is made from the code.",
        "",
        "| metric | labels | value |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{PREFIX}_{name}` | {', '.join(f'`{label}`' for label in labels)} | {text} |"
        for name, (text, labels) in METRICS.items()
    ]
    lines += [
        "",
        "## Recorded series",
        "",
        "`deploy/alerts` records these with the tenant's namespace as `namespace`, so that a"
        " tenant's own\n`PrometheusRule` can alert on them.",
        "",
        "| series | of |",
        "|---|---|",
        *(f"| `{name}` | `{PREFIX}_{metric}` |" for name, metric in RECORDED.items()),
        "",
        "## Alerts for the provider",
        "",
        "| alert | severity | fires when |",
        "|---|---|---|",
        *(f"| `{a.name}` | {a.severity} | `{a.expression}` |" for a in PROVIDER_ALERTS),
        "",
    ]
    return "\n".join(lines)


def _manifest(kind: str, name: str, body: dict[str, Any], **metadata: Any) -> str:
    api_version = {
        "GrafanaDashboard": "grafana.integreatly.org/v1beta1",
        "GrafanaDatasource": "grafana.integreatly.org/v1beta1",
        "ConfigMap": "v1",
    }[kind]
    about = {"name": name, **metadata}
    return _yaml({"apiVersion": api_version, "kind": kind, "metadata": about, **body})


def grafana_json(dashboard: Dashboard) -> str:
    return json.dumps(grafana(dashboard), indent=1) + "\n"


def grafana_operator() -> str:
    """The data source and every dashboard as resources of the Grafana operator."""
    selector = {"instanceSelector": {"matchLabels": {"dashboards": "gpu-ledger"}}}
    source = {
        "name": "Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": "http://prometheus-operated.monitoring.svc:9090",
        "isDefault": True,
    }
    parts = [
        _manifest("GrafanaDatasource", "gpu-ledger", {"spec": {**selector, "datasource": source}})
    ]
    parts += [
        _manifest(
            "GrafanaDashboard",
            f"gpu-ledger-{one.name}",
            {"spec": {**selector, "folder": "GPU billing", "json": grafana_json(one)}},
        )
        for one in DASHBOARDS
    ]
    return DASHBOARDS_MADE + "---\n".join(parts)


def acm_dashboards() -> str:
    """For the Grafana of an ACM hub, whose loader reads ConfigMaps with this label."""
    parts = [
        _manifest(
            "ConfigMap",
            f"gpu-ledger-{one.name}",
            {"data": {f"gpu-ledger-{one.name}.json": grafana_json(one)}},
            namespace="open-cluster-management-observability",
            labels={"grafana-custom-dashboard": "true"},
            annotations={
                "observability.open-cluster-management.io/dashboard-folder": "GPU billing"
            },
        )
        for one in DASHBOARDS
    ]
    return DASHBOARDS_MADE + "---\n".join(parts)


def openshift_console_dashboards() -> str:
    """For Observe > Dashboards of the OpenShift console."""
    parts = [
        _manifest(
            "ConfigMap",
            f"gpu-ledger-{one.name}",
            {
                "data": {
                    f"gpu-ledger-{one.name}.json": json.dumps(openshift_console(one), indent=1)
                    + "\n"
                }
            },
            namespace="openshift-config-managed",
            labels={
                "console.openshift.io/dashboard": "true",
                "console.openshift.io/odc-dashboard": "true",
            },
        )
        for one in DASHBOARDS
    ]
    return DASHBOARDS_MADE + "---\n".join(parts)


FILES = {
    **{
        f"deploy/dashboards/grafana/{one.name}.json": partial(grafana_json, one)
        for one in DASHBOARDS
    },
    "deploy/dashboards/grafana-operator/dashboards.yaml": grafana_operator,
    "deploy/dashboards/acm/dashboards.yaml": acm_dashboards,
    "deploy/dashboards/openshift-console/dashboards.yaml": openshift_console_dashboards,
    "docs/reference/metrics.md": metrics_page,
    "deploy/alerts/rules.yml": rules_file,
    "deploy/alerts/prometheus-rule.yaml": lambda: prometheus_rule("gpu-ledger", alert_groups()),
    "deploy/portal/components/monitoring/recorded-series.yaml": lambda: prometheus_rule(
        "gpu-ledger-recorded", recorded_groups()
    ),
    "deploy/gpu-health/prometheus-rule.yaml": gpu_health_rule,
    "deploy/alerts/acm/rules.yaml": acm_rules,
    "deploy/alerts/alertmanager.yml": alertmanager,
    "deploy/budgets/alertmanager-config.yaml": alertmanager_config,
}


class _Dumper(yaml.SafeDumper):
    """Text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _yaml(document: Any) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
