"""Pulls from a real Thanos whose stores are whole, lose scrapes, stop, are cut off, or hang.

A real querier answers `success` without half of the data, at first with a warning and then without
a word. Nothing here asks the pull to find out what is missing; it must not count as complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from domain.clock import StoppedClock, SystemClock
from domain.decisions.rows import Source
from domain.identity import sha256
from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.estate.model import Cluster, Estate, Fault, ScrapeJob
from fake_gpu.exporters.exposition import labels_text
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.series import RawSeries
from fake_gpu.prometheus.source import EstateSeries
from fake_gpu.serve import serve
from ingestion.catalogue import ALLOCATION_ENTRIES
from ingestion.hours import (
    INCOMPLETE_PODS,
    MASS_ENDINGS,
    SUSPICIONS,
    Why,
    hour_ledger,
    why_due,
)
from ingestion.landing import Landing
from ingestion.manifest import Attempt, Outcome, Sampling
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from tests.servers import thanos
from tests.servers.cuttable import Relay, relayed
from tests.servers.process import wait_for
from tests.servers.prometheus import make_blocks, programs, prometheus
from tests.servers.thanos import Component
from tests.small_estates import MIDNIGHT, estate_of, monitoring, node, pod, quiet_cluster
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

START = datetime.fromtimestamp(MIDNIGHT, UTC)
FIRST = Interval(START, START + HOUR)
SECOND = Interval(START + HOUR, START + 2 * HOUR)
INTERVAL_SECONDS = 60
PODS = 60
REPLICA = "prometheus_replica"
# A store that hangs is waited for; the pull gives up before the server does.
TIMEOUT_SECONDS = 60
# A querier lists a store that is gone for five minutes; here for no longer than it takes.
FORGETS_AFTER = "5s"

# --- the estate ----------------------------------------------------------------------------------


def crowded(replicas: int) -> Cluster:
    """Sixty pods of two tenants, all there from before the first hour until after the last."""
    jobs = (ScrapeJob("kube-state-metrics", INTERVAL_SECONDS, honor_labels=True),)
    watched = monitoring(replicas=replicas, staleness=False, jobs=jobs)
    nodes = (node("node-a", cards=PODS // 2), node("node-b", cards=PODS // 2))
    pods = tuple(
        pod(f"p-{n:02}", created=-1800 + n, scheduled=-1700, started=-1600, on=nodes[n % 2],
            cards=(n // 2,), namespace=("team-a", "team-b")[n % 2])
        for n in range(PODS)
    )  # fmt: skip
    return replace(quiet_cluster(watched), nodes=nodes, pods=pods, workloads=(), quotas=())


def lost_scrapes() -> tuple[Fault, ...]:
    """Each replica lost another scrape of kube-state-metrics."""
    return tuple(
        Fault(f"lost-{replica}", "replica_scrape_lost", "", MIDNIGHT + at, MIDNIGHT + at + 60, 1,
              {"replica": replica})
        for replica, at in ((0, 600), (1, 1500))
    )  # fmt: skip


@pytest.fixture(scope="module")
def estate() -> Estate:
    """Scraped by one Prometheus, every time."""
    return estate_of(crowded(replicas=1))


@pytest.fixture(scope="module")
def replicated() -> Estate:
    return replace(estate_of(crowded(replicas=2)), faults=lost_scrapes())


NAMES = "|".join(entry.metric for entry in ALLOCATION_ENTRIES)


def series_of(estate: Estate) -> list[RawSeries]:
    """All samples of the catalogue in three hours, of both replicas."""
    clock = StoppedClock(START + 4 * HOUR)
    histories = {c.cluster_id: ObjectHistory(c, estate.faults) for c in estate.clusters}
    source = EstateSeries(estate, histories, clock)
    start_ms = (MIDNIGHT - 3600) * 1000
    return source.select((Matcher("__name__", "=~", NAMES),), start_ms, (MIDNIGHT + 10800) * 1000)


# --- real stores ---------------------------------------------------------------------------------

Share = Callable[[RawSeries], bool]


def by_series(which: int) -> Share:
    """Half of all series, whatever they are about: as receivers share them."""
    return lambda series: int(sha256(dict(series.key))[:8], 16) % 2 == which


def by_tenant(which: int) -> Share:
    """All pods of one tenant; what is of no tenant is in both."""
    other = ("team-b", "team-a")[which]
    return lambda series: series.labels.get("namespace") != other


def by_replica(which: int) -> Share:
    return lambda series: series.labels[REPLICA].endswith(str(which))


@dataclass
class Store:
    """A Prometheus with a part of the history, its sidecar, and the network before it."""

    sidecar: Component
    relay: Relay

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.relay.port}"


@contextmanager
def store(series: Sequence[RawSeries], number: int, folder: Path) -> Iterator[Store]:
    """These series as blocks of a real Prometheus, behind a real sidecar."""
    folder.mkdir(parents=True)
    file = folder / "history.om"
    file.write_text("".join(map(_lines, series)) + "# EOF\n")
    which = programs(3)
    make_blocks(which, [file], folder / "data")
    labels = {name: series[0].labels[name] for name in ("cluster", "clusterID")}
    labels |= {REPLICA: f"prometheus-{number}"}
    config = "global:\n  external_labels:\n" + "".join(
        f"    {name}: {text}\n" for name, text in labels.items()
    )
    with (
        prometheus(which, folder, config) as client,
        thanos.sidecar(str(client.base_url), folder / "data", folder) as made,
        relayed(made.grpc_port) as relay,
    ):
        yield Store(made, relay)


def _lines(series: RawSeries) -> str:
    """Without the labels that the sidecar adds."""
    shown = [
        (n, v) for n, v in series.key if n not in ("cluster", "clusterID", REPLICA, "__name__")
    ]
    prefix = f"{series.labels['__name__']}{labels_text(shown)}"
    pairs = zip(series.timestamps_ms, series.values, strict=True)
    return "".join(f"{prefix} {value} {at / 1000:.3f}\n" for at, value in pairs)


@dataclass
class Halves:
    """Two stores, each with its share, and the querier over both."""

    stores: tuple[Store, ...]
    url: str


@contextmanager
def halves(estate: Estate, share: Callable[[int], Share], folder: Path) -> Iterator[Halves]:
    every = series_of(estate)
    with ExitStack() as stack:
        made = tuple(
            stack.enter_context(store([s for s in every if share(n)(s)], n, folder / f"store-{n}"))
            for n in (0, 1)
        )
        url = stack.enter_context(
            thanos.querier(
                [each.endpoint for each in made],
                folder,
                replica_label=REPLICA,
                forgets_after=FORGETS_AFTER,
            )
        )
        wait_for(lambda: is_whole(url, 2), "two stores")
        yield Halves(made, url)


def is_whole(url: str, count: int) -> bool:
    return list(thanos.stores(url).values()) == [None] * count


# --- asking --------------------------------------------------------------------------------------


class Asked:
    """One landing that is asked into again and again."""

    def __init__(self, estate: Estate, url: str, folder: Path) -> None:
        connection = Connection(url, timeout_seconds=TIMEOUT_SECONDS)
        settings = ThanosSettings("hub", connection, replica_labels=(REPLICA, "receive_replica"))
        sampling = Sampling(INTERVAL_SECONDS, INTERVAL_SECONDS)
        self.source = ClusterSource(estate.clusters[0].cluster_id, settings, sampling)
        self.landing = Landing(FolderStore(folder / "landing"))
        self.runs = folder / "runs"

    def pull(self, window: Interval = FIRST) -> Attempt:
        return pull_hours(self.source, window, self.landing, self.runs, SystemClock())

    def rows(self, attempt: Attempt) -> list[tuple[object, ...]]:
        path = self.runs / "thanos" / attempt.cluster_id / f"{attempt.attempt_id}.runs.parquet"
        rows = pq.read_table(path).to_pylist()
        return [tuple(v for k, v in row.items() if k != "attempt_id") for row in rows]


def true_rows(estate: Estate, folder: Path, window: Interval = FIRST) -> list[tuple[object, ...]]:
    """What the fake Thanos gives of the same estate."""
    with serve(estate, VirtualClock(START + 4 * HOUR)) as fake:
        asked = Asked(estate, fake.thanos_url, folder / "fake")
        attempt = pull_hours(asked.source, window, asked.landing, asked.runs, fake.clock)
        return asked.rows(attempt)


def doubts(attempt: Attempt) -> list[str]:
    """Everything by which an attempt says that it may not be the whole truth."""
    found = [f"{h.outcome}: {h.reason}" for h in attempt.hours if h.outcome is not Outcome.OK]
    for hour in attempt.hours:
        found += [f"{name}={hour.facts[name]}" for name in SUSPICIONS if hour.facts.get(name)]
    if attempt.draft.facts.get("failing_stores"):
        found.append(f"failing_stores={attempt.draft.facts['failing_stores']}")
    return found


def lacks(asked: Asked, attempt: Attempt, truth: list[tuple[object, ...]]) -> int:
    """How many runs of the truth an attempt does not have."""
    return len(set(truth) - set(asked.rows(attempt)))


def is_silent(url: str) -> bool:
    """Whether the querier answers without a warning."""
    asked: dict[str, str | int] = {
        "query": "up[1h]",
        "time": MIDNIGHT + 3600,
        "partial_response": "false",
    }
    answer = httpx.get(f"{url}/api/v1/query", params=asked, timeout=60, trust_env=False).json()
    return answer["status"] == "success" and not answer.get("warnings")


def has_forgotten(url: str, left: int) -> bool:
    """Whether not even the list of stores tells any more that one is gone."""
    return is_silent(url) and is_whole(url, left)


def wait_until_forgotten(url: str, left: int = 1) -> None:
    wait_for(lambda: has_forgotten(url, left), "the querier's forgetting", every_seconds=0.5)


# --- replicas ------------------------------------------------------------------------------------


def test_replicas_that_each_lost_another_scrape_are_whole_together(
    replicated: Estate, tmp_path: Path
) -> None:
    with halves(replicated, by_replica, tmp_path) as made:
        asked = Asked(replicated, made.url, tmp_path)
        whole = asked.pull()
        assert doubts(whole) == []
        assert asked.rows(whole) == true_rows(replicated, tmp_path)
        # The other one has no sample of the scrape that it lost; that is a hole, and no secret.
        made.stores[0].sidecar.kill()
        wait_until_forgotten(made.url)
        alone = asked.pull()
        assert alone.outcome is Outcome.DEGRADED
        assert alone.hours[0].reason.startswith("less than an earlier ok answer")
        pods = [row for row in asked.rows(alone) if row[2] == "kube_pod_info"]
        assert len(pods) == 2 * PODS


# --- half of the data ----------------------------------------------------------------------------

WAYS: dict[str, Callable[[Store], None]] = {
    "stopped": lambda store: store.sidecar.kill(),
    "hangs": lambda store: store.sidecar.hang(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_store_with_half_of_all_series_goes(estate: Estate, tmp_path: Path, way: str) -> None:
    """A pod's metrics are shared out, so a pod lacks some: the answer contradicts itself."""
    truth = true_rows(estate, tmp_path)
    with halves(estate, by_series, tmp_path) as made:
        asked = Asked(estate, made.url, tmp_path / "asked")
        whole = asked.pull()
        assert (doubts(whole), lacks(asked, whole, truth)) == ([], 0)

        WAYS[way](made.stores[1])
        at_once = asked.pull()
        assert at_once.outcome in (Outcome.WARNED, Outcome.DEGRADED)
        assert lacks(asked, at_once, truth) > len(truth) / 4

        wait_until_forgotten(made.url)
        silent = asked.pull()
        assert {answer.outcome for answer in silent.answers} == {Outcome.OK}
        assert silent.warning_count == 0
        assert silent.outcome is Outcome.DEGRADED
        assert lacks(asked, silent, truth) > len(truth) / 4

        # To somebody who has never asked before, every answer looks whole; the pods do not.
        first = Asked(estate, made.url, tmp_path / "first").pull()
        assert first.outcome is Outcome.OK
        assert first.hours[0].facts[INCOMPLETE_PODS] > PODS / 4
        assert owed_again(first) is Why.SUSPICION

        if way == "hangs":
            made.stores[1].sidecar.go_on()
            wait_for(lambda: is_whole(made.url, 2), "the store's return")
            healed = asked.pull()
            assert (doubts(healed), lacks(asked, healed, truth)) == ([], 0)


