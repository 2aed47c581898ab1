"""The pages about evidence use the names in the code: settings, outcomes, lines of a journal.

Put here: words that occur in a page and in the code.
Not here: their behaviour.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from ingestion.exporter_pins import Pins
from ingestion.kubernetes import journal_lines as lines
from ingestion.settings import Connection, ThanosSettings, template_config
from tests.every_error import PACKAGES
from tests.settings_page import settings_page
from tests.written_pages import written
from warehouse.manifest import Outcome

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_the_page_of_settings_agrees_with_the_settings() -> None:
    """After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1."""
    page = settings_page()
    assert page == written("reference/config-file.md", page)


def test_every_setting_of_the_template_is_on_the_page_and_no_other() -> None:
    keys = set(re.findall(r"^#? ?([a-z_]+) = ", template_config(), flags=re.MULTILINE))
    cells = re.findall(r"^\| (`.+?) \|", page("config-file.md"), flags=re.MULTILINE)
    named = {word for cell in cells for word in re.findall(r"`([a-z_]+)`", cell)}
    assert named == keys
    code = {f.name for kind in (Connection, ThanosSettings, Pins) for f in fields(kind)}
    assert code - {"connection", "name", "pins"} <= named


def test_the_tests_that_hold_a_threat_are_there() -> None:
    page = REFERENCE.parent / "explanation" / "who-could-tamper.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    assert len(rows) > 10
    for row in rows[1:]:
        named = re.findall(r"`(tests/[a-z_0-9/]+\.py)`", row)
        assert named, row
        for path in named:
            assert (REFERENCE.parents[1] / path).is_file(), path


def test_no_pickle_no_unsafe_yaml_and_no_disabled_tls_verification() -> None:
    """The code uses no pickle, only the safe YAML loader, and does not disable TLS verification."""
    forbidden = re.compile(
        r"\bpickle\b|\bmarshal\b|yaml\.(load|full_load|unsafe_load)\(|verify=False|CERT_NONE"
        r"|check_hostname ?= ?False|_create_unverified"
    )
    for package in set(PACKAGES) - {"fake_gpu"}:
        for path in (REFERENCE.parents[1] / package).rglob("*.py"):
            assert not forbidden.search(path.read_text(encoding="utf-8")), path


def test_every_outcome_and_every_line_of_a_journal_is_on_the_page() -> None:
    text = page("landing-format.md")
    for outcome in Outcome:
        assert f"| `{outcome.value}` |" in text
    kinds = re.findall(r"^\| ([a-z_][a-z_, ]*) \| ", lines.__doc__ or "", flags=re.MULTILINE)
    for kind in ", ".join(kinds).split(", "):
        assert kind == "line" or f"`{kind}`" in text, kind
