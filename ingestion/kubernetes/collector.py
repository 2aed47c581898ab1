"""The collector of one cluster: lists and watches, and writes the journal.

Put here: the loop at the edge, in which threads, the network, the spool and the clock meet.
Not here: the effect of an observation (`journal_state`), closing hours (`journal_calendar`),
writing segments (`journal`).

One thread per resource reads its watch; this loop alone lists, applies and writes, one after the
other, so the journal has one order. Lines are synced before they count: after a kill, the watch
continues from the last synced event, and the server repeats the later ones.
"""

from __future__ import annotations

import importlib.metadata
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from clients.kubernetes import KubernetesClient
from domain.clock import Clock
from domain.errors import InvalidSetting, TemporarilyUnavailable
from ingestion.kubernetes.health import Health
from ingestion.kubernetes.instant_barrier import InstantBarrier
from ingestion.kubernetes.journal import JournalWriter
from ingestion.kubernetes.journal_calendar import Calendar
from ingestion.kubernetes.journal_state import RESOURCES, JournalState
from ingestion.kubernetes.observations import (
    Access,
    Bookmark,
    Broken,
    Event,
    Listed,
    ListedPage,
    Observation,
    OwnerSeen,
)
from ingestion.kubernetes.projections import POD_LABELS
from ingestion.kubernetes.projections import owner as owner_projection
from ingestion.kubernetes.recover import recover
from ingestion.kubernetes.requests import look_up_owner, may_watch, take_list
from ingestion.kubernetes.watcher import EventQueue, Item, NeedsList, Retry, Watcher
from warehouse.store import Store

# Lines that could not be written yet. Beyond this the collector stops reading: a full disk must
# slow it down, not kill it. A line is about 2 kB.
PENDING_LINES_LIMIT = 50_000

# Without any event, a line about the watched interval is written this often.
HEARTBEAT_SECONDS = 300

# How long the loop waits for an event before it reads the clock again, in real seconds.
IDLE_SECONDS = 0.2

# The right to list and watch these is reviewed every hour: amounts depend on them, and a proxy that
# hides objects responds with 200.
CANARIES = ("pods",)

# How a server without the resource responds: an older one, or without its definition.
NOT_SERVED = "SERVER-002 HTTP 404"


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """The parameters of a collector besides its clock, its journal and its server."""

    cluster_id: str
    collector: str = "collector"  # the name of its pod, in each segment
    code_version: str = field(default_factory=lambda: importlib.metadata.version("gpu-ledger"))
    flush_seconds: int = 30
    resources: tuple[str, ...] = RESOURCES
    pod_labels: tuple[str, ...] = POD_LABELS  # the allow-list: no other label of a pod is kept
    retry: Retry = field(default_factory=Retry)
    lockstep: bool = False  # with a driven clock: the journal is independent of thread scheduling


