"""The steps of docs/how-to/backfill-a-gap-and-close-a-month.md in a browser on `up --demo`.

Put here: the steps of that page, in its order.
Not here: the contents of the pages (`unit/test_dagster_hours`, `unit/test_dagster_month`).

With GPU_LEDGER_PICTURES=docs/how-to/pages the test takes that page's screenshots again; they show
the home in pytest's --basetemp.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from billing.record import Record
from domain.billing_period import BillingPeriod
from orchestration import period_state
from orchestration.cli.up import DEMO_HOME
from orchestration.dagster_code.ui_links import close_link, partition_link
from tests.orchestrated import opened_at
from tests.servers.browser import PATIENCE_MS, Browser, browser
from tests.servers.dagster_processes import up
from tests.servers.process import required
from warehouse.home import Home

pytestmark = pytest.mark.servers

PERIOD = BillingPeriod("2026-10")
STRIP = "/assets/collected/thanos_hours?view=partitions"
SAMPLES, FIRST_MISSING = (
    dg.AssetKey(["collected", "thanos_hours"]),
    datetime(2026, 10, 5, 10, tzinfo=UTC),
)
WHOLE = "/assets/collected/thanos_hours?view=checks&checkDetail=hours_are_complete"
DRAFTS = "/assets/billing/invoice_drafts?view=events"
INVOICES = "/assets/billing/invoices?view=events"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / DEMO_HOME


@pytest.fixture(scope="module")
def operator(home: Path) -> Iterator[Browser]:
    required("chromium")  # checked before the home is created, which takes half a minute
    pictures = Path(os.environ.get("GPU_LEDGER_PICTURES", home.parent / "pictures")).absolute()
    with (
        up(home, home.parent / "up.log", "--demo") as (session, _),
        browser(session, pictures) as operator,
    ):
        yield operator


def launch(operator: Browser, issue: bool, picture: str) -> None:
    """Fill in the launchpad of `close_period` and press the button."""
    operator.sees(f"issue: {str(issue).lower()}")
    operator.picture(picture)
    operator.press("Launch Run")
    operator.page.wait_for_url("**/runs/*", timeout=PATIENCE_MS)


def facts_follow(operator: Browser, home: Path) -> None:
    """Wait until a sensor has rebuilt the facts from the repaired hours."""
    opened = opened_at(home, datetime(2026, 11, 4, tzinfo=UTC))
    for _ in range(PATIENCE_MS // 5_000):
        if not period_state.needs_build(opened, PERIOD):
            return
        operator.page.wait_for_timeout(5_000)
    raise AssertionError("nothing rebuilt the facts")


def test_an_operator_repairs_a_gap_and_closes_the_month(operator: Browser, home: Path) -> None:
    operator.until(STRIP, "Missing (4)")
    operator.picture("1-strip")
    operator.until(partition_link(SAMPLES, FIRST_MISSING), "Observation")
    operator.page.get_by_text("2026-10-05T10").last.click()
    operator.sees("next command")
    operator.picture("2-why")
    operator.go(WHOLE, "hours incomplete")
    operator.picture("3-red")

    operator.go(STRIP, "Missing (4)")
    operator.press("Materialize")
    operator.page.get_by_role("button", name="Missing", exact=True).click()
    operator.sees("4 partitions")
    operator.picture("4-backfill")
    operator.press("Launch backfill")
    operator.until(STRIP, "Materialized (24)")
    operator.picture("5-backfilled")
    operator.go(WHOLE, "Passed")
    operator.picture("6-green")

    facts_follow(operator, home)

    operator.go(close_link(PERIOD), "period: 2026-10")
    launch(operator, issue=False, picture="7-dry")
    operator.until(DRAFTS, "next command")
    operator.picture("8-draft")
    assert Record(Home.open(home).record_store()).closed_periods() == frozenset()
    facts = period_state.built_state(
        opened_at(home, datetime(2026, 11, 4, tzinfo=UTC)).home, PERIOD
    )
    assert facts is not None
    [link] = {
        found.get_attribute("href")
        for found in operator.page.get_by_role("link", name="close_period with").all()
    }
    operator.go(str(link), f"facts_sha256: {facts.facts_sha256}")
    launch(operator, issue=True, picture="9-real")
    operator.until(INVOICES, "next command")
    operator.picture("10-invoices")
    assert "2026-10" in Record(Home.open(home).record_store()).closed_periods()
