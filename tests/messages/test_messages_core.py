"""Every message of the core, from an input that causes it, against its golden file.

Put here: errors of values, money and decisions.
Not here: messages of other packages.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from billing.usage import Charge, ChargeKey, only_currency
from domain.billing_period import BillingPeriod
from domain.decisions import Rates, edited_since, load_decisions, read_decisions
from domain.errors import LedgerError
from domain.interval import Interval, parse_instant
from domain.money import parse_nanos, price_nanos, require_currency
from domain.tenant import BelongsTo
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


def charges_in_two_currencies() -> None:
    key = ChargeKey(
        "team-a", BelongsTo.TENANT, "A100-40GB", "whole", "c1", Fraction(1), "max", TEN, "rate-1"
    )
    only_currency(Charge(key, ELEVEN, 0, currency, 0, 0) for currency in ("EUR", "USD"))


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
    "VALUE-001": lambda: parse_instant("2026-10-01T00:00:00", "clusters.csv line 2"),
    "VALUE-001-amount": lambda: parse_nanos("1,803", "config.toml, example_rate"),
    "VALUE-001-currency": lambda: require_currency("euro"),
    "VALUE-001-digits": lambda: price_nanos(10**20, Fraction(1), 10**30),
    "VALUE-001-interval": lambda: Interval(ELEVEN, TEN),
    "VALUE-001-month": lambda: BillingPeriod("2026-13"),
    "DEC-002-currencies": charges_in_two_currencies,
    "DEC-001": many_problems,
    "DEC-001-cell": lambda: first_problem(table("tenants", "Team_A,provider,2026-10-01,")),
    "DEC-001-columns": lambda: first_problem(
        {"tenants.csv": "namespace,belong_to,valid_from,valid_until,reason,decided_by,decided_by"}
    ),
    "DEC-001-reference": lambda: first_problem(
        table("clusters", "prod-eu,Production,2026-10-01,,both,300,30"),
        table("outages", "prod-ue,2026-10-14T12:00:00Z,2026-10-14T21:00:00Z,credit"),
    ),
    "DEC-001-table": lambda: first_problem({"rate.csv": HEADERS["rates"]}),
    "DEC-001-text": lambda: first_problem(
        {"rates.csv": f"{HEADERS['rates']}\n,A100\x00-40GB,whole"}
    ),
    "DEC-002": lambda: first_problem(
        table("tenants", "shared,provider,2026-10-01,", "shared,tenant,2026-10-15,")
    ),
    "DEC-002-rates": lambda: Rates(
        decided(table("rates", row)).rates[0] for row in (OF_CLUSTER, OF_PROFILE)
    ).find("prod-eu", "A100-40GB", "1g.5gb", TEN),
    "DEC-003": price_without_second_name,
    "DEC-004": price_edited_in_place,
}


@pytest.mark.parametrize("name", PROVOKED)
def test_message_is_the_golden_one(name: str) -> None:
    with pytest.raises(LedgerError) as raised:
        PROVOKED[name]()
    error = raised.value
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(f"{error.message()}\n", encoding="utf-8")
    assert name.startswith(error.code)
    assert f"{error.message()}\n" == golden.read_text(encoding="utf-8")
