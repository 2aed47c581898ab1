"""Fleets of a few nodes and pods, written out, for tests of components that serve a fleet.

Put here: values of `fake_gpu.fleet.model` that several tests need.
Not here: whole scenarios (`fake_gpu/scenarios`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from fake_gpu.fleet.model import (
    Card,
    Container,
    Device,
    DeviceHold,
    Fleet,
    Monitoring,
    NamespaceLifetime,
    Node,
    NodeState,
    OwnerRef,
    PhaseChange,
    PodLifetime,
    QuotaLifetime,
    Run,
    ScrapeJob,
    SimulatedCluster,
    Utilisation,
    WorkloadLifetime,
)
from tests.servers.build import KUBERNETES

# 2026-10-01T00:00:00Z
MIDNIGHT = 1_790_812_800
HOUR = 3600
CLUSTER_ID = "11111111-aaaa-4bbb-8ccc-000000000001"

JOBS = (
    ScrapeJob("kube-state-metrics", 30, honor_labels=True),
    ScrapeJob("kube-scheduler", 30),
    ScrapeJob("dcgm-exporter", 30),
)


def monitoring(
    *,
    replicas: int = 2,
    collect_interval_seconds: int | None = None,
    staleness: bool = True,
    jobs: tuple[ScrapeJob, ...] = JOBS,
    cluster_name: str = "alpha",
    cluster_id: str = CLUSTER_ID,
) -> Monitoring:
    return Monitoring(
        prometheus_replicas=replicas,
        replica_label="prometheus_replica",
        jobs=jobs,
        collect_interval_seconds=collect_interval_seconds,
        hostname_label="Hostname",
        profiling=True,
        pod_uid_label=False,
        virtual_gpus=False,
        external_labels={"cluster": cluster_name, "clusterID": cluster_id},
        staleness_markers=staleness,
    )


def card(node: str, index: int) -> Card:
    return Card(
        card_id=f"GPU-{node}-{index}",
        index=index,
        vendor="nvidia",
        product="NVIDIA-A100-SXM4-40GB",
        model_name="NVIDIA A100-SXM4-40GB",
        memory_mib=40960,
        compute_slots=7,
        memory_slots=8,
        pci_bus_id=f"00000000:{index + 16:02X}:00.0",
        serial=f"132{index:07d}",
        pci_device="0x20B010DE",
        idle_watts=50,
        peak_watts=400,
    )


def whole(of: Card) -> Device:
    return Device(
        device_id=of.card_id,
        card_id=of.card_id,
        card_index=of.index,
        makeup="whole",
        resource="nvidia.com/gpu",
        profile="whole",
        compute_share=Fraction(1),
        memory_share=Fraction(1),
        memory_mib=of.memory_mib,
        exists_from=MIDNIGHT - HOUR,
        exists_until=None,
    )


def node(name: str, cards: int = 2) -> Node:
    own = tuple(card(name, index) for index in range(cards))
    devices = tuple(whole(each) for each in own)
    state = NodeState(
        from_at=MIDNIGHT - HOUR,
        until_at=None,
        labels={
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
            "nvidia.com/gpu.count": str(cards),
            "nvidia.com/mig.strategy": "none",
        },
        annotations={},
        capacity={"nvidia.com/gpu": cards},
        allocatable={"nvidia.com/gpu": cards},
        ready="True",
        unschedulable=False,
        device_ids=tuple(device.device_id for device in devices),
    )
    return Node(
        cluster_id=CLUSTER_ID,
        name=name,
        uid=f"{sum(map(ord, name)):08x}-0000-4000-8000-000000000000",
        created_at=MIDNIGHT - HOUR,
        gone_at=None,
        roles=("worker",),
        host_ip=f"10.0.0.{sum(map(ord, name)) % 250}",
        cpu_cores=64,
        memory_bytes=512 * 2**30,
        driver_version="550.54.15",
        cuda_version="12.4",
        mig_strategy="none",
        cards=own,
        devices=devices,
        states=(state,),
    )


def pod(
    name: str,
    *,
    created: int,
    scheduled: int | None = None,
    started: int | None = None,
    ended: int | None = None,
    gone: int | None = None,
    on: Node | None = None,
    cards: tuple[int, ...] = (0,),
    namespace: str = "team-a",
    utilisation: Utilisation | None = None,
    owners: tuple[OwnerRef, ...] = (),
    labels: dict[str, str] | None = None,
    exit_code: int = 0,
) -> PodLifetime:
    """A pod with one container on whole cards; times are seconds after midnight."""
    phases = [PhaseChange(MIDNIGHT + created, "Pending")]
    if started is not None:
        phases.append(PhaseChange(MIDNIGHT + started, "Running"))
    if ended is not None:
        phases.append(PhaseChange(MIDNIGHT + ended, "Failed" if exit_code else "Succeeded"))
    device_ids = tuple(on.devices[index].device_id for index in cards) if on else ()
    runs = ()
    if started is not None:
        end = None if ended is None else MIDNIGHT + ended
        reason = "" if end is None else ("Error" if exit_code else "Completed")
        runs = (Run(MIDNIGHT + started, end, exit_code, reason),)
    held_until = ended if ended is not None else gone
    holds = tuple(
        DeviceHold(
            device_id,
            MIDNIGHT + (scheduled or 0),
            None if held_until is None else MIDNIGHT + held_until,
            "main",
        )
        for device_id in device_ids
        if scheduled is not None
    )
    main = Container("main", "main", {"nvidia.com/gpu": max(1, len(cards))}, runs, device_ids)
    return PodLifetime(
        cluster_id=CLUSTER_ID,
        namespace=namespace,
        name=name,
        uid=f"{sum(map(ord, name)):08x}-{created % 16**4:04x}-4000-8000-000000000001",
        created_at=MIDNIGHT + created,
        scheduled_at=None if scheduled is None else MIDNIGHT + scheduled,
        node_name=on.name if on and scheduled is not None else "",
        acknowledged_at=None if scheduled is None else MIDNIGHT + scheduled + 1,
        containers=(main,),
        phases=tuple(phases),
        finished_at=None if ended is None else MIDNIGHT + ended,
        deletion_requested_at=None,
        grace_seconds=30,
        gone_at=None if gone is None else MIDNIGHT + gone,
        holds=holds,
        owners=owners,
        labels=labels or {"app": name},
        utilisation=utilisation or Utilisation(((HOUR, 100),)),
        pod_ip="10.128.0.77",
    )


def quiet_cluster(watched: Monitoring | None = None) -> SimulatedCluster:
    """Two nodes of two cards; one pod runs all day, one for ten minutes, one waits for ever."""
    one, two = node("node-a"), node("node-b")
    replicaset = OwnerRef(
        "apps/v1", "ReplicaSet", "train-5d9c", "5d9c0000-0000-4000-8000-0000000000aa"
    )
    deployment = OwnerRef("apps/v1", "Deployment", "train", "de900000-0000-4000-8000-0000000000bb")
    pods = (
        pod(
            "train-5d9c-abcde",
            created=-1800,
            scheduled=-1790,
            started=-1770,
            on=one,
            cards=(0, 1),
            owners=(replicaset, deployment),
        ),
        pod("short", created=900, scheduled=905, started=920, ended=1520, gone=1600, on=two),
        pod("waits", created=600, cards=(), namespace="team-b"),
    )
    namespaces = tuple(
        NamespaceLifetime(CLUSTER_ID, name, f"{name}-uid", MIDNIGHT - HOUR, None, None)
        for name in ("kube-system", "team-a", "team-b")
    )
    quota = QuotaLifetime(
        CLUSTER_ID,
        "team-a",
        "gpus",
        "9a000000-0000-4000-8000-0000000000cc",
        MIDNIGHT - HOUR,
        None,
        ((MIDNIGHT - HOUR, {"requests.nvidia.com/gpu": 4}),),
        ((MIDNIGHT - 1800, {"requests.nvidia.com/gpu": 2}),),
    )
    workloads = (
        WorkloadLifetime(
            CLUSTER_ID, "team-a", "apps/v1", "Deployment", "train", deployment.uid,
            MIDNIGHT - 1800, None,
        ),
        WorkloadLifetime(
            CLUSTER_ID, "team-a", "apps/v1", "ReplicaSet", "train-5d9c", replicaset.uid,
            MIDNIGHT - 1800, None, 1, deployment,
        ),
    )  # fmt: skip
    return SimulatedCluster(
        cluster_id=CLUSTER_ID,
        name="alpha",
        kubernetes_version=f"v{KUBERNETES}",
        openshift_version="",
        created_at=MIDNIGHT - HOUR,
        monitoring=watched or monitoring(),
        nodes=(one, two),
        namespaces=namespaces,
        pods=pods,
        workloads=workloads,
        quotas=(quota,),
    )


def fleet_of(*clusters: SimulatedCluster) -> Fleet:
    return Fleet("small", 7, MIDNIGHT, MIDNIGHT + 24 * HOUR, clusters)


def quiet_fleet(watched: Monitoring | None = None) -> Fleet:
    return fleet_of(quiet_cluster(watched))


def renamed(cluster: SimulatedCluster, cluster_id: str, name: str) -> SimulatedCluster:
    """The same cluster under another identity."""
    external = {"cluster": name, "clusterID": cluster_id}
    return replace(
        cluster,
        cluster_id=cluster_id,
        name=name,
        monitoring=replace(cluster.monitoring, external_labels=external),
    )
