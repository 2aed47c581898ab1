"""Closing a period: documents that it issues, reasons to refuse it, and its immutability."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from billing.billed_facts import FactsChangedSinceCheck, FactsReader
from billing.close import (
    CloseResult,
    TooEarlyToClose,
    close_period,
)
from billing.documents_folder import RenderedDifferently, render_documents
from billing.gate import PeriodNotBillable
from billing.record import Record, RecordChangedConcurrently
from billing.rendering import document_files
from billing.verifier import verify
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.findings import CheckResult
from domain.money import Money, parse_nanos
from quality.run import check_period
from tests.marts_by_hand import SIGNED, Pod, World, at
from warehouse.lease import LeaseHeld, lease
from warehouse.store import KeyNotAllowed, StoreUnusable

BOB = "bob,2026-11-02"
NOVEMBER_FOURTH = datetime(2026, 11, 4, 9, 30, 15, tzinfo=UTC)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two tenants: an hour and a half of a card, and a slice of 3/7 for ten hours."""
    world = World(tmp_path / "home")
    world.pods = [
        Pod("team-a", "train", at("09 10:00"), at("09 11:30")),
        Pod(
            "team-b",
            "serve",
            at("09 22:00"),
            at("10 08:00"),
            mig_profile="3g.20gb",
            weight=Fraction(3, 7),
        ),
        Pod("openshift-monitoring", "probe", at("09 10:00"), at("09 11:00"), belongs_to="provider"),
    ]
    return world


def invoice_of(world: World, tenant: str, number: str) -> Any:
    folder = world.path / "documents/2026-10/tenants"
    return json.loads((folder / tenant / f"{number}.json").read_bytes())


def checked(world: World, now: datetime = NOVEMBER_FOURTH) -> Callable[[], CheckResult]:
    clock = StoppedClock(now)
    return lambda: check_period(world.home, world.period, world.decisions, clock)


def close(
    world: World,
    dry_run: bool = False,
    now: datetime = NOVEMBER_FOURTH,
    model_pages: Callable[[], bytes] | None = None,
) -> CloseResult:
    return close_period(
        world.home,
        world.period,
        world.decisions,
        checked(world, now),
        StoppedClock(now),
        dry_run=dry_run,
        holder="ada",
        model_pages=model_pages,
    )


def documents(home: Path) -> dict[str, bytes]:
    folder = home / "documents"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_clean_month_gives_one_invoice_per_tenant(world: World) -> None:
    world.write()
    result = close(world)
    assert result.closed
    # 1.5 h × 3.60 = 5.40 and 10 h × 3/7 × 3.60 = 15.428571429
    assert [(d.number, d.tenant, d.billed_nanos) for d in result.invoices] == [
        ("INV-000001", "team-a", 5_400_000_000),
        ("INV-000002", "team-b", 15_430_000_000),
    ]
    assert result.total == Money(parse_nanos("20.83"), "EUR")


def test_the_sealed_invoice_equals_a_hand_calculation(world: World) -> None:
    world.write()
    close(world)
    invoice = json.loads(
        (world.path / "documents/2026-10/tenants/team-b/INV-000002.json").read_bytes()
    )
    assert invoice["total_cost"] == "15.428571429"
    assert invoice["total_billed_cost"] == "15.43"
    [line] = invoice["lines"]
    assert line["device_seconds"] == 36_000
    assert line["weight"] == "3/7"
    assert line["rate_per_hour"] == "3.6"
    assert [day["device_seconds"] for day in invoice["workload_days"]] == [7_200, 28_800]
    assert [pod["pod_uid"] for pod in invoice["pods"]] == ["uid-team-b-serve"]
    assert invoice["measured"][0]["hours_expected"] == 744
    assert invoice["measured"][0]["hours_measured"] == 744


def test_an_invoice_shows_nothing_about_another_tenant(world: World) -> None:
    world.write()
    close(world)
    for name, body in documents(world.path).items():
        if name.startswith("2026-10/tenants/team-a/"):
            assert b"team-b" not in body, name
            assert b"serve" not in body, name


