"""Files of deploy/ that are generated from the code."""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path

import pytest

from portal.metrics import METRICS, PREFIX
from tests.alert_rules import alert_groups, recorded_groups
from tests.dashboards import DASHBOARDS, Dashboard
from tests.deployed_files import FILES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", FILES)
def test_a_deployed_file_equals_its_generated_content(name: str) -> None:
    path = ROOT / name
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES[name](), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == FILES[name]()


def test_every_metric_of_a_rule_is_exported() -> None:
    expressions = [
        rule["expr"] for group in (*recorded_groups(), *alert_groups()) for rule in group["rules"]
    ]
    named = {name for text in expressions for name in re.findall(rf"{PREFIX}_(\w+)", text)}
    assert named <= set(METRICS)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.name)
def test_the_picture_of_a_dashboard_has_its_panels(dashboard: Dashboard) -> None:
    """tests/servers/test_dashboards_show_data.py draws it with GPU_LEDGER_WRITE_GOLDEN=1."""
    path = ROOT / "docs" / "pictures" / "dashboards" / f"{dashboard.name}.svg"
    text = path.read_text(encoding="utf-8")
    for title in (dashboard.title, *(panel.title for panel in dashboard.panels)):
        assert f">{escape(title)}</text>" in text
    page = (ROOT / "docs" / "how-to" / "alert-the-provider.md").read_text(encoding="utf-8")
    assert f"dashboards/{dashboard.name}.svg" in page
