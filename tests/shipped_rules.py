"""The alert rules of deploy/: the groups of each folder, and the cases of promtool for them.

Put here: reading the files.
Not here: checks without a server (`tests/unit/test_shipped_rules.py`), or promtool
(`tests/servers/test_shipped_rules.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = {
    "alerts": "rules.yml",
    "amd-exporter": "rules.yml",
    "gpu-health": "rules.yml",
    "idle-pruner": "monitoring.yaml",
}
"""The file with the rules of each folder."""


def groups(folder: str) -> list[dict[str, Any]]:
    """The rule groups of a folder, from a file for `rule_files` or from a PrometheusRule."""
    documents = yaml.safe_load_all((DEPLOY / folder / RULES[folder]).read_text(encoding="utf-8"))
    [found] = [
        one.get("spec", one)["groups"] for one in documents if "groups" in one.get("spec", one)
    ]
    return list(found)


def rules(folder: str) -> list[dict[str, Any]]:
    return [rule for group in groups(folder) for rule in group["rules"]]


def cases(folder: str) -> list[dict[str, Any]]:
    """The tests of `rules_test.yml`."""
    text = (DEPLOY / folder / "rules_test.yml").read_text(encoding="utf-8")
    return list(yaml.safe_load(text)["tests"])


def write(folder: str, into: Path) -> None:
    """Both files of a folder, as promtool reads them."""
    (into / "rules.yml").write_text(yaml.safe_dump({"groups": groups(folder)}), encoding="utf-8")
    text = (DEPLOY / folder / "rules_test.yml").read_text(encoding="utf-8")
    (into / "rules_test.yml").write_text(text, encoding="utf-8")
