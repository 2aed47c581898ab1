"""A scenario as typed values: the file's top level, clusters, monitoring, faults.

Put here: the keys of a scenario file that are neither hardware nor work.
Not here: reading (`schema`), or finding the file (`load`).
"""

# ruff: noqa: RUF009 (`key` is a dataclass field with a description)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import yaml

from fake_gpu.faults.fault_catalogue import CATALOGUE, FaultKind, Parameter
from fake_gpu.scenario.scalars import Seconds, Share, Time
from fake_gpu.scenario.schema import InvalidScenarioValue, Reader, Shaped, is_null, key
from fake_gpu.scenario.spec_hardware import NodeSpec
from fake_gpu.scenario.spec_work import BudgetSpec, NamespaceSpec, QuotaSpec, WorkloadSpec

# The exporters that are scraped, and whether their targets' labels give way.
JOBS = {
    "kube-state-metrics": True,
    "dcgm-exporter": False,
    "amd-exporter": True,
    "kube-scheduler": True,
    "kubelet": True,
}

MODES = ("xid", "lost", "ecc", "unhealthy")
# Ten years: longer than any programme's books; a year with a digit too many is none.
LONGEST_DAYS = 3660
# Nearly twice the largest fleet that is measured (bench/), of which each pod costs a few kB.
MAXIMUM_PODS = 2_000_000
FAULT_NOTATION = "{fault: dropped_scrapes, cluster: east, from: +1h, until: +2h, share: 0.2}"


@dataclass(frozen=True, slots=True)
class JobSpec:
    interval: Seconds | None = key("Scrape interval of the job.", default=None)
    honor_labels: bool | None = key("honor_labels of the job.", default=None)
    enabled: bool = key("Whether the job is scraped.", default=True)


@dataclass(frozen=True, slots=True)
class MonitoringSpec:
    prometheus_replicas: int = key(
        "Number of Prometheus servers that scrape the same targets.", default=2
    )
    replica_label: str = key(
        "Label that distinguishes the Prometheus servers.", default="prometheus_replica"
    )
    scrape_interval: Seconds = key(
        "Scrape interval of all jobs without one of their own.", default=30, shown="30s"
    )
    jobs: Mapping[str, JobSpec] = key(
        "Settings of kube-state-metrics, dcgm-exporter, kube-scheduler, amd-exporter, kubelet.",
        factory=dict,
    )
    collect_interval: Seconds | None = key(
        "Interval of a collector that federates the newest samples (ACM: 5m). Default: none.",
        default=None,
    )
    staleness_markers: bool | None = key(
        "Whether ended series get staleness markers. Default: only without `collect_interval`.",
        default=None,
    )
    hostname_label: Literal["Hostname", "hostname"] = key(
        "Spelling of the label by dcgm-exporter, which depends on its version.", default="Hostname"
    )
    profiling: bool = key("Whether dcgm-exporter has the profiling metrics.", default=True)
    pod_uid_label: bool = key("Whether dcgm-exporter writes the label pod_uid.", default=False)
    virtual_gpus: bool = key(
        "Whether dcgm-exporter runs with --kubernetes-virtual-gpus.", default=False
    )
    external_labels: Mapping[str, str] = key(
        "More labels of every sample, in addition to cluster and clusterID.", factory=dict
    )

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.jobs) - set(JOBS)):
            raise InvalidScenarioValue(f"no job {unknown[0]!r}", "one of: " + ", ".join(JOBS))


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    name: str = key("Name of the cluster, for display.")
    id: str = key(
        "ID of the cluster (UID of kube-system). Default: calculated from the seed.", default=""
    )
    kubernetes: str = key("Version of Kubernetes.", default="v1.34.1")
    openshift: str = key("Version of OpenShift. Default: not OpenShift.", default="")
    monitoring: MonitoringSpec = key("Monitoring of the cluster.", factory=MonitoringSpec)
    nodes: tuple[NodeSpec, ...] = key("Nodes of the cluster.", factory=tuple)
    namespaces: tuple[NamespaceSpec, ...] = key(
        "Namespaces with a history. All other namespaces of workloads exist the whole time.",
        factory=tuple,
    )
    quotas: tuple[QuotaSpec, ...] = key("Resource quotas.", factory=tuple)
    budgets: tuple[BudgetSpec, ...] = key("GpuBudgets of tenants.", factory=tuple)
    workloads: tuple[WorkloadSpec, ...] = key("Workloads.", factory=tuple)


