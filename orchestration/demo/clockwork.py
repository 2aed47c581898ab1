"""Living through the fleet's time in seconds: one clock, and collectors that keep up with it.

Put here: at which instants the clock stops, and waiting for the collectors there.
Not here: the clock (`fake_gpu.clock`), or collecting (`ingestion.kubernetes`).

The clock stops at every hour, at every fault, and wherever something is known only from when it was
told. What carries its own time (a container's start, its end) may be told a little later, as a busy
watch does; so a month is lived through in seconds and says the same. A cluster in which nothing
happens is not told of each second at which another one stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from domain.errors import CouldNotLook
from domain.interval import HOUR, Interval, format_instant, hour_of
from fake_gpu.clock import epoch
from orchestration.collecting import collector_of
from orchestration.open_home import OpenHome

if TYPE_CHECKING:
    from fake_gpu.clock import VirtualClock
    from fake_gpu.fleet.model import Fleet
    from fake_gpu.kubernetes.objects import ObjectHistory
    from ingestion.kubernetes.collector import Collector
    from orchestration.demo.fleet_clock import FleetClock

Progress = Callable[[int, int, str], None]

# A step takes a millisecond; a collector that needs a minute for one has died.
STEP_SECONDS_LIMIT = 60.0


class Driven(Protocol):
    """A served fleet whose clock goes where it is told, in this process or in another."""

    @property
    def fleet(self) -> Fleet: ...
    @property
    def clock(self) -> VirtualClock: ...
    @property
    def histories(self) -> Mapping[str, ObjectHistory]: ...
    def advance_to(self, when: datetime, telling: Collection[str] | None = None) -> None: ...


class CollectorStuck(CouldNotLook):
    """A collector did not keep up with the driven clock."""

    code = "DEMO-002"

    def __init__(self, cluster_id: str, instant: datetime, trouble: Mapping[str, str]) -> None:
        said = "; ".join(f"{name}: {why}" for name, why in sorted(trouble.items())) or "nothing"
        super().__init__(
            where=f"the collector of {cluster_id}, at {format_instant(instant)}",
            seen=f"it did not catch up within {STEP_SECONDS_LIMIT:.0f} s; it says: {said}",
            why="the clock would run away from it, and its journal would have holes",
            remedy="run the demo again; if it happens again, report it with this message",
        )


@contextmanager
def collecting(
    opened: OpenHome, running: Driven, urls: Mapping[str, str] = MappingProxyType({})
) -> Iterator[dict[str, Collector]]:
    """A collector per cluster, in threads of this process, until the block is left.

    With `urls` it watches there, and not where the settings say.
    """
    stop = threading.Event()
    collectors = {
        cluster.cluster_id: collector_of(
            opened, cluster.cluster_id, url=urls.get(cluster.cluster_id, ""), lockstep=True
        )
        for cluster in running.fleet.clusters
    }
    threads = [collector.run_in_thread(stop) for collector in collectors.values()]
    try:
        yield collectors
    finally:
        stop.set()
        for thread in threads:
            thread.join(STEP_SECONDS_LIMIT)


def live_through(
    running: Driven,
    collectors: Mapping[str, Collector],
    span: Interval,
    progress: Progress | None = None,
) -> int:
    """Drive the clock from change to change; the number of stops it made.

    At each stop, when everybody has caught up with it, `progress` is told.
    """
    stops = instants(running, span)
    _stop(collectors, running.clock.now())
    _wait(running, collectors, running.clock.now())
    for number, (instant, clusters) in enumerate(stops.items(), 1):
        told = {c: collectors[c] for c in clusters if c in collectors}
        _stop(told, instant)
        running.advance_to(instant, clusters)
        _wait(running, told, instant)
        if progress:
            progress(number, len(stops), f"{instant:%d %b %H:%M}")
    return len(stops)


def instants(running: Driven, span: Interval) -> dict[datetime, set[str]]:
    """When the clock must stop so that no collector misses a moment, and for which clusters."""
    from fake_gpu.kubernetes.pace import stops

    now = running.clock.now()
    first = max(int(now.timestamp()), int(span.started_at.timestamp()))
    last = int(span.ended_at.timestamp())
    wanted: dict[int, set[str]] = {first: set(running.histories)}
    for cluster_id, history in running.histories.items():
        for second in stops(history, first, last, running.fleet.faults, quota_use=False):
            wanted.setdefault(second, set()).add(cluster_id)
    return {epoch(at): wanted[at] for at in sorted(wanted) if epoch(at) > now}


def drive(
    clock: FleetClock,
    collectors: Sequence[Collector],
    end: datetime,
    progress: Progress | None = None,
) -> None:
    """Turn a simulated fleet's clock on, hour by hour, with collectors that keep up with it.

    It stops a second before each hour is over as well: what happened in an hour is told in it.
    """
    now = clock.now()
    hours = [at for at in Interval(hour_of(now), end).hours() if at > now]
    stops = sorted(
        {*hours, *(at - timedelta(seconds=1) for at in hours if at - now > HOUR / 2), end}
    )
    for number, instant in enumerate([now, *stops]):
        if instant > now:
            clock.advance_to(instant)
        for collector in collectors:
            if not collector.wait_until_caught_up(0, STEP_SECONDS_LIMIT):
                cluster_id = collector.settings.cluster_id
                raise CollectorStuck(cluster_id, instant, collector.health.trouble)
        if progress:
            progress(number, len(stops), f"{instant:%d %b %H:%M}")


def _stop(collectors: Mapping[str, Collector], instant: datetime) -> None:
    for collector in collectors.values():
        collector.stop_at(instant)


def _wait(running: Driven, collectors: Mapping[str, Collector], instant: datetime) -> None:
    at = int(instant.timestamp())
    for cluster_id, collector in collectors.items():
        version = running.histories[cluster_id].resource_version_at(at)
        if not collector.wait_until_caught_up(version, STEP_SECONDS_LIMIT):
            raise CollectorStuck(cluster_id, instant, collector.health.trouble)
