"""Steps of budgets: hours calculated by hand, and a comparison with a search of every hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.billing_period import BillingPeriod
from domain.budgets import (
    BudgetOfMonth,
    BudgetSource,
    HourlyCosts,
    StepKind,
    reached_steps,
    threshold_nanos,
)

OCTOBER = BillingPeriod("2026-10")
START = datetime(2026, 10, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def budget(amount: int, **others: object) -> BudgetOfMonth:
    given = {
        "tenant": "vision",
        "source": BudgetSource.DECISIONS,
        "name": "month",
        "billing_period": OCTOBER,
        "currency": "USD",
        "amount_nanos": amount,
    }
    return BudgetOfMonth(**given | others)  # type: ignore[arg-type]


def costs(*nanos: int) -> HourlyCosts:
    return HourlyCosts(OCTOBER, nanos)


def reached(amount: int, hourly: HourlyCosts, **others: object) -> dict[str, datetime | None]:
    steps = reached_steps(budget(amount, **others), hourly)
    return {f"{kind} {step}": at for kind, step, at in steps}


def test_an_actual_step_is_reached_at_the_end_of_its_hour() -> None:
    found = reached(100, costs(49, 1, 0, 25, 100))
    assert found["actual 50"] == START + 2 * HOUR
    assert found["actual 75"] == START + 4 * HOUR
    assert found["actual 90"] == found["actual 100"] == START + 5 * HOUR
    assert found["forecast 100"] is None  # five hours are too few for a forecast


def test_a_step_between_two_nanos_is_the_next_nano() -> None:
    assert threshold_nanos(101, 75) == 76
    assert reached(101, costs(75))["actual 75"] is None
    assert reached(101, costs(75, 1))["actual 75"] == START + 2 * HOUR


def test_any_cost_reaches_a_budget_of_zero() -> None:
    assert reached(0, costs(0, 0))["actual 100"] is None
    assert reached(0, costs(0, 1))["actual 100"] == START + 2 * HOUR


def test_a_forecast_step_needs_three_days_and_a_tenth_of_the_month() -> None:
    """A tenth of 31 days is 74 hours and 24 minutes."""
    assert reached(1, costs(*[1] * 74))["forecast 100"] is None
    assert reached(1, costs(*[1] * 75))["forecast 100"] == START + 75 * HOUR


def test_a_forecast_step_is_reached_when_the_forecast_reached_it() -> None:
    """Two per hour for 100 hours are a forecast of 1488; then nothing more is used."""
    hourly = costs(*[2] * 100)
    assert hourly.forecast_nanos() == 2 * 744
    assert reached(1400, hourly)["forecast 100"] == START + 75 * HOUR
    ended = costs(*[2] * 100, *[0] * 300)
    assert ended.forecast_nanos() == 200
    assert reached(1400, ended)["forecast 100"] is None
    again = costs(*[2] * 100, *[0] * 300, *[10] * 200)
    since = reached(1400, again)["forecast 100"]
    assert since is not None
    count = (since - START) // HOUR
    assert again.forecast_nanos(count) >= 1400 > again.forecast_nanos(count - 1)


def test_the_budget_is_spent_at_the_rate_of_the_last_days() -> None:
    hourly = costs(*[1] * 48)  # one an hour
    assert hourly.spent_at(100) == START + 100 * HOUR
    assert hourly.spent_at(40) == START + 40 * HOUR  # the hour in which it was spent
    assert hourly.spent_at(10_000) is None
    assert costs(0, 0).spent_at(1) is None


@pytest.mark.parametrize(
    "other", [{"amount_nanos": 9}, {"actual_steps": (50,)}, {"workload": ("Job", "a")}]
)
def test_a_version_changes_with_amount_steps_and_scope(other: dict[str, object]) -> None:
    assert budget(8).version == budget(8, name="named", tenant="other").version
    assert budget(8, **other).version != budget(8).version if "amount_nanos" not in other else True
    assert budget(9).version != budget(8).version


@given(st.lists(st.integers(0, 10**12), max_size=744), st.integers(0, 10**15))
def test_steps_equal_a_search_of_every_hour(nanos: list[int], amount: int) -> None:
    hourly = costs(*nanos)
    for kind, step, at in reached_steps(budget(amount), hourly):
        threshold = threshold_nanos(amount, step)
        if kind is StepKind.ACTUAL:
            ends = [n for n in range(1, len(nanos) + 1) if sum(nanos[:n]) >= threshold]
            assert at == (START + ends[0] * HOUR if ends else None)
        elif at is not None:
            assert hourly.forecast_nanos() >= threshold
