"""FOCUS rows: they add up to the invoice exactly, and have the columns that consumers expect."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from billing.books import LedgerDocuments
from billing.close import close_period
from billing.record import Record
from billing.rendering.focus import (
    BILLING_PERIOD,
    COST_AND_USAGE,
    INVOICE_DETAIL,
    cost_and_usage,
    pricing_quantity,
)
from billing.voiding import void_document
from domain.clock import StoppedClock
from quality.run import check_period
from tests.marts_by_hand import SIGNED, Pod, World, at

CENTS_THAT_DO_NOT_DIVIDE = f",A100-40,whole,EUR,3.333333333,2026-01-01,,{SIGNED},"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("closed") / "home", rates=[CENTS_THAT_DO_NOT_DIVIDE])
    world.pods = [
        Pod("team-a", f"job-{n}", at(f"{n + 1:02} 22:00:01"), at(f"{n + 2:02} 03:00:02"))
        for n in range(9)
    ]
    world.pods.append(
        Pod("team-a", "slice", at("09 10:00"), at("09 11:30:01"), mig_profile="3g.20gb",
            weight=Fraction(3, 7))
    )  # fmt: skip
    world.write()
    clock = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
    close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: check_period(world.home, world.period, world.decisions, clock),
        clock,
        dry_run=False,
    )
    return world


@pytest.fixture
def home(closed: World, tmp_path: Path) -> Path:
    return closed.copied(tmp_path / "home").path


def rows(home: Path, name: str) -> list[dict[str, str]]:
    text = (home / "documents/2026-10" / name).read_text()
    return list(csv.DictReader(io.StringIO(text)))


def test_rows_add_up_to_the_invoice_without_a_tolerance(home: Path) -> None:
    found = rows(home, "tenants/team-a/INV-000001-focus.csv")
    record = Record(World(home).home.record_store())
    document = LedgerDocuments(record, record.ledger()).document("INV-000001")
    # 9 × 18001 s × 3.333333333 / 3600 = 150.0083333183... and 5401 s × 3/7 × the same: 2.1432...
    assert document["total_billed_cost"] == "152.15"
    assert sum(Decimal(row["BilledCost"]) for row in found) == Decimal("152.15")
    assert sum(Decimal(row["EffectiveCost"]) for row in found) == Decimal(document["total_cost"])
    # Nine jobs on two days each, and the slice.
    assert len(found) == 19
    by_line = {row["x_InvoiceLine"] for row in found}
    assert by_line == {"1", "2"}


def test_a_row_gets_its_part_of_the_payable_amount_by_its_seconds(home: Path) -> None:
    found = rows(home, "tenants/team-a/INV-000001-focus.csv")
    ratios = {Decimal(row["BilledCost"]) / Decimal(row["ConsumedQuantity"]) for row in found[1:]}
    assert len(found[1:]) == 18
    assert max(ratios) - min(ratios) < Decimal("0.000001")


def test_each_row_is_in_one_day_and_one_period(home: Path) -> None:
    for row in rows(home, "tenants/team-a/INV-000001-focus.csv"):
        assert list(row) == list(COST_AND_USAGE)
        assert row["ChargePeriodStart"].endswith("T00:00:00Z")
        assert row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"]
        assert row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
        assert (row["ChargeCategory"], row["ChargeClass"]) == ("Usage", "")


def test_unit_price_times_quantity_is_the_list_cost(home: Path) -> None:
    for row in rows(home, "tenants/team-a/INV-000001-focus.csv"):
        assert Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"]) == Decimal(
            row["ListCost"]
        )
        difference = Decimal(row["ListCost"]) - Decimal(row["EffectiveCost"])
        assert abs(difference) < Decimal("0.00000001")


def test_period_and_invoice_details_are_separate_data_sets(home: Path) -> None:
    [period] = rows(home, "focus/billing-period.csv")
    assert period["BillingPeriodStatus"] == "Closed"
    assert period["BillingPeriodLastUpdated"] == "2026-11-04T00:00:00Z"
    details = rows(home, "focus/invoice-detail.csv")
    assert [detail["InvoiceDetailId"] for detail in details] == ["INV-000001/1", "INV-000001/2"]
    assert sum(Decimal(detail["BilledCost"]) for detail in details) == Decimal("152.15")
    assert {detail["ReferenceInvoiceId"] for detail in details} == {"INV-000001"}


def test_a_void_is_a_correction_that_refers_to_its_invoice(home: Path) -> None:
    world = World(home)
    void_document(
        world.home, "INV-000001", "wrong", StoppedClock(datetime(2026, 11, 5, tzinfo=UTC))
    )
    record = Record(world.home.record_store())
    found = list(cost_and_usage(LedgerDocuments(record, record.ledger()).document("INV-000002")))
    assert sum(Decimal(row["BilledCost"]) for row in found) == Decimal("-152.15")
    assert {row["ChargeClass"] for row in found} == {"Correction"}
    assert {row["x_RefersTo"] for row in found} == {"INV-000001"}
    # It is in November's books, and refers to days of October.
    assert {row["BillingPeriodStart"] for row in found} == {"2026-11-01T00:00:00Z"}
    assert all(row["ChargePeriodStart"] < "2026-11-01" for row in found)


def test_the_page_names_every_column_of_every_data_set() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/focus.md").read_text(encoding="utf-8")
    _, cost, detail, period = page.split("| columns | content |")
    for columns, part in (
        (COST_AND_USAGE, cost),
        (INVOICE_DETAIL, detail),
        (BILLING_PERIOD, period),
    ):
        named = [name for row in part.splitlines() for name in re.findall(r"`(\w+)`", cell_of(row))]
        assert sorted(named) == sorted(columns)


def cell_of(row: str) -> str:
    """The first cell of a row of a table."""
    return row.split("|")[1] if row.startswith("| `") else ""


def test_quantities_have_nine_decimals() -> None:
    assert pricing_quantity(3600, "1/1") == "1"
    assert pricing_quantity(3600, "3/7") == "0.428571429"
    assert pricing_quantity(-1, "1/1") == "-0.000277778"
