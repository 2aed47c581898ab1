"""The whole history of an estate as frozen values; everything that is shown is read from these.

Put here: what exists, from when until when, and small questions about one of these values.
Not here: how a history comes about (`estate.build`), or any wire format.

Conventions, without exception:
- Every time is an `int`: whole seconds since 1970-01-01T00:00:00Z, named `…_at` or `…_until`.
  Intervals are half-open. `None` as an end means "still so when the scenario ends". Use
  `instant()` and `second()` to go to and from `datetime`.
- A history may begin before and end after the scenario's window `[started_at, ended_at)`: a pod
  created before the window is a pod that was there when measuring began.
- Tuples are ordered: by time, then by name. Nothing depends on iteration order of a set.
- A device is what a device plugin hands out: a card, a MIG instance, an AMD partition. Where it
  is shared (time-slicing, MPS), it is one `Device` with a `replica_count`, and a `Hold` has a
  range of its replicas. No device, and no replica, is held by two pods at one instant, except
  through one shared ResourceClaim (`Hold.claim_uid`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Literal, Protocol

DeviceMakeup = Literal["whole", "mig", "replica", "mig_replica", "passthrough", "partition"]
ContainerKind = Literal["init", "sidecar", "main"]
PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


def instant(second_: int) -> datetime:
    """The UTC time of a second of the model."""
    return datetime.fromtimestamp(second_, UTC)


def second(instant_: datetime) -> int:
    """The second of the model that holds a time."""
    return int(instant_.timestamp())


def _holds(from_at: int, until_at: int | None, at: int) -> bool:
    return from_at <= at and (until_at is None or at < until_at)


# --- hardware -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU, for the whole life of its node."""

    card_id: str  # "GPU-…" for NVIDIA; opaque when the scenario gives it
    index: int  # the `gpu` label of dcgm-exporter, `gpu_id` of the AMD one
    vendor: Literal["nvidia", "amd"]
    product: str  # as GPU feature discovery writes it: "NVIDIA-A100-SXM4-40GB"
    model_name: str  # as NVML says it: "NVIDIA A100-SXM4-40GB"
    memory_mib: int
    compute_slots: int  # 7 or 4 where MIG is possible; 1 elsewhere
    memory_slots: int  # 8 or 4 where MIG is possible; 1 elsewhere
    pci_bus_id: str
    serial: str
    pci_device: str  # "0x20B010DE": what a mig-parted device-filter compares with
    idle_watts: int
    peak_watts: int

    @property
    def device_file(self) -> str:
        """The `device` label of dcgm-exporter: nvidia0."""
        return f"nvidia{self.index}"


@dataclass(frozen=True, slots=True)
class Device:
    """What can be held. Its ID never comes back: a MIG instance made again is another one."""

    device_id: str  # "GPU-…", "MIG-…", "…/2" (AMD partition); shared or not
    card_id: str
    card_index: int
    makeup: DeviceMakeup
    resource: str  # raw: "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"
    profile: str  # "whole", or the MIG profile: "1g.5gb", "1c.3g.20gb", "1g.5gb+me"
    compute_share: Fraction  # of the physical card; of one replica where it is shared
    memory_share: Fraction
    memory_mib: int
    exists_from: int
    exists_until: int | None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    placement_start: int | None = None  # in memory slots
    placement_size: int | None = None
    replica_count: int | None = None  # how many replicas it is offered as; None: not shared
    partition_id: int | None = None  # AMD
    dra_name: str = ""  # the device's name in its ResourceSlice: "gpu-0", "gpu-0-mig-1g5gb-19-4"

    def exists_at(self, at: int) -> bool:
        return _holds(self.exists_from, self.exists_until, at)


@dataclass(frozen=True, slots=True)
class Incident:
    """Something wrong with one card: from when until when, and how it looks."""

    card_id: str
    from_at: int
    until_at: int | None
    mode: Literal["xid", "lost", "ecc", "unhealthy"]
    xid: int = 0  # what DCGM_FI_DEV_XID_ERRORS shows
    device_ids: tuple[str, ...] = ()  # the devices that left allocatable; all of the card's if ()

    def covers(self, at: int) -> bool:
        return _holds(self.from_at, self.until_at, at)


