"""A month is named in one way by every command, as its argument or with --period."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from domain.billing_period import BillingPeriod
from orchestration.cli.main import COMMANDS, cli

OCTOBER = BillingPeriod("2026-10")
MUST_NAME_ONE = ("hours", "check", "close", "invoice", "recount", "compare")
MAY_NAME_ONE = ("budgets", "pull", "refresh", "gaps", "usage", "nodes", "quota")


def leaf(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def period_of(name: str, *arguments: str) -> BillingPeriod | None:
    """What the command is run with; nothing is run."""
    found: BillingPeriod | None = leaf(name).make_context(name, list(arguments)).params["period"]
    return found


def leaves() -> Iterator[click.Command]:
    for name in COMMANDS:
        found = leaf(name)
        yield from found.commands.values() if isinstance(found, click.Group) else (found,)


@pytest.mark.parametrize("name", [*MUST_NAME_ONE, *MAY_NAME_ONE])
def test_a_month_is_an_argument_or_an_option(name: str) -> None:
    assert period_of(name, "2026-10") == OCTOBER
    assert period_of(name, "--period", "2026-10") == OCTOBER
    with pytest.raises(click.UsageError, match="name the month once"):
        period_of(name, "2026-10", "--period", "2026-11")


@pytest.mark.parametrize("name", MUST_NAME_ONE)
def test_where_the_month_matters_it_has_to_be_named(name: str) -> None:
    with pytest.raises(click.UsageError, match="Missing argument 'PERIOD'"):
        period_of(name)


@pytest.mark.parametrize("name", MAY_NAME_ONE)
def test_where_there_is_a_month_to_take_it_need_not_be_named(name: str) -> None:
    assert period_of(name) is None


def test_one_month_does_not_stay_for_the_next_command() -> None:
    assert period_of("gaps", "--period", "2026-10") == OCTOBER
    assert period_of("gaps") is None


def test_what_was_documented_before_goes_on() -> None:
    assert period_of("nodes", "--month", "2026-10") == OCTOBER
    assert period_of("query", "busiest-hours", "--period", "2026-10") == OCTOBER


def test_no_command_takes_a_month_otherwise() -> None:
    """A question's first argument is its name; the month is an option of it."""
    takes = {c.name for c in leaves() if any(p.name == "period" for p in c.params)}
    assert takes == {*MUST_NAME_ONE, *MAY_NAME_ONE, "query"}
