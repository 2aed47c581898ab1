"""The whole history of a fleet as frozen values; all servers read from these.

Put here: the objects with their start and end, and small functions of one of these values.
Not here: how a history comes about (`fleet.build`), or any wire format.

Conventions, without exception:
- Every time is an `int`: whole seconds since 1970-01-01T00:00:00Z, named `…_at` or `…_until`.
  Intervals are half-open. `None` as an end means "still so when the scenario ends". Use
  `instant()` and `second()` to go to and from `datetime`.
- A history may begin before and end after the scenario's window `[started_at, ended_at)`: a pod
  created before the window is a pod that was there when measuring began.
- Tuples are ordered: by time, then by name. Nothing depends on iteration order of a set.
- A device is one unit that a device plugin allocates: a card, a MIG instance, an AMD partition.
  Where it is shared (time-slicing, MPS), it is one `Device` with a `replica_count`, and a
  `DeviceHold` has a range of its replicas. No device, and no replica, is held by two pods at one
  instant, except through one shared ResourceClaim (`DeviceHold.claim_uid`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fake_gpu.fleet.model_load import BUSY, IDLE, Utilisation
from fake_gpu.fleet.model_nodes import (
    Card,
    DcgmNames,
    Device,
    DeviceMakeup,
    Incident,
    Node,
    NodeState,
)
from fake_gpu.fleet.model_pods import (
    BudgetLifetime,
    ClaimLifetime,
    ClaimResult,
    Container,
    ContainerKind,
    DeviceHold,
    DeviceLoad,
    NamespaceLifetime,
    OwnerRef,
    PhaseChange,
    PodClaim,
    PodLifetime,
    PodPhase,
    QuotaLifetime,
    Requester,
    Run,
    WorkloadChange,
    WorkloadLifetime,
    effective_requests,
)
from fake_gpu.fleet.model_time import holds, instant, second

__all__ = [
    "BUSY",
    "IDLE",
    "BudgetLifetime",
    "Card",
    "ClaimLifetime",
    "ClaimResult",
    "Container",
    "ContainerKind",
    "DcgmNames",
    "Device",
    "DeviceHold",
    "DeviceLoad",
    "DeviceMakeup",
    "Fault",
    "Fleet",
    "Incident",
    "Monitoring",
    "NamespaceLifetime",
    "Node",
    "NodeState",
    "OwnerRef",
    "PhaseChange",
    "PodClaim",
    "PodLifetime",
    "PodPhase",
    "QuotaLifetime",
    "Requester",
    "Run",
    "ScrapeJob",
    "SimulatedCluster",
    "Utilisation",
    "WorkloadChange",
    "WorkloadLifetime",
    "effective_requests",
    "holds",
    "instant",
    "second",
]


@dataclass(frozen=True, slots=True)
class ScrapeJob:
    """One kind of target of a cluster's Prometheus."""

    job: str  # "kube-state-metrics", "dcgm-exporter", "kube-scheduler", "amd-exporter", …
    scrape_interval_seconds: int
    honor_labels: bool = False
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Monitoring:
    """How a cluster is watched, and how its samples reach the one Thanos of the fleet."""

    prometheus_replicas: int
    replica_label: str  # "prometheus_replica"; the values are prometheus-k8s-0, -1, …
    jobs: tuple[ScrapeJob, ...]
    collect_interval_seconds: int | None  # None: the scrapes themselves; 300: an ACM collector
    hostname_label: Literal["Hostname", "hostname"]
    profiling: bool  # the profiling set of dcgm-exporter
    pod_uid_label: bool
    virtual_gpus: bool  # --kubernetes-virtual-gpus
    external_labels: Mapping[str, str]  # cluster, clusterID, …
    staleness_markers: bool  # not over federation

    def job(self, name: str) -> ScrapeJob | None:
        for job in self.jobs:
            if job.job == name and job.enabled:
                return job
        return None


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of a scenario's faults: the kind, the place, the start and the end."""

    fault_id: str  # unique in the scenario: "dropped_scrapes#1"
    kind: str  # a name in `fake_gpu.faults.fault_catalogue`
    cluster_id: str  # "" : every cluster
    from_at: int
    until_at: int
    seed: int  # for this fault alone; use `fake_gpu.scenario.seeds.stream`
    parameters: Mapping[str, object] = field(default_factory=dict)

    def covers(self, cluster_id: str, at: int) -> bool:
        here = self.cluster_id in ("", cluster_id)
        return here and self.from_at <= at < self.until_at


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    cluster_id: str  # the UID of its kube-system namespace
    name: str
    kubernetes_version: str  # "v1.34.1"
    openshift_version: str  # "" when it is none
    created_at: int
    monitoring: Monitoring
    nodes: tuple[Node, ...]
    namespaces: tuple[NamespaceLifetime, ...]
    pods: tuple[PodLifetime, ...]  # by created_at, then namespace, name
    workloads: tuple[WorkloadLifetime, ...] = ()
    quotas: tuple[QuotaLifetime, ...] = ()
    claims: tuple[ClaimLifetime, ...] = ()
    budgets: tuple[BudgetLifetime, ...] = ()

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Fleet:
    """One simulated scenario: all its clusters."""

    name: str
    seed: int
    started_at: int  # the window that the scenario is about
    ended_at: int
    clusters: tuple[SimulatedCluster, ...]
    faults: tuple[Fault, ...] = ()
    # How often each fault of the fleet itself touched something; views count theirs as they show.
    fired: Mapping[str, int] = field(default_factory=dict)

    def cluster(self, cluster_id: str) -> SimulatedCluster:
        for cluster in self.clusters:
            if cluster.cluster_id == cluster_id:
                return cluster
        raise KeyError(cluster_id)

    @property
    def pods(self) -> Iterator[PodLifetime]:
        for cluster in self.clusters:
            yield from cluster.pods
