"""Files of deploy/ that are generated from the code, and the alert rules in them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from portal.alerting.rules import DOCS, rule_groups
from portal.metrics import METRICS, PREFIX
from tests.deployed_files import FILES

ROOT = Path(__file__).parents[2]
PROMTOOL = shutil.which("promtool")


@pytest.mark.parametrize("name", FILES)
def test_a_deployed_file_equals_its_generated_content(name: str) -> None:
    path = ROOT / name
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES[name](), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == FILES[name]()


def test_every_metric_of_a_rule_is_exported() -> None:
    expressions = [rule["expr"] for group in rule_groups() for rule in group["rules"]]
    named = {name for text in expressions for name in re.findall(rf"{PREFIX}_(\w+)", text)}
    assert named <= set(METRICS)


def test_every_runbook_is_a_page_of_the_documentation() -> None:
    alerts = [rule for group in rule_groups() for rule in group["rules"] if "alert" in rule]
    for rule in alerts:
        page = rule["annotations"]["runbook_url"].removeprefix(f"{DOCS}/").removesuffix(".html")
        assert (ROOT / "docs" / f"{page}.md").is_file(), rule["alert"]


def test_every_rule_has_a_test_in_the_file_of_promtool() -> None:
    tested = (ROOT / "deploy" / "alerts" / "rules_test.yml").read_text(encoding="utf-8")
    rules = [rule for group in rule_groups() for rule in group["rules"]]
    names = [rule.get("alert") or rule["record"] for rule in rules]
    assert [name for name in names if name not in tested] == []


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
@pytest.mark.parametrize("command", [("check", "rules.yml"), ("test", "rules_test.yml")])
def test_promtool_accepts_the_rules_and_their_tests(command: tuple[str, str]) -> None:
    verb, file = command
    ran = subprocess.run(
        [str(PROMTOOL), verb, "rules", file],
        cwd=ROOT / "deploy" / "alerts",
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
