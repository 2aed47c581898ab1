"""A pod while it is simulated, and the frozen value that it becomes.

Put here: container runs, phases, and which container uses which device.
Not here: when things happen to a pod (`cluster_simulation`), or who gets a device (`calendar`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from fake_gpu.fleet.calendar import Booking
from fake_gpu.fleet.model import (
    Container,
    DeviceHold,
    DeviceLoad,
    OwnerRef,
    PhaseChange,
    PodClaim,
    PodLifetime,
    Run,
    Utilisation,
)
from fake_gpu.scenario.spec_work import ContainerSpec, WorkloadSpec

End = Literal["completed", "error", "deleted", "evicted", "evicted_without_end", "gone"]

_PHASE_REASON = {"evicted": "Evicted", "evicted_without_end": "Evicted"}


@dataclass(slots=True)
class DeviceGrant:
    """Devices of one resource (or claim) that a pod was given."""

    resource: str  # "" for a claim
    bookings: list[Booking]
    claim_uid: str = ""
    joined: bool = False  # a shared claim that others brought


@dataclass(slots=True)
class SimulatedPod:
    """A pod during the simulation; times are set as they become known."""

    cluster_id: str
    spec: WorkloadSpec
    name: str
    uid: str
    created_at: int
    owners: tuple[OwnerRef, ...]
    utilisation: Utilisation
    pod_ip: str
    replica: int = 0
    group: int = 0
    attempt: int = 0
    exact: bool = False
    node_name: str = ""
    scheduled_at: int | None = None
    acknowledged_at: int | None = None
    main_runs: list[Run] = field(default_factory=list)
    init_runs: dict[str, Run] = field(default_factory=dict)
    planned_end: int | None = None
    finished_at: int | None = None
    end: End = "completed"
    exit_code: int = 0
    deletion_requested_at: int | None = None
    grace_seconds: int = 30
    gone_at: int | None = None
    grants: list[DeviceGrant] = field(default_factory=list)
    claims: tuple[PodClaim, ...] = ()
    card_loads: dict[int, tuple[Utilisation, int | None]] = field(default_factory=dict)
    later_loads: dict[int, tuple[DeviceLoad, ...]] = field(default_factory=dict)  # by card
    stays_until: int = 0  # the object is not gone before
    version: int = 0  # a change of plans makes older events about this pod void

    @property
    def started_at(self) -> int | None:
        return self.main_runs[0].started_at if self.main_runs else None

    def cut_runs(self, at: int, exit_code: int, reason: str) -> None:
        """End the current run at `at`, and remove later runs."""
        kept = [run for run in self.main_runs if run.started_at < at]
        if kept and (kept[-1].ended_at is None or kept[-1].ended_at >= at):
            kept[-1] = Run(kept[-1].started_at, at, exit_code, reason)
        self.main_runs = kept
        self.init_runs = {
            name: run
            if run.ended_at is not None and run.ended_at <= at
            else Run(run.started_at, at, exit_code, reason)
            for name, run in self.init_runs.items()
            if run.started_at < at
        }


def frozen(pod: SimulatedPod) -> PodLifetime:
    """The pod as the fleet keeps it."""
    containers = pod.spec.all_containers()
    assigned = assign_devices(containers, pod.grants)
    return PodLifetime(
        cluster_id=pod.cluster_id,
        namespace=pod.spec.namespace,
        name=pod.name,
        uid=pod.uid,
        created_at=pod.created_at,
        scheduled_at=pod.scheduled_at,
        node_name=pod.node_name,
        acknowledged_at=pod.acknowledged_at,
        containers=tuple(_container(pod, c, assigned.devices.get(c.name, ())) for c in containers),
        phases=_phases(pod),
        finished_at=pod.finished_at,
        deletion_requested_at=pod.deletion_requested_at,
        grace_seconds=pod.grace_seconds,
        gone_at=pod.gone_at,
        holds=_holds(pod, assigned),
        owners=pod.owners,
        labels=pod.spec.labels,
        annotations=pod.spec.annotations,
        utilisation=pod.utilisation,
        memory_used_pct=pod.spec.memory_used_pct,
        claims=pod.claims,
        restart_policy=restart_policy(pod.spec.kind),
        end_reported=pod.end not in ("evicted_without_end", "gone"),
        priority=pod.spec.priority,
        pod_ip=pod.pod_ip if pod.scheduled_at is not None else "",
        workload=pod.spec.name,
    )


def restart_policy(kind: str) -> Literal["Always", "OnFailure", "Never"]:
    forever = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    return "Always" if kind in forever else "Never"


def _container(pod: SimulatedPod, spec: ContainerSpec, device_ids: tuple[str, ...]) -> Container:
    match spec.kind:
        case "init":
            run = pod.init_runs.get(spec.name)
            runs: tuple[Run, ...] = (run,) if run else ()
        case "sidecar":
            runs = _sidecar_runs(pod, spec.name)
        case "main":
            runs = tuple(pod.main_runs)
    return Container(spec.name, spec.kind, spec.requests, runs, device_ids, spec.image)


def _sidecar_runs(pod: SimulatedPod, name: str) -> tuple[Run, ...]:
    """A sidecar starts in its turn and stays until the last main container has ended."""
    first = pod.init_runs.get(name)
    if first is None:
        return ()
    return (Run(first.started_at, pod.finished_at, 0, "Completed" if pod.finished_at else ""),)


def _phases(pod: SimulatedPod) -> tuple[PhaseChange, ...]:
    phases = [PhaseChange(pod.created_at, "Pending")]
    if pod.started_at is not None:
        phases.append(PhaseChange(pod.started_at, "Running"))
    if pod.finished_at is not None and pod.scheduled_at is not None and pod.end != "gone":
        good = pod.end == "completed" or (pod.end == "deleted" and pod.exit_code == 0)
        started = pod.started_at is not None
        phase: Literal["Succeeded", "Failed"] = "Succeeded" if good and started else "Failed"
        phases.append(PhaseChange(pod.finished_at, phase, _PHASE_REASON.get(pod.end, "")))
    return tuple(phases)


@dataclass(slots=True)
class ContainerDevices:
    """Which container has which devices, and which part of a booking is whose."""

    devices: dict[str, tuple[str, ...]]
    parts: list[tuple[Booking, str, str]]  # (part of a booking, container, claim uid)


def assign_devices(
    containers: Sequence[ContainerSpec], grants: Sequence[DeviceGrant]
) -> ContainerDevices:
    """Devices to containers as the kubelet does it: those of init containers are used again."""
    assigned = ContainerDevices({}, [])
    devices: dict[str, list[str]] = {}
    mains = [c.name for c in containers if c.kind == "main"]
    for grant in grants:
        if grant.claim_uid:
            for booking in grant.bookings:
                assigned.parts.append((booking, mains[0], grant.claim_uid))
                devices.setdefault(mains[0], []).append(booking.device.device_id)
            continue
        parts = _parts(containers, grant)
        assigned.parts += [(booking, name, "") for booking, name in parts]
        for booking, name in parts:
            devices.setdefault(name, []).append(booking.device.device_id)
        for container in containers:
            if container.kind == "init":
                used = _first_units(
                    [b for b, _ in parts], container.requests.get(grant.resource, 0)
                )
                devices.setdefault(container.name, [])
                devices[container.name] = [*devices[container.name], *used]
    assigned.devices = {name: tuple(dict.fromkeys(ids)) for name, ids in devices.items()}
    return assigned


def _parts(containers: Sequence[ContainerSpec], grant: DeviceGrant) -> list[tuple[Booking, str]]:
    """Main containers first, then devices of init containers only, then the latest sidecars."""
    wanted = {c.name: c.requests.get(grant.resource, 0) for c in containers}
    mains = [c.name for c in containers if c.kind == "main"]
    sidecars = [c.name for c in reversed(containers) if c.kind == "sidecar"]
    inits = [c.name for c in containers if c.kind == "init"]
    total = sum(b.replica_count for b in grant.bookings)
    extra = total - sum(wanted[name] for name in (*mains, *sidecars))
    order = [(name, wanted[name]) for name in mains]
    if extra > 0:
        order.append((max(inits, key=lambda name: wanted[name]), extra))
    order += [(name, wanted[name]) for name in sidecars]
    parts: list[tuple[Booking, str]] = []
    rest = [(b.replica_start, b.replica_count, b) for b in grant.bookings]
    for name, count in order:
        while count:
            start, size, booking = rest.pop(0)
            used = min(size, count)
            part = Booking(booking.device, booking.from_at, booking.until_at, start, used)
            parts.append((part, name))
            count -= used
            if used < size:
                rest.insert(0, (start + used, size - used, booking))
    return parts


def _first_units(bookings: Sequence[Booking], count: int) -> list[str]:
    used: list[str] = []
    for booking in bookings:
        if count <= 0:
            break
        used.append(booking.device.device_id)
        count -= booking.replica_count
    return used


def _holds(pod: SimulatedPod, assigned: ContainerDevices) -> tuple[DeviceHold, ...]:
    if pod.scheduled_at is None:
        return ()
    return tuple(
        DeviceHold(
            device_id=booking.device.device_id,
            held_from=pod.scheduled_at,
            held_until=pod.finished_at,
            container=container,
            claim_uid=claim_uid,
            replica_start=booking.replica_start,
            replica_count=booking.replica_count,
            utilisation=load,
            memory_used_mib=memory,
            later=pod.later_loads.get(booking.device.card_index, ()),
        )
        for booking, container, claim_uid in assigned.parts
        for load, memory in (pod.card_loads.get(booking.device.card_index, (None, None)),)
    )
