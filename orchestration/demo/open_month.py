"""The home of `gpu-ledger up --demo`: a month that is over, with four missing hours of one cluster.

Put here: making that home, while its simulated fleet is served.
Not here: Dagster's processes (`orchestration.cli.up`), or the demo that closes its month
(`closed_month`).

Its clock stands still after the month's grace time, so that no hour is backfilled by a schedule: a
failed query is repeated after ten minutes, and these never pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR, Interval, subtract
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration import steps
from orchestration.demo.clock_driver import drive_clock, run_collectors
from orchestration.demo.closed_month import AFTER, Bar
from orchestration.demo.demo_home import make_home
from orchestration.demo.fleet_process import START_BEFORE
from orchestration.open_home import OpenHome

DEMO = "tenant_in_two_clusters"
MISSING_COUNT = 4


@dataclass(frozen=True, slots=True)
class OpenMonth:
    """The home, its period, and the hours that are missing."""

    home: Path
    clock_url: str
    period: BillingPeriod
    cluster_name: str
    missing: Interval

    @property
    def clock_stands_at(self) -> datetime:
        """The time that its clock shows."""
        return self.period.ended_at + AFTER


@contextmanager
def open_month(scenario: str, path: Path, bar: Bar) -> Iterator[OpenMonth]:
    """Make the home; the fleet is served until the block is left."""
    fleet = build_fleet(load_scenario(scenario))
    span = Interval(epoch(fleet.started_at), epoch(fleet.ended_at))
    clock = driven(span.started_at - START_BEFORE)
    with serve(fleet, clock) as running:
        home = make_home(path, fleet, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, clock)
        # The clock stops once an hour. Events of the last measured hour must arrive before it ends,
        # because the journal of the next hour is not pulled.
        last_second = span.ended_at - timedelta(seconds=1)
        with run_collectors(opened, running) as collectors, bar("Simulating the month") as report:
            drive_clock(running, collectors, Interval(clock.now(), last_second), report)
            running.advance_to(last_second)
            drive_clock(running, collectors, Interval(last_second, span.ended_at + HOUR), report)
        period = BillingPeriod.containing(span.started_at)
        clock.advance_to(period.ended_at + AFTER)
        # The cluster with the most pods: in an idle cluster a missing hour would change nothing.
        cluster = max(fleet.clusters, key=lambda one: len(one.pods))
        missing = _middle_hours(span)
        _pull_from_wrong_address(opened, running.thanos_url, cluster.cluster_id, missing)
        opened = OpenHome(home, clock)
        with bar("Pulling") as report:
            steps.pull(opened, span, sources=[Source.KUBERNETES], progress=report)
        for other in fleet.clusters:
            for part in subtract([span], [missing] if other is cluster else []):
                with bar("Pulling") as report:
                    steps.pull(
                        opened,
                        part,
                        clusters=[other.cluster_id],
                        sources=[Source.THANOS],
                        progress=report,
                    )
        clock_url = f"{running.control_url}/-/clock"
        made = OpenMonth(home.path, clock_url, period, cluster.name, missing)
        assert clock.now() == made.clock_stands_at
        yield made


def _pull_from_wrong_address(
    opened: OpenHome, url: str, cluster_id: str, missing: Interval
) -> None:
    """Pull these hours from an address that responds with 404: each has a failed attempt."""
    config = opened.home.config_path
    right = config.read_text(encoding="utf-8")
    config.write_text(right.replace(f'"{url}"', f'"{url}/gone"'), encoding="utf-8")
    try:
        misdirected = OpenHome(opened.home, opened.clock)
        steps.pull(misdirected, missing, clusters=[cluster_id], sources=[Source.THANOS])
    finally:
        config.write_text(right, encoding="utf-8")


def _middle_hours(span: Interval) -> Interval:
    """Four hours in the middle; fewer of a short span."""
    hours = list(span.hours())
    count = min(MISSING_COUNT, max(len(hours) // 4, 1))
    first = hours[(len(hours) - count) // 2]
    return Interval(first, first + count * HOUR)
