"""Arguments of the command line that name times, and the month that a command uses by default.

Put here: click parameter types, the argument PERIOD, and default months.
Not here: periods and intervals themselves (`domain`), or reports (`warehouse.reports`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from domain.billing_period import BillingPeriod
from domain.errors import InvalidValue
from domain.interval import Interval, hour_of, parse_instant
from orchestration.open_home import OpenHome
from orchestration.open_hours import open_periods


class PeriodType(click.ParamType[BillingPeriod]):
    """A month such as 2026-10."""

    name = "period"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> BillingPeriod:
        return value if isinstance(value, BillingPeriod) else BillingPeriod(value)


class HoursType(click.ParamType[Interval]):
    """Whole hours `A..B`; hour B is not included."""

    name = "hours"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Interval:
        if isinstance(value, Interval):
            return value
        first, separator, last = value.partition("..")
        if not separator:
            self.fail("write it as 2026-10-01T00..2026-10-02T00", param, ctx)
        where = param.opts[0] if param else "hours"
        window = Interval(*(_full_hour(text, where, RANGE_EXAMPLE) for text in (first, last)))
        if not window:
            self.fail(f"{value} contains no hour: its end is not after its start", param, ctx)
        return window


class InstantType(click.ParamType[datetime]):
    """`2026-10-01`, `2026-10-01T05` or `2026-10-01T05:00:00Z`, in UTC."""

    name = "instant"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        return _instant(str(value), param.opts[0] if param else "a time")


class HourType(click.ParamType[datetime]):
    """The start of an hour."""

    name = "hour"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        return _full_hour(str(value), param.opts[0] if param else "an hour", "2026-10-01T05")


RANGE_EXAMPLE = "2026-10-01T00..2026-10-02T00"


def _instant(text: str, where: str) -> datetime:
    text = text.strip()
    whole = {10: f"{text}T00:00:00Z", 13: f"{text}:00:00Z", 16: f"{text}:00Z"}
    return parse_instant(whole.get(len(text), text), where)


def _full_hour(text: str, where: str, example: str) -> datetime:
    instant = _instant(text, where)
    if instant != hour_of(instant):
        raise InvalidValue(
            where=where,
            seen=f"{text} is not the start of an hour",
            why="evidence and node-hours are kept by whole hours, named by their start",
            remedy=f"write it as {example}",
        )
    return instant


PERIOD = PeriodType()
HOURS = HoursType()
INSTANT = InstantType()
HOUR_STARTED = HourType()

OLDEST_OPEN = "The month; the same as PERIOD (default: the oldest open one)."
NEWEST_CLOSED = "The month; the same as PERIOD (default: the newest closed one)."
NEWEST_WITH_FACTS = "The month; the same as PERIOD (default: the newest one with facts)."

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_NAMED = "orchestration.cli.time_arguments"
"""Key under which click's context keeps the month of --period until the argument is read."""


def period_argument(help_text: str) -> Callable[[Decorated], Decorated]:
    """Add the optional argument PERIOD, with the option --period as another spelling."""

    def named(ctx: click.Context, param: click.Parameter, value: BillingPeriod | None) -> None:
        del param
        ctx.meta[_NAMED] = value

    def given(
        ctx: click.Context, param: click.Parameter, value: BillingPeriod | None
    ) -> BillingPeriod | None:
        del param
        option: BillingPeriod | None = ctx.meta.pop(_NAMED, None)
        if value is not None and option is not None:
            raise click.UsageError("name the month once: 2026-10, or --period 2026-10", ctx)
        return value if option is None else option

    option = click.option(
        "--period",
        "named_period",
        type=PERIOD,
        metavar="PERIOD",
        is_eager=True,  # read before the argument, which may take its value
        expose_value=False,
        callback=named,
        help=help_text,
    )
    argument = click.argument("period", type=PERIOD, required=False, callback=given)

    def decorated(command: Decorated) -> Decorated:
        return argument(option(command))

    return decorated


def period_or_oldest_open(opened: OpenHome, period: BillingPeriod | None) -> BillingPeriod:
    """The given month; by default the oldest open one, which is the next to close."""
    if period is not None:
        return period
    periods = open_periods(opened)
    if not periods:
        raise click.UsageError("no month is open; name one, such as 2026-10")
    return _announce(periods[0], "the oldest open month")


def period_or_newest_closed(opened: OpenHome, period: BillingPeriod | None) -> BillingPeriod:
    """The given month; by default the newest closed one."""
    if period is not None:
        return period
    closed = sorted(opened.record.closed_periods())
    if not closed:
        raise click.UsageError("no month is closed; name one, such as 2026-10")
    return _announce(BillingPeriod(closed[-1]), "the newest closed month")


def _announce(period: BillingPeriod, role: str) -> BillingPeriod:
    click.echo(f"No period was named; this is {period}, {role}.", err=True)
    return period


def newest_month_note(newest: BillingPeriod) -> str:
    """The note of a report that chose its month."""
    return f"No period was named; this is {newest}, the newest month with facts."


def window_of(
    period: BillingPeriod | None, started: datetime | None, ended: datetime | None
) -> Interval | None:
    """The window of a month, or from an instant to another; None if neither is given."""
    if period is not None:
        if started is not None or ended is not None:
            raise click.UsageError("give a month, or --from and --to, not both")
        return period.interval
    if started is None and ended is None:
        return None
    if started is None or ended is None:
        raise click.UsageError("give a month, 2026-10, or both --from and --to")
    if ended <= started:
        raise click.UsageError(
            f"--to {ended:%Y-%m-%dT%H} is not after --from {started:%Y-%m-%dT%H}"
        )
    return Interval(started, ended)
