"""Drives the clock of a simulated fleet, and waits for the collectors at each stop.

Put here: the instants at which the clock stops, and running collectors beside it.
Not here: the clock (`fake_gpu.clock`), or collecting (`ingestion.kubernetes`).

The clock stops at every hour, at every fault, and at every instant that a collector knows only from
the time at which it receives an event. An event that carries its own time (the start of a
container, its end) may arrive a little later, as on a busy watch. So a month takes seconds, and the
journal is the same. A cluster without an event at a stop is not notified.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from domain.interval import Interval
from fake_gpu.clock import VirtualClock, epoch
from fake_gpu.fleet.model import Fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.kubernetes.pace import stops
from ingestion.kubernetes.collector import Collector
from orchestration.cluster_collector import STEP_SECONDS_LIMIT, collector_of, collector_stuck
from orchestration.open_home import OpenHome

Progress = Callable[[int, int, str], None]


class DrivenFleet(Protocol):
    """A served fleet with a driven clock, in this process or in another."""

    @property
    def fleet(self) -> Fleet: ...
    @property
    def clock(self) -> VirtualClock: ...
    @property
    def histories(self) -> Mapping[str, ObjectHistory]: ...
    def advance_to(self, when: datetime, woken: Collection[str] | None = None) -> None: ...


@contextmanager
def run_collectors(opened: OpenHome, running: DrivenFleet) -> Iterator[dict[str, Collector]]:
    """A collector per cluster, in threads of this process, until the block is left."""
    stop = threading.Event()
    collectors = {
        cluster.cluster_id: collector_of(opened, cluster.cluster_id, lockstep=True)
        for cluster in running.fleet.clusters
    }
    threads = [collector.run_in_thread(stop) for collector in collectors.values()]
    try:
        yield collectors
    finally:
        stop.set()
        for thread in threads:
            thread.join(STEP_SECONDS_LIMIT)


def drive_clock(
    running: DrivenFleet,
    collectors: Mapping[str, Collector],
    span: Interval,
    progress: Progress | None = None,
) -> int:
    """Drive the clock from stop to stop; returns the number of stops.

    `progress` is called at each stop, after all collectors have reached it.
    """
    found = clock_stops(running, span)
    _set_stop(collectors, running.clock.now())
    _wait_for(running, collectors, running.clock.now())
    for number, (instant, clusters) in enumerate(found.items(), 1):
        notified = {c: collectors[c] for c in clusters if c in collectors}
        _set_stop(notified, instant)
        running.advance_to(instant, clusters)
        _wait_for(running, notified, instant)
        if progress:
            progress(number, len(found), f"{instant:%d %b %H:%M}")
    return len(found)


def clock_stops(running: DrivenFleet, span: Interval) -> dict[datetime, set[str]]:
    """The instants at which the clock stops, with the clusters that have an event there."""
    now = running.clock.now()
    first = max(int(now.timestamp()), int(span.started_at.timestamp()))
    last = int(span.ended_at.timestamp())
    wanted: dict[int, set[str]] = {first: set(running.histories)}
    for cluster_id, history in running.histories.items():
        for second in stops(history, first, last, running.fleet.faults, quota_use=False):
            wanted.setdefault(second, set()).add(cluster_id)
    return {epoch(at): wanted[at] for at in sorted(wanted) if epoch(at) > now}


def _set_stop(collectors: Mapping[str, Collector], instant: datetime) -> None:
    for collector in collectors.values():
        collector.stop_at(instant)


def _wait_for(running: DrivenFleet, collectors: Mapping[str, Collector], instant: datetime) -> None:
    at = int(instant.timestamp())
    for cluster_id, collector in collectors.items():
        version = running.histories[cluster_id].resource_version_at(at)
        if not collector.wait_until_recorded(version, STEP_SECONDS_LIMIT):
            raise collector_stuck(cluster_id, instant, collector.health.trouble)
