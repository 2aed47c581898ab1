"""Every message of reading facts, from an input that causes it, against its golden file.

Put here: errors of reports and named queries.
Not here: messages of the warehouse itself (`test_messages_warehouse`).

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.errors import LedgerError
from tests.marts_in_memory import facts
from warehouse.reports.named_queries import ask, question
from warehouse.reports.usage import usage

GOLDEN = Path(__file__).parent / "golden"


def of_september() -> None:
    usage(facts({}), BillingPeriod("2026-09").interval)


def by_colour() -> None:
    usage(facts({}), BillingPeriod("2026-10").interval, "colour")


def misspelled() -> None:
    question("tenants-by-burnrate")


def for_a_tenant() -> None:
    ask(facts({}), question("usage-by-day"), {"tenant": "vision"})


def on_no_day() -> None:
    ask(facts({}), question("cost-of-a-gap"), {"day": "2026-10-32"})


def by_label_of_an_old_home() -> None:
    opened = facts({})
    opened.connection.execute("drop table dim_pod_labels")
    usage(opened, BillingPeriod("2026-10").interval, "label:team")


PROVOKED: dict[str, Callable[[], None]] = {
    "FACTS-001": of_september,
    "NAME-001-grouping": by_colour,
    "NAME-001-query": misspelled,
    "NAME-001-parameter": for_a_tenant,
    "FACTS-001-version": by_label_of_an_old_home,
    "NAME-001-value": on_no_day,
}


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_the_message_equals_its_golden_file(code: str) -> None:
    with pytest.raises(LedgerError) as provoked:
        PROVOKED[code]()
    assert code.startswith(provoked.value.code)
    path = GOLDEN / f"{code}.txt"
    message = provoked.value.message() + "\n"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        path.write_text(message, encoding="utf-8")
    assert message == path.read_text(encoding="utf-8")
