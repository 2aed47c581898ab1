"""Tax, terms and payment of an invoice, in every format of it.

Put here: columns of parties.csv about tax and payment, from the file to the page and FOCUS.
Not here: the amounts of lines (`test_billing_close`), or other parts of the page.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from billing.books import LedgerDocuments
from billing.close import close_period
from billing.record import Record
from billing.rendering.pdf import view
from billing.voiding import void_document
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import read_decisions
from quality.run import check_period
from tests.marts_by_hand import PARTIES, SIGNED, Pod, World, at

PAYMENT = "tax_id_label,tax_percent,tax_note,payment_days,payment_terms,bank_details,purchase_order"
ISSUER = (
    f"issuer,,Example GPU Cloud Ltd,1 Example Street; Dublin,IE1234567X,,2026-01-01,,{SIGNED},"
    "VAT ID,23,,30,30 days net,Example Bank; IBAN IE29 AIBK 9311 5212 3456 78,"
)
ABROAD = (
    f"customer,team-b,Research GmbH,Weg 1; Berlin,DE123456789,,2026-01-01,,{SIGNED},"
    "USt-IdNr.,0,Reverse charge,14,,,PO-4711"
)
NOW = datetime(2026, 11, 4, 9, tzinfo=UTC)


def world_of(folder: Path, parties: list[str], **changes: Any) -> World:
    """A world whose parties have the columns about tax and payment."""
    header = f"{PARTIES.rstrip()},{PAYMENT}\n"
    return World(folder, parties=parties, parties_header=header, **changes)


def closed(folder: Path, parties: list[str], **changes: Any) -> World:
    """October of two tenants, with 2.5 hours at 3.60 each."""
    pods = [
        Pod(tenant, f"train-{tenant}", at("09 10:00"), at("09 12:30"))
        for tenant in ("team-a", "team-b")
    ]
    world = world_of(folder, parties, **{"pods": pods, **changes})
    world.write()
    close(world)
    return world


def close(world: World, now: datetime = NOW) -> None:
    clock = StoppedClock(now)

    def checked() -> Any:
        return check_period(world.home, world.period, world.decisions, clock)

    close_period(world.home, world.period, world.decisions, checked, clock, dry_run=False)


def document(world: World, number: str) -> dict[str, Any]:
    record = Record(world.home.record_store())
    return LedgerDocuments(record, record.ledger()).document(number)


def rows(world: World, name: str) -> list[dict[str, str]]:
    text = (world.path / "documents" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def test_tax_is_added_once_and_the_due_date_counted_from_the_issue(tmp_path: Path) -> None:
    """9.00 net and 23 %: 2.07 of tax, 11.07 to pay, 30 days after 4 November."""
    invoice = document(closed(tmp_path / "home", [ISSUER]), "INV-000001")
    assert invoice["total_billed_cost"] == "9.00"
    assert invoice["tax"] == {"percent": "23", "note": "", "amount": "2.07"}
    assert invoice["total_payable"] == "11.07"
    assert invoice["payment"] == {
        "due_on": "2026-12-04",
        "terms": "30 days net",
        "bank_details": ["Example Bank", "IBAN IE29 AIBK 9311 5212 3456 78"],
        "purchase_order": "",
    }


def test_a_customers_cells_take_precedence_over_the_issuers(tmp_path: Path) -> None:
    """Reverse charge for a customer abroad; the account is still the issuer's."""
    world = closed(tmp_path / "home", [ISSUER, ABROAD])
    invoice = document(world, "INV-000002")
    assert invoice["tax"] == {"percent": "0", "note": "Reverse charge", "amount": "0.00"}
    assert invoice["total_payable"] == "9.00"
    assert invoice["payment"]["due_on"] == "2026-11-18"
    assert invoice["payment"]["bank_details"][0] == "Example Bank"
    text = (world.path / "documents/2026-10/tenants/team-b/INV-000002.txt").read_text()
    for said in (
        "Reverse charge",
        "USt-IdNr. DE123456789 (customer)",
        "VAT ID IE1234567X (issuer)",
        "Purchase order: PO-4711",
        "Due: 2026-11-18",
    ):
        assert said in text


