"""A month that is almost done: four hours of one cluster are missing, for somebody to find.

Put here: the home that `gpu-ledger up --demo` shows, on a fleet that goes on being served.
Not here: Dagster's processes (`orchestration.cli.up`), or the demo that tells it all (`story`).

Its clock stands still after the month's grace time. So nothing is backfilled by itself: an hour
that could not be asked is asked again ten minutes later, and ten minutes do not pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR, Interval
from orchestration import steps
from orchestration.demo.home import make_home
from orchestration.demo.story import BEFORE, Bar
from orchestration.open_home import OpenHome

if TYPE_CHECKING:
    from fake_gpu.serve import Running

DEMO = "tenant_in_two_clusters"
MISSING_COUNT = 4
AFTER = timedelta(days=3)  # the grace time is two


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The home, and what a person is to find in it."""

    home: Path
    clock_url: str
    period: BillingPeriod
    cluster_name: str
    missing: Interval

    @property
    def stands_at(self) -> datetime:
        """The time that its clock shows."""
        return self.period.ended_at + AFTER


@contextmanager
def unfinished(scenario: str, path: Path, bar: Bar) -> Iterator[Unfinished]:
    """Make the home; the fleet answers until the block is left."""
    from fake_gpu.clock import driven, epoch
    from fake_gpu.fleet.build import build_fleet
    from fake_gpu.scenario.load import load_scenario
    from fake_gpu.serve import serve

    fleet = build_fleet(load_scenario(scenario))
    span = Interval(epoch(fleet.started_at), epoch(fleet.ended_at))
    clock = driven(span.started_at - BEFORE)
    with serve(fleet, clock) as running:
        home = make_home(path, fleet, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, clock)
        _live(opened, running, Interval(span.started_at - BEFORE, span.ended_at + HOUR), bar)
        period = BillingPeriod.containing(span.started_at)
        clock.advance_to(period.ended_at + AFTER)
        # Where most is going on: hours that nobody worked in would change nothing when they repair.
        cluster = max(fleet.clusters, key=lambda one: len(one.pods))
        missing = _four_hours(span)
        _ask_in_vain(opened, running.thanos_url, cluster.cluster_id, missing)
        with bar("Asking") as report:
            steps.pull(OpenHome(home, clock), span, sources=[Source.KUBERNETES], progress=report)
        for other in fleet.clusters:
            for part in _around(span, missing) if other is cluster else [span]:
                with bar("Asking") as report:
                    steps.pull(
                        OpenHome(home, clock),
                        part,
                        clusters=[other.cluster_id],
                        sources=[Source.THANOS],
                        progress=report,
                    )
        clock_url = f"{running.control_url}/-/clock"
        made = Unfinished(home.path, clock_url, period, cluster.name, missing)
        assert clock.now() == made.stands_at
        yield made


def _live(opened: OpenHome, running: Running, lived: Interval, bar: Bar) -> None:
    from orchestration.demo.clockwork import collecting, live_through

    # The clock stops once an hour. What happened in the last one has to be told before it is over:
    # the hour after it is not measured, so nobody asks for its journal.
    before_the_end = lived.ended_at - HOUR - timedelta(seconds=1)
    with collecting(opened, running) as collectors, bar("Living through it") as report:
        live_through(running, collectors, Interval(lived.started_at, before_the_end), report)
        running.advance_to(before_the_end)
        live_through(running, collectors, Interval(before_the_end, lived.ended_at), report)


def _ask_in_vain(opened: OpenHome, url: str, cluster_id: str, missing: Interval) -> None:
    """The store is not found just when these hours are asked for."""
    config = opened.home.config_path
    right = config.read_text(encoding="utf-8")
    config.write_text(right.replace(f'"{url}"', f'"{url}/gone"'), encoding="utf-8")
    try:
        misled = OpenHome(opened.home, opened.clock)
        steps.pull(misled, missing, clusters=[cluster_id], sources=[Source.THANOS])
    finally:
        config.write_text(right, encoding="utf-8")


def _four_hours(span: Interval) -> Interval:
    """In the middle, as far as there are so many."""
    hours = list(span.hours())
    count = min(MISSING_COUNT, max(len(hours) // 4, 1))
    first = hours[(len(hours) - count) // 2]
    return Interval(first, first + count * HOUR)


def _around(span: Interval, missing: Interval) -> list[Interval]:
    parts = [(span.started_at, missing.started_at), (missing.ended_at, span.ended_at)]
    return [Interval(first, last) for first, last in parts if first < last]
