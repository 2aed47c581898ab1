"""Scenarios of budget alerts, for an Alertmanager in memory and for a pair of real ones.

Put here: the actions and the expected notifications, which are the same for both.
Not here: the servers (`tests/fake_alertmanager`, and in `test_alerts_reach_alertmanager`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from clients.alertmanager import Alertmanager
from domain.billing_period import BillingPeriod
from domain.budgets import BudgetOfMonth, BudgetSource, HourlyCosts, reached_steps
from portal.alerting.deliveries import Deliveries, delivered_at
from portal.alerting.sending import SendResult, send_alerts
from warehouse.reports.budgets import BudgetState
from warehouse.store import FolderStore

OCTOBER = BillingPeriod("2026-10")
TEN_MINUTES = timedelta(minutes=10)
BUDGET = BudgetOfMonth(
    tenant="vision",
    source=BudgetSource.DECISIONS,
    name="month",
    billing_period=OCTOBER,
    currency="USD",
    amount_nanos=100 * 10**9,
)
Labels = tuple[tuple[str, str], ...]


class Scene(ABC):
    """A record, two Alertmanager peers of one cluster, and the webhooks that they sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.costs: dict[str, int] = {}  # of each tenant, in USD
        self.budget = BUDGET
        self.lose_record()

    def lose_record(self) -> None:
        """The process ended after it posted, and before it recorded."""
        number = sum(1 for _ in self.folder.glob("record*"))
        (self.folder / f"record{number}").mkdir(parents=True)
        self.deliveries = Deliveries(FolderStore(self.folder / f"record{number}"))

    def send(self) -> SendResult:
        states = []
        for tenant, cost in self.costs.items():
            budget = replace(self.budget, tenant=tenant)
            costs = HourlyCosts(OCTOBER, [cost * 10**9])
            states.append(BudgetState(budget, costs, reached_steps(budget, costs)))
        return send_alerts(self.peers(), self.deliveries, {OCTOBER: states}, (), self.now())

    def spend_and_settle(self, webhook_count: int, **costs: int) -> SendResult:
        self.costs |= costs
        result = self.send()
        self.settle(webhook_count)
        return result

    def notified(self) -> list[tuple[str, list[str]]]:
        """Tenant and steps of each webhook, in order of arrival."""
        found = []
        for webhook in self.webhooks():
            [tenant] = {dict(labels)["namespace"] for labels in webhook}
            found.append((tenant, sorted(dict(labels)["step"] for labels in webhook)))
        return found

    @abstractmethod
    def now(self) -> datetime: ...

    @abstractmethod
    def peers(self) -> list[Alertmanager]: ...

    @abstractmethod
    def webhooks(self) -> Sequence[Sequence[Labels]]:
        """The labels of the firing alerts of each webhook, in order of arrival."""

    @abstractmethod
    def settle(self, webhook_count: int) -> None:
        """Wait until there are so many webhooks and groups are quiet; ten minutes go by."""

    @abstractmethod
    def stop(self, number: int) -> None: ...

    @abstractmethod
    def start(self, number: int, *, is_forgetful: bool = False) -> None:
        """Start a peer that was stopped; a forgetful one has lost its notification log."""


def restart(scene: Scene, *, is_forgetful: bool) -> None:
    scene.stop(0)
    scene.stop(1)
    scene.start(0, is_forgetful=is_forgetful)
    scene.start(1, is_forgetful=is_forgetful)


def each_step_is_notified_once(scene: Scene) -> None:
    assert len(scene.spend_and_settle(1, vision=55).posted) == 1
    assert scene.notified() == [("vision", ["50"])]
    assert len(scene.spend_and_settle(1).delivered) == 1
    # The alert of 50 has ended, here by a restart. While it fires, a peer that waits for the other
    # one's notification repeats it if 90 arrives meanwhile, so the pair would have no fixed count.
    restart(scene, is_forgetful=False)
    # 75 and 90 are reached; 90 inhibits 75.
    assert len(scene.spend_and_settle(2, vision=95).posted) == 2
    assert scene.notified()[1:] == [("vision", ["90"])]
    assert len(scene.spend_and_settle(2).delivered) == 2
    assert len(delivered_at(scene.deliveries.events(OCTOBER))) == 3
    restart(scene, is_forgetful=True)
    result = scene.spend_and_settle(2)
    assert (result.posted, result.delivered) == ((), ())
    assert len(scene.notified()) == 2