def test_an_invoice_without_tax_has_a_note(tmp_path: Path) -> None:
    world = closed(tmp_path / "home", [])
    text = (world.path / "documents/2026-10/tenants/team-a/INV-000001.txt").read_text()
    assert "No tax is included in these amounts." in text
    page = view(document(world, "INV-000001"), "")
    assert page["payment"] == [["Tax", "No tax is included in these amounts."]]
    assert page["sums"] == [["Total EUR", "9.00"]]


def test_the_page_shows_tax_terms_and_account(tmp_path: Path) -> None:
    page = view(document(closed(tmp_path / "home", [ISSUER]), "INV-000001"), "")
    assert page["subtitle"].endswith("issued 2026-11-04 · due 2026-12-04 · amounts final")
    assert page["sums"] == [
        ["Net total EUR", "9.00"],
        ["Tax 23 %", "2.07"],
        ["Total EUR", "11.07"],
    ]
    assert page["total"] == "11.07"
    assert page["payment"] == [
        ["Due", "2026-12-04"],
        ["Terms", "30 days net"],
        ["Pay to", "Example Bank"],
        ["", "IBAN IE29 AIBK 9311 5212 3456 78"],
    ]
    assert page["issuer"]["lines"][2] == "VAT ID IE1234567X"


def test_quantities_and_money_have_one_name_and_form_each(tmp_path: Path) -> None:
    """1.5 hours of two slices of 3/7: 3 device-hours, 1.29 GPU-hours, 4.63 of money."""
    slices = Pod("a", "slices", at("09 10:00"), at("09 11:30"), device_count=2)
    slices = replace(slices, mig_profile="3g.20gb", weight=Fraction(3, 7))
    world = closed(tmp_path / "home", [], pods=[slices])
    page = view(document(world, "INV-000001"), "")
    named = dict(zip(page["line_columns"], page["lines"][0], strict=True))
    assert (named["Device-hours"], named["Weight"], named["GPU-hours"]) == ("3.00", "3/7", "1.29")
    assert (named["Rate"], named["Amount EUR"]) == ("3.60", "4.63")
    assert page["workloads"] == [["Job slices", "1.29", "4.63"]]
    [row] = rows(world, "2026-10/tenants/a/INV-000001-focus.csv")
    assert (row["ConsumedQuantity"], row["ConsumedUnit"]) == ("3", "Device-Hours")
    assert (row["PricingQuantity"], row["PricingUnit"]) == ("1.285714286", "GPU-Hours")


def test_focus_has_the_tax_and_the_terms_of_the_invoice(tmp_path: Path) -> None:
    world = closed(tmp_path / "home", [ISSUER])
    found = rows(world, "2026-10/tenants/team-a/INV-000001-focus.csv")
    assert [(row["ChargeCategory"], row["BilledCost"]) for row in found] == [
        ("Usage", "9"),
        ("Tax", "2.07"),
    ]
    details = rows(world, "2026-10/focus/invoice-detail.csv")
    details = [row for row in details if row["InvoiceId"] == "INV-000001"]
    assert sum(Decimal(row["BilledCost"]) for row in details) == Decimal("11.07")
    assert {row["PaymentDueDate"] for row in details} == {"2026-12-04"}
    assert {row["PaymentTerms"] for row in details} == {"30 days net"}


