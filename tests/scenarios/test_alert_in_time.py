"""A budget alert arrives within two cycles after the hour in which its step was reached.

A cycle is that of the schedules: the pull at 12 minutes past the hour and its refresh, then the
alerts every ten minutes.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clients.alertmanager import Alertmanager
from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import serve
from orchestration import alerting, steps
from orchestration.dagster_code.schedules import ALERTS, HOURLY
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from orchestration.publishing import snapshot
from portal.alerting.alerts import STEP_REACHED
from tests.fake_alertmanager import FakeAlertmanager

pytestmark = pytest.mark.deep

OCTOBER = BillingPeriod("2026-10")
BEGIN = datetime(2026, 10, 5, tzinfo=UTC)
FLEET = """
name: crossing
story: Three cards in use all the time.
seed: 11
from: 2026-10-05T00:00:00Z
until: 2026-10-05T06:00:00Z
clusters:
  - name: near
    monitoring: {scrape_interval: 30s}
    nodes: [{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 8}]
    workloads: [{name: serve, namespace: chat, replicas: 3, requests: 1}]
"""
SETTINGS = '\n[alerts]\nsend = true\nalertmanagers = ["http://127.0.0.1:9093"]\n'
CYCLE = HOUR
PULL_AFTER = timedelta(minutes=int(HOURLY.split()[0]))
SEND_MINUTES = int(ALERTS.split()[0].removeprefix("*/"))


def decide_budget(opened: OpenHome) -> None:
    """An amount of two and a half hours of the fleet: its whole is spent during the third."""
    rates = csv.DictReader((opened.home.decisions / "rates.csv").open(encoding="utf-8"))
    [rate] = {row["rate_per_hour"] for row in rates if row["gpu_class"] == "A100-80GB"}
    (opened.home.decisions / "budgets.csv").write_text(
        "tenant,billing_period,currency,amount,reason,decided_by,decided_on,workload,label,"
        "actual_steps,forecast_steps\n"
        f"chat,,USD,{float(rate) * 3 * 2.5:.2f},a test,Ada Example,2026-09-15,,,100,none\n"
    )


@pytest.mark.parametrize("is_first_missed", [False, True])
def test_an_alert_arrives_within_two_cycles(
    is_first_missed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock(BEGIN + 2 * HOUR + PULL_AFTER)
    with serve(read_scenario(FLEET, "crossing.yaml", None), clock) as running:
        home = make_home(
            tmp_path / "home", running.fleet, running.thanos_url, running.kubernetes_urls
        )
        home.config_path.write_text(home.config_path.read_text() + SETTINGS)
        decide_budget(OpenHome(home, clock))
        peer = FakeAlertmanager(clock.now())

        def peers(opened: OpenHome) -> list[Alertmanager]:
            return [Alertmanager("http://127.0.0.1:9093", transport=peer.transport)]

        monkeypatch.setattr(alerting, "alertmanagers", peers)

        def cycle(*, is_missed: bool = False) -> None:
            """From a pull until the alerts before the next one."""
            opened, pulled_at = OpenHome(home, clock), clock.now()
            if not is_missed:
                errors: list[Exception] = []
                hours = Interval(BEGIN, pulled_at.replace(minute=0))
                steps.pull(opened, hours, errors=errors)  # type: ignore[arg-type]
                steps.refresh(opened, OCTOBER)
                snapshot(opened)
            while clock.now() < pulled_at + CYCLE:
                due = SEND_MINUTES - clock.now().minute % SEND_MINUTES
                clock.advance(60 * min(due, int((pulled_at + CYCLE - clock.now()).seconds / 60)))
                peer.advance(clock.now())
                if clock.now().minute % SEND_MINUTES == 0:
                    alerting.send(OpenHome(home, clock))

        def notified_at() -> list[datetime]:
            return [
                one.at
                for one in peer.notifications
                if any(dict(labels)["alertname"] == STEP_REACHED for labels in one.steps)
            ]

        cycle()  # two hours are counted: 80 % of the budget
        assert notified_at() == []
        reached = BEGIN + 3 * HOUR
        cycle(is_missed=is_first_missed)
        if is_first_missed:
            assert notified_at() == []
            cycle()
        [arrived] = notified_at()
        assert arrived <= reached + (2 if is_first_missed else 1) * CYCLE
