"""Faults of Dagster's workers, daemons and queues: hours are pulled later, with the reason.

Put here: faults between a pull and Dagster's record of it.
Not here: the loss of Dagster's whole storage (`scenarios/test_dagster_without_its_storage`), or
PostgreSQL's faults (`servers/test_dagster_on_postgres`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import dagster as dg
import pytest

from domain.decisions import Source
from domain.interval import Interval, format_instant
from ingestion.evidence.hour_ledger import HourEntry
from orchestration import open_hours
from orchestration.dagster_code.instance import end_lost_runs
from orchestration.dagster_code.run_tags import RANGE_END, RANGE_START
from orchestration.open_hours import is_complete
from tests.orchestrated import Dagster, World, dagster_at, drive_to_end, opened_at
from warehouse.store import FolderStore

pytestmark = pytest.mark.deep

SAMPLES, JOURNAL = "east/thanos_hours", "east/kubernetes_hours"
AFTER = datetime(2026, 10, 1, 9, tzinfo=UTC)
NAMES = [f"2026-10-01T0{hour}" for hour in range(6)]
KILLED = 9
WAIT_SECONDS = 120.0  # for the second run, on a machine under load
QUEUED_RUNS = int(os.environ.get("GPU_LEDGER_QUEUED_RUNS", "100"))
"""A thousand take a minute: run GPU_LEDGER_QUEUED_RUNS=1000 pytest on this file."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with drive_to_end("thin_line", tmp_path_factory.mktemp("faults")) as world:
        world.running.clock.advance_to(AFTER)
        yield world


@pytest.fixture
def dagster(world: World, tmp_path: Path) -> Iterator[Dagster]:
    with dagster_at(world.copied(tmp_path), AFTER, tmp_path / "memory") as dagster:
        yield dagster


def entries(dagster: Dagster, source: Source) -> list[HourEntry]:
    found = open_hours.hour_entries(opened_at(dagster.home, AFTER), Interval(FIRST, FIRST_AFTER))
    return [entry for entry in found if entry.source is source]


FIRST, FIRST_AFTER = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 6, tzinfo=UTC)

WORKER = """
import os, sys
from datetime import datetime
from pathlib import Path
from orchestration.dagster_code import evidence_assets
from tests.orchestrated import dagster_at

home, memory, now, first, last = sys.argv[1:]
evidence_assets.report_hours = lambda *_: os._exit(9)  # all is landed, nothing of it is told
with dagster_at(Path(home), datetime.fromisoformat(now), Path(memory)) as dagster:
    dagster.materialize("east/thanos_hours", first=first, last=last)
"""


def die_between_write_and_event(dagster: Dagster) -> None:
    """A worker that pulls all six hours and is killed before it reports an event to Dagster."""
    memory = dagster.instance.root_directory
    where = [str(dagster.home), memory, format_instant(AFTER), NAMES[0], NAMES[5]]
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WORKER, *where],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == KILLED, ran.stderr