def test_close_refuses_a_month_with_a_missing_hour_and_names_it(world: World) -> None:
    world.lose("thanos", "09 11:00")
    world.lose("kubernetes", "09 11:00", reason="no collector", backfillable=False)
    world.write()
    with pytest.raises(PeriodNotBillable) as refused:
        close(world)
    message = refused.value.message()
    assert "cluster c1, 2026-10-09T11:00:00Z to 2026-10-09T12:00:00Z" in message
    assert "1 blocking finding; 1 hour, about 3.60 EUR" in message  # the whole hour before
    assert Record(world.home.record_store()).events() == []
    assert documents(world.path) == {}


def test_a_dry_run_shows_every_invoice_and_blocking_finding(world: World) -> None:
    world.lose("thanos", "09 10:00")
    world.lose("kubernetes", "09 10:00")
    world.write()
    result = close(world, dry_run=True)
    assert not result.closed
    assert [d.tenant for d in result.invoices] == ["team-a", "team-b"]
    assert result.total == Money(parse_nanos("20.83"), "EUR")
    assert [finding.code for finding in result.refused_by] == ["GAP-001"]
    assert Record(world.home.record_store()).events() == []


def test_an_accepted_gap_is_printed_on_the_invoice(world: World) -> None:
    world.lose("thanos", "09 10:00")
    world.lose("kubernetes", "09 10:00")
    world.accepted_gaps = [
        "c1,thanos,2026-10-09T10:00:00Z,2026-10-09T11:00:00Z,bill_nothing,upgrade,bob,2026-11-02,"
    ]
    world.write()
    assert close(world).closed
    text = (world.path / "documents/2026-10/tenants/team-a/INV-000001.txt").read_text()
    assert "743 of 744 hours" in text
    assert "bill_nothing, signed by bob on 2026-11-02 (upgrade)" in text


def test_close_refuses_a_month_before_its_grace_time_has_passed(world: World) -> None:
    world.write()
    last_second = datetime(2026, 11, 2, 23, 59, 59, tzinfo=UTC)
    with pytest.raises(TooEarlyToClose):
        close(world, now=last_second)
    assert close(world, dry_run=True, now=last_second).closes_from == datetime(
        2026, 11, 3, tzinfo=UTC
    )
    assert close(world, now=datetime(2026, 11, 3, tzinfo=UTC)).closed


def test_a_shorter_grace_time_does_not_change_earlier_months(world: World) -> None:
    """No days from November on; October keeps its two days."""
    world.policies = [f"grace_days,none,0,2026-11-01,,{SIGNED}"]
    world.write()
    with pytest.raises(TooEarlyToClose, match="2026-11-03T00:00:00Z"):
        close(world, now=datetime(2026, 11, 2, 12, tzinfo=UTC))
    assert close(world, now=datetime(2026, 11, 3, tzinfo=UTC)).closed


def test_a_second_close_issues_nothing(world: World) -> None:
    world.write()
    first = close(world)
    before = documents(world.path)
    again = close(world, now=datetime(2026, 12, 4, tzinfo=UTC))
    assert again == first
    assert documents(world.path) == before
    assert len(Record(world.home.record_store()).events()) == 1


def close_during(world: World, other: Callable[[], object], period: BillingPeriod) -> CloseResult:
    """A close that is overlapped by another close while it checks."""
    clock = StoppedClock(datetime(2026, 12, 4, tzinfo=UTC))

    def check_slowly() -> CheckResult:
        check_result = check_period(world.home, period, world.decisions, clock)
        other()
        return check_result

    return close_period(
        world.home, period, world.decisions, check_slowly, clock, dry_run=False, holder="slow:2"
    )


def test_of_two_closes_at_once_the_second_reports_the_first(world: World) -> None:
    world.write()
    found = close_during(world, lambda: close(world), world.period)
    assert found.closed
    assert found.closed_by == "ada"
    assert found == close(world)
    assert len(Record(world.home.record_store()).events()) == 1


def test_two_closes_of_different_months_do_not_conflict(world: World) -> None:
    world.write()
    november = World(world.path, period=BillingPeriod("2026-11"), pods=[])
    november.write()
    with pytest.raises(
        RecordChangedConcurrently,
        match="ended at event 0 when this command began, and ends at event 1 now",
    ):
        close_during(world, lambda: close(world), november.period)
    assert Record(world.home.record_store()).closed_periods() == {"2026-10"}


