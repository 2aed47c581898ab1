"""Random months of costs, edited budgets, crashes and restarts: each step is notified once."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from clients.alertmanager import AlertmanagerFailed
from portal.alerting.alerts import LASTS
from portal.alerting.deliveries import delivered_at
from tests.alert_scenarios import OCTOBER
from tests.fake_alertmanager import BEGIN, Labels, Notification
from tests.unit.test_alert_sending import Site

LONGER_THAN_AN_ALERT = timedelta(hours=5)
HOURS = st.lists(st.integers(0, 40), min_size=1, max_size=12)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("hour"), st.integers(0, 30)),
        st.tuples(st.just("late"), st.integers(-20, 20)),
        st.tuples(st.just("days"), st.integers(1, 4)),
        st.tuples(st.just("amount"), st.integers(50, 200)),
        st.tuples(st.just("steps"), st.integers(0, 2)),
        st.tuples(st.just("crash"), st.integers(1, 2)),
        st.tuples(st.just("down"), st.integers(0, 1)),
        st.tuples(st.just("restart"), st.integers(0, 1)),
        st.tuples(st.just("again"), st.integers(1, 3)),
    ),
    max_size=8,
)


STEPS = ((50, 75, 90, 100), (30, 90), (60, 100, 120))
MONTH_HOURS = 744
FORECAST_HOURS = 75
"""A forecast needs three days and a tenth of the month."""


class Crashed(BaseException):
    """The process ended."""


def counts(site: Site) -> Counter[Labels]:
    """The number of notifications of each step as a new one."""
    found: Counter[Labels] = Counter()
    before = Notification(BEGIN, frozenset())
    for one in sorted((n for p in site.peers for n in p.notifications), key=lambda n: n.at):
        beside = before.steps if one.at - before.at < 2 * LASTS else frozenset()
        found.update(one.steps - beside)  # a notification repeats all firing alerts of its group
        before = one
    return found


def send_and_crash(site: Site, number: int) -> None:
    """Send, and end the process at its first or second append."""
    append, calls = site.deliveries.append, 0

    def crash(period: object, events: object) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise Crashed
        append(OCTOBER, events)  # type: ignore[arg-type]

    site.deliveries.append = crash  # type: ignore[method-assign, assignment]
    try:
        site.send()
    except Crashed:
        pass
    finally:
        site.deliveries.append = append  # type: ignore[method-assign]


def change(site: Site, **values: object) -> None:
    site.budget = replace(site.budget, **values)  # type: ignore[arg-type]


def amounts(costs: list[int]) -> dict[str, int]:
    """Cost and forecast in nanos, as the guide describes them; no forecast in the first days."""
    nanos = [cost * 10**9 for cost in costs]
    days = min(len(nanos) // 24, 7)
    if len(nanos) < FORECAST_HOURS:
        return {"actual": sum(nanos)}
    left = sum(nanos[-24 * days :]) * (MONTH_HOURS - len(nanos)) // (24 * days)
    return {"actual": sum(nanos), "forecast": sum(nanos) + left}


def expected_deliveries(
    site: Site, before: Mapping[tuple[str, int], str]
) -> dict[tuple[str, int], str]:
    """The version of the budget with which each step was delivered or kept.

    A step that was delivered stays so while the budget is the same, whatever the costs become. If
    the budget was changed, it stays so only if it is reached.
    """
    found, now = dict(before), amounts(site.costs)
    for kind, step in site.budget.steps():
        key = (kind.value, step)
        is_reached = now.get(kind.value, 0) * 100 >= site.budget.amount_nanos * step
        if is_reached and kind.value in now and now[kind.value]:
            found[key] = site.budget.version
        elif before.get(key, site.budget.version) != site.budget.version:
            del found[key]
    return found


def play(site: Site, name: str, value: int) -> bool:
    """Play one event and an hour of runs; returns whether it may cause a second notification."""
    actions: dict[str, Callable[[], object]] = {
        "hour": lambda: site.costs.append(value),
        "late": lambda: site.costs.__setitem__(-1, max(0, site.costs[-1] + value)),
        "days": lambda: site.costs.extend([1] * 24 * value),
        "amount": lambda: change(site, amount_nanos=value * 10**9),
        "steps": lambda: change(site, actual_steps=STEPS[value]),
        "crash": lambda: send_and_crash(site, value),
        "restart": lambda: site.peers[value].restart(),
        "again": lambda: [site.send() for _ in range(value)],
        "down": lambda: setattr(site.peers[value], "is_down", True),
    }
    actions[name]()
    site.run(1)
    for peer in site.peers:
        peer.is_down = False
    site.run(3)
    site.wait(LONGER_THAN_AN_ALERT)  # alerts posted again would cause new notifications
    return name in ("crash", "restart", "down")


@example([60], [("amount", 110)])  # 50 is still reached
@example([80], [("amount", 120), ("hour", 12)])  # 75 is armed again
@example([60], [("crash", 1), ("steps", 1), ("late", -20), ("steps", 0)])
@given(HOURS, EVENTS)
def test_each_step_of_each_version_is_notified_once(
    hours: list[int], events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        site.costs = list(hours)
        site.run(3)
        doubtful = 0
        delivered = expected_deliveries(site, {})
        arrivals = Counter(delivered.keys())
        for name, value in events:
            try:
                doubtful += play(site, name, value)
            except AlertmanagerFailed:
                raise AssertionError("one peer is always up") from None
            before, delivered = delivered, expected_deliveries(site, delivered)
            arrivals.update(delivered.keys() - before.keys())
            recorded = delivered_at(site.deliveries.events(OCTOBER))
            assert {(kind, step) for *_, kind, step in recorded} == delivered.keys()
        site.run(3)
        site.wait(LONGER_THAN_AN_ALERT)
        site.run(1)
        found = counts(site)
        assert all(count <= 1 + doubtful for count in found.values()), found
        if not doubtful:
            assert set(found.values()) <= {1}
        # A changed budget notifies no step again that is still reached.
        notified: Counter[tuple[str, int]] = Counter()
        for labels, count in found.items():
            notified[dict(labels)["kind"], int(dict(labels)["step"])] += count
        assert all(count <= arrivals[key] + doubtful for key, count in notified.items()), notified
        told = {dict(labels)["step"] for labels in found if dict(labels)["kind"] == "actual"}
        spent = sum(site.costs) * 10**9
        highest = [
            step
            for step in site.budget.actual_steps
            if spent and spent * 100 >= site.budget.amount_nanos * step
        ]
        if highest:
            assert any(int(step) >= highest[-1] for step in told)