@dataclass(frozen=True, slots=True)
class NodeState:
    """All that a node says about itself during `[from_at, until_at)`."""

    from_at: int
    until_at: int | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: Mapping[str, int]  # extended resources only (raw names), also those that are 0
    allocatable: Mapping[str, int]
    ready: Literal["True", "False", "Unknown"]
    unschedulable: bool
    device_ids: tuple[str, ...]  # the devices that exist (healthy or not)
    exporters_paused: bool = (
        False  # during a MIG reconfiguration: no device plugin, no DCGM, no GFD
    )
    not_ready_reason: str = ""  # e.g. "NodeStatusUnknown", "KubeletNotReady"
    taints: tuple[tuple[str, str, str], ...] = ()  # (key, value, effect)

    def covers(self, at: int) -> bool:
        return _holds(self.from_at, self.until_at, at)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine; `states` cover `[created_at, gone_at)` without a hole or an overlap."""

    cluster_id: str
    name: str
    uid: str
    created_at: int
    gone_at: int | None
    roles: tuple[str, ...]  # "worker", "control-plane", "master"
    host_ip: str
    cpu_cores: int
    memory_bytes: int
    driver_version: str
    cuda_version: str
    mig_strategy: Literal["none", "single", "mixed"]
    cards: tuple[Card, ...]
    devices: tuple[Device, ...]  # all that ever existed here
    states: tuple[NodeState, ...]
    incidents: tuple[Incident, ...] = ()
    dra: bool = False  # its devices are offered by ResourceSlices, not by a device plugin

    def state_at(self, at: int) -> NodeState | None:
        for state in reversed(self.states):
            if state.covers(at):
                return state
        return None

    def device(self, device_id: str) -> Device:
        for device in self.devices:
            if device.device_id == device_id:
                return device
        raise KeyError(device_id)

    def card(self, card_id: str) -> Card:
        for card in self.cards:
            if card.card_id == card_id:
                return card
        raise KeyError(card_id)


# --- what runs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Utilisation:
    """How busy a pod makes its devices, as a step function of the seconds since it started.

    Steps are repeated `repeat` times (None: for ever) and then `after_pct` holds. Everything is
    periodic and whole, so an average or an energy over any time has a closed form.
    """

    steps: tuple[tuple[int, int], ...]  # (seconds > 0, per cent 0..100)
    repeat: int | None = None
    after_pct: int = 0

    @property
    def period_seconds(self) -> int:
        return sum(seconds for seconds, _ in self.steps)

    def pct_at(self, elapsed: int) -> int:
        """Per cent at `elapsed` seconds after the start; 0 before it."""
        if elapsed < 0:
            return 0
        lap, rest = divmod(elapsed, self.period_seconds)
        if self.repeat is not None and lap >= self.repeat:
            return self.after_pct
        for seconds, pct in self.steps:
            if rest < seconds:
                return pct
            rest -= seconds
        raise AssertionError("a rest shorter than the period lies in one of its steps")

    def pct_seconds(self, elapsed: int) -> int:
        """The integral of the function over `[0, elapsed)`, exactly."""
        if elapsed <= 0:
            return 0
        period = self.period_seconds
        lap, rest = divmod(elapsed, period)
        per_lap = sum(seconds * pct for seconds, pct in self.steps)
        if self.repeat is not None and lap >= self.repeat:
            beyond = elapsed - self.repeat * period
            return self.repeat * per_lap + beyond * self.after_pct
        total = lap * per_lap
        for seconds, pct in self.steps:
            total += min(rest, seconds) * pct
            rest -= min(rest, seconds)
        return total

    def pieces(self, from_elapsed: int, until_elapsed: int) -> Iterator[tuple[int, int, int]]:
        """The steps in a window as (from, until, per cent), adjoining, clipped to the window."""
        at = max(0, from_elapsed)
        while at < until_elapsed:
            until = min(self._next_change(at), until_elapsed)
            yield at, until, self.pct_at(at)
            at = until

    def _next_change(self, elapsed: int) -> int:
        period = self.period_seconds
        lap, rest = divmod(elapsed, period)
        if self.repeat is not None and lap >= self.repeat:
            return elapsed + 10**9
        edge = lap * period
        for seconds, _ in self.steps:
            edge += seconds
            if rest < seconds:
                return edge
            rest -= seconds
        raise AssertionError("a rest shorter than the period lies in one of its steps")


IDLE = Utilisation(((3600, 0),))
BUSY = Utilisation(((3600, 100),))


@dataclass(frozen=True, slots=True)
class Run:
    """One life of a container, from its start until its end; restarts make several."""

    started_at: int
    ended_at: int | None
    exit_code: int = 0
    reason: str = ""  # "Completed", "Error", "OOMKilled"


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    kind: ContainerKind
    requests: Mapping[str, int]  # extended resources, raw names; limits are the same
    runs: tuple[Run, ...] = ()
    device_ids: tuple[str, ...] = ()  # what the device plugin allocated to it, each once
    image: str = "registry.example/train:1"


class Asking(Protocol):
    """Whatever asks for extended resources as a container does."""

    @property
    def kind(self) -> ContainerKind: ...

    @property
    def requests(self) -> Mapping[str, int]: ...


def effective_requests(containers: Iterable[Asking]) -> Mapping[str, int]:
    """max(over init i: init i + sidecars before it, sum of main + sidecars), by resource."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    steady: dict[str, int] = {}
    for container in containers:
        for resource, count in container.requests.items():
            if container.kind == "init":
                needed = count + sidecars.get(resource, 0)
                peak[resource] = max(peak.get(resource, 0), needed)
                continue
            steady[resource] = steady.get(resource, 0) + count
            if container.kind == "sidecar":
                sidecars[resource] = sidecars.get(resource, 0) + count
    resources = sorted(peak.keys() | steady.keys())
    return {r: max(peak.get(r, 0), steady.get(r, 0)) for r in resources}


