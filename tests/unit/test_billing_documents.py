"""Documents are safe in a spreadsheet, readable, and have the same numbers in every format."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from billing.close import close_period
from billing.rendering.pdf import invoice_pdf, view
from billing.rendering.quantities import grouped, hours_text, money
from domain.clock import StoppedClock
from domain.csv_text import csv_bytes
from domain.findings import Check, CheckResult
from domain.glyphs import DISPLAYABLE, can_be_shown, displayable
from tests.marts_by_hand import Pod, World, at
from warehouse.connection import connected
from warehouse.content_hash import period_sha256

HOSTILE = ("=HYPERLINK(\"http://x\")", "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "<script>alert(1)",
           "#typst[evil]", "*bold* $x$ \\n", "\u202egnp.exe", "\U0001f680 rocket")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tenant whose pods have hostile names, closed without a second check of the facts."""
    world = World(tmp_path_factory.mktemp("documents") / "home")
    world.pods = [
        Pod("team-a", name, at(f"{n + 1:02} 10:00"), at(f"{n + 1:02} 11:30"))
        for n, name in enumerate(HOSTILE)
    ]
    home = world.write()
    with connected(home.warehouse_path, read_only=True) as connection:
        facts = period_sha256(connection, "2026-10")
    check_result = CheckResult(world.period, facts, checks=(Check("by hand", 1, 0),))
    clock = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
    close_period(home, world.period, world.decisions, lambda: check_result, clock, dry_run=False)
    return world.path / "documents" / "2026-10" / "tenants" / "team-a"


def test_no_cell_of_a_csv_is_a_formula(folder: Path) -> None:
    checked = 0
    for path in folder.glob("*.csv"):
        for row in csv.reader(io.StringIO(path.read_text("utf-8"), newline="")):
            for cell in row:
                is_number = cell.replace(".", "", 1).removeprefix("-").isdigit()
                assert is_number or not cell.startswith(("=", "+", "-", "@")), cell
                checked += 1
    assert checked > 100


def test_names_survive_a_csv_round_trip(folder: Path) -> None:
    rows = csv.DictReader(io.StringIO((folder / "INV-000001-pods.csv").read_text("utf-8")))
    assert {row["pod_name"].removeprefix("'") for row in rows} == set(HOSTILE)


def test_the_pdf_is_archival_tagged_and_the_same_twice(folder: Path) -> None:
    body = (folder / "INV-000001.pdf").read_bytes()
    assert body.startswith(b"%PDF-1.7")
    for wanted in (b"pdfuaid", b"pdfaid", b"/StructTreeRoot", b"/EmbeddedFiles", b"/Lang"):
        assert wanted in body, wanted
    document = json.loads((folder / "INV-000001.json").read_bytes())
    digest = json.loads((folder.parent.parent / "head.json").read_bytes())["sha256"]
    assert invoice_pdf(document, digest) == invoice_pdf(document, digest)


def test_the_page_shows_the_sealed_amounts(folder: Path) -> None:
    document = json.loads((folder / "INV-000001.json").read_bytes())
    page = view(document, "ab" * 32)
    # Nine times an hour and a half at 3.60.
    assert (page["total"], page["currency"]) == ("48.60", "EUR")
    [line] = page["lines"]
    assert line == [
        "1",
        "A100-40",
        "full GPU",
        "name-of-c1",
        "13.50",
        "1",
        "13.50",
        "3.60",
        "48.60",
    ]
    assert len(page["days"]) == 31
    assert [day["share"] for day in page["days"][:10]] == [100] * 9 + [0]
    text = (folder / "INV-000001.txt").read_text("utf-8")
    assert "Total EUR" in text
    assert "48.60" in text


def test_floats_and_ragged_rows_are_refused() -> None:
    with pytest.raises(TypeError):
        csv_bytes(("a",), [[0.5]])
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        csv_bytes(("a",), [["x", "y"]])


def test_quantities_have_readable_formats() -> None:
    assert hours_text(3600) == "1.00"
    assert hours_text(5) == "0.00"
    assert hours_text(4_500_000) == "1,250.00"
    assert hours_text(-5400) == "-1.50"
    assert grouped("1234567.891") == "1,234,567.891"
    assert grouped("-1234.50") == "-1,234.50"
    assert [money(text, "EUR") for text in ("1.5", "1234", "0.125")] == [
        "1.50",
        "1,234.00",
        "0.125",
    ]
    assert money("1234", "JPY") == "1,234"


def test_every_character_that_counts_as_displayable_has_a_glyph() -> None:
    document = {
        "schema": "x", "document": "invoice", "number": "INV-000001", "amounts": "final",
        "billing_period": "2026-10", "issued_at": "2026-11-04T00:00:00Z", "tenant": "a",
        "currency": "", "total_billed_cost": "0", "total_payable": "0", "lines": [],
        "workload_days": [], "pods": [], "measured": [], "policies": [], "stands_on": {},
        "voids": "", "reason": "", "tax": {"percent": "", "note": "", "amount": "0"},
        "payment": {"due_on": "", "terms": "", "bank_details": [], "purchase_order": ""},
    }  # fmt: skip
    party = {"name": "", "address": [], "tax_id": "", "tax_id_label": "", "email": ""}
    document["issuer"] = party
    every = [chr(p) for first, last in DISPLAYABLE for p in range(first, last + 1)]
    shown = "".join(char for char in every if can_be_shown(char))
    assert len(shown) > 1500
    document["customer"] = {**party, "name": shown}
    assert invoice_pdf(document, "").startswith(b"%PDF")


def test_a_character_without_a_glyph_is_shown_as_its_code_point() -> None:
    assert displayable("Müller & Söhne, Łódź, Αθήνα, Москва: 3 ≤ 4 €") == (
        "Müller & Söhne, Łódź, Αθήνα, Москва: 3 ≤ 4 €"
    )
    assert displayable("a\u0308") == "ä"
    assert displayable("\U0001f680 中 \u202e\n") == "[U+1F680] [U+4E2D] [U+202E][U+000A]"
