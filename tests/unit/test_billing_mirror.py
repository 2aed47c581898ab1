"""Copies of the record for readers: tables in the warehouse, and a page about the check."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from billing.close import CloseResult, close_period
from billing.record_tables import mirror_record
from billing.voiding import void_document
from domain.clock import StoppedClock
from quality.run import check_period
from tests.marts_by_hand import Pod, World, at
from warehouse.connection import connected

CLOCK = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))


def close(world: World, dry_run: bool = False) -> CloseResult:
    world.write()
    return close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: check_period(world.home, world.period, world.decisions, CLOCK),
        CLOCK,
        dry_run=dry_run,
    )


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "home")
    world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30"))]
    return world


def query(world: World, statement: str) -> list[tuple[Any, ...]]:
    with connected(world.home.warehouse_path, read_only=True) as connection:
        return connection.execute(statement).fetchall()


def test_documents_and_their_states_can_be_queried_in_sql(world: World) -> None:
    close(world)
    void_document(world.home, "INV-000001", "wrong", CLOCK)
    mirror_record(world.home)
    mirror_record(world.home)
    assert query(
        world,
        "select number, document, status, billed_nanos::bigint, billing_period "
        "from record.documents order by all",
    ) == [
        ("INV-000001", "invoice", "Voided", 5_400_000_000, "2026-10"),
        ("INV-000002", "void", "Issued", -5_400_000_000, "2026-11"),
    ]
    assert query(world, "select kind, billing_period from record.events order by sequence") == [
        ("period_closed", "2026-10"),
        ("invoice_voided", "2026-11"),
    ]
    assert query(world, "select sum(billed_nanos)::bigint from record.document_lines") == [(0,)]


def test_the_mirror_does_not_change_the_check(world: World) -> None:
    """Mirrored or estimated rows do not change the facts that are sealed."""
    first = check_period(world.write(), world.period, world.decisions, CLOCK)
    close(world, dry_run=True)
    mirror_record(world.home)
    assert check_period(world.home, world.period, world.decisions, CLOCK) == first


def test_a_dry_run_shows_the_amount_of_the_previous_dry_run(world: World) -> None:
    assert [d.estimated_nanos for d in close(world, dry_run=True).invoices] == [None]
    world.pods.append(Pod("team-a", "more", at("09 12:00"), at("09 13:00")))
    [document] = close(world, dry_run=True).invoices
    assert (document.billed_nanos, document.estimated_nanos) == (9_000_000_000, 5_400_000_000)


class Links(HTMLParser):
    """Every attribute that could make a browser send a request."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "onload")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_about_the_check_opens_from_disk(world: World) -> None:
    world.lose("thanos", "09 10:00", reason="<script>alert(1)</script>")
    close(world)
    page = (world.path / "documents/2026-10/provider/checks.html").read_text("ascii")
    links = Links()
    links.feed(page)
    assert links.found == []
    assert links.open == []
    assert "<script" not in page
    assert "http" not in page
    assert "GAP-002" in page
    assert "expect_column_pair_values_to_be_equal" in page
    assert re.search(r"suite_coverage.*passed", page)
