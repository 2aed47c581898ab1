"""Dagster's storage is deleted and its daemon is down for three days; the collectors continue.

At the next start the hour ledger still has all attempts: every due hour is pulled, the live one
first, then the oldest, without manual work, and none twice. In cluster `west` the collector was
down as well, for the hours 30 to 33: only these are gaps, and they say that they cannot be
backfilled.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR, Interval
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.model import Fleet
from fake_gpu.serve import Running, serve
from ingestion.evidence.hour_ledger import HourEntry
from ingestion.kubernetes.collector import Collector
from orchestration import open_hours, steps
from orchestration.cluster_collector import collector_of
from orchestration.dagster_code.partitions import hour_name
from orchestration.demo.clock_driver import clock_stops
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from orchestration.open_hours import is_complete
from tests import fleets
from tests.orchestrated import Dagster, dagster_at, opened_at
from tests.scenarios import against_truth as truth
from warehouse.manifest import Attempt

pytestmark = pytest.mark.deep

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
WITH_DAGSTER = 6  # hours without a fault
DAYS_AWAY = 3
HOURS = WITH_DAGSTER + 24 * DAYS_AWAY
LAST = FIRST + HOURS * HOUR
COLLECTOR_AWAY = Interval(FIRST + 30 * HOUR, FIRST + 34 * HOUR)
EAST, WEST = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
PATIENCE_SECONDS = 60.0
PERIOD = BillingPeriod("2026-10")

SCENARIO = f"""
name: three_days_away
from: 2026-10-01T00:00:00Z
until: 2026-10-04T06:00:00Z
seed: 3
clusters:
  - name: east
    id: {EAST}
    nodes: [{{name: gpu, product: Tesla-T4, cards: 2}}]
    workloads:
      - {{name: serve, namespace: chat, requests: 1}}
      - {{name: train, namespace: physics, kind: Job, requests: 1, arrivals: {{every: ~9h}},
         lifetime: 2h..4h}}
  - name: west
    id: {WEST}
    nodes: [{{name: gpu, product: Tesla-T4, cards: 1}}]
    workloads: [{{name: serve, namespace: chat, requests: 1}}]
