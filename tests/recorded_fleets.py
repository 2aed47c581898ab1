"""Both sources of a fleet in this process: no socket, no thread, no driven clock.

Put here: passing changes directly to a collector's state, and querying a sample store without a
port.
Not here: faults of a connection (those need the served fleet), or expectations.

The state receives every change at its second, so the journal is that of an unbroken watch, except
for the watch faults of the fleet. Samples are queried from the application that serves them over
HTTP. Device telemetry never changes an amount and takes two thirds of the time. It is queried only
on request, and may be reduced to one field, which suffices to see the pod of each card.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx

from domain.clock import StoppedClock
from domain.interval import HOUR, Interval
from fake_gpu.clock import driven, epoch
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault, Fleet, SimulatedCluster
from fake_gpu.kubernetes.objects import Change, ObjectHistory
from fake_gpu.kubernetes.watch import REPLAYED_SECONDS
from fake_gpu.prometheus.app import ApiOptions, make_app
from fake_gpu.prometheus.source import FleetSeries
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.journal import JournalWriter
from ingestion.kubernetes.journal_calendar import Calendar
from ingestion.kubernetes.journal_decoder import write_lifecycle
from ingestion.kubernetes.journal_state import RESOURCES, JournalState
from ingestion.kubernetes.observations import Bookmark, Broken, Event, Listed, OwnerSeen
from ingestion.kubernetes.projections import owner as owner_projection
from ingestion.kubernetes.pull import pull_hours as pull_journal
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours as pull_samples
from tests.store_in_memory import MemoryStore
from warehouse.home import Home
from warehouse.manifest import Sampling
from warehouse.store import Store

KINDS = {
    "namespaces": "Namespace",
    "nodes": "Node",
    "resourcequotas": "ResourceQuota",
    "gpubudgets": "GpuBudget",
    "resourceslices": "ResourceSlice",
    "resourceclaims": "ResourceClaim",
    "pods": "Pod",
}
BEFORE = 600  # seconds for which the collector runs before the first hour
DAY = timedelta(days=1)
CARDS_ALONE = "DCGM_FI_DEV_FB_USED"


Spans = Sequence[tuple[int, int]]
Proxy = Callable[[httpx.BaseTransport], httpx.BaseTransport]


QUERY_FAULTS = ("late_arrival", "receiver_gone", "store_hangs", "store_vanishes")
"""Faults of a store that affect only queries sent while they last."""


def broken_watches(fleet: Fleet, cluster_id: str) -> list[tuple[Fault, int, int]]:
    """The intervals in which a fleet's own faults break the watches of a cluster."""
    return [
        # A watch that expires continues with the list that follows.
        (
            fault,
            fault.from_at,
            fault.until_at if fault.kind == "watch_dropped" else fault.from_at + 1,
        )
        for fault in fleet.faults
        if fault.kind in ("watch_dropped", "watch_expired")
        if fault.cluster_id in ("", cluster_id)
    ]


def record_fleet(
    home: Home,
    fleet: Fleet,
    *,
    watched: bool = True,
    unwatched: Spans = (),
    telemetry: bool | str = False,
    windows: Iterable[Interval] = (),
    through: Proxy = lambda transport: transport,
) -> FaultLedger:
    """Write the evidence of both sources of a fleet into a home; returns the faults that occurred.

    `watched` is whether there is a collector. `unwatched` has the intervals without a watch, in
    seconds since 1970; their events are known only as far as the list afterwards shows them.
    `telemetry` is whether it is queried, or the one field that exporters have. `windows` has the
    windows of the queries in order; by default one day at a time, in order of time. `through` puts
    a proxy between the ledger and the sample store.
    """
    ledger = FaultLedger()
    for fault_id, count in fleet.fired.items():
        ledger.fired_before(fault_id, count)
    histories = {c.cluster_id: ObjectHistory(c, fleet.faults, ledger) for c in fleet.clusters}
    landing = Landing(home.landing_store())
    parts = tuple(windows) or tuple(days_of(fleet))
    for cluster in fleet.clusters if watched else ():
        history = histories[cluster.cluster_id]
        _record_journal(home, landing, fleet, history, ledger, unwatched, parts)
    _pull_samples(home, landing, fleet, histories, ledger, telemetry, parts, through)
    return ledger


def days_of(fleet: Fleet) -> Iterator[Interval]:
    """The hours of a fleet, one day at a time."""
    at, end = epoch(fleet.started_at), epoch(fleet.ended_at)
    while at < end:
        yield Interval(at, min(at + DAY, end))
        at += DAY


# --- the journal ---------------------------------------------------------------------------------


