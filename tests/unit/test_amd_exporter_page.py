"""The page about the AMD exporter lists every setting and metric that the code defines."""

from __future__ import annotations

import re
import sys
import tomllib

import yaml

from amd_exporter.exposition import PREFIX, QUANTITIES
from amd_exporter.settings import SETTINGS
from tests.written_pages import DOCS, written

PAGE = "how-to/amd-gpus.md"
DEPLOY = DOCS.parent / "deploy" / "amd-exporter"


def filled(text: str, name: str, table: list[str]) -> str:
    """The page with a table between its two markers."""
    block = "\n".join([f"<!-- {name} -->", *table, f"<!-- end of {name} -->"])
    return re.sub(f"<!-- {name} -->.*?<!-- end of {name} -->", lambda _: block, text, flags=re.S)


def settings() -> list[str]:
    rows = [
        f"| `{each.variable}` | `--{each.flag}` | {f'`{each.default}`' if each.default else '–'} "
        f"| {each.help} |"
        for each in SETTINGS
    ]
    return ["| variable | flag | default | |", "|---|---|---|---|", *rows]


def metrics() -> list[str]:
    rows = [
        f"| `{PREFIX}_{each.name}{f'{{{each.part}=}}' if each.part else ''}` | {each.help} |"
        for each in QUANTITIES
    ]
    return ["| metric | |", "|---|---|", *rows]


def test_the_page_has_every_setting_and_metric() -> None:
    """To rewrite the page after an intended change, run GPU_LEDGER_WRITE_GOLDEN=1 pytest on this
    file.
    """
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    for name, table in (("settings", settings()), ("metrics", metrics())):
        text = filled(text, name, table)
    assert text == written(PAGE, text)
    for setting in SETTINGS:
        assert f"`{setting.variable}`" in text
    for quantity in QUANTITIES:
        assert f"`{PREFIX}_{quantity.name}" in text


def test_rules_are_the_same_with_and_without_the_operator() -> None:
    resource = yaml.safe_load((DEPLOY / "components/monitoring/rules.yaml").read_text())
    assert resource["spec"] == yaml.safe_load((DEPLOY / "rules.yml").read_text())


def test_the_image_has_exactly_the_imports_of_the_exporter() -> None:
    """Third-party imports of the package, mapped to the distributions that provide them."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    named = set(project["dependency-groups"]["amd-exporter"])
    imported = {
        found[1]
        for path in sorted((DOCS.parent / "amd_exporter").glob("*.py"))
        for found in re.finditer(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
    }
    distributions = {
        "prometheus_client": "prometheus-client",
        "grpc": "grpcio",
        "google": "protobuf",
    }
    others = imported - sys.stdlib_module_names - {"amd_exporter", "amdsmi"}
    assert {distributions[name] for name in others} == named
