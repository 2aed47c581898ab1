"""A real store gateway over blocks that a real compactor has down-sampled: responses for old hours.

Queries request raw samples (`max_source_resolution=0s`). A real Thanos with down-sampled blocks
only then returns success without data. If a proxy drops the parameter, averages are returned as if
they were samples. Neither makes an hour complete, and the simulator behaves in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from domain.interval import Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.fleet.model import Fault, Fleet, ScrapeJob
from fake_gpu.serve import serve
from ingestion.evidence.hour_ledger import DOWN_SAMPLED
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.stores import StoresSeen, read_stores
from tests.derived_rows import rows_of
from tests.query_proxies import QueryProxy, proxied
from tests.servers import thanos
from tests.servers.prometheus import make_blocks, programs
from tests.servers.stored_fleets import REPLICA, START, as_open_metrics, series_of
from tests.small_fleets import MIDNIGHT, fleet_of, monitoring, pod, quiet_cluster
from warehouse.manifest import Attempt, Outcome, Sampling
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

INTERVAL_SECONDS = 60
# The range of a block after three compactions of two-hour blocks; down-sampling needs 40 hours.
BLOCK = timedelta(hours=54)
ENDS_AT = START + BLOCK
ASKED_AT = ENDS_AT + timedelta(hours=1)
# It contains a pod of ten minutes, which covers a window of five minutes only in part.
FIRST = Interval(START, START + timedelta(hours=1))
COLUMNS = ("hour_started_at", "metric", "labels", "first_sampled_at", "last_sampled_at",
           "sample_count", "sample_value")  # fmt: skip
Rows = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    jobs = (ScrapeJob("kube-state-metrics", INTERVAL_SECONDS, honor_labels=True),)
    watched = monitoring(replicas=1, staleness=False, jobs=jobs)
    cluster = quiet_cluster(watched)
    late = pod("late", created=899, scheduled=905, started=1080, ended=1400, on=cluster.nodes[1])
    found = fleet_of(replace(cluster, pods=(*cluster.pods, late)))
    return replace(found, ended_at=round(ENDS_AT.timestamp()))


@pytest.fixture(scope="module")
def bucket(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw block of two days, and the down-sampled block made from it."""
    folder = tmp_path_factory.mktemp("blocks")
    series = series_of(fleet, START, ENDS_AT)
    file = folder / "history.om"
    file.write_text(as_open_metrics(series))
    make_blocks(programs(3), [file], folder / "data", "--max-block-duration=162h")
    labels = {name: series[0].labels[name] for name in ("cluster", "clusterID", REPLICA)}
    thanos.upload(folder / "data", folder / "bucket", labels)
    thanos.down_sample(folder / "bucket", folder / "work")
    assert sorted(thanos.resolutions(folder / "bucket").values()) == [0, thanos.RESOLUTION_MS]
    return folder / "bucket"


@contextmanager
def queried_over(bucket: Path, folder: Path, *options: str) -> Iterator[str]:
    with (
        thanos.store_gateway(bucket, folder) as store,
        thanos.querier([store.endpoint], folder, *options, replica_label=REPLICA) as url,
    ):
        yield url


def pulled(fleet: Fleet, url: str, folder: Path) -> tuple[Attempt, Rows]:
    settings = ThanosSettings("hub", Connection(url), replica_labels=(REPLICA,))
    sampling = Sampling(INTERVAL_SECONDS, INTERVAL_SECONDS)
    source = ClusterSource(fleet.clusters[0].cluster_id, settings, sampling)
    landing, clock = Landing(FolderStore(folder / "landing")), VirtualClock(ASKED_AT)
    attempt = pull_hours(source, FIRST, landing, folder / "runs", clock)
    rows = rows_of(folder / "runs", attempt.cluster_id, [attempt.attempt_id], "runs")
    return attempt, sorted([tuple(row[name] for name in COLUMNS) for row in rows], key=repr)