def test_focus_marks_a_voided_invoice(tmp_path: Path) -> None:
    """October's files are unchanged; November's show that October's details are void
    since the 6th.
    """
    world = closed(tmp_path / "home", [ISSUER])
    before = (world.path / "documents/2026-10/focus/invoice-detail.csv").read_bytes()
    voided_at = datetime(2026, 11, 6, tzinfo=UTC)
    void_document(world.home, "INV-000001", "wrong party", StoppedClock(voided_at))
    november = world_of(world.path, [ISSUER], period=BillingPeriod("2026-11"))
    november.write()
    close(november, datetime(2026, 12, 4, tzinfo=UTC))
    assert (world.path / "documents/2026-10/focus/invoice-detail.csv").read_bytes() == before
    details = {r["InvoiceDetailId"]: r for r in rows(world, "2026-11/focus/invoice-detail.csv")}
    states = {name: (r["InvoiceIssueStatus"], r["BilledCost"]) for name, r in details.items()}
    assert states == {
        "INV-000003/1": ("Issued", "-9.00"),
        "INV-000003/tax": ("Issued", "-2.07"),
        "INV-000001/1": ("Voided", "9.00"),
        "INV-000001/tax": ("Voided", "2.07"),
    }
    voided = details["INV-000001/1"]
    assert voided["BillingPeriodStart"] == "2026-10-01T00:00:00Z"
    assert voided["InvoiceDetailCreated"] == "2026-11-04T09:00:00Z"
    assert voided["InvoiceDetailLastUpdated"] == "2026-11-06T00:00:00Z"
    # The details of the voided invoice have the same IDs as when it was issued.
    issued = {row["InvoiceDetailId"] for row in csv.DictReader(io.StringIO(before.decode()))}
    assert {"INV-000001/1", "INV-000001/tax"} <= issued


def test_a_void_negates_the_tax_and_lists_the_largest_workloads(tmp_path: Path) -> None:
    pods = [
        Pod("team-a", f"job-{hours:02}", at("09 01:00"), at(f"09 {1 + hours:02}:00"))
        for hours in range(1, 21)
    ]
    world = closed(tmp_path / "home", [ISSUER], pods=pods)
    void = void_document(world.home, "INV-000001", "wrong party", StoppedClock(NOW))
    found = document(world, void.number)
    # 210 hours at 3.60 are 756.00 net; 23 % are 173.88.
    assert (found["tax"]["amount"], found["total_payable"]) == ("-173.88", "-929.88")
    assert (found["payment"]["due_on"], found["payment"]["bank_details"]) == ("", [])
    page = view(found, "")
    assert page["workloads"][0] == ["Job job-20", "-20.00", "-72.00"]
    assert page["workloads"][-1] == ["Job job-06", "-6.00", "-21.60"]
    assert [day["share"] for day in page["days"] if day["share"]] == [100]


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("株式会社", "no glyph for 会 (U+4F1A), 式 (U+5F0F), 株 (U+682A), 社 (U+793E)"),
        ("شركة", "no glyph for"),
    ],
)
def test_a_name_that_the_page_cannot_show_is_refused(cell: str, says: str) -> None:
    parties = PARTIES + f"issuer,,{cell},,,,2026-01-01,,{SIGNED}"
    [problem] = read_decisions({"parties.csv": parties})[1]
    assert says in problem.seen


def test_a_line_break_in_a_cell_is_refused_with_a_remedy() -> None:
    parties = PARTIES + f'issuer,,Example,"1 Street\nDublin",,,2026-01-01,,{SIGNED}'
    problem = read_decisions({"parties.csv": parties})[1][0]
    assert "the lines of an address are separated by ;" in problem.remedy


def test_labels_that_all_pods_of_a_workload_have_are_tags(tmp_path: Path) -> None:
    pods = [
        Pod("a", "train-0", at("09 10:00"), at("09 11:00"), workload="train",
            labels=(("team", "vision"), ("seed", "0"))),
        Pod("a", "train-1", at("09 10:00"), at("09 11:00"), workload="train",
            labels=(("team", "vision"), ("seed", "1"))),
        Pod("a", "bare", at("09 12:00"), at("09 13:00")),
    ]  # fmt: skip
    world = closed(tmp_path / "home", [], pods=pods)
    found = rows(world, "2026-10/tenants/a/INV-000001-focus.csv")
    tags = {row["ResourceName"]: row["Tags"] for row in found}
    assert tags == {"train": '{"team": "vision"}', "bare": "{}"}
