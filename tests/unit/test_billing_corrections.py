"""Corrections and voids: amounts that change after a period was closed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from billing.books import LedgerDocuments
from billing.close import close_period
from billing.corrections import billed_so_far, require_credits_within
from billing.documents_folder import render_documents
from billing.events import DocumentStatus
from billing.gate import PeriodNotBillable
from billing.record import Record
from billing.recount import (
    LATE_EVIDENCE,
    PeriodIsOpen,
    RecountResult,
    recount_decisions,
    recount_period,
)
from billing.usage import Charge, ChargeKey
from billing.verifier import verify
from billing.voiding import CannotBeVoided, void_document
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import Decisions
from domain.errors import UnknownName
from domain.tenant import BelongsTo
from quality.run import check_period
from tests.marts_by_hand import SIGNED, Pod, World, at
from tests.unit.test_billing_explain import land

OCTOBER = BillingPeriod("2026-10")
NOVEMBER = BillingPeriod("2026-11")
EUR = 1_000_000_000
AGAIN = "billed again: INV-000001 was voided by INV-000002 (wrong address)"


def day(month: int, date: int) -> datetime:
    return datetime(2026, month, date, 12, tzinfo=UTC)


class Ledger:
    """One home over several months."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.beside = 0

    def facts(self, period: BillingPeriod, pods: list[Pod], **changes: Any) -> World:
        return World(self.path, period=period, pods=pods, **changes)

    def close(self, world: World, now: datetime) -> dict[str, int]:
        """Tenant → billed nanos."""
        world.write()
        clock = StoppedClock(now)
        result = close_period(
            world.home,
            world.period,
            world.decisions,
            lambda: check_period(world.home, world.period, world.decisions, clock),
            clock,
            dry_run=False,
        )
        return {document.tenant: document.billed_nanos for document in result.invoices}

    def recount(
        self,
        pods: list[Pod],
        now: datetime,
        present: Decisions | None = None,
        dry_run: bool = False,
        **changes: Any,
    ) -> RecountResult:
        """Count October again with these pods, in a separate file."""
        self.beside += 1
        beside = World(
            self.path.with_name(f"beside-{self.beside}"), period=OCTOBER, pods=pods, **changes
        )
        beside.write()
        clock = StoppedClock(now)
        home = World(self.path).home
        counted_with = recount_decisions(home, OCTOBER, present or World(self.path).decisions)
        return recount_period(
            home,
            OCTOBER,
            counted_with,
            beside.home.warehouse_path,
            lambda: check_period(beside.home, OCTOBER, counted_with.decisions, clock),
            clock,
            dry_run=dry_run,
        )

    @property
    def books(self) -> LedgerDocuments:
        record = Record(World(self.path).home.record_store())
        return LedgerDocuments(record, record.ledger())

    def billed(self) -> int:
        """Exact nanos on all documents and waiting corrections, for usage in October."""
        return sum(b.nanos for b in billed_so_far(self.books.lines(), OCTOBER).values())


