"""Budget steps are sent to an Alertmanager once each, also after crashes and failures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from clients.alertmanager import Alertmanager, AlertmanagerFailed
from domain.budgets import HourlyCosts, StepKind, reached_steps
from domain.errors import FileDamaged
from portal.alerting.alerts import step_alert
from portal.alerting.deliveries import Deliveries, delivered_at
from portal.alerting.plan import StepToPost
from portal.alerting.sending import SendResult, send_alerts
from tests.alert_rules import inhibitions
from tests.alert_scenarios import (
    BUDGET,
    OCTOBER,
    SCENARIOS,
    TEN_MINUTES,
    Scene,
    a_step_inhibits_a_lower_one_that_was_notified,
)
from tests.fake_alertmanager import BEGIN, FakeAlertmanager, FakePair
from warehouse.reports.budgets import BudgetState
from warehouse.store import FolderStore


@pytest.mark.parametrize(
    "check_scenario",
    [*SCENARIOS, a_step_inhibits_a_lower_one_that_was_notified],
    ids=lambda one: one.__name__,
)
def test_the_alertmanager_in_memory_notifies(
    check_scenario: Callable[[Scene], None], tmp_path: Path
) -> None:
    check_scenario(FakePair(tmp_path))


class Site:
    """A record, two Alertmanager peers and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now = BEGIN
        self.budget = BUDGET
        self.costs: list[int] = []  # in USD, by hour
        log: dict[str, tuple[frozenset[tuple[tuple[str, str], ...]], datetime]] = {}
        self.peers = [FakeAlertmanager(BEGIN, log), FakeAlertmanager(BEGIN, log)]
        self.deliveries = Deliveries(FolderStore(folder))

    def wait(self, time: timedelta = TEN_MINUTES) -> None:
        self.now += time
        for peer in self.peers:  # the log is shared: the first peer notifies first
            peer.advance(self.now)

    def send(self) -> SendResult:
        costs = HourlyCosts(OCTOBER, [cost * 10**9 for cost in self.costs])
        state = BudgetState(self.budget, costs, reached_steps(self.budget, costs))
        peers = [
            Alertmanager(f"http://peer-{n}", transport=peer.transport)
            for n, peer in enumerate(self.peers)
        ]
        return send_alerts(peers, self.deliveries, {OCTOBER: [state]}, (), self.now)

    def notified(self) -> list[str]:
        """The steps that each webhook received as new, in order of time."""
        notifications = sorted(
            (one for peer in self.peers for one in peer.notifications), key=lambda one: one.at
        )
        found: list[str] = []
        for one in notifications:
            steps = sorted(f"{dict(s)['kind']} {dict(s)['step']}" for s in one.steps)
            found.append(" ".join(steps))
        return found

    def run(self, count: int) -> None:
        for _ in range(count):
            self.send()
            self.wait()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_reached_step_is_notified_once_by_two_peers(site: Site) -> None:
    site.costs = [10, 45]
    site.run(200)  # longer than the retention of the notification log
    assert site.notified() == ["actual 50"]
    [(key, at)] = delivered_at(site.deliveries.events(OCTOBER)).items()
    assert key == ("vision", "decisions", "month", "actual", 50)
    assert at == "2026-10-01T00:10:00Z"


def test_several_steps_at_once_notify_the_highest_alone(site: Site) -> None:
    site.costs = [95]
    site.run(5)
    assert site.notified() == ["actual 90"]
    assert len(delivered_at(site.deliveries.events(OCTOBER))) == 3  # including the inhibited ones


def test_the_shipped_rules_inhibit_lower_steps_ten_by_ten() -> None:
    def is_inhibited(lower: int, higher: int) -> bool:
        return any(
            re.fullmatch(source, str(higher)) and re.fullmatch(target, str(lower))
            for source, target in inhibitions()
        )

    for lower, higher in [(1, 10), (9, 100), (90, 100), (99, 120), (100, 110), (100, 199)]:
        assert is_inhibited(lower, higher), (lower, higher)
    for lower, higher in [(199, 200), (100, 1000), (5, 1000), (89, 90), (119, 120)]:
        assert is_inhibited(lower, higher), (lower, higher)
    for lower, higher in [(90, 95), (100, 109), (120, 125), (200, 300), (999, 1000)]:
        assert not is_inhibited(lower, higher), (lower, higher)
    for source, target in inhibitions():  # no step inhibits itself or a higher one
        steps = [str(step) for step in range(1, 1001)]
        highest = max(int(step) for step in steps if re.fullmatch(target, step))
        assert highest < min(int(step) for step in steps if re.fullmatch(source, step))


