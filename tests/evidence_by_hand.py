"""Small fleets as seconds, written as the Parquet and manifests of both sources.

Put here: pods and nodes as plain numbers, and their evidence with or without faults.
Not here: servers, decoding, or calculations: tests contain their own expected values.

All times are whole seconds after `START`, the first second of the period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.identity import sha256_bytes
from domain.interval import Interval
from warehouse.derived_files import PARQUET_SUFFIX, DerivedFilesNote, DerivedFolder, sha256_of_file
from warehouse.home import Home
from warehouse.manifest import AttemptDraft, Hour, Outcome, QueryResponse, Sampling
from warehouse.raw_schema import KUBERNETES_TABLES, THANOS_TABLES

PERIOD = BillingPeriod("2026-10")
START = PERIOD.started_at
HOUR = 3600
DAY = 24 * HOUR
END = 31 * DAY
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "8"}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
GPU = "nvidia.com/gpu"


@dataclass
class Pod:
    """One pod: bound, started, ended (None: still running at the end of the evidence)."""

    name: str
    started: int | None
    ended: int | None
    node: str = "n1"
    namespace: str = "team-a"
    requests: Mapping[str, int] = field(default_factory=lambda: {GPU: 1})
    bound: int | None = None
    uid: str = ""
    workload: tuple[str, str] = ("", "")
    lingers: int = 0  # seconds for which its request series continues after the end
    end_is_told: bool = True  # whether an observation has the time of the end
    in_journal: bool = True
    in_samples: bool = True
    restarted: int | None = None  # the container's start that samples report later
    first_started: int | None = None  # an earlier start, which the journal does not have
    sampled_from: int | None = None  # when samples begin to report Running, if not at the true time
    sampled_until: int | None = None  # when these samples end
    phase_lost_from: int | None = None  # from then on the phase has no samples

    def __post_init__(self) -> None:
        self.uid = self.uid or f"uid-{self.namespace}-{self.name}"
        if self.bound is None and self.started is not None:
            self.bound = self.started


@dataclass
class Node:
    """A node whose labels and capacity change at given seconds."""

    name: str = "n1"
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=lambda: {-HOUR: A100})
    capacity: Mapping[int, Mapping[str, int]] = field(default_factory=lambda: {-HOUR: {GPU: 8}})
    allocatable: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    roles: tuple[str, ...] = ("worker",)


@dataclass
class Cluster:
    """The evidence of one cluster."""

    cluster_id: str = "c1"
    pods: list[Pod] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=lambda: [Node()])
    until: int = 2 * HOUR  # the end of the evidence (whole hours)
    since: int = 0
    interval: int = 30
    offset: int = 7  # seconds between the full interval and its scrape
    lost_scrapes: list[tuple[int, int]] = field(default_factory=list)
    unwatched: list[tuple[int, int]] = field(default_factory=list)
    with_samples: bool = True
    with_journal: bool = True
    outcome: str = "ok"
    # Time, UID, contradiction.
    contradictions: list[tuple[int, str, str]] = field(default_factory=list)
    # Additional samples: metric, labels, since, until, value.
    series: list[tuple[str, dict[str, str], int, int, str]] = field(default_factory=list)


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def text(second: int) -> str:
    return at(second).strftime("%Y-%m-%dT%H:%M:%SZ")


def clusters_table(*clusters: Cluster, sources: str = "both") -> dict[str, str]:
    header = (
        "cluster_id,cluster_name,valid_from,valid_until,sources,sample_interval_seconds,"
        "scrape_interval_seconds,reason,decided_by,decided_on"
    )
    rows = [
        f"{c.cluster_id},{c.cluster_id},{text(c.since)},{text(c.until)},{sources},"
        f"{c.interval},{min(c.interval, 30)},agreed,Ada,2026-09-15"
        for c in clusters
    ]
    return {"clusters.csv": "\n".join([header, *rows]) + "\n"}


def write(home: Home, *clusters: Cluster, sequence: int = 1) -> None:
    """Write the evidence of every cluster into a home, as one attempt per day and source."""
    for cluster in clusters:
        for since in range(cluster.since, cluster.until, DAY):
            until = min(since + DAY, cluster.until)
            number = sequence + (since - cluster.since) // DAY
            if cluster.with_samples:
                _Samples(cluster, since, until).write(home, number)
            if cluster.with_journal:
                _Journal(cluster, since, until).write(home, number)


class _Attempt:
    """One attempt: its manifest and its Parquet files."""

    source = ""
    tables: Mapping[str, Mapping[str, str]] = {}

    def __init__(self, cluster: Cluster, since: int, until: int) -> None:
        self.cluster = cluster
        self.since, self.until = since, until
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in self.tables}
        self.fill()

    def fill(self) -> None:
        raise AssertionError("each source fills its own tables")

    def write(self, home: Home, sequence: int) -> None:
        body = self._manifest(sequence)
        attempt_id = sha256_bytes(body)
        key = f"manifests/{self.cluster.cluster_id}/{self.source}/{sequence:010d}.json"
        assert home.landing_store().create(key, body)
        folder = home.runs / self.source / self.cluster.cluster_id
        folder.mkdir(parents=True, exist_ok=True)
        for row in [row for rows in self.rows.values() for row in rows if "series_key" in row]:
            row["series_key"] += sequence << 32
        hashes = {}
        for name, rows in self.rows.items():
            shared = {"cluster_id": self.cluster.cluster_id, "attempt_id": attempt_id}
            path = folder / f"{attempt_id}.{name}{PARQUET_SUFFIX}"
            write_parquet(path, self.tables[name], [{**shared, **row} for row in rows])
            hashes[name] = sha256_of_file(path)
        DerivedFolder(folder).note(attempt_id).write_bytes(
            DerivedFilesNote((attempt_id,), hashes).text()
        )

    def _manifest(self, sequence: int) -> bytes:
        interval = self.cluster.interval
        outcome = Outcome(self.cluster.outcome)
        draft = AttemptDraft(
            cluster_id=self.cluster.cluster_id,
            source=Source(self.source),
            asked_at=at(self.until + 60),
            answered_at=at(self.until + 61),
            window=Interval(at(self.since), at(self.until)),
            code_version="0.1.0",
            sampling=Sampling(interval, min(interval, 30)),
            answers=(QueryResponse("all", "", 200, "ab" * 32, 1, 1),),
            hours=tuple(
                Hour(at(hour), outcome, series_count=1, sample_count=1)
                for hour in range(self.since, self.until, HOUR)
            ),
        )
        return draft.written(sequence, "")[1]


class _Samples(_Attempt):
    source = "thanos"
    tables = THANOS_TABLES

    def fill(self) -> None:
        for node in self.cluster.nodes:
            self._node(node)
        for pod in self.cluster.pods:
            if pod.in_samples and pod.bound is not None:
                self._pod(pod)
        for metric, labels, since, until, value in self.cluster.series:
            self._series(metric, labels, since, until, value)

    def _node(self, node: Node) -> None:
        for since, until, labels in _spans(node.labels):
            mangled = {f"label_{_mangled(k)}": v for k, v in labels.items()}
            self._series("kube_node_labels", {"node": node.name, **mangled}, since, until, "1")
        for metric, states in (
            ("kube_node_status_capacity", node.capacity),
            ("kube_node_status_allocatable", node.allocatable or node.capacity),
        ):
            for since, until, counts in _spans(states):
                for resource, count in counts.items():
                    labels = {"node": node.name, "resource": _mangled(resource), "unit": "integer"}
                    self._series(metric, labels, since, until, str(count))

    def _pod(self, pod: Pod) -> None:
        bound = pod.bound if pod.bound is not None else 0
        ended = END if pod.ended is None else pod.ended
        who = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
        for resource, count in pod.requests.items():
            asked = {
                "container": "main",
                "node": pod.node,
                "resource": _mangled(resource),
                "unit": "integer",
            }
            metric = "kube_pod_container_resource_requests"
            since = min(bound, bound if pod.sampled_from is None else pod.sampled_from)
            until = max(ended, pod.sampled_until or 0) + pod.lingers
            self._series(metric, who | asked, since, until, str(count))
        if pod.started is None:
            return
        phase = {**who, "phase": "Running"}
        started = pod.started if pod.first_started is None else pod.first_started
        started = started if pod.sampled_from is None else pod.sampled_from
        until = ended if pod.sampled_until is None else pod.sampled_until
        lost = END if pod.phase_lost_from is None else pod.phase_lost_from
        self._series("kube_pod_status_phase", phase, bound, started, "0")
        self._series("kube_pod_status_phase", phase, started, min(until, lost), "1")
        self._series("kube_pod_status_phase", phase, until, min(ended + pod.lingers, lost), "0")
        reported = [(pod.started, pod.restarted or ended)]
        if pod.restarted is not None:
            reported.append((pod.restarted, ended))
        if pod.first_started is not None:
            reported.append((pod.first_started, pod.started))
        for since, until in reported:
            value = str(int(at(since).timestamp()))
            container = {**who, "container": "main"}
            self._series("kube_pod_container_state_started", container, since, until, value)

    def _series(
        self, metric: str, labels: Mapping[str, str], since: int, until: int, value: str
    ) -> None:
        runs = list(self._runs(since, until))
        if not runs:
            return
        series_key = self._key_of(metric, labels)
        for first, last in runs:
            self.rows["runs"].append(
                {
                    "hour_started_at": at(first - first % HOUR),
                    "metric": metric,
                    "series_key": series_key,
                    "first_offset_ms": first % HOUR * 1000,
                    "last_offset_ms": last % HOUR * 1000,
                    "sample_count": (last - first) // self.cluster.interval + 1,
                    "sample_value": value,
                }
            )

    def _key_of(self, metric: str, labels: Mapping[str, str]) -> int:
        """The key of a series in the cluster."""
        row = {"metric": metric, "uid": None, "pod": None, "labels": sorted(labels.items())}
        for known in self.rows["series"]:
            if {**known, **row} == known:
                return int(known["series_key"])
        key = len(self.rows["series"])
        self.rows["series"].append({"series_key": key, **row})
        return key

    def _runs(self, since: int, until: int) -> Iterable[tuple[int, int]]:
        """The scrapes in `[since, until)` as runs without a missing scrape, cut at each hour."""
        step, offset = self.cluster.interval, self.cluster.offset
        since, until = max(since, self.since), min(until, self.until)
        scrape = since + (offset - since) % step
        run: tuple[int, int] | None = None
        while scrape < until:
            if any(a <= scrape < b for a, b in self.cluster.lost_scrapes):
                pass
            elif run and scrape - run[1] == step and scrape // HOUR == run[1] // HOUR:
                run = (run[0], scrape)
            else:
                if run:
                    yield run
                run = (scrape, scrape)
            scrape += step
        if run:
            yield run


class _Journal(_Attempt):
    source = "kubernetes"
    tables = KUBERNETES_TABLES

    def fill(self) -> None:
        for hour in range(self.since, self.until, HOUR):
            for since, until in self._watched(hour, hour + HOUR):
                self.rows["coverage"].append(
                    {
                        "hour_started_at": at(hour),
                        "watched_from": at(since),
                        "watched_until": at(until),
                        "list_complete": since == hour,
                    }
                )
        for second, uid, what in self.cluster.contradictions:
            change = {"object_uid": uid, "what": what, "before_value": "1", "after_value": "2"}
            row = {"observed_at": at(second), "resource": "pods", **change}
            self.rows["contradictions"].append(row)
        for node in self.cluster.nodes:
            self._node(node)
        for pod in self.cluster.pods:
            if pod.in_journal and pod.bound is not None:
                self._pod(pod)

    def _watched(self, since: int, until: int) -> list[tuple[int, int]]:
        stretches = [(since, until)]
        for a, b in self.cluster.unwatched:
            cut = []
            for x, y in stretches:
                cut += [(x, min(y, a)), (max(x, b), y)] if a < y and x < b else [(x, y)]
            stretches = [(x, y) for x, y in cut if x < y]
        return stretches

    def _is_watched(self, second: int) -> bool:
        return not any(a <= second < b for a, b in self.cluster.unwatched)

    def _looks(self) -> list[int]:
        """Instants of complete lists: each watched hour, and after each gap."""
        lists = [h for h in range(self.since, self.until, HOUR) if self._is_watched(h)]
        lists += [b for _, b in self.cluster.unwatched if self.since <= b < self.until]
        return sorted(set(lists))

    def _node(self, node: Node) -> None:
        changes = {*node.labels, *node.capacity, *node.allocatable}
        for second in sorted(
            {*self._looks(), *(c for c in changes if self.since <= c < self.until)}
        ):
            labels = _valid(node.labels, second)
            capacity = _valid(node.capacity, second)
            allocatable = _valid(node.allocatable, second) if node.allocatable else capacity
            self.rows["node_observations"].append(
                {
                    "observed_at": at(second),
                    "journal_position": second * 10,
                    "via": "hourly_list",
                    "node_uid": f"uid-{node.name}",
                    "node_name": node.name,
                    "ready": True,
                    "unschedulable": False,
                    "roles": list(node.roles),
                    "labels": sorted(labels.items()),
                    "deleted": False,
                }
            )
            for resource, count in capacity.items():
                self.rows["node_resources"].append(
                    {
                        "node_uid": f"uid-{node.name}",
                        "node_name": node.name,
                        "observed_at": at(second),
                        "resource": resource,
                        "capacity": count,
                        "allocatable": allocatable.get(resource, 0),
                    }
                )

    def _pod(self, pod: Pod) -> None:
        seen = False
        ended = END + 1 if pod.ended is None else pod.ended
        bound = pod.bound if pod.bound is not None else 0
        events = [(bound, "added"), (pod.started, "modified"), (pod.ended, "deleted")]
        events_seen = [(s, via) for s, via in events if s is not None and self._is_watched(s)]
        events_seen += [(s, "hourly_list") for s in self._looks() if bound <= s < ended]
        # After a gap, the new list is compared with the open pods.
        for a, b in self.cluster.unwatched:
            if pod.ended is not None and a <= pod.ended < b and bound < a:
                events_seen.append((b, "relisted"))
        for second, via in sorted(set(events_seen)):
            if self.since <= second < self.until:
                self._pod_observation(pod, second, via)
                seen = True
        if seen:
            for resource, count in pod.requests.items():
                self.rows["pod_requests"].append(
                    {"pod_uid": pod.uid, "resource": resource, "device_count": count}
                )

    def _pod_observation(self, pod: Pod, second: int, via: str) -> None:
        deleted = via in ("deleted", "relisted")
        started = pod.started is not None and pod.started <= second
        has_end = via == "deleted" and pod.end_is_told
        self.rows["pod_observations"].append(
            {
                "observed_at": at(second),
                "journal_position": second * 10 + {"added": 1, "modified": 2}.get(via, 3),
                "via": via,
                "pod_uid": pod.uid,
                "namespace": pod.namespace,
                "namespace_uid": f"ns-{pod.namespace}",
                "pod_name": pod.name,
                "node_name": pod.node,
                "phase": "Running" if started else "Pending",
                "bound_at": None if pod.bound is None else at(pod.bound),
                "started_at": at(pod.started) if started and pod.started is not None else None,
                "ended_at": at(pod.ended) if has_end and pod.ended is not None else None,
                "deleted": deleted,
                "deletion_deadline_at": None,
                "restart_count": 0,
                "owner_kind": pod.workload[0],
                "owner_name": pod.workload[1],
                "workload_kind": pod.workload[0],
                "workload_name": pod.workload[1],
                "reason": "",
                "labels": [],
            }
        )


def _spans(states: Mapping[int, Any]) -> list[tuple[int, int, Any]]:
    starts = sorted(states)
    return [(a, b, states[a]) for a, b in zip(starts, [*starts[1:], END], strict=True)]


def _valid(states: Mapping[int, Any], second: int) -> Any:
    return states[max(s for s in states if s <= second)]


def _mangled(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


_ARROW = {
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMPTZ": pa.timestamp("ms", tz="UTC"),
    "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
}


def write_parquet(path: Path, columns: Mapping[str, str], rows: list[dict[str, Any]]) -> None:
    arrays = [pa.array([row[c] for row in rows], type=_ARROW[kind]) for c, kind in columns.items()]
    pq.write_table(pa.Table.from_arrays(arrays, names=list(columns)), path, compression="zstd")


def epoch(second: int) -> int:
    return int(datetime(2026, 10, 1, tzinfo=UTC).timestamp()) + second