def a_step_inhibits_a_lower_one_that_was_notified(scene: Scene) -> None:
    """For one peer: a pair has no fixed count while the lower step fires (see above)."""
    scene.spend_and_settle(1, vision=55)
    assert len(scene.spend_and_settle(2, vision=95).posted) == 2
    assert scene.notified() == [("vision", ["50"]), ("vision", ["90"])]


def of_several_steps_at_once_the_highest_is_notified(scene: Scene) -> None:
    assert len(scene.spend_and_settle(1, vision=100).posted) == 4
    assert scene.notified() == [("vision", ["100"])]
    assert len(scene.spend_and_settle(1).delivered) == 4


def a_step_above_the_amount_inhibits_lower_ones(scene: Scene) -> None:
    scene.budget = replace(BUDGET, actual_steps=(90, 100, 120))
    assert len(scene.spend_and_settle(1, vision=125).posted) == 3
    assert scene.notified() == [("vision", ["120"])]


def of_two_steps_in_one_ten_both_are_notified(scene: Scene) -> None:
    scene.budget = replace(BUDGET, actual_steps=(80, 90, 95))
    assert len(scene.spend_and_settle(1, vision=97).posted) == 3
    assert scene.notified() == [("vision", ["90", "95"])]


def each_tenant_has_a_group_of_its_own(scene: Scene) -> None:
    assert len(scene.spend_and_settle(2, vision=60, chat=80).posted) == 3
    assert sorted(scene.notified()) == [("chat", ["75"]), ("vision", ["50"])]


def lower_costs_resolve_and_repeat_no_step(scene: Scene) -> None:
    scene.spend_and_settle(1, vision=60)
    scene.spend_and_settle(1, vision=40)
    scene.spend_and_settle(1, vision=70)
    assert scene.notified() == [("vision", ["50"])]


def alerts_lost_by_a_restart_are_posted_again(scene: Scene) -> None:
    """The notification log has the step: there is no second webhook."""
    scene.spend_and_settle(1, vision=55)
    restart(scene, is_forgetful=False)
    assert len(scene.spend_and_settle(1).posted) == 1
    assert len(scene.spend_and_settle(1).delivered) == 1
    assert scene.notified() == [("vision", ["50"])]


def a_crash_before_the_record_repeats_no_notification(scene: Scene) -> None:
    scene.spend_and_settle(1, vision=55)
    scene.lose_record()
    assert len(scene.spend_and_settle(1).posted) == 1
    assert len(scene.spend_and_settle(1).delivered) == 1
    assert scene.notified() == [("vision", ["50"])]


def a_crash_and_a_forgotten_log_notify_the_same_alert_twice(scene: Scene) -> None:
    scene.spend_and_settle(1, vision=55)
    scene.lose_record()
    restart(scene, is_forgetful=True)
    scene.spend_and_settle(2)
    first, second = scene.webhooks()
    assert first == second


def a_peer_that_is_down_changes_nothing(scene: Scene) -> None:
    scene.stop(0)
    result = scene.spend_and_settle(1, vision=55)
    assert len(result.problems) == 1
    assert scene.notified() == [("vision", ["50"])]
    scene.start(0)
    result = scene.spend_and_settle(1)
    assert (result.problems, len(result.delivered)) == ((), 1)
    assert scene.notified() == [("vision", ["50"])]


SCENARIOS: tuple[Callable[[Scene], None], ...] = (
    each_step_is_notified_once,
    of_several_steps_at_once_the_highest_is_notified,
    a_step_above_the_amount_inhibits_lower_ones,
    of_two_steps_in_one_ten_both_are_notified,
    each_tenant_has_a_group_of_its_own,
    lower_costs_resolve_and_repeat_no_step,
    alerts_lost_by_a_restart_are_posted_again,
    a_crash_before_the_record_repeats_no_notification,
    a_crash_and_a_forgotten_log_notify_the_same_alert_twice,
    a_peer_that_is_down_changes_nothing,
)
