"""Words of the command line that name times: a period, a stretch of hours.

Put here: click parameter types for them.
Not here: what a period is (`domain.billing_period`).
"""

from __future__ import annotations

from typing import Any

import click

from domain.billing_period import BillingPeriod
from domain.interval import Interval, NotAnInstant, hour_of, parse_instant


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
        raise NotAnInstant(
            where="--hours",
            seen=f"{text} is not the start of an hour",
            why="evidence is asked and kept by whole hours",
            remedy="write it as 2026-10-01T00..2026-10-02T00",
        )
    return instant


PERIOD = PeriodType()
HOURS = HoursType()
