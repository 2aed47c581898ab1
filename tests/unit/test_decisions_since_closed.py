"""Decision tables that were edited after a month was closed with them.

Put here: rows that were removed, prices that changed in place, and the check of both.
Not here: the contents of a sealed copy (`test_decisions_sealing`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from billing.basis import sealed_decisions
from billing.close import close_period
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import (
    Decisions,
    TableName,
    canonical_files,
    edited_since,
    load_decisions,
    unsigned_since,
)
from orchestration.cli.main import cli
from orchestration.open_home import OpenHome
from orchestration.steps import compare_with_closed
from quality.run import check_period
from tests.decisions_by_hand import decided, table
from tests.marts_by_hand import SIGNED, Pod, World, at

OCTOBER = BillingPeriod("2026-10")
NOVEMBER = BillingPeriod("2026-11")
PRICE = ",A100-40GB,whole,EUR,1.20,2026-01-01,,|,"
TEN_TIMES = PRICE.replace("1.20", "12.00")
ENDED = PRICE.replace("2026-01-01,,", "2026-01-01,2026-11-01,")
FROM_NOVEMBER = ",A100-40GB,whole,EUR,12.00,2026-11-01,,|,"


def rates(*rows: str) -> Decisions:
    return decided(table("rates", *rows))


def edits_seen(sealed: Decisions, present: Decisions, *amended: TableName) -> list[str]:
    window = OCTOBER.interval
    copies = sealed.valid_in(window).rows, present.valid_in(window).rows
    return [edit.seen for edit in edited_since(OCTOBER, *copies, amended)]


def test_an_edited_row_is_named_with_both_texts() -> None:
    [seen] = edits_seen(rates(PRICE), rates(TEN_TIMES))
    assert ",1.2," in seen
    assert ",12," in seen
    assert len(edits_seen(rates(PRICE), rates())) == 1


def test_an_amended_table_and_later_rows_are_no_edit() -> None:
    assert edits_seen(rates(PRICE), rates(TEN_TIMES), TableName.RATES) == []
    assert edits_seen(rates(PRICE), rates(ENDED, FROM_NOVEMBER + "Grace")) == []
    assert edits_seen(rates(PRICE), rates(PRICE, PRICE.replace("A100", "H100"))) == []
    budget = [decided(table("budgets", f"a,,EUR,{amount}")) for amount in (1, 2)]
    assert edits_seen(*budget) == []


def test_a_sealed_copy_needs_no_row_from_before_its_month() -> None:
    """From 2026-06 to 2026-10 the first row for the profile was valid, between the two others."""
    present = rates(
        "c1,A100-40GB,whole,EUR,1,2026-01-01,,|,",
        ",A100-40GB,1g.5gb,EUR,0.2,2026-01-01,,|,",
        "c1,A100-40GB,1g.5gb,EUR,0.21,2026-01-01,2026-10-01,|,",
        "c1,A100-40GB,1g.5gb,EUR,0.22,2026-10-01,,|,",
    )
    copy = present.valid_in(OCTOBER.interval)
    assert sealed_decisions({"decisions": canonical_files(copy.rows)}) == copy


@pytest.mark.parametrize(
    ("present", "unsigned"),
    [
        ((PRICE,), 0),
        ((TEN_TIMES,), 1),
        ((TEN_TIMES + "Grace",), 0),
        ((PRICE.replace("1.20", "1.50"),), 0),  # exactly a quarter
        ((PRICE.replace("1.20", "1.501"),), 1),
        ((PRICE.replace("1.20", "0.12"),), 1),
        ((PRICE.replace("EUR", "USD"),), 1),
        ((ENDED, FROM_NOVEMBER + "Grace"), 0),
        ((ENDED,), 0),
        ((PRICE, "c1" + TEN_TIMES), 1),  # a price of one cluster from the same instant
    ],
)
def test_prices_are_compared_with_those_of_the_last_closed_month(
    present: tuple[str, ...], unsigned: int
) -> None:
    sealed = rates(PRICE).valid_in(OCTOBER.interval).rates
    found = unsigned_since(sealed, rates(*present).rates, OCTOBER.ended_at)
    assert len(found) == unsigned


@pytest.fixture
def world(tmp_path: Path) -> World:
    """October is closed, at 1.20; the home has the tables of this close."""
    world = World(tmp_path / "home", pods=[Pod("team-a", "train", at("09 10:00"), at("09 11:00"))])
    world.rates = [f",A100-40,whole,EUR,1.20,2026-01-01,,{SIGNED},"]
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
    for name, text in canonical_files(world.decisions.rows).items():
        (world.home.decisions / name).write_text(text)
    return world


def edit(world: World, old: str, new: str) -> None:
    path = world.home.decisions / "rates.csv"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def checked(world: World) -> list[str]:
    """The codes of the problems that the command names when it exits with 1."""
    words = ["decisions", "check", "--home", str(world.path), "-o", "json"]
    ran = CliRunner().invoke(cli, words, standalone_mode=False)
    codes = sorted(problem["code"] for problem in json.loads(ran.stdout))
    assert ran.return_value == (1 if codes else 0)
    codes.remove("DEC-001")  # the GPU class of marts written by hand is in no product table
    return codes


def test_a_price_edited_in_place_after_a_close_blocks_the_next_month(world: World) -> None:
    opened = OpenHome.at(world.path)
    assert compare_with_closed(opened, NOVEMBER).edits == ()
    edit(world, ",1.2,", ",12,")
    opened = OpenHome.at(world.path)
    since = compare_with_closed(opened, NOVEMBER)
    assert [problem.code for problem in (*since.edits, *since.prices)] == ["DEC-004", "DEC-003"]
    november = World(world.path, period=NOVEMBER, pods=[])
    november.write()
    decisions = load_decisions(
        {path.name: path.read_bytes() for path in world.home.decisions.glob("*.csv")}
    )
    check_result = check_period(november.home, NOVEMBER, decisions, opened.clock, since.edits)
    assert [finding.code for finding in check_result.blocking] == ["EDIT-001"]


def test_the_check_of_the_tables_compares_them_with_the_closed_month(world: World) -> None:
    assert checked(world) == []
    edit(world, ",1.2,", ",12,")
    assert checked(world) == ["DEC-003", "DEC-004"]
    edit(world, ",12,", ",1.3,")
    assert checked(world) == ["DEC-004"]
    amendment = f"2026-10,rates,{SIGNED},bob"
    header = "billing_period,amended_table,reason,decided_by,decided_on,second_name"
    (world.home.decisions / "amendments.csv").write_text(f"{header}\n{amendment}\n")
    assert checked(world) == []
