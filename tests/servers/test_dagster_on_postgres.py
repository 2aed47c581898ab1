"""Dagster's storage in a real PostgreSQL that restarts, is down, and is restored from an older
dump.

Put here: the hours and their partition states afterwards.
Not here: the server (`postgres`), or Dagster's storage in SQLite (`unit/test_dagster_hours`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster_postgres.utils import DagsterPostgresException

from domain.decisions import Source
from domain.interval import Interval
from orchestration import open_hours, steps
from orchestration.cli.up import show_pages
from orchestration.dagster_code import evidence_assets, web_ui
from orchestration.dagster_code.instance import (
    POSTGRES_VARIABLE,
    end_lost_runs,
    make_pool,
    mark_of,
    postgres_url,
    prepare,
)
from orchestration.dagster_code.model_assets import POOL
from orchestration.dagster_code.run_tags import STARTED_IN
from orchestration.open_hours import is_complete
from tests.orchestrated import Dagster, World, drive_to_end, opened_at, prepare_models
from tests.servers import postgres
from tests.servers.process import free_port, required

pytestmark = pytest.mark.servers

SAMPLES, JOURNAL = "east/thanos_hours", "east/kubernetes_hours"
FIRST, LAST = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 6, tzinfo=UTC)
AFTER = datetime(2026, 10, 1, 9, tzinfo=UTC)
NAMES = [f"2026-10-01T0{hour}" for hour in range(6)]
GREEN = dict.fromkeys(NAMES, "MATERIALIZED")


@dataclass
class Server:
    """A PostgreSQL that a test can stop and start at any time."""

    cluster: postgres.Postgres
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        self._running.enter_context(postgres.started(self.cluster))

    def stop(self) -> None:
        """Stop in the mode "fast": sessions are closed without waiting."""
        notes = self.cluster.folder / "data" / "postmaster.pid"
        os.kill(int(notes.read_text().splitlines()[0]), signal.SIGINT)
        self._running.close()
        self._running = ExitStack()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with drive_to_end("thin_line", tmp_path_factory.mktemp("on_postgres")) as world:
        world.running.clock.advance_to(AFTER)
        yield world


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    # Outside pytest's own folder, which PostgreSQL's account cannot read.
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-postgres-") as folder:
        server = Server(postgres.make_cluster(Path(folder) / "cluster"))
        monkeypatch.setenv(POSTGRES_VARIABLE, server.cluster.url)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def home(world: World, tmp_path: Path) -> Path:
    return world.copied(tmp_path)


@contextmanager
def dagster_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dagster]:
    """Dagster as `gpu-ledger up` starts it: its instance file names the storage."""
    prepare_models(home)
    for name, value in prepare(opened_at(home, AFTER)).items():
        monkeypatch.setenv(name, value)
    make_pool()
    with dg.DagsterInstance.get() as instance:
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        yield Dagster(home, instance, AFTER)


def query_counts(home: Path, source: Source) -> list[int]:
    """The number of queries of each complete hour."""
    entries = open_hours.hour_entries(opened_at(home, AFTER), Interval(FIRST, LAST))
    return [len(e.responses) for e in entries if e.source is source and is_complete(e)]


def test_the_url_may_be_in_a_file_and_the_pool_is_created_at_start(
    home: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(POSTGRES_VARIABLE)
    secret = tmp_path / "url"
    secret.write_text(f"{server.cluster.url}\n")
    config = home / "config.toml"
    config.write_text(f'{config.read_text()}\n[schedule]\npostgres_url_file = "{secret}"\n')
    assert postgres_url(opened_at(home, AFTER)) == server.cluster.url
    with dagster_of(home, monkeypatch) as dagster:
        assert dagster.instance.event_log_storage.get_concurrency_info(POOL).slot_count == 1
        assert server.cluster.url not in (home / "dagster" / "dagster.yaml").read_text()
        assert dagster.materialize(SAMPLES, first=NAMES[0], last=NAMES[5]).success
        assert dagster.statuses(SAMPLES) == GREEN


def test_a_restart_of_the_database_during_a_backfill_has_no_effect(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = evidence_assets.report_hours

    def restarted(*arguments: object) -> list[str]:
        server.stop()
        server.start()
        return report(*arguments)  # type: ignore[arg-type]

    with dagster_of(home, monkeypatch) as dagster:
        monkeypatch.setattr(evidence_assets, "report_hours", restarted)
        assert dagster.materialize(SAMPLES, JOURNAL, first=NAMES[0], last=NAMES[5]).success
        assert (dagster.statuses(SAMPLES), dagster.statuses(JOURNAL)) == (GREEN, GREEN)
        assert dagster.look("hours_due").run_requests == []
    assert query_counts(home, Source.THANOS) == [1] * 6
    assert query_counts(home, Source.KUBERNETES) == [1] * 6


def test_the_database_stops_during_a_backfill_and_starts_too_late_for_it(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = evidence_assets.report_hours

    def gone(*arguments: object) -> list[str]:
        server.stop()
        return report(*arguments)  # type: ignore[arg-type]

    with dagster_of(home, monkeypatch) as dagster:
        with monkeypatch.context() as patch:
            patch.setattr(evidence_assets, "report_hours", gone)
            with pytest.raises(DagsterPostgresException):
                dagster.materialize(SAMPLES, first=NAMES[0], last=NAMES[5])
        server.start()
        assert dagster.statuses(SAMPLES) != GREEN
        assert end_lost_runs(dagster.mark) == 1
        # Landed hours are shown without a new query; only the other source is queried.
        for request in dagster.look("hours_due").run_requests:
            assert dagster.execute(request).success
        assert (dagster.statuses(SAMPLES), dagster.statuses(JOURNAL)) == (GREEN, GREEN)
    assert query_counts(home, Source.THANOS) == [1] * 6
    assert query_counts(home, Source.KUBERNETES) == [1] * 6


def test_hours_pulled_while_the_database_is_down_are_shown_later(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dagster_of(home, monkeypatch) as dagster:
        server.stop()
        with pytest.raises(DagsterPostgresException) as gone:
            dagster.look("hours_due")
        assert "refused" in str(gone.value.__cause__)  # the reason is visible
        steps.pull(opened_at(home, AFTER), Interval(FIRST, LAST))
        server.start()
        assert dagster.look("hours_due").run_requests == []
        assert (dagster.statuses(SAMPLES), dagster.statuses(JOURNAL)) == (GREEN, GREEN)
    assert query_counts(home, Source.THANOS) == [1] * 6


def test_the_database_is_restored_from_an_older_dump(
    home: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = required("pg_dump", f"{postgres.PLACES}/pg_dump")
    psql = required("psql", f"{postgres.PLACES}/psql")
    url = server.cluster.url
    with dagster_of(home, monkeypatch) as dagster:
        assert dagster.materialize(SAMPLES, JOURNAL, first=NAMES[0], last=NAMES[1]).success
        older = subprocess.run([dump, "--clean", url], check=True, capture_output=True).stdout
        assert dagster.materialize(SAMPLES, JOURNAL, first=NAMES[2], last=NAMES[5]).success
        cursor = dagster.look("hours_due").cursor
    subprocess.run([psql, "-q", url], input=older, check=True, capture_output=True)
    with dagster_of(home, monkeypatch) as dagster:
        assert dagster.statuses(SAMPLES)[NAMES[5]] == "MISSING"
        # The cursor may be newer or absent, because no run depends on it.
        assert dagster.look("hours_due", cursor).run_requests == []
        assert (dagster.statuses(SAMPLES), dagster.statuses(JOURNAL)) == (GREEN, GREEN)
    assert query_counts(home, Source.THANOS) == [1] * 6


def test_up_ends_the_runs_of_its_own_earlier_starts_and_leaves_all_others(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class WouldStart(Exception):
        """Raised when all steps before the start of Dagster's processes are done."""

    def no_pages(*_: object, **__: object) -> None:
        raise WouldStart

    with dagster_of(home, monkeypatch) as dagster:
        job = dagster.defs.resolve_implicit_global_asset_job_def()
        lost, other = (
            dagster.instance.create_run_for_job(
                job, tags={STARTED_IN: mark}, status=dg.DagsterRunStatus.STARTED
            )
            for mark in (mark_of(home / "dagster"), "of another home")
        )
        monkeypatch.setattr(web_ui, "run_web_ui", no_pages)
        with pytest.raises(WouldStart):
            show_pages(opened_at(home, AFTER), "127.0.0.1", free_port())
        assert "1 runs of the last start were lost; they are ended." in capsys.readouterr().err
        ended, going_on = (dagster.instance.get_run_by_id(run.run_id) for run in (lost, other))
        assert ended is not None
        assert going_on is not None
        assert ended.status is dg.DagsterRunStatus.FAILURE
        assert going_on.status is dg.DagsterRunStatus.STARTED