def test_facts_that_changed_after_they_were_checked_are_not_sealed(world: World) -> None:
    world.write()
    check_result = checked(world)()
    world.pods.append(Pod("team-c", "late", at("11 00:00"), at("11 01:00")))
    world.write()
    with pytest.raises(FactsChangedSinceCheck):
        close_period(
            world.home,
            world.period,
            world.decisions,
            lambda: check_result,
            StoppedClock(NOVEMBER_FOURTH),
            dry_run=False,
        )
    assert Record(world.home.record_store()).events() == []


def test_close_seals_facts_that_were_read_during_their_check(world: World) -> None:
    """Facts that change after the check are not read again, so they cannot be sealed."""
    world.write()
    clock, reader = StoppedClock(NOVEMBER_FOURTH), FactsReader(world.period)
    result = check_period(world.home, world.period, world.decisions, clock, also=reader)
    expected = close(world, dry_run=True)
    world.pods.append(Pod("team-c", "late", at("11 00:00"), at("11 01:00")))
    world.write()
    closed = close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: result,
        clock,
        dry_run=False,
        reader=reader,
    )
    assert closed.facts_sha256 == expected.facts_sha256
    assert [(d.tenant, d.billed_nanos) for d in closed.invoices] == [
        (d.tenant, d.billed_nanos) for d in expected.invoices
    ]


NOT_A_NAME = ["../../../../x", "..", "a/b", "team\x00a", ".hidden", "a" * 600]


@pytest.mark.parametrize("namespace", NOT_A_NAME)
def test_a_tenant_with_an_invalid_folder_name_is_refused(world: World, namespace: str) -> None:
    world.pods.append(Pod(namespace, "late", at("11 00:00"), at("11 01:00")))
    world.write()
    outside = {*world.path.parent.rglob("*")} - {*world.path.rglob("*")}
    with pytest.raises(KeyNotAllowed):
        close(world)
    assert Record(world.home.record_store()).events() == []
    assert {*world.path.parent.rglob("*")} - {*world.path.rglob("*")} == outside


def test_documents_that_cannot_be_written_are_not_issued(world: World) -> None:
    world.write()
    in_the_way = world.path / "documents/2026-10/tenants"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("a file where the folder has to be")
    with pytest.raises(StoreUnusable, match="could not write to tenants/team-a"):
        close(world)
    assert Record(world.home.record_store()).events() == []
    in_the_way.unlink()
    assert close(world).closed


def test_tenant_names_may_equal_folder_names_of_the_provider(world: World) -> None:
    names = ("provider", "focus", "drafts", "tenants")
    world.pods += [Pod(name, "train", at("11 00:00"), at("11 01:00")) for name in names]
    world.write()
    assert len(close(world).invoices) == 6
    folder = world.path / "documents/2026-10"
    for name in names:
        [invoice] = (folder / "tenants" / name).glob("INV-??????.json")
        assert json.loads(invoice.read_bytes())["tenant"] == name
    own = {path.name for path in (folder / "provider").iterdir()}
    assert "statement.json" in own
    assert not any(name.startswith("INV") for name in own)
    assert {path.suffix for path in (folder / "focus").iterdir()} == {".csv"}


def test_close_refuses_a_check_that_lacks_required_checks(world: World) -> None:
    world.write()
    check_result = checked(world)()
    partial = CheckResult(
        check_result.period,
        check_result.facts_sha256,
        (),
        check_result.coverage_statuses,
        (),
        ("some_check",),
    )
    with pytest.raises(PeriodNotBillable, match="check some_check was not executed"):
        close_period(
            world.home,
            world.period,
            world.decisions,
            lambda: partial,
            StoppedClock(NOVEMBER_FOURTH),
            dry_run=False,
        )


def test_the_same_facts_give_the_same_bytes_in_another_home(world: World, tmp_path: Path) -> None:
    world.write()
    close(world)
    other = World(tmp_path / "other", pods=list(reversed(world.pods)))
    other.write()
    close(other)
    assert documents(other.path) == documents(world.path)


def test_documents_come_back_byte_for_byte_without_the_warehouse(world: World) -> None:
    world.write()
    close(world)
    before = documents(world.path)
    shutil.rmtree(world.path / "documents")
    (world.path / "warehouse.duckdb").unlink()
    render_documents(world.home, world.period)
    assert documents(world.path) == before


