"""A home that was opened: its settings, decisions, stores and clock, as every step needs them.

Put here: opening and holding them together, and how each cluster is asked.
Not here: the steps themselves (`orchestration.steps`), options and printing (`orchestration.cli`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from domain.clock import Clock, StoppedClock, SystemClock
from domain.decisions import Decisions, load_decisions
from domain.interval import parse_instant
from warehouse.home import Home
from warehouse.store import Store, open_store

if TYPE_CHECKING:
    from billing.record import Record
    from ingestion.evidence.landing import Landing
    from ingestion.settings import ClusterSource, Settings
    from ingestion.thanos.query_runner import PullMemory


CLOCK_VARIABLE = "GPU_LEDGER_NOW"
"""In whose time everything happens: unset, the machine's. For simulated fleets and trials."""


@dataclass(frozen=True)
class OpenHome:
    """A home as it was when it was opened; settings and decisions are read once, when needed."""

    home: Home
    clock: Clock
    _memories: dict[str, PullMemory] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def at(cls, path: Path, clock: Clock | None = None) -> OpenHome:
        return cls(Home.open(path), clock or clock_of(os.environ.get(CLOCK_VARIABLE, "")))

    @cached_property
    def settings(self) -> Settings:
        from ingestion.settings import load_settings

        return load_settings(self.home.config_path)

    @cached_property
    def decisions(self) -> Decisions:
        return load_decisions(decision_files(self.home))

    @cached_property
    def landing(self) -> Landing:
        from ingestion.evidence.landing import Landing

        return Landing(self.home.landing_store())

    @cached_property
    def record(self) -> Record:
        from billing.record import Record

        return Record(self.home.record_store())

    def spool(self, cluster_id: str) -> Store:
        """Where the collector of a cluster keeps its journal."""
        kubernetes = self.settings.cluster(cluster_id).kubernetes
        place = kubernetes.journal if kubernetes else ""
        return open_store(place or self.home.path / "journal" / cluster_id)

    def thanos_source(self, cluster_id: str, hour: datetime) -> ClusterSource | None:
        """How the samples of a cluster are queried for an hour; None where none are expected."""
        from ingestion.settings import ClusterSource
        from warehouse.manifest import Sampling

        cluster = self.settings.cluster(cluster_id)
        decided = self.decisions.cluster_in_hour(cluster_id, hour)
        if cluster.thanos is None or decided is None:
            return None
        sampling = Sampling(decided.sample_interval_seconds, decided.scrape_interval_seconds)
        return ClusterSource(cluster_id, cluster.thanos, sampling, self.settings.pod_labels)

    def pull_memory(self, cluster_id: str, beside: Collection[str] = ()) -> PullMemory:
        """What pulls of one cluster remember for each other: its labels, decoded once.

        Only the last one's is kept, and those of the clusters that are asked beside it.
        """
        from ingestion.thanos.query_runner import PullMemory

        for other in {*self._memories} - {cluster_id, *beside}:
            del self._memories[other]
        return self._memories.setdefault(cluster_id, PullMemory())


def clock_of(text: str) -> Clock:
    """The machine's clock; else one that stands still, or that of a simulated fleet (a URL)."""
    if not text:
        return SystemClock()
    if text.startswith("http"):
        from orchestration.demo.fleet_clock import FleetClock

        return FleetClock(text)
    return StoppedClock(parse_instant(text))


def decision_files(home: Home) -> Mapping[str, bytes]:
    """The decision tables of a home, by file name."""
    return {path.name: path.read_bytes() for path in sorted(home.decisions.glob("*.csv"))}


def holder() -> str:
    """Who holds a lease: this process, in a form by which a person can find it."""
    return f"{socket.gethostname()}:{os.getpid()}"
