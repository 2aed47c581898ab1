"""An opened home: its settings, decisions, stores and clock, as every step needs them.

Put here: opening a home, and the sources of its clusters.
Not here: the steps themselves (`orchestration.steps`), options and printing (`orchestration.cli`).
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from billing.record import Record
from domain.clock import Clock, StoppedClock, SystemClock
from domain.decisions import Decisions, load_decisions
from domain.interval import parse_instant
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Settings, load_settings
from orchestration.fleet_clock import FleetClock
from warehouse.home import Home
from warehouse.manifest import Sampling
from warehouse.store import Store, open_store

CLOCK_VARIABLE = "GPU_LEDGER_NOW"
"""The time of every command: unset, the machine's clock; for simulated fleets and for tests, an
instant or the address of a fleet's clock."""


@dataclass(frozen=True)
class OpenHome:
    """A home as it was when it was opened; settings and decisions are read once, when needed."""

    home: Home
    clock: Clock

    @classmethod
    def at(cls, path: Path, clock: Clock | None = None) -> OpenHome:
        return cls(Home.open(path), clock or clock_from_environment())

    @cached_property
    def settings(self) -> Settings:
        return load_settings(self.home.config_path)

    @cached_property
    def decisions(self) -> Decisions:
        return load_decisions(decision_files(self.home))

    @cached_property
    def landing(self) -> Landing:
        return Landing(self.home.landing_store())

    @cached_property
    def record(self) -> Record:
        return Record(self.home.record_store())

    def spool(self, cluster_id: str) -> Store:
        """The store in which the collector of a cluster keeps its journal."""
        kubernetes = self.settings.cluster(cluster_id).kubernetes
        place = kubernetes.journal if kubernetes else ""
        return open_store(place or self.home.path / "journal" / cluster_id)

    def thanos_source(self, cluster_id: str, hour: datetime) -> ClusterSource | None:
        """The source of a cluster's samples in an hour; None if no samples are expected."""
        cluster = self.settings.cluster(cluster_id)
        decided = self.decisions.cluster_in_hour(cluster_id, hour)
        if cluster.thanos is None or decided is None:
            return None
        sampling = Sampling(decided.sample_interval_seconds, decided.scrape_interval_seconds)
        return ClusterSource(cluster_id, cluster.thanos, sampling, self.settings.pod_labels)

    @property
    def option(self) -> str:
        """The `--home` option with which a command in any folder uses this home."""
        return f"--home {shlex.quote(str(self.home.path.resolve()))}"


def clock_from_environment() -> Clock:
    return clock_of(os.environ.get(CLOCK_VARIABLE, ""))


def clock_of(text: str) -> Clock:
    """The machine's clock, a clock stopped at an instant, or a fleet's clock by its address."""
    if not text:
        return SystemClock()
    if text.startswith("http"):
        return FleetClock(text)
    return StoppedClock(parse_instant(text))


def decision_files(home: Home) -> Mapping[str, bytes]:
    """The decision tables of a home, by file name."""
    return {path.name: path.read_bytes() for path in sorted(home.decisions.glob("*.csv"))}


def holder() -> str:
    """The name under which this process holds a lease: host and process ID."""
    return f"{socket.gethostname()}:{os.getpid()}"
