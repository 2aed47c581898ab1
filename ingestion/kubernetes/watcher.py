"""One thread per resource that watches and passes on each event.

Put here: reading a watch, reconnecting, waiting between tries.
Not here: lists, and the effects of events (`collector`, `journal_state`).
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from datetime import datetime

from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import HistoryGone, ServerRefused
from domain.clock import Clock
from domain.errors import LedgerError
from ingestion.kubernetes.observations import Bookmark, Broken, Event, Observation
from ingestion.kubernetes.watched_resources import PATHS


@dataclass(frozen=True, slots=True)
class NeedsList:
    """This watch cannot continue or begin without a list."""

    resource: str
    at: datetime
    why: str  # start, expired
    reason: str


Item = Observation | NeedsList

# The number of observations that may wait for the collector, each of 32 KiB at most; a longer one
# takes the places of several. A watch that is not read slows its server down, and not the
# collector's memory: 2,000 pods of 6 kB take 70 MB decoded, 64 MB of the longest objects ten times
# as much.
WAITING_LIMIT = 2_000
PLACE_BYTES = 32 * 1024

# Real seconds after which a waiting watcher checks whether it has to end.
PLACE_SECONDS = 0.2
# The number of tries for a place: the time of an event that was unread for longer than two seconds
# is not known.
PLACE_TRIES_LIMIT = 10


@dataclass(frozen=True, slots=True)
class Retry:
    """Real seconds between tries: doubled from the first to the last."""

    first_seconds: float = 0.5
    last_seconds: float = 30.0


class EventQueue(queue.Queue[Item]):
    """The queue of events that wait for the collector."""

    def __init__(self) -> None:
        super().__init__(WAITING_LIMIT)

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._places_taken = 0

    def _qsize(self) -> int:
        return self._places_taken

    def _put(self, item: Item) -> None:
        super()._put(item)
        self._places_taken += _places(item)

    def _get(self) -> Item:
        item: Item = super()._get()
        self._places_taken -= _places(item)
        return item


def _places(item: Item) -> int:
    return 1 + item.byte_count // PLACE_BYTES if isinstance(item, Event) else 1


class Watcher(threading.Thread):
    """Watches one resource until it is stopped."""

    def __init__(
        self,
        resource: str,
        client: KubernetesClient,
        items: queue.Queue[Item],
        clock: Clock,
        retry: Retry,
        stop: threading.Event,
    ) -> None:
        super().__init__(name=f"watch-{resource}", daemon=True)
        self.resource = resource
        self.version = 0
        self._client = client
        self._items = items
        self._clock = clock
        self._retry = retry
        self._halt = stop
        self._listed = threading.Event()
        self._restart_version = 0

    def resume_from(self, version: int) -> None:
        """Continue from the version of a list."""
        self.version = version
        self._listed.set()

    def restart_from(self, version: int) -> None:
        """End the present stream at its next event, and begin again from the version of a list."""
        self._restart_version = version

    def raise_if_ended(self) -> None:
        """Raise if an unexpected error ended this thread: its watch would seem to have no events.

        A collector that ends is started again, and continues from its journal.
        """
        if not self.is_alive() and not self._halt.is_set():
            raise RuntimeError(f"the watch of {self.resource} ended")

    def run(self) -> None:
        pause = self._retry.first_seconds
        # The collector requests the first list itself.
        if not self.version and not self._wait_for_list():
            return
        while not self._halt.is_set():
            began_at, heard = self._clock.now(), 0
            try:
                heard = self._read_stream()
            except HistoryGone as gone:
                self._listed.clear()
                self._put(NeedsList(self.resource, self._clock.now(), "expired", gone.seen[:200]))
                if not self._wait_for_list():
                    return
                continue
            except LedgerError as trouble:
                reason = f"{trouble.code} {trouble.seen}"[:200]
                self._put(Broken(self.resource, began_at, reason))
                if isinstance(trouble, ServerRefused):
                    pause = max(pause, trouble.retry_after_seconds)
            if heard:
                pause = self._retry.first_seconds
                continue
            self._halt.wait(pause)
            pause = min(pause * 2, self._retry.last_seconds)

    def _read_stream(self) -> int:
        """Pass on one stream; the number of its events and bookmarks.

        The time of an event is that of its reading. While too many wait for the collector, none is
        read; then the connection is closed, and the server repeats the events since the last one
        that was passed on.
        """
        heard = 0
        for event in self._client.watch(PATHS[self.resource], self.version):
            if self._halt.is_set():
                break
            if self._restart_version:
                self.version, self._restart_version = self._restart_version, 0
                break
            heard += 1
            at = self._clock.now()
            word: Item = Bookmark(self.resource, at, event.version)
            if event.kind != "BOOKMARK":
                word = Event(
                    *(self.resource, at, event.kind, event.document, event.version),
                    byte_count=event.byte_count,
                )
            in_time = self._put(word)
            self.version = event.version
            if not in_time:
                break
        return heard

    def _wait_for_list(self) -> bool:
        """Wait for the collector's list; False when stopped."""
        while not self._halt.is_set():
            if self._listed.wait(PLACE_SECONDS):
                return True
        return False

    def _put(self, item: Item) -> bool:
        """Pass on an item; whether the queue had a place for it in time."""
        tries = 0
        while not self._halt.is_set():
            try:
                self._items.put(item, timeout=PLACE_SECONDS)
                break
            except queue.Full:
                tries += 1
        return tries < PLACE_TRIES_LIMIT
