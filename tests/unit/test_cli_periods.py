"""Every command takes a month in the same way: as its argument or with --period."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.interval import parse_instant
from orchestration.cli.main import COMMANDS, cli
from orchestration.cli.time_arguments import period_or_newest_closed, period_or_oldest_open
from orchestration.open_home import OpenHome
from warehouse.home import Home

OCTOBER = BillingPeriod("2026-10")
WITH_PERIOD = (
    *("hours", "check", "close", "invoice", "recount", "compare"),
    *("pull", "refresh", "gaps", "usage", "nodes", "quota", "budgets", "health"),
)


def leaf(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def period_of(name: str, *arguments: str) -> BillingPeriod | None:
    """The period that the command would use; the command itself is not executed."""
    found: BillingPeriod | None = leaf(name).make_context(name, list(arguments)).params["period"]
    return found


def leaves() -> Iterator[click.Command]:
    for name in COMMANDS:
        found = leaf(name)
        yield from found.commands.values() if isinstance(found, click.Group) else (found,)


@pytest.mark.parametrize("name", WITH_PERIOD)
def test_a_month_is_an_argument_or_an_option(name: str) -> None:
    assert period_of(name, "2026-10") == OCTOBER
    assert period_of(name, "--period", "2026-10") == OCTOBER
    with pytest.raises(click.UsageError, match="name the month once"):
        period_of(name, "2026-10", "--period", "2026-11")


@pytest.mark.parametrize("name", WITH_PERIOD)
def test_the_month_is_optional(name: str) -> None:
    assert period_of(name) is None


@pytest.mark.parametrize("name", ["hours", "check", "close"])
def test_default_is_the_oldest_open_month(name: str, tmp_path: Path) -> None:
    """October is open and over, November has begun; neither has any evidence."""
    home = Home.create(tmp_path / "home", "")
    rows = "cluster_id,cluster_name,valid_from,valid_until,sources,sample_interval_seconds,"
    rows += "scrape_interval_seconds,reason,decided_by,decided_on\n"
    rows += "c1,lab,2026-10-01,,samples,300,30,the first,Ada Example,2026-10-01\n"
    (home.decisions / "clusters.csv").write_text(rows)
    opened = OpenHome.at(home.path, StoppedClock(parse_instant("2026-11-04T00:00:00Z")))
    assert period_or_oldest_open(opened, None) == OCTOBER
    assert period_or_oldest_open(opened, BillingPeriod("2026-11")) == BillingPeriod("2026-11")
    with pytest.raises(click.UsageError, match="no month is closed"):
        period_or_newest_closed(opened, None)
    shown = leaf(name).get_help(click.Context(leaf(name)))
    assert "the oldest open one" in " ".join(shown.split())


def test_without_a_measured_cluster_no_month_is_open(tmp_path: Path) -> None:
    opened = OpenHome.at(Home.create(tmp_path / "home", "").path)
    with pytest.raises(click.UsageError, match="no month is open"):
        period_or_oldest_open(opened, None)


def test_a_month_does_not_carry_over_to_the_next_command() -> None:
    assert period_of("gaps", "--period", "2026-10") == OCTOBER
    assert period_of("gaps") is None


def test_query_takes_a_month_as_an_option() -> None:
    assert period_of("query", "busiest-hours", "--period", "2026-10") == OCTOBER


def test_no_command_takes_a_month_in_another_way() -> None:
    """The first argument of `query` is the name of a query, so the month is an option."""
    takes = {c.name for c in leaves() if any(p.name == "period" for p in c.params)}
    assert takes == {*WITH_PERIOD, "query"}
