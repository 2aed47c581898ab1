"""Words of the command line that name an instant, and what a window is made of.

Put here: click parameter types and shared words of commands that read facts.
Not here: periods and hours of pulls (`periods`), or what is read (`warehouse.reports`).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from domain.billing_period import BillingPeriod
from domain.errors import InvalidValue
from domain.interval import Interval, hour_of, parse_instant


class InstantType(click.ParamType[datetime]):
    """`2026-10-01`, `2026-10-01T05` or `2026-10-01T05:00:00Z`, in UTC."""

    name = "instant"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        where = param.opts[0] if param else "a time"
        text = str(value).strip()
        whole = {10: f"{text}T00:00:00Z", 13: f"{text}:00:00Z", 16: f"{text}:00Z"}
        return parse_instant(whole.get(len(text), text), where)


class HourType(InstantType):
    """The start of an hour."""

    name = "hour"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        instant = super().convert(value, param, ctx)
        if instant != hour_of(instant):
            raise InvalidValue(
                where=param.opts[0] if param else "an hour",
                seen=f"{value} is not the start of an hour",
                why="node-hours are counted by whole hours, named by their start",
                remedy="write it as 2026-10-01T05",
            )
        return instant


INSTANT = InstantType()
HOUR_STARTED = HourType()


def window_of(
    period: BillingPeriod | None, started: datetime | None, ended: datetime | None
) -> Interval | None:
    """The window that somebody asked for: a month, or from an instant to another; or neither."""
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


def nobody_named(newest: BillingPeriod) -> str:
    """What an answer says when it had to choose its month."""
    return f"No time was named: this is {newest}, the newest month with facts."


def closed_periods(home_path: Path) -> frozenset[str]:
    """The periods whose amounts are final."""
    from orchestration.open_home import OpenHome

    return OpenHome.at(home_path).record.closed_periods()