@dataclass(frozen=True, slots=True)
class Hold:
    """A pod has one exact device during `[held_from, held_until)`: binding until its end."""

    device_id: str
    held_from: int
    held_until: int | None
    container: str  # who uses it when the pod runs: main before sidecar before init
    claim_uid: str = ""  # the ResourceClaim it came by; several pods may share one
    replica_start: int = 0  # of a shared device: the replicas [start, start + count)
    replica_count: int = 1


@dataclass(frozen=True, slots=True)
class PhaseChange:
    at: int
    phase: PodPhase
    reason: str = ""  # pod status.reason: "Evicted", "NodeLost", "DeadlineExceeded", …


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """One link of the owner chain, the direct owner first."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of `spec.resourceClaims` and what it resolved to."""

    name: str  # in the pod's spec
    claim_name: str
    claim_uid: str
    template_name: str = ""  # "" when the claim is named directly
    extended_resource: bool = False  # made by the scheduler for a nvidia.com/gpu request


@dataclass(frozen=True, slots=True)
class PodLife:
    """One pod from its creation until its object is gone."""

    cluster_id: str
    namespace: str
    name: str
    uid: str
    created_at: int
    scheduled_at: int | None  # bound to `node_name`; None: never
    node_name: str  # "" when it never was bound
    acknowledged_at: int | None  # status.startTime: the kubelet has seen it
    containers: tuple[Container, ...]  # init and sidecar in the order of the spec, then main
    phases: tuple[PhaseChange, ...]  # the first at created_at: Pending
    finished_at: int | None  # the last container ended; the devices are free again
    deletion_requested_at: int | None
    grace_seconds: int  # deletionTimestamp = deletion_requested_at + grace_seconds: a deadline
    gone_at: int | None  # the object was deleted
    holds: tuple[Hold, ...]
    owners: tuple[OwnerRef, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    utilisation: Utilisation = BUSY
    memory_used_pct: int = 100  # of its devices' frame buffer while it runs
    claims: tuple[PodClaim, ...] = ()
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"
    end_reported: bool = True  # False: Failed without `terminated` in any container status
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    pod_ip: str = ""
    workload: str = ""  # the scenario's own name for what made it

    @property
    def started_at(self) -> int | None:
        """When its first main container started for the first time."""
        starts = [c.runs[0].started_at for c in self.containers if c.kind == "main" and c.runs]
        return min(starts, default=None)

    @property
    def requests(self) -> Mapping[str, int]:
        """The effective request, as the scheduler counts it.

        max(over init i: init i + sidecars started before it, sum of main + sidecars).
        """
        return effective_requests(self.containers)

    def phase_at(self, at: int) -> PhaseChange | None:
        """The phase in force, or None before the creation and after the object is gone."""
        if self.gone_at is not None and at >= self.gone_at:
            return None
        current = None
        for change in self.phases:
            if change.at <= at:
                current = change
        return current


@dataclass(frozen=True, slots=True)
class WorkloadLife:
    """An owner object: Deployment, ReplicaSet, StatefulSet, Job, CronJob, or any custom kind."""

    cluster_id: str
    namespace: str
    api_version: str
    kind: str
    name: str
    uid: str
    created_at: int
    gone_at: int | None
    replicas: int = 1
    owner: OwnerRef | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamespaceLife:
    """One life of a namespace; made again under the same name it has another UID."""

    cluster_id: str
    name: str
    uid: str
    created_at: int
    terminating_at: int | None
    gone_at: int | None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaLife:
    cluster_id: str
    namespace: str
    name: str
    uid: str
    created_at: int
    gone_at: int | None
    hard: tuple[tuple[int, Mapping[str, int]], ...]  # (from when, {"requests.nvidia.com/gpu": 4})
    used: tuple[tuple[int, Mapping[str, int]], ...] = ()  # every change; terminal pods don't count


@dataclass(frozen=True, slots=True)
class ClaimResult:
    request: str
    driver: str
    pool: str  # the node's name
    device: str  # Device.dra_name
    device_id: str


@dataclass(frozen=True, slots=True)
class ClaimLife:
    """A ResourceClaim; `reserved` says which pod may use it from when until when."""

    cluster_id: str
    namespace: str
    name: str
    uid: str
    created_at: int
    allocated_at: int | None
    gone_at: int | None
    device_class: str  # "gpu.nvidia.com", "mig.nvidia.com"
    request: str
    count: int
    results: tuple[ClaimResult, ...]
    reserved: tuple[tuple[str, str, int, int | None], ...]  # (pod uid, pod name, from, until)
    template_name: str = ""
    extended_resource: bool = False
    admin_access: bool = False


# --- who watches --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScrapeJob:
    """One kind of target of a cluster's Prometheus."""

    job: str  # "kube-state-metrics", "dcgm-exporter", "kube-scheduler", "amd-exporter", …
    scrape_interval_seconds: int
    honor_labels: bool = False
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Monitoring:
    """How a cluster is watched, and how its samples reach the one Thanos of the estate."""

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
    """One line of a scenario's faults: what goes wrong, where, from when until when."""

    fault_id: str  # unique in the scenario: "dropped_scrapes#1"
    kind: str  # a name in `fake_gpu.faults.catalogue`
    cluster_id: str  # "" : every cluster
    from_at: int
    until_at: int
    seed: int  # for this fault alone; use `fake_gpu.scenario.seeds.stream`
    parameters: Mapping[str, object] = field(default_factory=dict)

    def covers(self, cluster_id: str, at: int) -> bool:
        here = self.cluster_id in ("", cluster_id)
        return here and self.from_at <= at < self.until_at


@dataclass(frozen=True, slots=True)
class Cluster:
    cluster_id: str  # the UID of its kube-system namespace
    name: str
    kubernetes_version: str  # "v1.34.1"
    openshift_version: str  # "" when it is none
    created_at: int
    monitoring: Monitoring
    nodes: tuple[Node, ...]
    namespaces: tuple[NamespaceLife, ...]
    pods: tuple[PodLife, ...]  # by created_at, then namespace, name
    workloads: tuple[WorkloadLife, ...] = ()
    quotas: tuple[QuotaLife, ...] = ()
    claims: tuple[ClaimLife, ...] = ()

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Estate:
    """Everything: one scenario, played through."""

    name: str
    seed: int
    started_at: int  # the window that the scenario is about
    ended_at: int
    clusters: tuple[Cluster, ...]
    faults: tuple[Fault, ...] = ()
    # How often each fault of the estate itself touched something; views count theirs as they show.
    fired: Mapping[str, int] = field(default_factory=dict)

    def cluster(self, cluster_id: str) -> Cluster:
        for cluster in self.clusters:
            if cluster.cluster_id == cluster_id:
                return cluster
        raise KeyError(cluster_id)

    @property
    def pods(self) -> Iterator[PodLife]:
        for cluster in self.clusters:
            yield from cluster.pods
