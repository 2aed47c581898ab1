"""A simulated cluster with a driven clock, and a collector that watches it over HTTP.

Put here: the environment of the collector's tests: one API server, one clock, one spool, one
landing.
Not here: fleets (`tests/small_fleets.py`), or expectations.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvicorn

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from domain.interval import Interval, hour_of
from fake_gpu.clock import VirtualClock, driven, epoch
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault, SimulatedCluster
from fake_gpu.kubernetes.server import KubernetesApi
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.journal import parse_lines, segments
from ingestion.kubernetes.journal_decoder import decode_rows
from ingestion.kubernetes.pull import pull_hours
from ingestion.kubernetes.watcher import Retry
from warehouse.manifest import Attempt
from warehouse.store import FolderStore

# Long enough for a machine under load; every wait ends as soon as its condition is true.
PATIENCE_SECONDS = 20.0
QUICK = Retry(first_seconds=0.02, last_seconds=0.05)


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The application on a free loopback port."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    # With an explicit protocol, asyncio sends small responses at once; otherwise each takes 40 ms
    # more.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        work = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
        )
        work.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.005)
        try:
            yield url
        finally:
            server.should_exit = server.force_exit = True
            work.join(PATIENCE_SECONDS)


@dataclass
class World:
    """The servers, clocks and folders of a test of the collector."""

    cluster: SimulatedCluster
    clock: VirtualClock
    api: KubernetesApi
    url: str
    spool: FolderStore
    landing: Landing
    ledger: FaultLedger
    collector: Collector | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start_collector(self, **settings: Any) -> Collector:
        wanted = {
            "cluster_id": self.cluster.cluster_id,
            "flush_seconds": 3600,
            "retry": QUICK,
            "lockstep": True,
        } | settings
        client = KubernetesClient(ServerAccess(self.url))
        self.collector = Collector(client, self.spool, self.clock, CollectorSettings(**wanted))
        self._stop = threading.Event()
        self._thread = self.collector.run_in_thread(self._stop)
        self.catch_up()
        return self.collector

    def stop_collector(self) -> None:
        """Stop it; it writes all events that it has received."""
        self._stop.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self.collector = None

    def kill_collector(self) -> None:
        """Stop it like `kill -9`: it writes no more lines."""
        assert self.collector is not None
        self.collector._writer.pending.clear()
        self.collector._writer.add = lambda lines: None  # type: ignore[method-assign]
        self.stop_collector()

    def catch_up(self) -> None:
        assert self.collector is not None
        version = self.api.view.version(self.clock.now_seconds())
        caught_up = self.collector.wait_until_recorded(version, PATIENCE_SECONDS)
        assert caught_up, f"the collector did not reach {version}: {self.collector.health}"

    def advance(self, seconds: int, step: int = 30) -> None:
        """Move the clock in steps; after each the collector has received all events."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while self.clock.now() < end:
            self.clock.advance_to(min(end, self.clock.now() + timedelta(seconds=step)))
            if self.collector is not None:
                self.catch_up()

    def lines(self, kind: str = "", **parts: Any) -> list[dict[str, Any]]:
        """The lines of the journal of a kind, with these values."""
        found = []
        for segment in segments(self.spool, self.cluster.cluster_id):
            found += list(parse_lines(segment.key, self.spool.read(segment.key)))
        wanted = ({"line": kind} if kind else {}) | parts
        return [x for x in found if all(x.get(k) == v for k, v in wanted.items())]

    def pull(self, hours: int = 1) -> Attempt:
        """Land the last complete hours."""
        until = hour_of(self.clock.now())
        window = Interval(until - timedelta(hours=hours), until)
        return pull_hours(self.cluster.cluster_id, window, self.spool, self.landing, self.clock)

    def rows(self, attempt: Attempt) -> dict[str, list[dict[str, Any]]]:
        return decode_rows(attempt, self.landing)


def identified(cluster: SimulatedCluster) -> SimulatedCluster:
    """The cluster with the one namespace whose UID is its ID."""
    own = [
        replace(n, uid=cluster.cluster_id) if n.name == "kube-system" else n
        for n in cluster.namespaces
    ]
    return replace(cluster, namespaces=tuple(own))


@contextmanager
def world(
    cluster: SimulatedCluster,
    folder: Path,
    start: int,
    *,
    faults: tuple[Fault, ...] = (),
    **options: Any,
) -> Iterator[World]:
    """A cluster that is served from `start` (seconds since the epoch) on."""
    cluster = identified(cluster)
    clock, ledger = driven(epoch(start)), FaultLedger()
    api = KubernetesApi(cluster, clock, faults=faults, ledger=ledger, **options)
    landing = Landing(FolderStore(folder / "landing"))
    spool = FolderStore(folder / "spool")
    with listening(api.app) as url:
        made = World(cluster, clock, api, url, spool, landing, ledger)
        try:
            yield made
        finally:
            made._stop.set()
            clock.close()
            api.hub.close()
            if made._thread is not None:
                made._thread.join(PATIENCE_SECONDS)
