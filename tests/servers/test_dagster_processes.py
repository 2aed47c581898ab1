"""Webserver, daemon and parallel runs on one PostgreSQL, with a broken location and a lost
database.

Put here: behaviour that needs real processes.
Not here: faults of Dagster's storage in one process (`test_dagster_on_postgres`,
`unit/test_dagster_faults`).

A queue of a thousand partitions takes a quarter of an hour: run this file with
GPU_LEDGER_QUEUED_RUNS=1000.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from domain.decisions import Source
from domain.interval import Interval, format_instant
from orchestration import open_hours
from orchestration.dagster_code.instance import POSTGRES_VARIABLE, make_pool, mark_of, prepare
from orchestration.dagster_code.run_tags import REQUESTED_BY, STARTED_IN
from orchestration.dagster_code.web_ui import new_session, run_web_ui
from orchestration.open_home import CLOCK_VARIABLE
from orchestration.open_hours import is_complete
from tests.orchestrated import Dagster, drive_to_end, opened_at, prepare_models
from tests.servers import postgres
from tests.servers.dagster_processes import Webserver, all_ended, counted, wait_until
from tests.servers.process import free_port
from tests.servers.test_dagster_on_postgres import Server

pytestmark = pytest.mark.servers

QUEUED_RUNS = int(os.environ.get("GPU_LEDGER_QUEUED_RUNS", "20"))
AT_ONCE = 100  # runs that one call queues
SAMPLES, JOURNAL = "east/thanos_hours", "east/kubernetes_hours"
FIRST, LAST = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 6, tzinfo=UTC)
AFTER = datetime(2026, 10, 1, 9, tzinfo=UTC)
OLD, LIVE = "2026-10-01T00", "2026-10-01T05"
QUEUED = dg.DagsterRunStatus.QUEUED


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-postgres-") as folder:
        server = Server(postgres.make_cluster(Path(folder) / "cluster"))
        server.start()
        yield server
        server.stop()


def test_a_queue_survives_a_broken_location_and_a_lost_database(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, server.cluster.url)
    monkeypatch.setenv(CLOCK_VARIABLE, format_instant(AFTER))
    with drive_to_end("thin_line", tmp_path) as world:
        world.running.clock.advance_to(AFTER)
        prepare_models(world.home)
        opened = opened_at(world.home, AFTER)
        environment = prepare(opened)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        make_pool()
        port = free_port()
        with (
            all_ended(opened.home.dagster),
            dg.DagsterInstance.get() as instance,
            run_web_ui(opened, "127.0.0.1", port, environment, ["webserver"]) as shown,
        ):
            shown.wait_until_ready()
            webserver = Webserver(new_session(shown.url, shown.folder))
            # A backfill as single runs, each for an hour long past.
            for begun in range(0, QUEUED_RUNS, AT_ONCE):
                some = [OLD] * min(AT_ONCE, QUEUED_RUNS - begun)
                webserver.queue(SAMPLES.split("/"), some, {"dagster/backfill": "long"})
            assert counted(instance, statuses=[QUEUED]) == QUEUED_RUNS
            with (
                refused_decisions(world.home),
                run_web_ui(opened, "127.0.0.1", free_port(), environment, ["daemon"]),
            ):
                wait_until(lambda: bool(refusals(instance)), "a run says why it waits")
                refused_at = queue_seen_at(instance)
                wait_until(lambda: queue_seen_at(instance) > refused_at, "the queue is read again")
            [why] = refusals(instance)  # one run tries on behalf of all
            assert "DecisionsRefused" in why
            assert "clusters.csv" in why
            assert counted(instance, statuses=[QUEUED]) == counted(instance) == QUEUED_RUNS
            with run_web_ui(opened, "127.0.0.1", free_port(), environment, ["daemon"]) as working:
                dagster = Dagster(world.home, instance, AFTER)
                wait_until(lambda: is_green(dagster, SAMPLES, LIVE), "the live hour is green")
                mark = mark_of(opened.home.dagster)
                assert counted(instance, tags={STARTED_IN: mark, REQUESTED_BY: "hours_due"})
                waiting = counted(instance, statuses=[QUEUED], tags={"dagster/backfill": "long"})
                assert waiting > QUEUED_RUNS // 2
                daemon_log = working.log("daemon")
                read_before = daemon_log.stat().st_size
                server.stop()
                wait_until(
                    lambda: b"OperationalError" in daemon_log.read_bytes()[read_before:],
                    "the daemon notices that its database is away",
                )
                server.start()
                for run in instance.get_runs(dg.RunsFilter(statuses=[QUEUED])):
                    if "dagster/backfill" in run.tags:  # a thousand runs take too long
                        instance.report_run_canceled(run)
                # The sensor's next evaluation would query the due hours; the test evaluates it now.
                for request in dagster.look("hours_due").run_requests:
                    dagster.execute(request)
                wait_until(
                    lambda: all(is_green(dagster, a, OLD) for a in (SAMPLES, JOURNAL)), "all green"
                )
                working.require_alive()
                shown.require_alive()
                wait_until(
                    lambda: not counted(instance, statuses=[dg.DagsterRunStatus.STARTED]), "rest"
                )
        entries = open_hours.hour_entries(opened_at(world.home, AFTER), Interval(FIRST, LAST))
        assert len(entries) == 12
        assert all(is_complete(entry) for entry in entries)
        newest = [e for e in entries if e.hour_started_at == LAST - (LAST - FIRST) / 6]
        assert {entry.source: len(entry.responses) for entry in newest} == dict.fromkeys(Source, 1)


@contextmanager
def refused_decisions(home: Path) -> Iterator[None]:
    """Two decisions for one cluster, so the code location does not load."""
    table = home / "decisions" / "clusters.csv"
    right = table.read_text()
    table.write_text(right + right.splitlines()[-1] + "\n")
    yield
    table.write_text(right)


def queue_seen_at(instance: dg.DagsterInstance) -> float:
    """The time of the last heartbeat of the daemon that starts queued runs."""
    return instance.get_daemon_heartbeats()["QUEUED_RUN_COORDINATOR"].timestamp


def refusals(instance: dg.DagsterInstance) -> list[str]:
    """The errors of queued runs about the code location."""
    return [
        str(event.engine_event_data.error)
        for run in instance.get_runs()
        for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        if (event := entry.get_dagster_event()).engine_event_data.error
    ]


def is_green(dagster: Dagster, asset: str, hour: str) -> bool:
    return dagster.statuses(asset)[hour] == "MATERIALIZED"
