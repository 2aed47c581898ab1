"""A home whose fleet is served, and Dagster in this process: the environment of the Dagster tests.

Put here: creating that home, its definitions at an instant, running requests.
Not here: expectations.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from domain.clock import StoppedClock
from domain.interval import HOUR, Interval, format_instant
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import Running, serve
from orchestration.dagster_code.build import build_defs
from orchestration.dagster_code.model_graph import prepared_graph
from orchestration.dagster_code.resources import LedgerHome
from orchestration.dagster_code.run_tags import RANGE_END, RANGE_START, STARTED_IN
from orchestration.demo.clock_driver import drive_clock, run_collectors
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from warehouse.home import Home
from warehouse.project import project_sha256

BEFORE = timedelta(minutes=10)


@dataclass(frozen=True)
class World:
    """A served fleet, and a home with a complete journal and without pulls."""

    home: Path
    running: Running

    @property
    def span(self) -> Interval:
        fleet = self.running.fleet
        return Interval(epoch(fleet.started_at), epoch(fleet.ended_at))

    def copied(self, place: Path) -> Path:
        """A copy of the home, for the same fleet."""
        shutil.copytree(self.home, place / "home")
        return place / "home"


@contextmanager
def drive_to_end(scenario: str, folder: Path) -> Iterator[World]:
    """Move the clock to the end of the fleet, with all events in the journal and the store."""
    fleet = build_fleet(load_scenario(scenario))
    span = Interval(epoch(fleet.started_at), epoch(fleet.ended_at))
    clock = driven(span.started_at - BEFORE)
    with serve(fleet, clock) as running:
        home = make_home(folder / "home", fleet, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, clock)
        with run_collectors(opened, running) as collectors:
            drive_clock(
                running, collectors, Interval(span.started_at - BEFORE, span.ended_at + HOUR)
            )
        yield World(home.path, running)


def wrong_address(home: Path) -> str:
    """Set an address at which every path is 404; returns the previous settings."""
    config = home / "config.toml"
    before = config.read_text()
    config.write_text(re.sub(r'(\[thanos\.fake\]\nurl = "[^"]*)"', r'\1/gone"', before))
    assert config.read_text() != before
    return before


def unwatch(home: Path, hour: int, minute: int) -> None:
    """Break the watch of the pods in this minute until the hour's last second."""
    whole, broken = (
        f'"resource":"pods","until":"2026-10-01T{hour:02d}:{at}Z"'
        for at in ("59:59", f"{minute:02d}:00")
    )
    segments = (home / "journal").rglob(f"*2026-10-01T{hour:02d}*")
    [path] = [path for path in segments if whole in path.read_text()]
    *said, seal = path.read_text().replace(whole, broken).splitlines(keepends=True)
    sha256 = hashlib.sha256("".join(said).encode()).hexdigest()
    path.write_text("".join([*said, re.sub("[0-9a-f]{64}", sha256, seal)]))


def prepare_models(home: Path) -> None:
    """The graph of the models, parsed once on this machine for every state of the project."""
    kept = Path(tempfile.gettempdir()) / f"gpu-ledger-models-{project_sha256()[:16]}"
    folder = home / "build" / "dbt"
    folder.mkdir(parents=True, exist_ok=True)
    for graph in kept.glob("graph-*.json"):
        shutil.copy(graph, folder)
    prepared_graph(Home.open(home))
    kept.mkdir(exist_ok=True)
    for graph in folder.glob("graph-*.json"):
        unfinished = kept / f"{os.getpid()}"
        shutil.copy(graph, unfinished)
        unfinished.replace(kept / graph.name)


def opened_at(home: Path, now: datetime) -> OpenHome:
    return OpenHome.at(home, StoppedClock(now))


