"""Words of the command line that name times: a period, a stretch of hours.

Put here: click parameter types for them, and the one way in which commands take a month.
Not here: what a period is (`domain.billing_period`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from domain.billing_period import BillingPeriod
from domain.errors import InvalidValue
from domain.interval import Interval, hour_of, parse_instant


class PeriodType(click.ParamType[BillingPeriod]):
    """A month such as 2026-10."""

    name = "period"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> BillingPeriod:
        return value if isinstance(value, BillingPeriod) else BillingPeriod(value)


class HoursType(click.ParamType[Interval]):
    """Whole hours `A..B`: from the start of A up to, and without, B."""

    name = "hours"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Interval:
        if isinstance(value, Interval):
            return value
        first, separator, last = value.partition("..")
        if not separator:
            self.fail("write it as 2026-10-01T00..2026-10-02T00", param, ctx)
        window = Interval(_hour(first), _hour(last))
        if not window:
            self.fail(f"{value} holds no hour: its end is not after its start", param, ctx)
        return window


def _hour(text: str) -> Any:
    instant = parse_instant(f"{text}:00:00Z" if len(text.strip()) == 13 else text, "--hours")
    if instant != hour_of(instant):
        raise InvalidValue(
            where="--hours",
            seen=f"{text} is not the start of an hour",
            why="evidence is asked and kept by whole hours",
            remedy="write it as 2026-10-01T00..2026-10-02T00",
        )
    return instant


PERIOD = PeriodType()
HOURS = HoursType()

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_NAMED = "orchestration.cli.periods"
"""Where a month that came with --period waits for the argument."""


def takes_a_month(
    said: str, *, required: bool = False, also: str = ""
) -> Callable[[Decorated], Decorated]:
    """`PERIOD` and `--period` are two spellings of one thing; `also` is an older one."""

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
        found = value if option is None else option
        if found is None and required and not ctx.resilient_parsing:
            raise click.UsageError("Missing argument 'PERIOD': which month, as 2026-10?", ctx)
        return found

    option = click.option(
        *("--period", *((also,) if also else ()), "named_period"),
        type=PERIOD,
        metavar="PERIOD",
        is_eager=True,  # read before the argument, whose value it may be
        expose_value=False,
        callback=named,
        help=said,
    )
    argument = click.argument("period", type=PERIOD, required=False, callback=given)

    def decorated(command: Decorated) -> Decorated:
        return argument(option(command))

    return decorated
