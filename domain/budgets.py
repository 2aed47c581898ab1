"""Budgets: whose cost they limit, their steps, and the hour in which each step was reached.

Put here: the arithmetic of one budget over the hours of one month.
Not here: where budgets and costs come from (`warehouse.reports.budgets`), or notifications.

An actual step is reached at the end of the hour in which the cost of the month reached its part of
the amount. A forecast step is reached while the forecast is that high, since the first hour of
this interval; the forecast is that of `fct_forecasts`, whose SQL and `forecast_nanos` must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate

from domain.billing_period import BillingPeriod
from domain.identity import sha256
from domain.interval import HOUR
from domain.money import divide_rounding_half_even

DEFAULT_ACTUAL_STEPS = (50, 75, 90, 100)
DEFAULT_FORECAST_STEPS = (100,)
STEPS_LIMIT = 10
"""Of one kind; each step is a notification."""
LARGEST_STEP = 1_000
"""Per cent of the amount: a cost of ten times the budget has been noticed before."""

FORECAST_AFTER = timedelta(days=3)
FORECAST_AFTER_PCT = 10
"""A forecast from fewer days follows every job that starts or ends."""

WHOLE_TENANT = "month"
"""The name of a provider's budget of a whole tenant."""

DAY_HOURS = 24
PACE_DAYS = 7


class StepKind(StrEnum):
    """The amount that a step compares with the budget."""

    ACTUAL = "actual"
    FORECAST = "forecast"


class BudgetSource(StrEnum):
    """Who decided a budget."""

    DECISIONS = "decisions"  # the provider, in decisions/budgets.csv
    CLUSTER = "cluster"  # the tenant, as a GpuBudget in its namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOfMonth:
    """A budget as it holds in one month."""

    tenant: str
    source: BudgetSource
    name: str  # the name of a GpuBudget; the scope of a row of budgets.csv
    billing_period: BillingPeriod
    currency: str
    amount_nanos: int
    workload: tuple[str, str] = ("", "")  # kind and name: only the cost of this workload
    label: tuple[str, str] = ("", "")  # key and value: only the cost of pods with this label
    actual_steps: tuple[int, ...] = DEFAULT_ACTUAL_STEPS
    forecast_steps: tuple[int, ...] = DEFAULT_FORECAST_STEPS

    @property
    def scope(self) -> str:
        """The part of the tenant that the budget is about; "" for all of it."""
        return "/".join(filter(None, self.workload)) or "=".join(filter(None, self.label))

    @property
    def version(self) -> str:
        """A name that changes with the amount, the steps, and the part that it is about."""
        parts = [self.currency, self.amount_nanos, self.scope, self.actual_steps]
        return sha256([*parts, self.forecast_steps])[:16]

    def steps(self) -> Iterator[tuple[StepKind, int]]:
        """Every step, the lower ones first."""
        for kind, steps in (
            (StepKind.ACTUAL, self.actual_steps),
            (StepKind.FORECAST, self.forecast_steps),
        ):
            for step in steps:
                yield kind, step


@dataclass(frozen=True, slots=True)
class HourlyCosts:
    """The cost of each counted hour of a month, from its start; hours without use cost nothing."""

    period: BillingPeriod
    nanos: Sequence[int]
    until: Sequence[int] = field(init=False)  # the cost of all hours before each one

    def __post_init__(self) -> None:
        object.__setattr__(self, "until", tuple(accumulate(self.nanos, initial=0)))

    @classmethod
    def of(
        cls, period: BillingPeriod, counted_until: datetime, costs: Mapping[datetime, int]
    ) -> HourlyCosts:
        count = max(0, (counted_until - period.started_at) // HOUR)
        hours = (period.started_at + HOUR * number for number in range(count))
        return cls(period, [costs.get(hour, 0) for hour in hours])

    @property
    def cost_nanos(self) -> int:
        return self.until[-1]

    @property
    def counted_until(self) -> datetime:
        return self._end_of(len(self.nanos))

    def _end_of(self, hour_count: int) -> datetime:
        return self.period.started_at + HOUR * hour_count

    def pace(self, hour_count: int) -> tuple[int, int]:
        """Cost and seconds of the last whole days, at most seven, of the first hours."""
        days = min(hour_count // DAY_HOURS, PACE_DAYS)
        if not days:
            return self.until[hour_count], max(hour_count * 3600, 1)
        first = hour_count - days * DAY_HOURS
        return self.until[hour_count] - self.until[first], days * 86_400

    def forecast_nanos(self, hour_count: int | None = None) -> int:
        """The expected cost of the month, as seen after so many hours; now, by default."""
        count = len(self.nanos) if hour_count is None else hour_count
        left_seconds = int((self.period.ended_at - self._end_of(count)).total_seconds())
        nanos, seconds = self.pace(count)
        return self.until[count] + nanos * left_seconds // seconds

    @property
    def rate_nanos_per_hour(self) -> int:
        """The mean cost of an hour at the present pace."""
        nanos, seconds = self.pace(len(self.nanos))
        return divide_rounding_half_even(nanos * 3600, seconds)

    @property
    def forecast_method(self) -> str:
        """The method in words; empty before forecast steps can be reached."""
        if not self.has_forecast_steps:
            return ""
        if self.counted_until == self.period.ended_at:
            return "the month is over: the counted cost"
        days = min(len(self.nanos) // DAY_HOURS, PACE_DAYS)
        return f"cost so far, and the average of the last {days} days for the time left"

    def spent_at(self, amount_nanos: int) -> datetime | None:
        """When the amount is spent at the present pace; None where that is after the month."""
        nanos, seconds = self.pace(len(self.nanos))
        left = amount_nanos - self.cost_nanos
        if left <= 0:
            return self.reached_at(amount_nanos)
        if nanos <= 0:
            return None
        spent = self.counted_until + timedelta(seconds=-(-left * seconds // nanos))
        return spent if spent < self.period.ended_at else None

    def reached_at(self, amount_nanos: int) -> datetime | None:
        """The end of the hour in which the cost reached the amount."""
        for number in range(1, len(self.until)):
            if self.until[number] >= amount_nanos:
                return self._end_of(number)
        return None

    def forecast_reached_at(self, amount_nanos: int) -> datetime | None:
        """Since when the forecast has been at least the amount; None while it is lower."""
        since = None
        for count in range(len(self.nanos), self._first_forecast_hour() - 1, -1):
            if self.forecast_nanos(count) < amount_nanos:
                break
            since = self._end_of(count)
        return since

    def _first_forecast_hour(self) -> int:
        length = self.period.ended_at - self.period.started_at
        return -(-max(FORECAST_AFTER, length * FORECAST_AFTER_PCT / 100) // HOUR)

    @property
    def has_forecast_steps(self) -> bool:
        """Whether enough was counted for forecast steps."""
        return len(self.nanos) >= self._first_forecast_hour()


def threshold_nanos(amount_nanos: int, step_pct: int) -> int:
    """The smallest amount of at least this percentage; any cost reaches a budget of 0."""
    return max(1, -(-amount_nanos * step_pct // 100))


def reached_steps(
    budget: BudgetOfMonth, costs: HourlyCosts
) -> list[tuple[StepKind, int, datetime | None]]:
    """Every step of the budget, and when it was reached; None where it is not."""
    found = []
    for kind, step in budget.steps():
        amount = threshold_nanos(budget.amount_nanos, step)
        reached = (
            costs.reached_at(amount)
            if kind is StepKind.ACTUAL
            else costs.forecast_reached_at(amount)
        )
        found.append((kind, step, reached))
    return found