def test_a_worker_killed_before_its_events_loses_and_duplicates_nothing(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_between_write_and_event(dagster)
    [run] = dagster.instance.get_runs()
    assert run.status is dg.DagsterRunStatus.STARTED  # Dagster has not noticed the kill
    assert set(dagster.statuses(SAMPLES).values()) <= {"IN_PROGRESS", "MISSING"}
    monkeypatch.setattr(dg.DagsterInstance, "get", lambda: dagster.instance)
    monkeypatch.setattr(type(dagster.instance), "__exit__", lambda *_: None)
    assert end_lost_runs("of another home") == 0
    assert end_lost_runs(dagster.mark) == 1
    assert "IN_PROGRESS" not in dagster.statuses(SAMPLES).values()
    requests = dagster.look("hours_due").run_requests
    # The samples are landed, so their partitions follow the landing; only the journal is requested.
    assert dagster.statuses(SAMPLES) == dict.fromkeys(NAMES, "MATERIALIZED")
    assert {key.path[-1] for r in requests for key in r.asset_selection} == {"kubernetes_hours"}
    assert [len(entry.responses) for entry in entries(dagster, Source.THANOS)] == [1] * 6
    [lost] = dagster.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
    assert "Its process ended before Dagster was started again" in lost.message


def landing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both runs assume that they write the first manifest of the chain."""
    both, create = Barrier(2), FolderStore.create

    def together(store: FolderStore, key: str, body: bytes) -> bool:
        if key.startswith("manifests/") and key.endswith("/0000000001.json"):
            both.wait(timeout=WAIT_SECONDS)
        return create(store, key, body)

    monkeypatch.setattr(FolderStore, "create", together)


@pytest.mark.parametrize(
    ("later", "sequences"),
    [
        # Two queries in the same second with equal responses are one attempt.
        pytest.param(timedelta(0), [1], id="in the same second"),
        pytest.param(timedelta(seconds=1), [1, 2], id="a second apart"),
    ],
)
def test_two_runs_on_one_partition_are_one_hour(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch, later: timedelta, sequences: list[int]
) -> None:
    landing_at_once(monkeypatch)
    other = Dagster(dagster.home, dagster.instance, AFTER + later)
    with ThreadPoolExecutor(2) as at_once:
        runs = list(
            at_once.map(lambda one: one.materialize(SAMPLES, partition=NAMES[2]), [dagster, other])
        )
    assert [run.success for run in runs] == [True, True]
    assert dagster.statuses(SAMPLES)[NAMES[2]] == "MATERIALIZED"
    opened = opened_at(dagster.home, AFTER)
    assert [attempt.sequence for attempt in opened.landing.attempts()] == sequences
    assert opened.landing.verify().problems == ()
    [hour] = [entry for entry in entries(dagster, Source.THANOS) if entry.responses]
    assert is_complete(hour)
    assert len({told.hour.sample_count for told in hour.responses}) == 1
    assert len(hour.responses) == len(sequences)


def test_a_daemon_killed_between_cursor_and_submit_requests_again(dagster: Dagster) -> None:
    first = dagster.look("hours_due")
    assert first.cursor
    again = dagster.look("hours_due", first.cursor)  # the cursor was stored without a run
    assert [r.tags for r in again.run_requests] == [r.tags for r in first.run_requests]
    assert len(again.run_requests) == 2


def test_facts_without_a_submitted_run_are_requested_again(dagster: Dagster) -> None:
    assert dagster.job("pull_due_hours").success
    first = dagster.look("facts_outdated")
    assert len(first.run_requests) == 1
    assert len(dagster.look("facts_outdated", first.cursor).run_requests) == 1


def test_the_live_hour_is_requested_despite_a_long_queue(dagster: Dagster) -> None:
    job = dagster.defs.resolve_implicit_global_asset_job_def().name
    for number in range(QUEUED_RUNS):
        # A backfill in many single runs, each for an hour long past.
        hour = NAMES[number % 5]
        dagster.instance.add_run(
            dg.DagsterRun(
                job,
                tags={RANGE_START: hour, RANGE_END: hour, "dagster/backfill": "long"},
                asset_selection={dagster.key(SAMPLES)},
                status=dg.DagsterRunStatus.NOT_STARTED,
            )
        )
    requests = dagster.look("hours_due").run_requests
    live, *others = requests
    assert (live.tags[RANGE_START], live.tags["dagster/priority"]) == (NAMES[5], "10")
    assert {key.path[-1] for key in live.asset_selection} == {"thanos_hours", "kubernetes_hours"}
    assert dagster.execute(live).success
    assert dagster.statuses(SAMPLES)[NAMES[5]] == "MATERIALIZED"
    # Queued hours are not requested again; the journal, which is not queued, is requested.
    assert {key.path[-1] for r in others for key in r.asset_selection} == {"kubernetes_hours"}
    # Facts wait for the queue only for a limited time: see `test_dagster_month`.


def test_a_code_location_that_fails_names_the_reason_and_loses_no_hour(dagster: Dagster) -> None:
    due = [request.tags for request in dagster.look("hours_due").run_requests]
    table = dagster.home / "decisions" / "clusters.csv"
    right = table.read_text()
    table.write_text(right + right.splitlines()[-1] + "\n")  # two decisions
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import orchestration.dagster_code.definitions"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "GPU_LEDGER_HOME": str(dagster.home)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode != 0
    assert "DecisionsRefused" in ran.stderr  # the error of the location on Dagster's pages
    assert "clusters.csv" in ran.stderr
    table.write_text(right)
    again = type(dagster)(dagster.home, dagster.instance, AFTER)
    assert [request.tags for request in again.look("hours_due").run_requests] == due
