"""A watch that is blocked because the queue of the collector is full.

Put here: the reader of one watch, with a server and a queue that follow a script.
Not here: events of a watch (`test_collector_client`), or whole collectors (`test_collector_life`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient, WatchEvent
from clients.kubernetes_responses import EVENT_BYTES_LIMIT
from domain.clock import StoppedClock
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.observations import Bookmark, Event
from ingestion.kubernetes.watcher import (
    PLACE_TRIES_LIMIT,
    WAITING_LIMIT,
    EventQueue,
    Item,
    Retry,
    Watcher,
)
from tests.store_in_memory import MemoryStore

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
NOTHING = httpx.Response(200)


class Server:
    """A server of three bookmarks per stream; the last stream ends the watcher."""

    def __init__(self, stop: threading.Event, streams: int) -> None:
        self.began_at: list[int] = []
        self._stop, self._streams = stop, streams

    def watch(self, resource: str, version: int) -> Iterator[WatchEvent]:
        self.began_at.append(version)
        if len(self.began_at) == self._streams:
            self._stop.set()
        for told in range(version + 1, version + 4):
            yield WatchEvent("BOOKMARK", {}, told)


class CrowdedQueue(queue.Queue[Item]):
    """A queue that is full for one item until it was offered a given number of times."""

    def __init__(self, version: int, tries: int) -> None:
        super().__init__()
        self._version, self._tries = version, tries

    def put(self, item: Item, block: bool = True, timeout: float | None = None) -> None:
        assert isinstance(item, Bookmark)
        if item.version == self._version and self._tries:
            self._tries -= 1
            raise queue.Full
        super().put(item, block, timeout)


def test_the_queue_of_a_collector_is_limited() -> None:
    client = KubernetesClient(
        ServerAccess("https://api.example"), httpx.MockTransport(lambda _: NOTHING)
    )
    collector = Collector(client, MemoryStore(), StoppedClock(NOON), CollectorSettings("c-1"))
    assert collector._items.maxsize == WAITING_LIMIT


def test_long_objects_take_several_places() -> None:
    """A node of 60 kB takes two, and the longest object 129, so the number of bytes is limited."""
    items = EventQueue()
    node = Event("nodes", NOON, "MODIFIED", {}, 101, byte_count=60_000)
    longest = replace(node, byte_count=EVENT_BYTES_LIMIT)
    while not items.full():
        items.put(longest)
    assert items.qsize() == 129 * 16, "after 15 of them there was a place"
    assert [items.get() for _ in range(16)] == [longest] * 16
    for _ in range(WAITING_LIMIT // 2 - 1):
        items.put(node)
    items.put(Bookmark("nodes", NOON, 102))
    assert not items.full()
    items.put(Bookmark("nodes", NOON, 103))
    assert items.full()


def test_an_event_has_its_length_in_bytes() -> None:
    line = b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "7"}}}'
    told = httpx.Response(200, content=line + b"\n", headers={"content-type": "application/json"})
    client = KubernetesClient(
        ServerAccess("https://api.example"), httpx.MockTransport(lambda _: told)
    )
    stop, items = threading.Event(), EventQueue()
    watcher = Watcher("nodes", client, items, StoppedClock(NOON), Retry(0.0, 0.0), stop)
    assert watcher._read_stream() == 1
    word = items.get()
    assert isinstance(word, Event)
    assert word.byte_count == len(line)


@pytest.mark.parametrize(
    ("tries", "began_at", "told"),
    [
        (0, [100, 103], [101, 102, 103]),
        (PLACE_TRIES_LIMIT - 1, [100, 103], [101, 102, 103]),
        (PLACE_TRIES_LIMIT, [100, 102, 105], [101, 102, 103, 104, 105]),
    ],
)
def test_a_connection_that_was_not_read_for_long_is_opened_again(
    tries: int, began_at: list[int], told: list[int]
) -> None:
    """The time of its buffered events is unknown, so none of them proves a live watch."""
    stop, items = threading.Event(), CrowdedQueue(102, tries)
    server = Server(stop, len(began_at))
    clock = StoppedClock(NOON)
    watcher = Watcher("pods", server, items, clock, Retry(0.0, 0.0), stop)  # type: ignore[arg-type]
    watcher.version = 100
    watcher.run()
    passed_on = [item.version for item in list(items.queue) if isinstance(item, Bookmark)]
    assert (server.began_at, passed_on) == (began_at, told)