class JournalRecorder:
    """A collector's state that receives every change of one cluster at its second."""

    def __init__(
        self,
        history: ObjectHistory,
        unwatched: Spans = (),
        store: Store | None = None,
        replays: Iterable[int] = (),
    ) -> None:
        self.history = history
        self.unwatched = sorted(unwatched)
        self.replays = frozenset(replays)
        self.store: Store = store or MemoryStore()
        self.state = JournalState()
        self.calendar = Calendar()
        self.writer = JournalWriter(self.store, history.cluster_id, "recorder", "0.1.0")
        self.owners = {c.uid: c for c in history.changes if c.verb == "ADDED"}

    def write(self, started_at: int, ended_at: int) -> Store:
        self._list("start", started_at)
        stops = {at: True for at in range(started_at, ended_at + 1) if at % 3600 == 0}
        stops |= {at: False for span in self.unwatched for at in span if at % 3600}
        stops |= {at: False for at in self.replays if at % 3600}
        for stop in sorted(stops):
            if self._is_blind(started_at):
                self._relist(stop) if not self._is_blind(stop) else None
            else:
                self._send_events(started_at, stop)
                if stop in self.replays:
                    self._repeat_events(stop)
            if self._is_blind(stop):
                self._break(stop)
            elif stops[stop]:
                self._close(stop)
                self._list("hourly", stop)
            started_at = stop
        self.writer.flush(epoch(ended_at))
        return self.store

    def _is_blind(self, at: int) -> bool:
        return any(since <= at < until for since, until in self.unwatched)

    def _break(self, at: int) -> None:
        for resource in RESOURCES:
            self._apply(Broken(resource, epoch(at), "the server does not respond"))

    def _relist(self, at: int) -> None:
        self._list("expired", at)
        # A list that lacks many objects is confirmed by a second list.
        for resource in sorted(self.state.second_look):
            self.state.second_look.discard(resource)
            self._list_one(resource, "second_look", at)

    def _send_events(self, after: int, until: int) -> None:
        for change in self.history.changes:
            resource = _RESOURCE_OF.get(change.kind)
            if resource and after < change.at <= until:
                self._look_up_owners(change)
                self._apply(
                    Event(
                        resource,
                        epoch(change.at),
                        change.verb,
                        change.object,
                        change.resource_version,
                    )
                )
        version = self.history.resource_version_at(until)
        for resource in RESOURCES:
            self._apply(Bookmark(resource, epoch(until), version))

    def _repeat_events(self, at: int) -> None:
        """Repeat old versions as if they were new, those of deleted objects included."""
        for change in self.history.changes:
            resource = _RESOURCE_OF.get(change.kind)
            if resource and at - REPLAYED_SECONDS < change.at <= at and change.verb != "DELETED":
                again = ("ADDED", change.object, change.resource_version)
                self._apply(Event(resource, epoch(at), *again))

    def _close(self, hour: int) -> None:
        now = epoch(hour)
        self.calendar.reach(now)
        self.writer.add(self.state.intervals())
        for ended in self.calendar.closable(now, self.state.streams.values()):
            self.writer.add([self.calendar.close(ended, now)])
        self.writer.flush(now)

    def _list(self, why: str, at: int) -> None:
        self.calendar.reach(epoch(at))
        for change in self.history.changes:
            if change.at <= at:
                self._look_up_owners(change)
        for resource in RESOURCES:
            self._list_one(resource, why, at)
            self.calendar.note_list(epoch(at), resource, True)

    def _list_one(self, resource: str, why: str, at: int) -> None:
        documents = tuple(self.history.objects_at(KINDS[resource], at))
        version = self.history.resource_version_at(at)
        self._apply(Listed(resource, epoch(at), epoch(at), why, documents, version))

    def _look_up_owners(self, change: Change) -> None:
        if change.kind != "Pod" or change.verb != "ADDED":
            return
        while unknown := self.state.unknown_owners((change.object,)).keys() & self.owners.keys():
            for uid in sorted(unknown):
                found = owner_projection(self.owners[uid].object)
                self._apply(OwnerSeen("pods", epoch(change.at), uid, found))

    def _apply(self, observation: Any) -> None:
        self.writer.add(self.state.apply(observation))


_RESOURCE_OF = {kind: resource for resource, kind in KINDS.items()}


def _record_journal(
    home: Home,
    landing: Landing,
    fleet: Fleet,
    history: ObjectHistory,
    ledger: FaultLedger,
    unwatched: Spans,
    windows: Iterable[Interval],
) -> None:
    spans = list(unwatched)
    for fault, since, until in broken_watches(fleet, history.cluster_id):
        ledger.fire(fault.fault_id, history.cluster_id, since, "the watch was broken")
        spans.append((since, until))
    replays = [
        fault
        for fault in fleet.faults
        if fault.kind == "watch_replays" and fault.cluster_id in ("", history.cluster_id)
    ]
    for fault in replays:
        ledger.fire(fault.fault_id, history.cluster_id, fault.from_at, "old versions were repeated")
    recorder = JournalRecorder(history, spans, replays=[fault.from_at for fault in replays])
    store = recorder.write(fleet.started_at - BEFORE, fleet.ended_at + 3600)
    clock = StoppedClock(epoch(fleet.ended_at) + 2 * HOUR)
    for window in windows:
        attempt = pull_journal(history.cluster_id, window, store, landing, clock)
        write_lifecycle(landing, home.runs, attempt)


