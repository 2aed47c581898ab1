"""Every command with JSON has a schema, and its output matches the schema.

Put here: the catalogue, and the commands that need no home.
Not here: the commands that need one (`scenarios/test_thin_line`).
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from domain.billing_period import BillingPeriod
from orchestration.cli.main import cli
from tests.json_output import SHARED, commands_with_json, differences, json_page, schemas
from tests.written_pages import written
from warehouse.home import Home

LAYOUTS = """
version: v1
mig-configs:
  all: [{devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}]
  too-many: [{devices: all, mig-enabled: true, mig-devices: {"3g.40gb": 3}}]
"""
TWO_CARDS = ("--product", "H100-80GB")


def printed(*arguments: str) -> str:
    return CliRunner().invoke(cli, [*arguments, "-o", "json"]).stdout


def test_every_command_with_json_has_a_schema_and_every_schema_a_command() -> None:
    assert sorted(schemas()) == sorted([*SHARED, *commands_with_json()])


def test_the_page_of_json_matches_the_schemas() -> None:
    """To rewrite the page after an intended change, run GPU_LEDGER_WRITE_GOLDEN=1 pytest on this
    file.
    """
    page = json_page()
    assert page == written("reference/json-output.md", page)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("gpu classify", ("nvidia.com/GH100_H100_SXM5_80GB",)),
        ("mig layouts", ("H100-80GB", "--profiles", "1g.10gb,3g.40gb")),
        ("fake list", ()),
        ("fake check", ("thin_line", "--show", "pods")),
        ("fake truth", ("thin_line", "--grain", "tenant-periods")),
        ("query", ("--list",)),
    ],
)
def test_output_matches_its_schema(command: str, arguments: tuple[str, ...]) -> None:
    found = printed(*command.split(), *arguments)
    assert json.loads(found)
    assert differences(command, found) == []


@pytest.mark.parametrize("product", [(), TWO_CARDS])
def test_a_mig_file_that_fits_nowhere_matches_its_schema(
    product: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "mig.yaml"
    path.write_text(LAYOUTS)
    found = printed("mig", "check", str(path), *product)
    assert len(json.loads(found)["entries"]) > 1
    assert differences("mig check", found) == []


def test_the_tables_of_a_refresh_match_their_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.create(tmp_path / "home", "")
    october = BillingPeriod("2026-10")
    counted = SimpleNamespace(period=october, row_counts={"fct_charges": 2}, facts_sha256="0" * 64)
    monkeypatch.setattr("orchestration.cli.facts.refresh_period", lambda *_: counted)
    found = printed("refresh", "--period", "2026-10", "--home", str(home.path))
    assert json.loads(found) == [{"period": "2026-10", "table": "fct_charges", "rows": 2}]
    assert differences("refresh", found) == []


def test_an_invalid_decision_matches_its_schema(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", "")
    (home.decisions / "rates.csv").write_text("no,such,columns\n")
    found = printed("decisions", "check", "--home", str(home.path))
    assert json.loads(found)
    assert differences("decisions check", found) == []


@pytest.mark.parametrize("change", ["left out", "added", "another type"])
def test_a_changed_field_is_noticed(change: str) -> None:
    document: list[dict[str, Any]] = json.loads(printed("fake", "list"))
    changed = copy.deepcopy(document)
    if change == "left out":
        del changed[0]["story"]
    elif change == "added":
        changed[0]["teller"] = "Ann"
    else:
        changed[0]["story"] = 3
    assert len(differences("fake list", json.dumps(changed))) == 1
    assert differences("fake list", json.dumps(document)) == []