def from_the_fake(fleet: Fleet, folder: Path, **parameters: object) -> tuple[Attempt, Rows]:
    """The same fleet in the simulator; with parameters, its raw samples are gone."""
    until = round(ENDS_AT.timestamp())
    gone = Fault("gone", "downsampled", "", MIDNIGHT, until, 1, {"resolution": 300, **parameters})
    faulty = replace(fleet, faults=(gone,) if parameters else ())
    with serve(faulty, VirtualClock(ASKED_AT)) as fake:
        return pulled(fleet, fake.thanos_url, folder)


def inside(rows: Rows) -> Rows:
    """Rows without the neighbours of the hour. The blocks begin with the hour, the simulated store
    does not; and beside averages the simulated store returns the raw sample after the hour.
    """
    first, last = COLUMNS.index("first_sampled_at"), COLUMNS.index("last_sampled_at")
    edge = timedelta(seconds=INTERVAL_SECONDS)
    clipped = []
    for row in rows:
        cells = list(row)
        cells[first] = max(row[first], FIRST.started_at + edge)
        cells[last] = min(row[last], FIRST.ended_at - edge)
        clipped.append(tuple(cells))
    return clipped


def test_raw_samples_are_returned_beside_averages(
    fleet: Fleet, bucket: Path, tmp_path: Path
) -> None:
    with queried_over(bucket, tmp_path / "thanos") as url:
        attempt, rows = pulled(fleet, url, tmp_path / "real")
        named = httpx.get(f"{url}/api/v1/stores", timeout=30, trust_env=False).content
    assert (attempt.outcome, attempt.hours[0].reason) == (Outcome.OK, "")
    assert attempt.draft.facts["stores"] == 1
    assert read_stores(named, 'clusterID="another"') == StoresSeen(0, ())
    assert inside(rows) == inside(from_the_fake(fleet, tmp_path / "fake")[1])
    assert attempt.hours[0].by_metric["up"] == (1, 60)


def test_an_hour_of_down_sampled_blocks_only_is_empty(
    fleet: Fleet, bucket: Path, tmp_path: Path
) -> None:
    only = thanos.without_raw(bucket, tmp_path / "bucket")
    with queried_over(only, tmp_path / "thanos") as url:
        attempt, rows = pulled(fleet, url, tmp_path / "real")
    [hour] = attempt.hours
    assert {answer.outcome for answer in attempt.answers} == {Outcome.OK}
    assert attempt.warning_count == 0  # success without a warning
    assert (hour.outcome, hour.reason, rows) == (
        Outcome.EMPTY,
        "no sample of up, kube_node_info",
        [],
    )
    fake, none = from_the_fake(fleet, tmp_path / "fake", whatever_is_asked=0)
    assert (fake.hours[0].outcome, fake.hours[0].reason, none) == (hour.outcome, hour.reason, [])


def test_averages_are_distinguished_from_samples(
    fleet: Fleet, bucket: Path, tmp_path: Path
) -> None:
    """A proxy drops the parameter, and the querier returns averages by default."""
    only = thanos.without_raw(bucket, tmp_path / "bucket")
    coarse = ("--query.auto-downsampling", "--query.instant.default.max_source_resolution=5m")
    drops = QueryProxy(drops=("max_source_resolution",))
    with (
        queried_over(only, tmp_path / "thanos", *coarse) as url,
        proxied(url, drops) as through,
    ):
        attempt, rows = pulled(fleet, through, tmp_path / "real")
    [hour] = attempt.hours
    assert {answer.outcome for answer in attempt.answers} == {Outcome.OK}
    assert hour.by_metric["up"] == (1, 12)
    assert hour.outcome is Outcome.DEGRADED
    assert hour.reason == "down-sampled: 1 targets have averages at the ends of 5-minute windows"
    assert hour.facts[DOWN_SAMPLED] == 1
    fake, same = from_the_fake(fleet, tmp_path / "fake", whatever_is_asked=1)
    assert (fake.hours[0].outcome, fake.hours[0].reason) == (hour.outcome, hour.reason)
    assert inside(rows) == inside(same)
    assert "0.4" in {row[-1] for row in rows}  # a phase that was true in two of five scrapes