# --- the samples ---------------------------------------------------------------------------------


JSON = {"content-type": "application/json"}
NOTHING = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


class InProcess(httpx.BaseTransport):
    """Sends requests to an application by function calls."""

    def __init__(self, app: Any, telemetry: bool | str) -> None:
        self._inner = httpx.ASGITransport(app)
        self._telemetry = telemetry

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        if request.url.path.endswith("/query_range"):
            if isinstance(self._telemetry, str):
                body = _select_field(body, self._telemetry)
            if not self._telemetry or not body:
                return httpx.Response(200, headers=JSON, stream=_Body(NOTHING))

        async def ask() -> httpx.Response:
            asked = httpx.Request(
                request.method, request.url, headers=request.headers, content=body
            )
            answer = await self._inner.handle_async_request(asked)
            content = b"".join([part async for part in answer.stream])  # type: ignore[union-attr]
            return httpx.Response(answer.status_code, headers=answer.headers, stream=_Body(content))

        return asyncio.run(ask())


def _select_field(body: bytes, metric: str) -> bytes:
    """The query with one of its metrics; empty if it does not have that metric."""
    form = dict(parse_qsl(body.decode()))
    parts = [part for part in form["query"].split(" or ") if metric in part]
    return urlencode(form | {"query": " or ".join(parts)}).encode() if parts else b""


class _Body(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content


def _pull_samples(
    home: Home,
    landing: Landing,
    fleet: Fleet,
    histories: Mapping[str, ObjectHistory],
    ledger: FaultLedger,
    telemetry: bool | str,
    windows: Iterable[Interval],
    through: Proxy,
) -> None:
    labels = tuple(sorted({c.monitoring.replica_label for c in fleet.clusters}))
    connection = Connection("http://thanos.fake")
    for at, hours in (*_queries_during_faults(fleet), (fleet.ended_at + 2 * 3600, windows)):
        clock = driven(epoch(at))
        source = FleetSeries(fleet, dict(histories), clock, ledger)
        app = make_app(source, clock, ApiOptions(replica_labels=labels))
        transport = through(InProcess(app, telemetry))
        client = AttemptClient(connection, transport, wait=lambda seconds: None)
        for cluster in fleet.clusters:
            settings = ThanosSettings("hub", connection, replica_labels=labels)
            asked = ClusterSource(cluster.cluster_id, settings, sampling_of(cluster))
            for window in hours:
                pull_samples(asked, window, landing, home.runs, clock, client)


def _queries_during_faults(fleet: Fleet) -> Iterator[tuple[int, list[Interval]]]:
    """The times of queries during a store's fault, and their hours: the last two."""
    for fault in fleet.faults:
        at = (fault.from_at + fault.until_at) // 2
        hour = (at - 600) // 3600 * 3600  # the last samples must be present
        if fault.kind in QUERY_FAULTS:
            yield at, [Interval(epoch(max(hour - 7200, fleet.started_at)), epoch(hour))]


def sampling_of(cluster: SimulatedCluster) -> Sampling:
    scraped = next(
        job.scrape_interval_seconds
        for job in cluster.monitoring.jobs
        if job.job == "kube-state-metrics"
    )
    return Sampling(cluster.monitoring.collect_interval_seconds or scraped, scraped)


def clusters_csv(
    fleets: Iterable[Fleet], sources: str = "both", alone: Collection[str] = ()
) -> dict[str, str]:
    """The decision about the time in which each cluster is measured, and its sources.

    For the fleets named in `alone`, only samples are expected.
    """
    rows = [
        "cluster_id,cluster_name,valid_from,valid_until,sources,sample_interval_seconds,"
        "scrape_interval_seconds,reason,decided_by,decided_on"
    ]
    for fleet in fleets:
        span = [
            epoch(at).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (fleet.started_at, fleet.ended_at)
        ]
        for cluster in fleet.clusters:
            how = sampling_of(cluster)
            rows.append(
                f"{cluster.cluster_id},{cluster.name},{span[0]},{span[1]},"
                f"{'samples' if fleet.name in alone else sources},"
                f"{how.sample_interval_seconds},{how.scrape_interval_seconds},agreed,Ada,2026-09-15"
            )
    return {"clusters.csv": "\n".join(rows) + "\n"}