def owed_again(attempt: Attempt) -> Why | None:
    hour = attempt.hours[0].hour
    [entry] = hour_ledger([(attempt.cluster_id, Source.THANOS, hour)], [attempt])
    return why_due(entry, attempt.draft.asked_at + timedelta(minutes=10))


def test_a_store_with_all_of_one_tenant_goes(estate: Estate, tmp_path: Path) -> None:
    """What is left contradicts nothing; only what was known before tells that it is half."""
    with halves(estate, by_tenant, tmp_path) as made:
        asked = Asked(estate, made.url, tmp_path / "asked")
        whole = asked.pull()
        assert (doubts(whole), pods_of(whole)) == ([], PODS)
        # Its network refuses everybody, the store itself is well.
        made.stores[1].relay.cut()
        assert asked.pull().outcome is Outcome.WARNED

        wait_until_forgotten(made.url)
        again = asked.pull()
        assert (again.outcome, pods_of(again)) == (Outcome.DEGRADED, PODS // 2)
        assert "less than an earlier ok answer" in again.hours[0].reason
        after = asked.pull(SECOND)
        assert (after.outcome, pods_of(after)) == (Outcome.OK, PODS // 2)
        assert after.hours[0].facts[MASS_ENDINGS] == PODS // 2
        assert owed_again(after) is Why.SUSPICION

        # Somebody who never knew the other tenant cannot miss it. What is left is the number of
        # stores, which is landed, and the journal.
        first = Asked(estate, made.url, tmp_path / "first").pull()
        assert doubts(first) == []
        assert (first.draft.facts["stores"], whole.draft.facts["stores"]) == (1, 2)

        made.stores[1].relay.mend()
        wait_for(lambda: is_whole(made.url, 2), "the store's return")
        healed = asked.pull()
        assert (doubts(healed), pods_of(healed)) == ([], PODS)


def pods_of(attempt: Attempt) -> int:
    return attempt.hours[0].by_metric["kube_pod_info"][0]


# --- receivers -----------------------------------------------------------------------------------


def test_one_of_three_receivers_that_share_all_series_goes(estate: Estate, tmp_path: Path) -> None:
    """`up` is whole, every answer is ok, and a third of the pods' series is gone."""
    with ExitStack() as stack:
        three = stack.enter_context(thanos.receivers(3, tmp_path))
        thanos.remote_write(three.write_url, series_of(estate))
        url = stack.enter_context(
            thanos.querier(
                three.endpoints,
                tmp_path,
                replica_label="receive_replica",
                forgets_after=FORGETS_AFTER,
            )
        )
        wait_for(lambda: is_whole(url, 3), "three stores")
        asked = Asked(estate, url, tmp_path / "asked")
        whole = asked.pull()
        assert doubts(whole) == []
        assert counted(asked.rows(whole)) == counted(true_rows(estate, tmp_path))

        three.members[without_sentinels(url)].kill()
        assert asked.pull().outcome is Outcome.WARNED
        wait_until_forgotten(url, left=2)
        silent = asked.pull()
        assert {answer.outcome for answer in silent.answers} == {Outcome.OK}
        assert silent.hours[0].by_metric["up"] == whole.hours[0].by_metric["up"]
        assert silent.outcome is Outcome.DEGRADED
        assert silent.hours[0].facts[INCOMPLETE_PODS] > 0
        first = Asked(estate, url, tmp_path / "first").pull()
        assert first.hours[0].facts[INCOMPLETE_PODS] > 0
        assert owed_again(first) is Why.SUSPICION


def counted(rows: list[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    """Runs without the series' names, which differ by the label of the receivers' tenant."""
    return Counter((*row[1:3], *row[4:]) for row in rows)


def without_sentinels(url: str) -> int:
    """A receiver that has no series of `up`: where series lie differs from run to run."""
    asked: dict[str, str | int] = {"query": "up[1h]", "time": MIDNIGHT + 3600, "dedup": "false"}
    answer = httpx.get(f"{url}/api/v1/query", params=asked, timeout=60, trust_env=False).json()
    busy = {int(row["metric"]["receive_replica"]) for row in answer["data"]["result"]}
    return min({0, 1, 2} - busy)
