"""Each alert of deploy/ has a firing and a silent case, and a page that says what to do.

promtool evaluates the cases in the tests against real servers.
"""

from __future__ import annotations

import re

import pytest

from portal.alerting.alerts import DOCS
from tests.shipped_rules import DEPLOY, RULES, cases, rules

ROOT = DEPLOY.parent


def test_every_folder_with_rules_is_tested() -> None:
    found = {
        path.relative_to(DEPLOY).parts[0]
        for path in DEPLOY.rglob("*.y*ml")
        if "alert:" in path.read_text(encoding="utf-8")
    }
    assert found == set(RULES)


@pytest.mark.parametrize("folder", RULES)
def test_every_runbook_is_a_page_of_the_documentation(folder: str) -> None:
    for rule in rules(folder):
        if "alert" in rule:
            page = rule["annotations"]["runbook_url"].removeprefix(f"{DOCS}/")
            assert (ROOT / "docs" / page.replace(".html", ".md")).is_file(), rule["alert"]


@pytest.mark.parametrize("folder", RULES)
def test_every_alert_fires_in_one_case_and_is_silent_in_another(folder: str) -> None:
    examined = [one for test in cases(folder) for one in test.get("alert_rule_test", ())]
    firing = {one["alertname"] for one in examined if one["exp_alerts"]}
    silent = {one["alertname"] for one in examined if not one["exp_alerts"]}
    alerts = {rule["alert"] for rule in rules(folder) if "alert" in rule}
    assert (firing, silent) == (alerts, alerts)


@pytest.mark.parametrize("folder", RULES)
def test_every_recorded_series_has_a_case(folder: str) -> None:
    examined = [one["expr"] for test in cases(folder) for one in test.get("promql_expr_test", ())]
    recorded = {rule["record"] for rule in rules(folder) if "record" in rule}
    assert {name for name in recorded if not any(name in text for text in examined)} == set()


def test_every_alert_about_gpus_of_one_node_names_the_tenants() -> None:
    shown = ("$labels.tenant", "$labels.namespace", ".Labels.namespace")
    without = {
        rule["alert"]
        for rule in rules("gpu-health")
        if not any(label in rule["annotations"]["description"] for label in shown)
    }
    assert without == {"GpuOperatorNotReady"}


def test_alerts_about_gpus_use_each_metric_of_the_fact() -> None:
    sql = (ROOT / "dbt/models/marts/fct_gpu_health.sql").read_text(encoding="utf-8")
    alerts = " ".join(rule["expr"] for rule in rules("gpu-health"))
    named = set(re.findall(r"DCGM_FI_[A-Z_]+", sql))
    links = {name for name in named if "NVLINK" in name}  # the alert has a pattern
    assert links
    assert all(re.fullmatch("DCGM_FI_DEV_NVLINK_.+_ERROR_COUNT_TOTAL", n) for n in links)
    assert {name for name in named - links if name not in alerts} == set()
