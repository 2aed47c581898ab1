"""Every message of the core, each from an input that provokes it, compared with its golden file.

Put here: TIME, MONEY, TENANT, DEC and RATE.
Not here: messages of other packages.

After a change that is meant: GPU_LEDGER_WRITE_GOLDEN=1 pytest tests/messages/test_messages_core.py,
and read what changed as the person would who has to mend it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.decisions import Rates, edited_since, load_decisions, read_decisions
from domain.errors import LedgerError
from domain.interval import Interval, parse_instant
from domain.money import Money, apportion, parse_nanos, price_nanos, require_creditable
from domain.tenant import Ownership
from tests.decisions_by_hand import HEADERS, decided, table

GOLDEN = Path(__file__).parent / "golden"
TEN, ELEVEN = (datetime(2026, 10, 1, hour, tzinfo=UTC) for hour in (10, 11))

RATE = ",A100-40GB,whole,EUR,{0},{1},{2},|,"
OF_CLUSTER = "prod-eu,A100-40GB,whole,EUR,1.803,2026-10-01,,|,"
OF_PROFILE = ",A100-40GB,1g.5gb,EUR,0.3,2026-10-01,,|,"


def first_problem(*tables: dict[str, str]) -> None:
    files: dict[str, str] = {}
    for one in tables:
        files |= one
    raise read_decisions(files)[1][0]


def two_answers_about_a_namespace() -> None:
    rows = ["shared,provider,2026-10-01,", "shared,tenant,2026-10-15,"]
    each = [decided(table("tenants", row)).tenants[0] for row in rows]
    Ownership(each).belongs_to("shared", datetime(2026, 10, 20, tzinfo=UTC))


def credit_above_its_line() -> None:
    line, correction, earlier = (Money.parse(t, "EUR") for t in ("120", "-20", "90"))
    require_creditable(
        Money.parse("10.01", "EUR"), line, [correction], [earlier], "INV-2026-10-0007 line 3"
    )


def price_without_second_name() -> None:
    rows = [
        RATE.format("1.803", "2026-01-01", "2026-10-01"),
        RATE.format("18.03", "2026-10-01", ""),
    ]
    raise decided(table("rates", *rows)).problems[0]


def many_problems() -> None:
    rows = [RATE.format(rate, "2026-10-01", "") for rate in ("1,803", "x", "1.803", "1.9")]
    load_decisions(table("rates", *rows) | {"rate.csv": ""})


def price_edited_in_place() -> None:
    october = BillingPeriod("2026-10")
    sealed, present = (
        decided(table("rates", RATE.format(price, "2026-01-01", ""))).valid_in(october.interval)
        for price in ("1.20", "12.00")
    )
    raise edited_since(october, sealed.rows, present.rows)[0]


PROVOKED: dict[str, Callable[[], object]] = {
    "TIME-001": lambda: parse_instant("2026-10-01T00:00:00", "clusters.csv line 2"),
    "TIME-002": lambda: Interval(ELEVEN, TEN),
    "TIME-003": lambda: BillingPeriod("2026-13"),
    "MONEY-001": lambda: parse_nanos("1,803", "config.toml, example_rate"),
    "MONEY-002": lambda: Money.parse("1", "EUR") + Money.parse("1", "USD"),
    "MONEY-003": lambda: price_nanos(10**20, Fraction(1), 10**30),
    "MONEY-004": lambda: Money.parse("1", "euro"),
    "MONEY-005": lambda: apportion(1_803_000_000, {"pod-a": 0, "pod-b": 0}),
    "MONEY-006": credit_above_its_line,
    "TENANT-001": two_answers_about_a_namespace,
    "DEC-001": lambda: first_problem({"rates.csv": f"{HEADERS['rates']}\n,A100\x00-40GB,whole"}),
    "DEC-002": lambda: first_problem(
        {"tenants.csv": "namespace,belong_to,valid_from,valid_until,reason,decided_by,decided_by"}
    ),
    "DEC-003": lambda: first_problem(table("tenants", "Team_A,provider,2026-10-01,")),
    "DEC-004": lambda: first_problem(
        table("tenants", "shared,provider,2026-10-01,", "shared,tenant,2026-10-15,")
    ),
    "DEC-005": lambda: first_problem({"rate.csv": HEADERS["rates"]}),
    "DEC-006": price_without_second_name,
    "DEC-007": many_problems,
    "DEC-008": lambda: first_problem(
        table("clusters", "prod-eu,Production,2026-10-01,,both,300,30"),
        table("outages", "prod-ue,2026-10-14T12:00:00Z,2026-10-14T21:00:00Z,credit"),
    ),
    "DEC-009": price_edited_in_place,
    "RATE-001": lambda: decided(table("rates", OF_PROFILE)).rate(
        "prod-eu", "A100-40GB", "2g.10gb", TEN
    ),
    "RATE-002": lambda: Rates(
        decided(table("rates", row)).rates[0] for row in (OF_CLUSTER, OF_PROFILE)
    ).at("prod-eu", "A100-40GB", "1g.5gb", TEN),
}


@pytest.mark.parametrize("code", PROVOKED)
def test_the_message_is_the_golden_one(code: str) -> None:
    with pytest.raises(LedgerError) as raised:
        PROVOKED[code]()
    error = raised.value
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(f"{error.message()}\n", encoding="utf-8")
    assert error.code == code
    assert f"{error.message()}\n" == golden.read_text(encoding="utf-8")
