"""A fleet's samples in the stores of a real Thanos, divided between them in several ways.

Put here: the fleet, the division of its series, and real stores with a querier over them.
Not here: single components (`thanos`), or the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from domain.clock import StoppedClock
from domain.identity import sha256
from fake_gpu.exporters.exposition import labels_text
from fake_gpu.fleet.model import Fault, Fleet, ScrapeJob, SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.series import WindowSeries
from fake_gpu.prometheus.source import FleetSeries
from ingestion.metric_catalogue import ALLOCATION_ENTRIES
from tests.servers import thanos
from tests.servers.network_relay import Relay, relayed
from tests.servers.process import wait_for
from tests.servers.prometheus import make_blocks, programs, prometheus
from tests.servers.thanos import Component
from tests.small_fleets import MIDNIGHT, fleet_of, monitoring, node, pod, quiet_cluster

START = datetime.fromtimestamp(MIDNIGHT, UTC)
# The end of the samples in the stores.
ENDS_AT = START + timedelta(hours=3)
INTERVAL_SECONDS = 60
PODS = 60
REPLICA = "prometheus_replica"
# A querier lists a lost store for five minutes; here only for this time.
FORGETS_AFTER = "5s"

# --- the fleet ----------------------------------------------------------------------------------


def crowded(replicas: int) -> SimulatedCluster:
    """Sixty pods of two tenants, which exist before the first hour and after the last."""
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
    """Each replica lost a different scrape of kube-state-metrics."""
    return tuple(
        Fault(f"lost-{replica}", "replica_scrape_lost", "", MIDNIGHT + at, MIDNIGHT + at + 60, 1,
              {"replica": replica})
        for replica, at in ((0, 600), (1, 1500))
    )  # fmt: skip


def whole_fleet() -> Fleet:
    """Scraped by one Prometheus, without losses."""
    return fleet_of(crowded(replicas=1))


def replicated_fleet() -> Fleet:
    """Scraped by two, each of which lost a different scrape."""
    return replace(fleet_of(crowded(replicas=2)), faults=lost_scrapes())


NAMES = "|".join(entry.metric for entry in ALLOCATION_ENTRIES)


def samples_of(fleet: Fleet, ends_at: datetime = ENDS_AT) -> FleetSeries:
    """The samples before that instant."""
    histories = {c.cluster_id: ObjectHistory(c, fleet.faults) for c in fleet.clusters}
    return FleetSeries(fleet, histories, StoppedClock(ends_at))


def series_of(
    fleet: Fleet, begins_at: datetime = START - timedelta(hours=1), ends_at: datetime = ENDS_AT
) -> list[WindowSeries]:
    """All samples of the catalogue's allocation metrics, of all replicas."""
    matchers = (Matcher("__name__", "=~", NAMES),)
    begins_ms, ends_ms = (round(at.timestamp() * 1000) for at in (begins_at, ends_at))
    return samples_of(fleet, ends_at).select(matchers, begins_ms, ends_ms)


# --- real stores ---------------------------------------------------------------------------------

Share = Callable[[WindowSeries], bool]


def by_series(which: int) -> Share:
    """Half of all series, by their hash, as receivers divide them."""
    return lambda series: int(sha256(dict(series.key))[:8], 16) % 2 == which


def by_tenant(which: int) -> Share:
    """All pods of one tenant; series without a tenant are in both."""
    other = ("team-b", "team-a")[which]
    return lambda series: series.labels.get("namespace") != other


def by_replica(which: int) -> Share:
    return lambda series: series.labels[REPLICA].endswith(str(which))


@dataclass
class Store:
    """A Prometheus with a part of the history, its sidecar, and the relay in front of it."""

    sidecar: Component
    relay: Relay

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.relay.port}"


@contextmanager
def store(series: Sequence[WindowSeries], number: int, folder: Path) -> Iterator[Store]:
    """These series as blocks of a real Prometheus, behind a real sidecar."""
    folder.mkdir(parents=True)
    file = folder / "history.om"
    file.write_text(as_open_metrics(series))
    which = programs(3)
    make_blocks(which, [file], folder / "data")
    labels = {name: series[0].labels[name] for name in ("cluster", "clusterID")}
    labels |= {REPLICA: f"prometheus-k8s-{number}"}
    config = "global:\n  external_labels:\n" + "".join(
        f"    {name}: {text}\n" for name, text in labels.items()
    )
    with (
        prometheus(which, folder, config) as client,
        thanos.sidecar(str(client.base_url), folder / "data", folder) as made,
        relayed(made.grpc_port) as relay,
    ):
        yield Store(made, relay)


def as_open_metrics(series: Sequence[WindowSeries]) -> str:
    """The history as a file, without the labels that a sidecar adds."""
    return "".join(map(_lines, series)) + "# EOF\n"


def _lines(series: WindowSeries) -> str:
    shown = [
        (n, v) for n, v in series.key if n not in ("cluster", "clusterID", REPLICA, "__name__")
    ]
    prefix = f"{series.labels['__name__']}{labels_text(shown)}"
    pairs = zip(series.timestamps_ms, series.values, strict=True)
    return "".join(f"{prefix} {value} {at / 1000:.3f}\n" for at, value in pairs)


@dataclass
class Halves:
    """Two stores, each with its part, and the querier over both."""

    stores: tuple[Store, ...]
    url: str


@contextmanager
def halves(
    fleet: Fleet, share: Callable[[int], Share], folder: Path, *, steady: Sequence[int]
) -> Iterator[Halves]:
    """Two stores and a querier; the steady stores stay for the whole test."""
    every = series_of(fleet)
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
                steady=[made[n].endpoint for n in steady],
            )
        )
        wait_for(lambda: is_whole(url, 2), "two stores")
        yield Halves(made, url)


def is_whole(url: str, count: int) -> bool:
    return list(thanos.stores(url).values()) == [None] * count
