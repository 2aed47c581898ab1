"""A real Prometheus with the simulated fleet's history gives the same runs as the simulator.

Put here: whole pulls from real servers, 2.x (closed ranges) and 3.x (left-open ranges).
Not here: single queries (`test_fake_equals_prometheus`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.clock import StoppedClock, SystemClock
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.fleet.model import Fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.openmetrics import write_openmetrics
from fake_gpu.prometheus.source import FleetSeries
from fake_gpu.serve import serve
from ingestion.evidence.hour_ledger import hour_ledger
from ingestion.evidence.landing import Landing
from ingestion.rebuild import rebuild
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.recheck import recheck
from ingestion.thanos.store_probe import probe
from tests.derived_rows import rows_of
from tests.servers.prometheus import make_blocks, programs, prometheus
from tests.small_fleets import MIDNIGHT, monitoring, quiet_fleet
from warehouse.manifest import Attempt, Outcome, Sampling
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

START = datetime.fromtimestamp(MIDNIGHT, UTC)
HOURS = 3
WINDOW = Interval(START, START + HOURS * HOUR)
LATER = START + timedelta(days=2)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return quiet_fleet(monitoring(staleness=False))


@pytest.fixture(scope="module", params=[2, 3])
def real_url(
    request: pytest.FixtureRequest, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    which = programs(request.param)
    folder: Path = tmp_path_factory.mktemp(f"prometheus{request.param}")
    clock = StoppedClock(WINDOW.ended_at + HOUR)
    histories = {c.cluster_id: ObjectHistory(c) for c in fleet.clusters}
    source = FleetSeries(fleet, histories, clock)
    before, after = START - 2 * HOUR, WINDOW.ended_at + HOUR
    make_blocks(which, write_openmetrics(source, before, after, folder / "om"), folder / "data")
    with prometheus(which, folder) as client:
        yield str(client.base_url)


def source_of(fleet: Fleet, url: str) -> ClusterSource:
    cluster = fleet.clusters[0]
    labels = (cluster.monitoring.replica_label,)
    server = ThanosSettings("hub", Connection(url), replica_labels=labels)
    return ClusterSource(cluster.cluster_id, server, Sampling(30, 30))


def runs(home: Path, attempt: Attempt) -> list[tuple[object, ...]]:
    rows = rows_of(home / "runs", attempt.cluster_id, [attempt.attempt_id], "runs")
    return [tuple(v for k, v in row.items() if k != "attempt_id") for row in rows]


def telemetry(home: Path, attempt: Attempt) -> dict[tuple[object, ...], tuple[object, ...]]:
    rows = rows_of(home / "runs", attempt.cluster_id, [attempt.attempt_id], "telemetry")
    return {
        (row["metric"], row["labels"], row["hour_started_at"]): (
            row["sample_count"],
            pytest.approx(row["average_value"], rel=1e-9),
            pytest.approx(row["maximum_value"], rel=1e-9),
        )
        for row in rows
        if row["metric"].startswith(("DCGM", "gpu"))
    }


def test_a_real_server_gives_the_runs_that_the_fake_gives(
    fleet: Fleet, real_url: str, tmp_path: Path
) -> None:
    landing = Landing(FolderStore(tmp_path / "real/landing"))
    real = pull_hours(
        source_of(fleet, real_url), WINDOW, landing, tmp_path / "real/runs", SystemClock()
    )
    with serve(fleet, VirtualClock(LATER)) as running:
        other = Landing(FolderStore(tmp_path / "fake/landing"))
        fake = pull_hours(
            source_of(fleet, running.thanos_url),
            WINDOW,
            other,
            tmp_path / "fake/runs",
            running.clock,
        )
    assert real.outcome is Outcome.OK
    assert runs(tmp_path / "real", real) == runs(tmp_path / "fake", fake)
    measured = telemetry(tmp_path / "real", real)
    assert measured
    assert measured == telemetry(tmp_path / "fake", fake)


def test_a_recount_agrees_and_a_rebuild_gives_the_same_files(
    fleet: Fleet, real_url: str, tmp_path: Path
) -> None:
    landing = Landing(FolderStore(tmp_path / "landing"))
    source = source_of(fleet, real_url)
    attempt = pull_hours(source, WINDOW, landing, tmp_path / "runs", SystemClock())
    expected = [(source.cluster_id, Source.THANOS, hour.hour) for hour in attempt.hours]
    found = recheck(source, WINDOW, hour_ledger(expected, [attempt]))
    assert (found.differences, dict(found.unanswered)) == ((), {})
    before = {path.name: path.read_bytes() for path in (tmp_path / "runs").rglob("*.parquet")}
    rebuild(landing, tmp_path / "runs")
    after = {path.name: path.read_bytes() for path in (tmp_path / "runs").rglob("*.parquet")}
    assert before == after


def test_the_doctor_finds_a_real_server_with_the_history_in_order(
    fleet: Fleet, real_url: str
) -> None:
    clock = StoppedClock(WINDOW.ended_at + timedelta(minutes=10))
    lines = probe(source_of(fleet, real_url), clock)
    wrong = {line.check for line in lines if not line.is_fine}
    assert "clocks agree" in wrong  # the test's clock is in the past
    assert not wrong & {"hub answers", "up", "kube_pod_status_phase", "sampling interval"}