class Collector:
    """Watches one cluster until it is stopped."""

    def __init__(
        self, client: KubernetesClient, spool: Store, clock: Clock, settings: CollectorSettings
    ) -> None:
        self.client = client
        self.clock = clock
        self.settings = settings
        self.health = Health(settings.cluster_id)
        self.state = JournalState(settings.resources, settings.pod_labels)
        self.calendar = Calendar()
        self._spool = spool
        self._writer = JournalWriter(
            spool, settings.cluster_id, settings.collector, settings.code_version
        )
        self._items = EventQueue()
        self._halt = threading.Event()
        self._watchers: dict[str, Watcher] = {}
        self._settled = threading.Condition()
        self._versions: dict[str, tuple[int, datetime]] = {}
        self._failed_at: dict[str, datetime] = {}
        self._settled_failures: dict[str, datetime] = {}  # with all effects written
        self._not_served: set[str] = set()
        self._lockstep = InstantBarrier(settings.resources) if settings.lockstep else None
        self._flushed_at: datetime | None = None

    # --- running ------------------------------------------------------------------------------

    def run(self, stop_event: threading.Event) -> None:
        """Collect until `stop_event` is set; earlier observations are written before this
        returns."""
        self._begin()
        try:
            while not stop_event.is_set():
                for watcher in self._watchers.values():
                    watcher.raise_if_ended()
                try:
                    item = self._items.get(timeout=IDLE_SECONDS)
                except queue.Empty:
                    if not self.settings.lockstep:
                        self._after([])
                    continue
                items = self._lockstep.step(item, self.clock.now()) if self._lockstep else [item]
                self._take_all(items)
        finally:
            self._halt.set()
            self._flush(self.clock.now(), force=True)

    def run_in_thread(self, stop_event: threading.Event) -> threading.Thread:
        thread = threading.Thread(
            target=self.run, args=(stop_event,), name="collector", daemon=True
        )
        thread.start()
        return thread

    def has_recorded(self, resource_version: int) -> bool:
        """Whether everything until this resource version is in the journal.

        A watch that failed at the present instant cannot get further. With a driven clock every
        watch must have an event or bookmark at every instant: a server that was set back has a
        lower version than before.
        """
        now = self.clock.now()
        with self._settled:
            return all(
                self._settled_failures.get(resource) == now
                or resource in self._not_served
                or self._is_watch_current(resource, resource_version, now)
                for resource in self.settings.resources
            )

    def stop_at(self, instant: datetime) -> None:
        """Announce that the driven clock stands at this instant until the cluster's collector is
        done."""
        if self._lockstep:
            self._lockstep.told_at = instant

    def _is_watch_current(self, resource: str, resource_version: int, now: datetime) -> bool:
        version, heard_at = self._versions.get(resource, (0, None))
        if self.settings.lockstep:
            return heard_at == now
        return version >= resource_version

    def wait_until_recorded(self, resource_version: int, timeout_seconds: float) -> bool:
        """Wait for `has_recorded`; False when it takes longer than `timeout_seconds`."""
        with self._settled:
            return self._settled.wait_for(
                lambda: self.has_recorded(resource_version), timeout_seconds
            )

    # --- the loop -----------------------------------------------------------------------------

    def _begin(self) -> None:
        found = self.client.cluster_id()
        if found != self.settings.cluster_id:
            raise InvalidSetting(
                where=self.client.url,
                seen=f"its kube-system namespace has the UID {found}, the collector is for "
                f"{self.settings.cluster_id}",
                why="the usage of one cluster would be billed as another's",
                remedy="compare the URL with the cluster_id in decisions/clusters.csv",
            )
        now = self.clock.now()
        self._writer.position = recover(self._spool, self.settings.cluster_id, self.state, now)
        self.health.started_at = self.health.turned_at = now
        self._flushed_at = now
        if self.state.last_at is not None:
            self.calendar.reach(self.state.last_at)
        self.calendar.reach(now)
        for resource in self.settings.resources:
            self._watchers[resource] = Watcher(
                resource, self.client, self._items, self.clock, self.settings.retry, self._halt
            )
        for resource, watcher in self._watchers.items():
            watcher.version = self.state.streams[resource].version
            if not watcher.version:
                self._list(resource, "start", "")
        for watcher in self._watchers.values():
            watcher.start()

    def _take_all(self, items: list[Item]) -> None:
        for item in items:
            self._take(item)
            failed = isinstance(item, NeedsList) and item.resource in self._failed_at
            if self._lockstep and failed:
                now = self.clock.now()
                self._take_all(self._lockstep.list_failed(item.resource, now))
        if items:
            self._after(items)

    def _take(self, item: Item) -> None:
        """Process one item, from the network to the pending lines."""
        self.calendar.reach(item.at)
        match item:
            case NeedsList():
                self._list(item.resource, item.why, item.reason)
                return
            case Broken():
                self._failed(item.resource, item.at, item.reason)
            case Event() | Bookmark():
                self._heard(item)
        if isinstance(item, Event) and item.resource == "pods":
            self._look_up_owners((item.document,))
        self._apply(item)
        for resource, reason in sorted(self.state.relist.items()):
            self._relist(resource, reason)
        for resource in sorted(self.state.second_look):
            self._list_twice(resource)

    def _heard(self, item: Event | Bookmark) -> None:
        self.health.heard_at[item.resource] = item.at
        self.health.trouble.pop(item.resource, None)
        with self._settled:
            self._failed_at.pop(item.resource, None)
            self._not_served.discard(item.resource)

    def _failed(self, resource: str, at: datetime, reason: str) -> None:
        self.health.trouble[resource] = reason
        with self._settled:
            self._failed_at[resource] = at
            if reason.startswith(NOT_SERVED):
                self._not_served.add(resource)
        if resource in self._not_served:
            self.health.trouble.pop(resource, None)

    def _after(self, items: list[Item]) -> None:
        """Lists, closed hours and flushes that are due; then notify waiting threads."""
        now = self.clock.now()
        self.health.turned_at = now
        self.calendar.reach(now)
        streams = self._served_streams()
        self._close_hours(self.calendar.closable(now, streams), now)
        if self.calendar.list_due(now, streams):
            self.calendar.listed_hour = now.replace(minute=0, second=0, microsecond=0)
            self._list_everything()
        self._flush(now, force=False)
        with self._settled:
            for item in items:
                if isinstance(item, Event | Bookmark):
                    self._versions[item.resource] = (item.version, item.at)
            self._settled_failures = dict(self._failed_at)
            self._settled.notify_all()

    def _close_hours(self, hours: list[datetime], now: datetime) -> None:
        """Write the last line of hours that are over; an hour without any observation gets none."""
        if not hours:
            return
        self._writer.add(self.state.intervals())
        for hour in hours:
            line = self.calendar.close(hour, now)
            if self._writer.has_written(hour):
                self._writer.add([line])
                self.health.hours_closed += 1
        self._flush(now, force=True)

    def _served_streams(self) -> list[Any]:
        return [
            stream
            for resource, stream in self.state.streams.items()
            if resource not in self._not_served
        ]

    def _apply(self, observation: Observation) -> None:
        lines = self.state.apply(observation)
        for line in lines:
            self.health.gaps += line["line"] == "gap"
            self.health.contradictions += line["line"] == "contradiction"
        self._writer.add(lines)

    # --- lists --------------------------------------------------------------------------------

    def _list_everything(self) -> None:
        """The hour's complete lists, after a review of the right to see all pods."""
        for resource in self.settings.resources:
            if resource in self._not_served:
                continue
            allowed = may_watch(self.client, resource) if resource in CANARIES else None
            if allowed is not None:
                self._apply(Access(resource, self.clock.now(), allowed))
            listed = self._request_list(resource, "hourly", "")
            self._apply(listed)
            whole = listed.complete and allowed is not False
            self.calendar.note_list(listed.at, resource, whole)
        for resource in sorted(self.state.second_look):
            self._list_twice(resource)

    def _list(self, resource: str, why: str, reason: str) -> None:
        """Request the list from which a watch continues; its watcher waits for it."""
        now = self.clock.now()
        between = self._lockstep is not None and self._lockstep.is_between_stops(now)
        if between or self._failed_at.get(resource) == now:
            self._list_again(resource, why, reason)  # one try per instant is enough
            return
        listed = self._request_list(resource, why, reason)
        if not (resource in self._not_served and listed.reason.startswith(NOT_SERVED)):
            self._apply(listed)  # a resource that is not served has one line
        if listed.complete:
            if resource in self.state.second_look:
                self._list_twice(resource)
            with self._settled:
                self._failed_at.pop(resource, None)
                self._not_served.discard(resource)
            self._watchers[resource].resume_from(listed.version)
            return
        self._failed(resource, listed.began_at, listed.reason)
        self._list_again(resource, why, reason)

    def _list_again(self, resource: str, why: str, reason: str) -> None:
        retry = self.settings.retry
        pause = retry.last_seconds if resource in self._not_served else retry.first_seconds
        again = NeedsList(resource, self.clock.now(), why, reason)
        timer = threading.Timer(pause, self._items.put, (again,))
        timer.daemon = True
        timer.start()

    def _relist(self, resource: str, reason: str) -> None:
        """Begin again from a list, because the versions of the stream are no longer valid."""
        listed = self._request_list(resource, "expired", reason)
        self._apply(listed)
        if listed.complete:
            self._watchers[resource].restart_from(listed.version)

    def _list_twice(self, resource: str) -> None:
        self.state.second_look.discard(resource)
        self._apply(self._request_list(resource, "second_look", "too much was missing"))

    def _request_list(self, resource: str, why: str, reason: str) -> Listed:
        return take_list(self.client, self.clock, resource, why, reason, self._take_page)

    def _take_page(self, page: ListedPage) -> None:
        if page.resource == "pods":
            self._look_up_owners(page.documents)
        self._apply(page)

    def _look_up_owners(self, documents: tuple[Mapping[str, Any], ...]) -> None:
        """Get every owner of these pods once, level by level up their chains."""
        while unknown := self.state.unknown_owners(documents):
            for uid, owner in unknown.items():
                found = look_up_owner(self.client, owner)
                if found is None:
                    return  # no response: looked up again with the pod's next change or list
                projection = owner_projection(found) if found else {}
                if projection and projection["metadata"].get("uid") != uid:
                    projection = {}  # another object with the same name
                self._apply(OwnerSeen("owners", self.clock.now(), uid, projection))

    # --- writing ------------------------------------------------------------------------------

    def _flush(self, now: datetime, *, force: bool) -> None:
        assert self._flushed_at is not None
        full = self._writer.pending_count >= PENDING_LINES_LIMIT
        wait = self.settings.flush_seconds if self._writer.pending_count else HEARTBEAT_SECONDS
        due = now - self._flushed_at >= timedelta(seconds=max(wait, self.settings.flush_seconds))
        if not (force or full or due):
            return
        self._writer.add(self.state.intervals())
        while True:
            try:
                self._writer.flush(now.replace(microsecond=0))
                self.health.spool_trouble = ""
                break
            except TemporarilyUnavailable as trouble:
                self.health.spool_trouble = trouble.seen
                if self._writer.pending_count < PENDING_LINES_LIMIT or self._halt.is_set():
                    break
                self._halt.wait(self.settings.retry.last_seconds)
        self._flushed_at = now
        self.health.segments_written = self._writer.segment_count
        self.health.lines_pending = self._writer.pending_count
        self.health.lines_written = self._writer.position
        self.health.replayed = self.state.replayed_count
        self.health.open_pods = self.state.open_pod_count
