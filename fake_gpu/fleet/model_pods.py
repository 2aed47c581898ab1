"""Pods, their owners, namespaces, quotas, budgets and claims through time.

Put here: the work of a fleet, as frozen values.
Not here: the hardware (`model_nodes`), or how it comes about (`cluster_simulation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from fake_gpu.fleet.model_load import BUSY, Utilisation

ContainerKind = Literal["init", "sidecar", "main"]
PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container, from its start until its end; restarts make several."""

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
    device_ids: tuple[str, ...] = ()  # allocated by the device plugin, each once
    image: str = "registry.example/train:1"


class Requester(Protocol):
    """A requester of extended resources, such as a container."""

    @property
    def kind(self) -> ContainerKind: ...

    @property
    def requests(self) -> Mapping[str, int]: ...


def effective_requests(containers: Iterable[Requester]) -> Mapping[str, int]:
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
class DeviceLoad:
    """How a pod uses one device from a second on; the steps count from there."""

    from_at: int
    utilisation: Utilisation
    memory_used_mib: int | None = None  # where it is known; else the pod's memory_used_pct


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """A pod has one exact device during `[held_from, held_until)`: binding until its end."""

    device_id: str
    held_from: int
    held_until: int | None
    container: str  # who uses it when the pod runs: main before sidecar before init
    claim_uid: str = ""  # the ResourceClaim it came by; several pods may share one
    replica_start: int = 0  # of a shared device: the replicas [start, start + count)
    replica_count: int = 1
    utilisation: Utilisation | None = None  # where it differs from the pod's
    memory_used_mib: int | None = None  # where it is known; else the pod's memory_used_pct
    later: tuple[DeviceLoad, ...] = ()  # the later loads, in order


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
    """An entry of `spec.resourceClaims` and the resolved claim."""

    name: str  # in the pod's spec
    claim_name: str
    claim_uid: str
    template_name: str = ""  # "" when the claim is named directly
    extended_resource: bool = False  # made by the scheduler for a nvidia.com/gpu request


@dataclass(frozen=True, slots=True)
class PodLifetime:
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
    holds: tuple[DeviceHold, ...]
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
    workload: str = ""  # the scenario's name of the workload that made it

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

    def loads(self, hold: DeviceHold) -> tuple[DeviceLoad, ...]:
        """How it uses a device that it holds, from its start on; nothing when it never started."""
        started = self.started_at
        if started is None:
            return ()
        first = DeviceLoad(started, hold.utilisation or self.utilisation, hold.memory_used_mib)
        return (first, *hold.later)

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
class WorkloadChange:
    """The object of a workload from a second on."""

    at: int
    replicas: int
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadLifetime:
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
    changes: tuple[WorkloadChange, ...] = ()

    def state_at(self, at: int) -> WorkloadChange:
        """Its replicas and annotations at a second, and since when it has them."""
        first = WorkloadChange(self.created_at, self.replicas)
        return next((change for change in self.changes[::-1] if change.at <= at), first)


@dataclass(frozen=True, slots=True)
class NamespaceLifetime:
    """One lifetime of a namespace; made again under the same name it has another UID."""

    cluster_id: str
    name: str
    uid: str
    created_at: int
    terminating_at: int | None
    gone_at: int | None
    labels: Mapping[str, str] = field(default_factory=dict)
    relabelled: tuple[tuple[int, Mapping[str, str]], ...] = ()  # (from when, all its labels)

    def labels_at(self, at: int) -> Mapping[str, str]:
        return next((labels for since, labels in self.relabelled[::-1] if since <= at), self.labels)


@dataclass(frozen=True, slots=True)
class QuotaLifetime:
    cluster_id: str
    namespace: str
    name: str
    uid: str
    created_at: int
    gone_at: int | None
    hard: tuple[tuple[int, Mapping[str, int]], ...]  # (from when, {"requests.nvidia.com/gpu": 4})
    used: tuple[tuple[int, Mapping[str, int]], ...] = ()  # every change; terminal pods don't count


@dataclass(frozen=True, slots=True)
class BudgetLifetime:
    """A GpuBudget; only its amount changes."""

    cluster_id: str
    namespace: str
    name: str
    uid: str
    created_at: int
    gone_at: int | None
    currency: str
    billing_period: str  # "" is every month
    workload: str
    label: str
    actual_steps: tuple[int, ...]
    forecast_steps: tuple[int, ...]
    amounts: tuple[tuple[int, str], ...]  # (from when, the amount as a decimal)


@dataclass(frozen=True, slots=True)
class ClaimResult:
    request: str
    driver: str
    pool: str  # the node's name
    device: str  # Device.dra_name
    device_id: str
    share_id: str = ""  # of a card that several claims share
    memory: str = ""  # how much of its memory the claim consumes


@dataclass(frozen=True, slots=True)
class ClaimLifetime:
    """A ResourceClaim; `reserved` has the pods that may use it, and when."""

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
    memory: str = ""  # requested of a card that several claims share