"""


@dataclass
class Collectors:
    """One collector per cluster, each of which can be stopped."""

    opened: OpenHome
    running: Running

    def __post_init__(self) -> None:
        self._at_work: dict[str, tuple[Collector, threading.Event, threading.Thread]] = {}

    def come(self, cluster_id: str) -> None:
        collector = collector_of(self.opened, cluster_id, lockstep=True)
        stop = threading.Event()
        self._at_work[cluster_id] = (collector, stop, collector.run_in_thread(stop))
        self._wait(cluster_id)

    def leave(self, cluster_id: str) -> None:
        _, stop, thread = self._at_work.pop(cluster_id)
        stop.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()

    def live_until(self, end: datetime) -> None:
        now = self.running.clock.now()
        for instant in clock_stops(self.running, Interval(now, end)):
            self.running.advance_to(instant)
            for cluster_id in self._at_work:
                self._wait(cluster_id)

    def all_leave(self) -> None:
        for cluster_id in list(self._at_work):
            self.leave(cluster_id)

    def _wait(self, cluster_id: str) -> None:
        at = int(self.running.clock.now().timestamp())
        version = self.running.histories[cluster_id].resource_version_at(at)
        collector = self._at_work[cluster_id][0]
        assert collector.wait_until_recorded(version, PATIENCE_SECONDS), collector.health


@dataclass
class Outage:
    """The events, in their order."""

    home: Path
    fleet: Fleet
    before: list[Attempt]  # attempts from the time without faults
    attempts: list[Attempt]  # all of them
    strips: Mapping[str, Mapping[str, str]]
    marks: list[str]  # hours of the west journal with a mark
    ended_at: datetime

    @property
    def entries(self) -> list[HourEntry]:
        return open_hours.hour_entries(opened_at(self.home, self.ended_at), Interval(FIRST, LAST))


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    folder = tmp_path_factory.mktemp("away")
    fleet = fleets.fleet(SCENARIO)
    clock = driven(epoch(fleet.started_at) - timedelta(minutes=10))
    with serve(fleet, clock) as running:
        home = make_home(folder / "home", fleet, running.thanos_url, running.kubernetes_urls).path
        collectors = Collectors(OpenHome.at(home, clock), running)
        for cluster_id in (EAST, WEST):
            collectors.come(cluster_id)
        with dagster_at(home, FIRST, folder / "memory") as dagster:
            for hour in range(1, WITH_DAGSTER + 1):
                collectors.live_until(FIRST + hour * HOUR + timedelta(minutes=15))
                ask_everything(dagster, clock.now())
        before = opened_at(home, clock.now()).landing.attempts()

        shutil.rmtree(folder / "memory")
        collectors.live_until(COLLECTOR_AWAY.started_at)
        collectors.leave(WEST)
        collectors.live_until(COLLECTOR_AWAY.ended_at)
        collectors.come(WEST)
        collectors.live_until(LAST + timedelta(minutes=15))
        collectors.all_leave()

        with dagster_at(home, clock.now(), folder / "memory") as dagster:
            ask_everything(dagster, clock.now())
            names = [f"{c}/{asset}" for c in ("east", "west") for asset in ASSETS]
            yield Outage(
                home=home,
                fleet=fleet,
                before=before,
                attempts=opened_at(home, clock.now()).landing.attempts(),
                strips={name: dagster.statuses(name) for name in names},
                marks=[
                    hour
                    for hour in dagster.statuses("west/kubernetes_hours")
                    if dagster.observations("west/kubernetes_hours", hour)
                ],
                ended_at=clock.now(),
            )


ASSETS = ("thanos_hours", "kubernetes_hours")


def ask_everything(dagster: Dagster, now: datetime) -> None:
    """Evaluate the sensors and run their requests by priority until there are none."""
    dagster.now = now
    living = Dagster(dagster.home, dagster.instance, now)
    cursor = None
    for _ in range(4):
        looked = living.look("hours_due", cursor)
        cursor = looked.cursor
        by_priority = sorted(
            looked.run_requests, key=lambda request: -int(request.tags["dagster/priority"])
        )
        for request in by_priority:
            living.execute(request)
        if not by_priority:
            return
    raise AssertionError("every look found something to ask")


def away(entry: HourEntry) -> bool:
    place = (entry.cluster_id, entry.source)
    return place == (WEST, Source.KUBERNETES) and COLLECTOR_AWAY.contains(entry.hour_started_at)


def test_every_hour_is_repaired_except_those_without_a_collector(outage: Outage) -> None:
    assert len(outage.entries) == 2 * 2 * HOURS
    missing = [entry for entry in outage.entries if not is_complete(entry)]
    assert missing == [entry for entry in outage.entries if away(entry)]
    assert len(missing) == 4


def test_hours_without_a_collector_cannot_be_repaired(outage: Outage) -> None:
    missing = [entry for entry in outage.entries if away(entry)]
    assert not any(entry.backfillable(outage.ended_at) for entry in missing)
    assert outage.marks == [hour_name(hour) for hour in COLLECTOR_AWAY.hours()]


def test_the_live_hour_was_asked_first_then_the_oldest(outage: Outage) -> None:
    known = {attempt.attempt_id for attempt in outage.before}
    for cluster_id in (EAST, WEST):
        for source in Source:
            starts = [
                attempt.window.started_at
                for attempt in outage.attempts
                if (attempt.cluster_id, attempt.source) == (cluster_id, source)
                and attempt.attempt_id not in known
                and attempt.window.started_at >= FIRST + WITH_DAGSTER * HOUR
            ]
            assert starts[0] == LAST - HOUR
            assert starts[1] == FIRST + WITH_DAGSTER * HOUR
            assert all(earlier < later for earlier, later in pairwise(starts[1:]))


def test_no_hour_of_the_absence_is_pulled_twice(outage: Outage) -> None:
    absent = [e for e in outage.entries if e.hour_started_at >= FIRST + WITH_DAGSTER * HOUR]
    assert [entry for entry in absent if len(entry.responses) != 1] == []


def test_partition_states_are_the_same_as_before_the_loss(outage: Outage) -> None:
    every = {hour_name(hour) for hour in Interval(FIRST, LAST).hours()}
    gap = {hour_name(hour) for hour in COLLECTOR_AWAY.hours()}
    for name, strip in outage.strips.items():
        green = {hour for hour, status in strip.items() if status == "MATERIALIZED"}
        assert green == every - (gap if name == "west/kubernetes_hours" else set())


def test_nothing_is_doubled_or_lost(outage: Outage) -> None:
    opened = opened_at(outage.home, outage.ended_at)
    steps.refresh(opened, PERIOD)
    assert truth.counted_allocations(opened.home) == truth.true_allocations(outage.fleet)


def test_exactly_the_hours_of_the_collector_are_gaps(outage: Outage) -> None:
    opened = opened_at(outage.home, outage.ended_at)
    checked = steps.check_period(opened, PERIOD)
    gaps = [finding for finding in checked.findings if finding.name == "journal_missing"]
    assert [(f.cluster_id, f.hour_started_at, f.hour_ended_at) for f in gaps] == [
        (WEST, COLLECTOR_AWAY.started_at, COLLECTOR_AWAY.ended_at)
    ]
    assert "hour_not_measured" not in {finding.name for finding in checked.findings}