def test_a_month_keeps_the_model_pages_of_its_close(world: World) -> None:
    world.write()
    pages = b"<html>what the columns mean</html>"
    close(world, model_pages=lambda: pages)
    before = documents(world.path)
    assert before["2026-10/models.html"] == pages
    assert verify(before["2026-10/2026-10.zip"]).problems == []
    shutil.rmtree(world.path / "documents")
    render_documents(world.home, world.period)
    assert documents(world.path) == before


def test_a_version_that_renders_other_bytes_replaces_no_issued_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write()
    close(world)
    before = documents(world.path)
    other = {**document_files.RENDERERS, ".txt": lambda *_: b"in another typeface"}
    monkeypatch.setattr(document_files, "RENDERERS", other)
    render_documents(world.home, world.period)
    assert documents(world.path) == before
    [lost] = (world.path / "documents").rglob("INV-000001.txt")
    lost.unlink()
    with pytest.raises(RenderedDifferently) as refused:
        render_documents(world.home, world.period)
    assert refused.value.where == str(lost)
    assert "1 issued files" in refused.value.seen
    del before[str(lost.relative_to(world.path / "documents"))]
    assert documents(world.path) == before


def test_document_numbers_continue_in_the_next_period(world: World) -> None:
    world.write()
    close(world)
    november = World(
        world.path,
        period=BillingPeriod("2026-11"),
        pods=[Pod("team-a", "next", at("31 23:00"), datetime(2026, 11, 1, 1, tzinfo=UTC))],
    )
    november.write()
    result = close(november, now=datetime(2026, 12, 5, tzinfo=UTC))
    assert [(d.number, d.tenant) for d in result.invoices] == [("INV-000003", "team-a")]
    assert result.total == Money(parse_nanos("3.60"), "EUR")


def test_a_february_of_29_days_closes_with_its_last_day(tmp_path: Path) -> None:
    began = datetime(2028, 2, 28, 12, tzinfo=UTC)
    february = World(
        tmp_path / "home",
        period=BillingPeriod("2028-02"),
        pods=[Pod("team-a", "train", began, datetime(2028, 3, 1, tzinfo=UTC))],
    )
    february.write()
    result = close(february, now=datetime(2028, 3, 4, tzinfo=UTC))
    assert result.total == Money(parse_nanos("129.60"), "EUR")  # 36 h at 3.60
    record = Record(february.home.record_store())
    [issued] = record.invoices("2028-02")
    document = record.sealed(issued.sha256)
    assert document["period_ended_at"] == "2028-03-01T00:00:00Z"
    days = [(entry["day"], entry["device_seconds"]) for entry in document["workload_days"]]
    assert days == [("2028-02-28", 12 * 3600), ("2028-02-29", 24 * 3600)]
    [basis] = [event.body["basis_sha256"] for event in record.events()]
    assert len(record.sealed(basis)["check"]["coverage_statuses"]) == 2 * 29 * 24
    bundle = (tmp_path / "home/documents/2028-02/2028-02.zip").read_bytes()
    assert verify(bundle).problems == []


def test_without_a_price_list_consumption_is_stated(world: World) -> None:
    world.rates = []
    world.write()
    result = close(world)
    assert result.closed
    assert result.total is None
    assert [d.number for d in result.invoices] == ["CON-000001", "CON-000002"]
    text = (world.path / "documents/2026-10/tenants/team-a/CON-000001.txt").read_text()
    assert text.startswith("Consumption statement CON-000001")
    assert "Amount" not in text


def test_close_refuses_usage_without_a_rate(world: World) -> None:
    world.pods.append(Pod("team-c", "big", at("09 10:00"), at("09 11:00"), gpu_class="B300"))
    world.write()
    with pytest.raises(PeriodNotBillable, match="PRICE-001"):
        close(world)


def test_close_issues_nothing_while_another_writer_holds_the_lease(world: World) -> None:
    world.write()
    clock = StoppedClock(NOVEMBER_FOURTH)
    with lease(world.home.record_store(), "bob", clock), pytest.raises(LeaseHeld):
        close(world)
    assert close(world).closed