def test_late_data_that_lowers_the_cost_sends_nothing_again(site: Site) -> None:
    site.costs = [60]
    site.run(3)
    site.costs = [40]
    site.run(3)
    site.costs = [70]
    site.run(3)
    assert site.notified() == ["actual 50"]


def test_a_raised_amount_rearms_steps_that_are_not_reached_any_more(site: Site) -> None:
    site.costs = [80]
    site.run(3)
    assert site.notified() == ["actual 75"]
    site.budget = replace(BUDGET, amount_nanos=120 * 10**9)  # 67 %: 50 is kept, 75 rearmed
    site.run(3)
    site.wait(timedelta(hours=1))
    site.costs = [80, 12]
    site.run(3)
    assert site.notified() == ["actual 75", "actual 75"]
    events = [(e.event, e.step) for e in site.deliveries.events(OCTOBER)]
    assert events.count(("kept", 50)) == 1
    assert events.count(("rearmed", 75)) == 1


def test_a_crash_before_the_record_posts_the_same_alert_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.costs = [60]

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    append = site.deliveries.append
    monkeypatch.setattr(
        site.deliveries, "append", lambda p, events: crash() if events else append(p, events)
    )
    with pytest.raises(KeyboardInterrupt):
        site.send()
    monkeypatch.undo()
    site.wait()
    site.run(3)
    assert site.notified() == ["actual 50"]  # one fingerprint: the notification log has it already


def test_alerts_that_a_restart_lost_are_posted_again(site: Site) -> None:
    site.costs = [60]
    site.send()
    for peer in site.peers:
        peer.restart()
    site.wait()
    assert site.notified() == []
    site.run(3)
    assert site.notified() == ["actual 50"]


def test_one_peer_that_is_down_is_named_and_the_other_notifies(site: Site) -> None:
    site.costs = [60]
    site.peers[0].is_down = True
    result = site.send()
    assert [problem.where for problem in result.problems] == ["Alertmanager http://peer-0"]
    site.wait()
    site.run(2)
    assert site.notified() == ["actual 50"]


def test_no_reachable_peer_is_an_error_and_records_nothing(site: Site) -> None:
    site.costs = [60]
    for peer in site.peers:
        peer.is_down = True
    with pytest.raises(AlertmanagerFailed):
        site.send()
    assert site.deliveries.events(OCTOBER) == []


def test_labels_have_no_amounts_and_annotations_have_the_next_action() -> None:
    costs = HourlyCosts(OCTOBER, [60 * 10**9] * 2)
    state = BudgetState(BUDGET, costs, [])
    event = None
    alert = step_alert(StepToPost(state, StepKind.ACTUAL, 100, BEGIN, event), BEGIN)  # type: ignore[arg-type]
    assert alert.labels == {
        "alertname": "GpuBudgetStepReached",
        "namespace": "vision",
        "budget": "month",
        "source": "decisions",
        "period": "2026-10",
        "kind": "actual",
        "step": "100",
        "version": BUDGET.version,
        "severity": "critical",
    }
    assert alert.annotations["amount"] == "120.00 USD"
    assert alert.annotations["rate_per_hour"] == "60.00 USD"
    assert alert.annotations["spent_on"] == "2026-10-01"
    assert alert.annotations["measured_until"] == "2026-10-01T02:00:00Z"
    assert "gpu-ledger usage --tenant vision" in alert.annotations["next_action"]
    assert alert.ends_at - alert.starts_at == timedelta(minutes=30)


def test_a_damaged_record_of_deliveries_is_named(site: Site, tmp_path: Path) -> None:
    site.costs = [60]
    site.send()
    [path] = tmp_path.rglob("*.json")
    path.write_text("[{]")
    with pytest.raises(FileDamaged, match=r"000001\.json"):
        site.send()