def pod(tenant: str, name: str, hours: int) -> Pod:
    return Pod(tenant, name, at("09 00:00"), at(f"09 {hours:02}:00"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "home")


@pytest.fixture(scope="module")
def october(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two hours of a card at 3.60, billed to one tenant on 4 November."""
    ledger = Ledger(tmp_path_factory.mktemp("october") / "home")
    world = ledger.facts(OCTOBER, [pod("a", "x", 2)])
    assert ledger.close(world, day(11, 4)) == {"a": 7_200_000_000}
    return world


@pytest.fixture
def closed(october: World, tmp_path: Path) -> Ledger:
    """A separate home in which October is closed."""
    return Ledger(october.copied(tmp_path / "home").path)


def verified(ledger: Ledger) -> list[str]:
    """The problems that the verifier finds in the bundles of the home."""
    record = ledger.books.record
    home = World(ledger.path).home
    for period in sorted({event.period for event in record.events()} - {""}):
        render_documents(home, BillingPeriod(period))
    bundles = sorted(home.documents.rglob("*.zip"))
    assert bundles
    return [problem for path in bundles for problem in verify(path.read_bytes()).problems]


def november_pod(tenant: str) -> Pod:
    start = datetime(2026, 11, 5, tzinfo=UTC)
    return Pod(tenant, "later", start, start.replace(hour=1))


def test_late_evidence_becomes_a_line_of_the_next_open_period(closed: Ledger) -> None:
    land(World(closed.path), b"late", "2026-10-09T02:00:00Z", 1)
    result = closed.recount([pod("a", "x", 3)], day(11, 20))
    assert result.recorded
    [line] = result.lines
    assert (line.device_seconds, line.cost_nanos) == (3600, 3_600_000_000)
    assert (line.seconds_before, line.nanos_before) == (7200, 7_200_000_000)
    # November: one hour of its own, and the hour that was missing in October.
    billed = closed.close(closed.facts(NOVEMBER, [november_pod("a")]), day(12, 4))
    assert billed == {"a": 7_200_000_000}
    folder = closed.path / "documents"
    invoice = json.loads((folder / "2026-11/tenants/a/INV-000002.json").read_bytes())
    assert [(line["kind"], line["charge_period"]) for line in invoice["lines"]] == [
        ("usage", "2026-11"),
        ("correction", "2026-10"),
    ]
    assert invoice["lines"][1]["reason"] == "evidence that arrived or changed after the close"
    text = (folder / "2026-11/tenants/a/INV-000002.txt").read_text()
    assert "correction of 2026-10" in text
    assert "2.00 hours before" in text


def test_recounting_unchanged_facts_corrects_nothing(closed: Ledger) -> None:
    assert not closed.recount([pod("a", "x", 2)], day(11, 19)).lines
    assert closed.recount([pod("a", "x", 3)], day(11, 20)).recorded
    again = closed.recount([pod("a", "x", 3)], day(11, 21))
    assert not again.recorded
    assert again.lines == ()


def test_a_correction_of_a_correction_ends_at_the_recounted_amount(closed: Ledger) -> None:
    closed.recount([pod("a", "x", 5)], day(11, 20))
    assert closed.billed() == 18_000_000_000
    [line] = closed.recount([pod("a", "x", 3)], day(11, 21)).lines
    assert (line.device_seconds, line.seconds_before) == (-7200, 18_000)
    assert closed.billed() == 10_800_000_000
    # 3.60 of November, +10.80, -7.20
    billed = closed.close(closed.facts(NOVEMBER, [november_pod("a")]), day(12, 4))
    assert billed == {"a": 7_200_000_000}


def test_two_corrections_of_one_line_are_on_one_invoice_and_verify(closed: Ledger) -> None:
    """2 h were billed at 3.60; then 3 h are counted, then 1 h, then 2 h again."""
    closed.recount([pod("a", "x", 3)], day(11, 20))
    closed.recount([pod("a", "x", 1)], day(11, 21))
    november = closed.facts(NOVEMBER, [november_pod("a")])
    # 3.60 of November, and of October + 1 h and - 2 h
    assert closed.close(november, day(12, 4)) == {
        "a": 3_600_000_000 + 3_600_000_000 - 7_200_000_000
    }
    lines = closed.books.document("INV-000002")["lines"]
    corrections = [
        (line["device_seconds_before"], line["device_seconds"], line["cost"])
        for line in lines
        if line["kind"] == "correction"
    ]
    assert corrections == [(7200, 3600, "3.6"), (10800, -7200, "-7.2")]
    assert closed.billed() == 3_600_000_000
    [line] = closed.recount([pod("a", "x", 2)], day(12, 10)).lines
    assert (line.seconds_before, line.device_seconds) == (3600, 3600)
    assert verified(closed) == []


def test_a_correction_is_billed_once(closed: Ledger) -> None:
    closed.recount([pod("a", "x", 3)], day(11, 20))
    closed.close(closed.facts(NOVEMBER, [november_pod("a")]), day(12, 4))
    december = closed.facts(BillingPeriod("2026-12"), [])
    assert closed.close(december, datetime(2027, 1, 5, tzinfo=UTC)) == {}


def test_a_tenant_with_only_a_credit_gets_an_invoice(ledger: Ledger) -> None:
    ledger.close(ledger.facts(OCTOBER, [pod("a", "x", 2), pod("b", "y", 1)]), day(11, 4))
    ledger.recount([pod("a", "x", 2)], day(11, 20))
    billed = ledger.close(ledger.facts(NOVEMBER, [november_pod("a")]), day(12, 4))
    assert billed == {"a": 3_600_000_000, "b": -3_600_000_000}


def test_a_dry_recount_records_nothing(closed: Ledger) -> None:
    result = closed.recount([pod("a", "x", 3)], day(11, 20), dry_run=True)
    assert result.nanos == 3_600_000_000
    assert not result.recorded
    assert closed.billed() == 7_200_000_000


def test_a_new_price_for_a_closed_month_needs_two_names(closed: Ledger) -> None:
    world = closed.facts(OCTOBER, [pod("a", "x", 2)])
    dearer = [f",A100-40,whole,EUR,4.0,2026-01-01,,{SIGNED},"]
    present = World(closed.path, rates=dearer).decisions
    counted_with = recount_decisions(world.home, OCTOBER, present)
    assert [rate.rate_nanos_per_hour for rate in counted_with.decisions.rates] == [3_600_000_000]


def test_an_amendment_with_two_names_corrects_by_the_new_price(closed: Ledger) -> None:
    world = closed.facts(OCTOBER, [pod("a", "x", 2)])
    dearer = [f",A100-40,whole,EUR,4.0,2026-01-01,,{SIGNED},"]
    present = World(closed.path, rates=dearer).decisions
    amended = world.decisions_with_amendment(present, "rates", "wrong list", "ada", "bob")
    result = closed.recount([pod("a", "x", 2)], day(11, 20), present=amended, rates=dearer)
    # The amount at the old price is credited, the one at the new price charged: 8.00 - 7.20.
    assert sorted(line.cost_nanos for line in result.lines) == [-7_200_000_000, 8_000_000_000]
    assert result.lines[0].reason == "rates amended by ada and bob: wrong list"
    assert closed.billed() == 8_000_000_000


def test_an_open_period_has_nothing_to_correct(ledger: Ledger) -> None:
    world = ledger.facts(OCTOBER, [])
    with pytest.raises(PeriodIsOpen):
        recount_decisions(world.write(), OCTOBER, world.decisions)


def test_a_void_negates_its_invoice_in_the_open_period(ledger: Ledger) -> None:
    world = ledger.facts(OCTOBER, [pod("a", "x", 2), pod("b", "y", 1)])
    ledger.close(world, day(11, 4))
    void = void_document(world.home, "INV-000001", "wrong customer", StoppedClock(day(11, 20)))
    assert (void.number, void.period) == ("INV-000003", "2026-11")
    books = ledger.books
    assert books.ledger.status("INV-000001") is DocumentStatus.VOIDED
    assert books.ledger.status("INV-000002") is DocumentStatus.ISSUED
    document = books.document("INV-000003")
    assert document["document"] == "void"
    assert document["total_billed_cost"] == "-7.20"
    assert [line["billed_cost"] for line in document["lines"]] == ["-7.20"]
    assert ledger.billed() == 3_600_000_000


def test_voided_usage_is_billed_again_by_a_recount(closed: Ledger) -> None:
    world = closed.facts(OCTOBER, [pod("a", "x", 2)])
    void_document(world.home, "INV-000001", "wrong address", StoppedClock(day(11, 20)))
    assert closed.billed() == 0
    [line] = closed.recount([pod("a", "x", 2)], day(11, 21)).lines
    assert line.cost_nanos == 7_200_000_000
    assert (line.seconds_before, line.nanos_before) == (0, 0)
    assert (line.reason, line.refers_to) == (AGAIN, "INV-000002")
    assert closed.billed() == 7_200_000_000


def test_each_correction_has_the_reason_of_its_change(ledger: Ledger) -> None:
    """A void, late evidence of one cluster and an amended outage of another, in one recount."""
    clusters = {"c1": "both", "c2": "both"}
    elsewhere = replace(pod("b", "y", 4), cluster_id="c2")
    world = ledger.facts(OCTOBER, [pod("a", "x", 2), elsewhere], clusters=clusters)
    ledger.close(world, day(11, 4))
    void_document(world.home, "INV-000001", "wrong address", StoppedClock(day(11, 20)))
    land(world, b"late", "2026-10-09T02:00:00Z", 1)
    outages = [f"c2,2026-10-09T00:00:00Z,2026-10-09T01:00:00Z,credit,{SIGNED}"]
    present = World(ledger.path, clusters=clusters, outages=outages).decisions
    amended = world.decisions_with_amendment(present, "outages", "storm", "ada", "bob")
    lines = ledger.recount(
        [pod("a", "x", 3), elsewhere], day(11, 21), amended, clusters=clusters, outages=outages
    ).lines
    assert [(line.key.tenant, line.cost_nanos, line.reason) for line in lines] == [
        ("a", 7_200_000_000, AGAIN.replace("-000002", "-000003")),
        ("a", 3_600_000_000, LATE_EVIDENCE),
        ("b", -3_600_000_000, "outages amended by ada and bob: storm"),
    ]
    # The recount included the amendment; later evidence is a separate reason.
    land(world, b"later still", "2026-10-09T03:00:00Z", 2)
    [line] = ledger.recount(
        [pod("a", "x", 4), elsewhere], day(11, 22), amended, clusters=clusters, outages=outages
    ).lines
    assert (line.cost_nanos, line.reason) == (3_600_000_000, LATE_EVIDENCE)
    assert verified(ledger) == []


def test_a_voided_invoice_voids_its_waiting_correction(ledger: Ledger) -> None:
    """A bill of 10.80 to the wrong party; 3.60 of it had been found to be too much."""
    world = ledger.facts(OCTOBER, [pod("a", "x", 3)])
    ledger.close(world, day(11, 4))
    land(world, b"late", "2026-10-09T02:00:00Z", 1)
    ledger.recount([pod("a", "x", 2)], day(11, 19))
    void_document(world.home, "INV-000001", "wrong party", StoppedClock(day(11, 20)))
    assert ledger.books.document("INV-000002")["total_billed_cost"] == "-10.80"
    # The party that was billed by mistake pays nothing, and no credit is left for the next invoice.
    assert ledger.billed() == 0
    assert list(ledger.books.pending_lines(ledger.books.ledger.pending_corrections())) == []
    again = "billed again: INV-000001 was voided by INV-000002 (wrong party)"
    lines = ledger.recount([pod("a", "x", 2)], day(11, 21)).lines
    assert [(line.cost_nanos, line.reason) for line in lines] == [
        (10_800_000_000, again),
        (-3_600_000_000, f"{LATE_EVIDENCE}; {again}"),
    ]
    assert ledger.recount([pod("a", "x", 2)], day(11, 22)).lines == ()
    billed = ledger.close(ledger.facts(NOVEMBER, [november_pod("a")]), day(12, 4))
    assert billed == {"a": 10_800_000_000}  # 7.20 of October, 3.60 of November
    assert verified(ledger) == []


def test_a_withdrawn_correction_is_on_no_invoice(ledger: Ledger) -> None:
    world = ledger.facts(OCTOBER, [pod("a", "x", 3), pod("b", "y", 3)])
    ledger.close(world, day(11, 4))
    ledger.recount([pod("a", "x", 2), pod("b", "y", 2)], day(11, 19))
    void_document(world.home, "INV-000001", "wrong party", StoppedClock(day(11, 20)))
    billed = ledger.close(ledger.facts(NOVEMBER, [november_pod("a")]), day(12, 4))
    assert billed == {"a": 3_600_000_000, "b": -3_600_000_000}


def test_a_document_is_voided_once_and_a_void_never(closed: Ledger) -> None:
    world = closed.facts(OCTOBER, [pod("a", "x", 2)])
    clock = StoppedClock(day(11, 20))
    void_document(world.home, "INV-000001", "wrong customer", clock)
    with pytest.raises(CannotBeVoided, match="void since INV-000002"):
        void_document(world.home, "INV-000001", "again", clock)
    with pytest.raises(CannotBeVoided, match="a void itself"):
        void_document(world.home, "INV-000002", "again", clock)
    with pytest.raises(UnknownName):
        void_document(world.home, "INV-000009", "which", clock)


def test_an_invoice_with_corrections_is_voided_with_them(closed: Ledger) -> None:
    closed.recount([pod("a", "x", 3)], day(11, 20))
    november = closed.facts(NOVEMBER, [november_pod("a")])
    closed.close(november, day(12, 4))
    void_document(november.home, "INV-000002", "wrong customer", StoppedClock(day(12, 5)))
    assert closed.billed() == 7_200_000_000
    [line] = closed.recount([pod("a", "x", 3)], day(12, 6)).lines
    assert line.cost_nanos == 3_600_000_000


def test_void_of_a_correction_by_an_amended_price_passes_the_verifier(closed: Ledger) -> None:
    world = closed.facts(OCTOBER, [pod("a", "x", 2)])
    dearer = [f",A100-40,whole,EUR,4.0,2026-01-01,,{SIGNED},"]
    present = World(closed.path, rates=dearer).decisions
    amended = world.decisions_with_amendment(present, "rates", "wrong list", "ada", "bob")
    closed.recount([pod("a", "x", 2)], day(11, 20), present=amended, rates=dearer)
    november = closed.facts(NOVEMBER, [])
    closed.close(november, day(12, 4))
    void_document(november.home, "INV-000002", "wrong customer", StoppedClock(day(12, 5)))
    assert verified(closed) == []


def test_recounted_facts_that_are_not_billable_correct_nothing(closed: Ledger) -> None:
    disputed = replace(pod("a", "z", 1), method="disputed", method_reason="unknown_uid")
    with pytest.raises(PeriodNotBillable, match="REC-001"):
        closed.recount([pod("a", "x", 3), disputed], day(11, 20))
    assert closed.billed() == 7_200_000_000


def test_a_correction_is_not_on_a_document_of_an_earlier_month(closed: Ledger) -> None:
    """October is closed and corrected before September is closed."""
    closed.recount([pod("a", "x", 3)], day(11, 20))
    in_september = datetime(2026, 9, 5, tzinfo=UTC)
    early = Pod("a", "early", in_september, in_september.replace(hour=1))
    september = closed.facts(BillingPeriod("2026-09"), [early])
    assert closed.close(september, day(11, 21)) == {"a": 3_600_000_000}
    billed = closed.close(closed.facts(NOVEMBER, [november_pod("a")]), day(12, 4))
    assert billed == {"a": 7_200_000_000}


@pytest.mark.parametrize(("credit", "is_refused"), [(-10, False), (-11, True), (1, True)])
def test_a_credit_above_its_charge_is_refused(credit: int, is_refused: bool) -> None:
    key = ChargeKey(
        "a", BelongsTo.TENANT, "A100", "whole", "c1", Fraction(1), "max", day(10, 1), "rate-1"
    )
    charge = Charge(key, day(10, 2), 1, "EUR", 36_000, 10)
    credited = replace(charge, key=replace(key, credited=True), cost_nanos=credit)
    charges = {c.key: c for c in (charge, credited)}
    if is_refused:
        with pytest.raises(AssertionError, match="a credit of"):
            require_credits_within(charges)
    else:
        require_credits_within(charges)