def test_an_outage_is_credited_on_a_separate_line(world: World) -> None:
    world.outages = [f"c1,2026-10-09T10:30:00Z,2026-10-09T11:00:00Z,credit,power cut,{BOB}"]
    world.write()
    assert close(world).invoices[0].billed_nanos == 3_600_000_000
    invoice = json.loads(
        (world.path / "documents/2026-10/tenants/team-a/INV-000001.json").read_bytes()
    )
    # An hour and a half at 3.60, minus half an hour of it.
    assert [(line["kind"], line["billed_cost"]) for line in invoice["lines"]] == [
        ("usage", "5.40"),
        ("credit", "-1.80"),
    ]
    assert invoice["lines"][1]["reason"] == "outage from 2026-10-09T10:30:00Z: power cut (bob)"
    report = verify((world.path / "documents/2026-10/tenants/team-a/INV-000001.zip").read_bytes())
    assert report.problems == []


def test_two_outages_of_a_charge_are_one_line_with_both_reasons(world: World) -> None:
    world.outages = [
        f"c1,2026-10-09T10:15:00Z,2026-10-09T10:30:00Z,credit,power cut,{BOB}",
        f"c1,2026-10-09T11:00:00Z,2026-10-09T11:15:00Z,credit,flood,{BOB}",
    ]
    world.write()
    close(world)
    invoice = json.loads(
        (world.path / "documents/2026-10/tenants/team-a/INV-000001.json").read_bytes()
    )
    # An hour and a half at 3.60, minus two quarters of an hour.
    assert [(line["kind"], line["billed_cost"]) for line in invoice["lines"]] == [
        ("usage", "5.40"),
        ("credit", "-1.80"),
    ]
    assert invoice["lines"][1]["reason"] == (
        "outage from 2026-10-09T10:15:00Z: power cut (bob); "
        "outage from 2026-10-09T11:00:00Z: flood (bob)"
    )


def test_an_outage_of_a_pod_is_credited_to_its_tenant_alone(world: World) -> None:
    world.pods.append(Pod("team-b", "train", at("09 10:00"), at("09 11:30")))
    world.outages = [
        f"c1,2026-10-09T10:30:00Z,2026-10-09T11:00:00Z,credit,XID 79,{BOB},,uid-team-a-train",
        f"c1,2026-10-09T10:30:00Z,2026-10-09T11:00:00Z,credit,fan,{BOB},other-node,",
    ]
    world.write()
    close(world)
    own = invoice_of(world, "team-a", "INV-000001")
    other = invoice_of(world, "team-b", "INV-000002")
    # An hour and a half at 3.60, minus half an hour of it.
    assert [(line["kind"], line["billed_cost"]) for line in own["lines"]] == [
        ("usage", "5.40"),
        ("credit", "-1.80"),
    ]
    assert own["lines"][1]["reason"] == "outage from 2026-10-09T10:30:00Z: XID 79 (bob)"
    assert [row["reason"] for row in own["decisions"]["outages"]] == ["XID 79"]
    assert [line["kind"] for line in other["lines"]] == ["usage", "usage"]
    assert other["decisions"]["outages"] == []


def test_an_open_ended_outage_is_credited_to_the_end_of_the_month(world: World) -> None:
    world.pods = [Pod("team-a", "train", at("30 00:00"), datetime(2026, 11, 1, 5, tzinfo=UTC))]
    world.outages = [f",2026-10-31T00:00:00Z,,credit,flood,{BOB}"]
    world.write()
    # Two days at 3.60 an hour, minus the last one.
    assert close(world).total == Money(parse_nanos("86.40"), "EUR")


def test_the_decisions_are_copied_onto_the_invoice(world: World) -> None:
    world.outages = [f"c1,2026-10-09T10:30:00Z,2026-10-09T11:00:00Z,credit,power cut,{BOB}"]
    world.clusters["c2"] = "samples"
    world.write()
    close(world)
    invoice = json.loads(
        (world.path / "documents/2026-10/tenants/team-a/INV-000001.json").read_bytes()
    )
    assert [row["cluster_id"] for row in invoice["decisions"]["clusters"]] == ["c1"]
    assert [row["reason"] for row in invoice["decisions"]["outages"]] == ["power cut"]
    [rate] = invoice["rates"]
    assert (rate["rate_per_hour"], rate["decided_by"]) == ("3.6", "ada")
    policies = {policy["policy"]: policy["version"] for policy in invoice["policies"]}
    assert policies["billable_state"] == "default-1"