@dataclass
class Dagster:
    """The definitions of a home at an instant, with a storage that can be deleted."""

    home: Path
    instance: dg.DagsterInstance
    now: datetime
    mark: str = "of this start"

    def __post_init__(self) -> None:
        prepare_models(self.home)
        self.defs = build_defs(self.resource)
        self.repository = self.defs.get_repository_def()

    @property
    def resource(self) -> LedgerHome:
        return LedgerHome(path=str(self.home), now=format_instant(self.now))

    def key(self, text: str) -> dg.AssetKey:
        return dg.AssetKey(text.split("/"))

    def partitions(self, text: str) -> Any:
        return self.defs.resolve_asset_graph().get(self.key(text)).partitions_def

    def statuses(self, text: str) -> dict[str, str]:
        """The partition states of an asset, by partition."""
        partitions = self.partitions(text)
        names = partitions.get_partition_keys()
        found = self.instance.get_status_by_partition(self.key(text), names, partitions) or {}
        return {name: getattr(found.get(name), "value", "MISSING") for name in names}

    def materialize(
        self, *assets: str, partition: str = "", first: str = "", last: str = ""
    ) -> dg.ExecuteInProcessResult:
        """Like a launch on the pages: some assets for a partition, or for a range in one run."""
        return self.execute(
            dg.RunRequest(
                asset_selection=[self.key(text) for text in assets],
                tags={"dagster/partition": partition}
                if partition
                else {RANGE_START: first, RANGE_END: last},
            )
        )

    def job(
        self, name: str, config: dict[str, Any] | None = None, partition: str | None = None
    ) -> Any:
        job = self.repository.get_job(name)
        ops = {"ops": {node.name: {"config": config} for node in job.nodes}} if config else None
        return job.execute_in_process(
            run_config=ops,
            instance=self.instance,
            partition_key=partition,
            raise_on_error=False,
        )

    def execute(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """Execute a request like the daemon."""
        job = (
            self.repository.get_job(request.job_name)
            if request.job_name
            else self.defs.resolve_implicit_global_asset_job_def()
        )
        if request.asset_check_keys and not request.asset_selection:
            job = job.get_subset(
                asset_selection=set(), asset_check_selection=set(request.asset_check_keys)
            )
        return job.execute_in_process(
            run_config=request.run_config or None,
            instance=self.instance,
            tags={**request.tags, STARTED_IN: self.mark},
            asset_selection=list(request.asset_selection) if request.asset_selection else None,
            raise_on_error=False,
        )

    def look(self, sensor: str, cursor: str | None = None) -> Any:
        """One evaluation of a sensor; its events are stored, its requests are not run."""
        context = dg.build_sensor_context(
            instance=self.instance,
            repository_def=self.repository,
            cursor=cursor,
            resources={"ledger_home": self.resource},
        )
        found = self.repository.get_sensor_def(sensor).evaluate_tick(context)
        for event in found.asset_events:
            self.instance.report_runless_asset_event(event)
        return found

    def tick(self, schedule: str) -> Any:
        context = dg.build_schedule_context(
            instance=self.instance,
            repository_def=self.repository,
            scheduled_execution_time=self.now,
            resources={"ledger_home": self.resource},
        )
        return self.repository.get_schedule_def(schedule).evaluate_tick(context)

    def observations(self, text: str, partition: str) -> list[dg.AssetObservation]:
        filters = dg.AssetRecordsFilter(asset_key=self.key(text), asset_partitions=[partition])
        records = self.instance.fetch_observations(filters, limit=100).records
        return [record.asset_observation for record in records if record.asset_observation]

    def checks(self, text: str) -> dict[str, bool]:
        """The latest result of every check of an asset."""
        graph = self.defs.resolve_asset_graph()
        keys = sorted(graph.get(self.key(text)).check_keys)
        found = {}
        for key in keys:
            history = self.instance.event_log_storage.get_asset_check_execution_history(key, 1)
            for one in (record.evaluation for record in history):
                if isinstance(one, dg.AssetCheckEvaluation):
                    found[key.name] = one.passed
        return found


@cache
def empty_storage() -> tempfile.TemporaryDirectory[str]:
    """Dagster's storage without runs; to create its tables takes three times as long as to copy."""
    folder = tempfile.TemporaryDirectory(prefix="gpu-ledger-dagster-")
    with dg.DagsterInstance.local_temp(folder.name):
        return folder


@contextmanager
def dagster_at(home: Path, now: datetime, memory: Path) -> Iterator[Dagster]:
    """Dagster with its storage in a folder, as after a start."""
    if not memory.exists():
        shutil.copytree(empty_storage().name, memory)
    with dg.DagsterInstance.local_temp(str(memory)) as instance:
        yield Dagster(home, instance, now)