@dataclass(frozen=True, slots=True)
class FaultSpec:
    kind: str
    cluster: str  # a cluster's name; "" is every one
    from_at: int | None
    until_at: int | None
    seed: int | None
    parameters: Mapping[str, object]
    line: int


def _fault(node: yaml.Node, path: str, reader: Reader) -> FaultSpec:
    entries = reader.entries(node, path)
    if entries is None or "fault" not in entries:
        raise InvalidScenarioValue("a fault without a name", f"write - {FAULT_NOTATION}")
    name = str(entries["fault"][1].value)
    if name not in CATALOGUE:
        raise InvalidScenarioValue(
            f"unknown fault {name!r}", "see the reference: " + ", ".join(CATALOGUE)
        )
    kind = CATALOGUE[name]
    base: dict[str, Any] = {"cluster": "", "from": None, "until": None, "seed": None}
    types = {"cluster": str, "from": Time, "until": Time, "seed": int}
    given = {p.name: p.default for p in kind.parameters}
    for key_name, (key_node, value) in entries.items():
        if key_name == "fault":
            continue
        if key_name in base:
            base[key_name] = reader.read(value, types[key_name], f"{path}.{key_name}")
            continue
        parameter = _parameter(kind, key_name)
        if parameter is None:
            known = ", ".join(["cluster", "from", "until", "seed", *given])
            reader.problem(key_node, path, f"{name} has no `{key_name}`", f"it has: {known}")
            continue
        given[key_name] = reader.read(value, _TYPES[parameter.kind], f"{path}.{key_name}")
    _check_fault(name, base, given)
    return FaultSpec(
        name,
        base["cluster"] or "",
        base["from"],
        base["until"],
        base["seed"],
        given,
        node.start_mark.line + 1,
    )


def _check_fault(name: str, base: dict[str, Any], given: Mapping[str, object]) -> None:
    if name in ("namespace_recreated", "label_edited") and not given["namespace"]:
        raise InvalidScenarioValue(f"{name} needs `namespace`", "name one")
    if name == "card_unhealthy" and given["mode"] not in MODES:
        raise InvalidScenarioValue(f"mode: {given['mode']!r}", "one of: " + ", ".join(MODES))
    if base["from"] is not None and base["until"] is not None and base["until"] <= base["from"]:
        raise InvalidScenarioValue(f"{name} ends before it starts", "give a later `until`")


def _parameter(kind: FaultKind, name: str) -> Parameter | None:
    return kind.parameter(name)


_TYPES: dict[str, Any] = {
    "text": str,
    "number": int,
    "share": Share,
    "duration": Seconds,
    "flag": bool,
    "words": tuple[str, ...],
}

FaultNotation = Annotated[FaultSpec, Shaped(_fault, FAULT_NOTATION)]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str = key("Name of the scenario.")
    from_: Time = key("Start of the simulated time.")
    until: Time = key("End of the simulated time.")
    clusters: tuple[ClusterSpec, ...] = key("Clusters.")
    story: str = key("Events and purpose of the scenario.", default="")
    seed: int = key("Seed of all random values.", default=1)
    faults: tuple[FaultNotation, ...] = key(
        f"Faults, one per line: {FAULT_NOTATION}.", factory=tuple
    )
    workload_trace: str = key(
        "CSV file of real pods, in addition to the workloads of the scenario.", default=""
    )
    mig_configs: str = key(
        "mig-parted file (or its ConfigMap) with names for `layout`.", default=""
    )

    def __post_init__(self) -> None:
        if self.until <= self.from_:
            raise InvalidScenarioValue("it ends before it starts", "give a later `until`")
        days = (self.until - self.from_) // 86_400
        if days > LONGEST_DAYS:
            raise InvalidScenarioValue(f"it lasts {days} days", f"at most {LONGEST_DAYS} of them")
        if self.pods_about > MAXIMUM_PODS:
            seen = f"about {self.pods_about} pods come, and {MAXIMUM_PODS} can be simulated"
            raise InvalidScenarioValue(seen, "let them come more rarely, or for a shorter time")

    @property
    def pods_about(self) -> int:
        """The expected number of pods of the arrivals."""
        found = 0
        for workload in (each for cluster in self.clusters for each in cluster.workloads):
            every = workload.arrivals.every if workload.arrivals else None
            if every is not None:
                from_at = max(self.from_, workload.from_ or self.from_)
                until = min(self.until, workload.until or self.until)
                found += max(0, until - from_at) // max(1, every.middle) * workload.replicas
        return found


__all__ = ["ClusterSpec", "FaultSpec", "MonitoringSpec", "Scenario", "is_null"]
