"""A simulated scenario: the whole fleet, or its pods one by one.

Put here: putting nodes, namespaces, workloads and faults together.
Not here: any of these (`nodes`, `namespaces`, `pod_arrivals`, `disturbances`), or reading files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fake_gpu.fleet.claims import ClusterClaims
from fake_gpu.fleet.cluster_nodes import ClusterNodes
from fake_gpu.fleet.cluster_simulation import ClusterSimulation
from fake_gpu.fleet.disturbances import expect_faults, expect_namespaces, expect_nodes
from fake_gpu.fleet.fault_specs import Effects, as_faults
from fake_gpu.fleet.model import (
    BudgetLifetime,
    Fault,
    Fleet,
    Monitoring,
    Node,
    PodLifetime,
    ScrapeJob,
    SimulatedCluster,
    WorkloadLifetime,
)
from fake_gpu.fleet.names import require_own_names
from fake_gpu.fleet.namespaces import Namespaces, build_namespaces
from fake_gpu.fleet.nodes import build_node
from fake_gpu.fleet.pod_arrivals import PodCreator
from fake_gpu.fleet.quotas import QuotaAdmission, quota_histories
from fake_gpu.scenario.load import LoadedScenario
from fake_gpu.scenario.named_mig_layouts import LayoutBook
from fake_gpu.scenario.seeds import uuid_of
from fake_gpu.scenario.spec import JOBS, ClusterSpec, MonitoringSpec, Scenario
from fake_gpu.scenario.spec_hardware import NodeSpec
from fake_gpu.scenario.spec_work import BudgetSpec

# Clusters, and namespaces without a history, are this much older than the scenario.
OLDER_SECONDS = 30 * 86_400

# The history continues after the scenario's end: a query of the last hour reads a little beyond
# it, and a lease, a retry or a late scrape must find the fleet as alive as before.
HISTORY_BEYOND_SECONDS = 2 * 3_600


@dataclass(slots=True)
class PreparedCluster:
    """One cluster, ready to be simulated."""

    spec: ClusterSpec
    cluster_id: str
    created_at: int
    nodes: tuple[Node, ...]
    namespaces: Namespaces
    creators: tuple[PodCreator, ...]
    simulation: ClusterSimulation
    claims: ClusterClaims


def build_fleet(loaded: LoadedScenario) -> Fleet:
    """The whole history of a scenario."""
    scenario = loaded.scenario
    faults = as_faults(scenario, cluster_ids(scenario))
    fired: dict[str, int] = {}
    clusters = []
    for stage in stages(loaded, faults, fired):
        pods = sorted(
            stage.simulation.run(), key=lambda p: (p.created_at, p.namespace, p.name, p.uid)
        )
        for fault_id, count in stage.simulation.fired.items():
            fired[fault_id] = fired.get(fault_id, 0) + count
        clusters.append(_cluster(scenario, stage, tuple(pods)))
    uids = {pod.uid for cluster in clusters for pod in cluster.pods}
    assert len(uids) == sum(len(cluster.pods) for cluster in clusters), "a UID is one pod's"
    return Fleet(
        name=scenario.name,
        seed=scenario.seed,
        started_at=scenario.from_,
        ended_at=scenario.until,
        clusters=tuple(clusters),
        faults=faults,
        fired=dict(sorted(fired.items())),
    )


def iter_pods(loaded: LoadedScenario) -> Iterator[PodLifetime]:
    """All pods of a scenario, each when nothing about it can change any more, in bounded memory."""
    scenario = loaded.scenario
    faults = as_faults(scenario, cluster_ids(scenario))
    for stage in stages(loaded, faults, {}):
        yield from stage.simulation.run()


def cluster_ids(scenario: Scenario) -> Mapping[str, str]:
    """Cluster names to IDs; those that the scenario does not give follow from its seed."""
    return {c.name: c.id or uuid_of(scenario.seed, "cluster", c.name) for c in scenario.clusters}


def stages(
    loaded: LoadedScenario, faults: Sequence[Fault], fired: dict[str, int]
) -> Iterator[PreparedCluster]:
    """Each cluster set up, with the faults that are part of its history."""
    scenario = loaded.scenario
    for spec in scenario.clusters:
        cluster_id = cluster_ids(scenario)[spec.name]
        yield _stage(scenario, spec, cluster_id, faults, loaded.layouts, fired)


def _stage(
    scenario: Scenario,
    described: ClusterSpec,
    cluster_id: str,
    faults: Sequence[Fault],
    layouts: LayoutBook,
    fired: dict[str, int],
) -> PreparedCluster:
    created_at = scenario.from_ - OLDER_SECONDS
    horizon = scenario.until + HISTORY_BEYOND_SECONDS

    def node_of(node: NodeSpec) -> Node:
        return build_node(scenario.seed, cluster_id, node, 0, created_at, layouts)

    spec = Effects(node_of, layouts, horizon, fired).on(described, cluster_id, faults)
    nodes = tuple(node_of(node) for node in spec.nodes)
    # A trace has an owner with pods of several requests as several workloads of one name.
    owners: dict[tuple[object, ...], dict[tuple[str, str], WorkloadLifetime]] = defaultdict(dict)
    creators = tuple(
        PodCreator(
            scenario.seed,
            cluster_id,
            w,
            scenario.from_,
            horizon,
            owners[(w.namespace, w.kind, w.name, w.from_, w.until)],
        )
        for w in spec.workloads
    )
    namespaces = build_namespaces(
        scenario.seed,
        cluster_id,
        spec.namespaces,
        [
            *(w.namespace for w in spec.workloads),
            *(q.namespace for q in spec.quotas),
            *(b.namespace for b in spec.budgets),
        ],
        created_at,
        openshift=bool(spec.openshift),
    )
    claims = ClusterClaims(scenario.seed, cluster_id)
    quotas = {
        name: tuple(q for q in spec.quotas if q.namespace == name)
        for name in sorted({q.namespace for q in spec.quotas})
    }
    cluster_nodes = ClusterNodes(nodes, {node.name: node for node in spec.nodes}, claims, horizon)
    simulation = ClusterSimulation(
        scenario.seed,
        cluster_id,
        horizon,
        creators,
        cluster_nodes,
        QuotaAdmission(quotas),
        namespaces,
    )
    expect_nodes(simulation, nodes)
    expect_namespaces(simulation, namespaces)
    expect_faults(simulation, faults)
    return PreparedCluster(
        spec, cluster_id, created_at, nodes, namespaces, creators, simulation, claims
    )


def _cluster(
    scenario: Scenario, stage: PreparedCluster, pods: tuple[PodLifetime, ...]
) -> SimulatedCluster:
    return SimulatedCluster(
        cluster_id=stage.cluster_id,
        name=stage.spec.name,
        kubernetes_version=stage.spec.kubernetes,
        openshift_version=stage.spec.openshift,
        created_at=stage.created_at,
        monitoring=build_monitoring(stage.spec.monitoring, stage.spec.name, stage.cluster_id),
        nodes=stage.nodes,
        namespaces=stage.namespaces.lifetimes,
        pods=pods,
        workloads=_workloads(stage, pods),
        quotas=quota_histories(
            scenario.seed, stage.cluster_id, stage.spec.quotas, stage.created_at, pods
        ),
        claims=stage.claims.all_claims(),
        budgets=tuple(
            _budget(scenario.seed, stage.cluster_id, spec, stage.created_at)
            for spec in stage.spec.budgets
        ),
    )


def _budget(seed: int, cluster_id: str, spec: BudgetSpec, created_at: int) -> BudgetLifetime:
    made_at = created_at if spec.created is None else spec.created
    amounts = [(made_at, spec.amount), *((change.at, change.amount) for change in spec.changes)]
    return BudgetLifetime(
        cluster_id=cluster_id,
        namespace=spec.namespace,
        name=spec.name,
        uid=uuid_of(seed, cluster_id, "budget", spec.namespace, spec.name, made_at),
        created_at=made_at,
        gone_at=spec.deleted,
        currency=spec.currency,
        billing_period=spec.billing_period,
        workload=spec.workload,
        label=spec.label,
        actual_steps=spec.actual_steps,
        forecast_steps=spec.forecast_steps,
        amounts=tuple(sorted(amounts)),
    )


def build_monitoring(spec: MonitoringSpec, name: str, cluster_id: str) -> Monitoring:
    jobs = []
    for job, honors in JOBS.items():
        own = spec.jobs.get(job)
        interval = own.interval if own and own.interval else spec.scrape_interval
        honored = own.honor_labels if own and own.honor_labels is not None else honors
        jobs.append(ScrapeJob(job, interval, honored, own.enabled if own else True))
    markers = spec.staleness_markers
    return Monitoring(
        prometheus_replicas=spec.prometheus_replicas,
        replica_label=spec.replica_label,
        jobs=tuple(jobs),
        collect_interval_seconds=spec.collect_interval,
        hostname_label=spec.hostname_label,
        profiling=spec.profiling,
        pod_uid_label=spec.pod_uid_label,
        virtual_gpus=spec.virtual_gpus,
        external_labels={"cluster": name, "clusterID": cluster_id, **spec.external_labels},
        staleness_markers=spec.collect_interval is None if markers is None else markers,
    )


def _workloads(stage: PreparedCluster, pods: Sequence[PodLifetime]) -> tuple[WorkloadLifetime, ...]:
    """Owner objects; a Job goes with its last pod, and all go with their namespace."""
    last_gone: dict[str, int | None] = {}
    for pod in pods:
        for owner in pod.owners[:1]:
            known = last_gone.get(owner.uid, 0)
            gone = pod.gone_at
            last_gone[owner.uid] = None if known is None or gone is None else max(known, gone)
    ends = {n.name: n.terminating_at for n in stage.namespaces.lifetimes if n.terminating_at}
    creators = {id(creator.objects): creator for creator in stage.creators}.values()
    workloads = []
    for creator, workload in [(m, w) for m in creators for w in m.objects.values()]:
        candidates = [workload.gone_at, ends.get(workload.namespace)]
        if creator.spec.arrivals and workload.kind != "CronJob":
            candidates.append(last_gone.get(workload.uid))
        known_ends = [c for c in candidates if c is not None and c > workload.created_at]
        workloads.append(replace(workload, gone_at=min(known_ends, default=None)))
    require_own_names(workloads)
    return tuple(sorted(workloads, key=lambda w: (w.created_at, w.namespace, w.kind, w.name)))
