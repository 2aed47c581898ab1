"""The catalogue: everything that is asked of a sample store, and why.

Put here: one entry per thing that is asked. A new exporter or vendor is a new entry.
Not here: how it is asked (`ingestion.thanos.pull`), or what it means for a bill (`dbt/`).

How often each is sampled is the server's doing, not the metric's: a dated decision of the cluster,
landed with every attempt (`ingestion.manifest.Sampling`), that `doctor` compares with what comes.

An allocation entry is asked for its raw samples; a telemetry entry for its hourly average, maximum
and count per device. Telemetry never decides an amount.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ingestion.pins import NO_PINS, Pins, Speaker

NATIVE_RESOURCES = (
    "cpu|memory|storage|pods|ephemeral[-_]storage|hugepages[-_].+|attachable[-_]volumes[-_].+"
)
"""Kubernetes' own resources. Everything else may be a device, of a vendor that nobody knew."""

DEVICE_MATCHER = f'resource!~"{NATIVE_RESOURCES}"'


class Family(StrEnum):
    ALLOCATION = "allocation"
    TELEMETRY = "telemetry"


@dataclass(frozen=True, slots=True)
class Entry:
    """One metric that is asked, and what is known about it."""

    metric: str
    ask: str  # entries of one ask share a request, so they share its matchers
    why: str
    unit: str
    labels: tuple[str, ...]  # those that are relied on
    matchers: str = ""
    family: Family = Family.ALLOCATION
    sentinel: bool = False  # a measured cluster always has samples of it
    lasts: bool = False  # its series end only with their pod or node
    of_every_pod: bool = False  # each pod has one, so a pod without it has lost it
    functions: tuple[str, ...] = ()  # telemetry: the hourly functions
    speaker: Speaker = Speaker.KUBE_STATE_METRICS

    def selected(self, pins: Pins) -> str:
        """Its matchers, with those that keep other exporters out."""
        tells = "namespace" in self.labels
        pinned = pins.matchers(self.speaker, tells_namespaces=tells)
        return ",".join(part for part in (self.matchers, pinned) if part)


_POD = ("namespace", "pod", "uid")
_HOURLY = ("avg_over_time", "max_over_time", "count_over_time")


def _telemetry(metric: str, unit: str, why: str) -> Entry:
    labels = ("gpu_id", "hostname") if metric.startswith("gpu") else ("job", "instance")
    labels = ("gpu", "UUID") if metric.startswith("DCGM") else labels
    speaker = Speaker.PROMETHEUS if metric.startswith("scrape") else Speaker.DEVICES
    return Entry(
        *(metric, metric, why, unit, labels),
        family=Family.TELEMETRY,
        functions=_HOURLY,
        speaker=speaker,
    )


ALLOCATION_ENTRIES = (
    Entry(
        "up",
        "health",
        "whether each target was scraped: a hole in it is a hole of everything behind it",
        "0 or 1",
        ("job", "instance"),
        sentinel=True,
        speaker=Speaker.PROMETHEUS,
    ),
    Entry(
        "kube_pod_container_resource_requests",
        "requests",
        "which container requests how many devices: the allocation itself",
        "devices",
        (*_POD, "container", "node", "resource"),
        DEVICE_MATCHER,
        lasts=True,
    ),
    Entry(
        "kube_pod_init_container_resource_requests",
        "requests",
        "init containers and sidecars count in the effective request, by the maximum rule",
        "devices",
        (*_POD, "container", "node", "resource"),
        DEVICE_MATCHER,
        lasts=True,
    ),
    Entry(
        "kube_node_status_capacity",
        "requests",
        "the devices a node has: the denominator of conservation",
        "devices",
        ("node", "resource"),
        DEVICE_MATCHER,
        lasts=True,
    ),
    Entry(
        "kube_node_status_allocatable",
        "requests",
        "capacity that is not allocatable is unhealthy",
        "devices",
        ("node", "resource"),
        DEVICE_MATCHER,
        lasts=True,
    ),
    Entry(
        "kube_pod_resource_request",
        "requests",
        "the scheduler's own effective request: a second, independent count, raw names",
        "devices",
        ("namespace", "pod", "node", "resource"),
        DEVICE_MATCHER,
        speaker=Speaker.SCHEDULER,
    ),
    Entry(
        "kube_pod_status_phase",
        "phase",
        "a request counts while its pod is Running; ended pods keep their request series",
        "0 or 1",
        (*_POD, "phase"),
        'phase="Running"',
        lasts=True,
        of_every_pod=True,
    ),
    Entry(
        "kube_pod_container_state_started",
        "pods",
        "the start of the running container, to the second: sharper than any sample",
        "seconds since 1970",
        (*_POD, "container"),
    ),
    Entry(
        "kube_pod_info",
        "pods",
        "node and creator of a pod",
        "always 1",
        (*_POD, "node", "created_by_kind", "created_by_name"),
        lasts=True,
        of_every_pod=True,
    ),
    Entry(
        "kube_pod_owner",
        "pods",
        "the owner, for usage by workload",
        "always 1",
        (*_POD, "owner_kind", "owner_name"),
        lasts=True,
        of_every_pod=True,
    ),
    Entry(
        "kube_replicaset_owner",
        "pods",
        "from a ReplicaSet up to its Deployment",
        "always 1",
        ("namespace", "replicaset"),  # a label without a value is no label: not every one is owned
    ),
    Entry(
        "kube_job_owner",
        "pods",
        "from a Job up to its CronJob or training operator",
        "always 1",
        ("namespace", "job_name"),
    ),
    Entry(
        "kube_pod_start_time",
        "pods",
        "when the kubelet took the pod: before images are pulled, so only a lower bound",
        "seconds since 1970",
        _POD,
    ),
    Entry(
        "kube_pod_completion_time",
        "pods",
        "the end to the second, where it is not dropped",
        "seconds since 1970",
        _POD,
    ),
    Entry(
        "kube_pod_deletion_timestamp",
        "pods",
        "a deadline in the future, never an end: explains a pod that is going",
        "seconds since 1970",
        _POD,
    ),
    Entry(
        "kube_pod_status_scheduled_time",
        "pods",
        "binding to a node: the start of being held",
        "seconds since 1970",
        _POD,
    ),
    Entry(
        "kube_pod_status_unschedulable",
        "pods",
        "a pod that waits for a device holds none",
        "always 1",
        _POD,
    ),
    Entry(
        "kube_pod_init_container_info",
        "pods",
        'restart_policy="Always" makes an init container a sidecar',
        "always 1",
        (*_POD, "container", "restart_policy"),
    ),
    Entry(
        "kube_pod_resourceclaim_info",
        "pods",
        "devices by claim are in no request; the name of the claim is all that samples know",
        "always 1",
        (*_POD, "claim_name", "resourceclaim_name"),
    ),
    Entry(
        "kube_node_info",
        "nodes",
        "every node that exists: the second sentinel",
        "always 1",
        ("node",),
        sentinel=True,
        lasts=True,
    ),
    Entry(
        "kube_node_role",
        "nodes",
        "workers are what the programme counts",
        "always 1",
        ("node", "role"),
    ),
    Entry(
        "kube_node_spec_unschedulable",
        "nodes",
        "a cordoned node still runs pods and still counts",
        "0 or 1",
        ("node",),
    ),
    Entry(
        "kube_node_labels",
        "nodes",
        "product, sharing and MIG layout of the node, dated by its samples",
        "always 1",
        ("node",),
    ),
    Entry(
        "kube_namespace_labels",
        "nodes",
        "the provider's marks on a namespace",
        "always 1",
        ("namespace",),
    ),
    Entry(
        "kube_node_status_condition",
        "conditions",
        "active nodes are Ready; telemetry of a node that is not says nothing",
        "0 or 1",
        ("node", "condition", "status"),
        'condition="Ready",status="true"',
    ),
    Entry(
        "kube_resourcequota",
        "quotas",
        "hard and used device quotas, beside what was allocated",
        "devices",
        ("namespace", "resourcequota", "resource", "type"),
        'resource=~"requests[.].+/.+|.+[.]deviceclass[.]resource[.]k8s[.]io/devices"',
    ),
)

TELEMETRY_ENTRIES = (
    _telemetry(
        "scrape_samples_scraped",
        "samples",
        "a target that gives fewer samples than at its best has lost series while `up` stays 1",
    ),
    _telemetry("DCGM_FI_DEV_GPU_UTIL", "percent", "utilisation of a whole card"),
    _telemetry("DCGM_FI_DEV_MEM_COPY_UTIL", "percent", "memory traffic of a whole card"),
    _telemetry(
        "DCGM_FI_DEV_FB_USED", "MiB", "memory in use: an idle card with full memory is held"
    ),
    _telemetry("DCGM_FI_DEV_FB_FREE", "MiB", "with FB_USED, the memory of the device"),
    _telemetry("DCGM_FI_DEV_FB_RESERVED", "MiB", "what the driver keeps: neither free nor used"),
    _telemetry("DCGM_FI_DEV_ENC_UTIL", "percent", "video encoders: use that no core shows"),
    _telemetry("DCGM_FI_DEV_DEC_UTIL", "percent", "video decoders: use that no core shows"),
    _telemetry("DCGM_FI_DEV_POWER_USAGE", "W", "energy of use, and a second signal of idleness"),
    _telemetry("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ", "a counter, reset by the driver"),
    _telemetry("DCGM_FI_DEV_SM_CLOCK", "MHz", "a clock held down gives less for the same hour"),
    _telemetry("DCGM_FI_DEV_MEM_CLOCK", "MHz", "the same of the memory"),
    _telemetry("DCGM_FI_DEV_GPU_TEMP", "degrees Celsius", "heat: why a clock is held down"),
    _telemetry("DCGM_FI_DEV_MEMORY_TEMP", "degrees Celsius", "the same of the memory"),
    _telemetry("DCGM_FI_DEV_XID_ERRORS", "code", "the last error of a device"),
    _telemetry("DCGM_FI_DEV_ROW_REMAP_FAILURE", "0 or 1", "broken memory that cannot be replaced"),
    _telemetry(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "rows", "a counter: memory that failed a tenant"
    ),
    _telemetry(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "rows", "a counter: memory that is wearing out"
    ),
    _telemetry("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "retries", "a counter: a bad link to the host"),
    _telemetry(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "counts",
        "a counter over all links: cards that work together",
    ),
    _telemetry("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "0 or 1", "an unlicensed vGPU is slowed down"),
    _telemetry("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "fraction", "1001: the use of a MIG instance"),
    _telemetry("DCGM_FI_PROF_SM_ACTIVE", "fraction", "1002: multiprocessors with work"),
    _telemetry("DCGM_FI_PROF_SM_OCCUPANCY", "fraction", "1003: how full they are"),
    _telemetry("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "fraction", "1004: tensor cores"),
    _telemetry("DCGM_FI_PROF_DRAM_ACTIVE", "fraction", "1005: memory interface"),
    _telemetry("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "fraction", "1006: double precision"),
    _telemetry("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "fraction", "1007: single precision"),
    _telemetry("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "fraction", "1008: half precision"),
    _telemetry("DCGM_FI_PROF_PCIE_TX_BYTES", "bytes/s", "1009: to the host"),
    _telemetry("DCGM_FI_PROF_PCIE_RX_BYTES", "bytes/s", "1010: from the host"),
    _telemetry("DCGM_FI_PROF_NVLINK_TX_BYTES", "bytes/s", "1011: to other cards"),
    _telemetry("DCGM_FI_PROF_NVLINK_RX_BYTES", "bytes/s", "1012: from other cards"),
    _telemetry("gpu_gfx_activity", "percent", "AMD: utilisation"),
    _telemetry("gpu_umc_activity", "percent", "AMD: memory traffic"),
    _telemetry("gpu_used_vram", "MB", "AMD: memory in use"),
    _telemetry("gpu_total_vram", "MB", "AMD: memory of the device"),
    _telemetry("gpu_package_power", "W", "AMD: power"),
    _telemetry("gpu_average_package_power", "W", "AMD: power, older cards"),
    _telemetry("gpu_energy_consumed", "uJ", "AMD: a counter, only on partition 0"),
)

TELEMETRY_NAMES = ("scrape_samples_scraped", "DCGM_FI_.+", "gpu_.+")
"""Which names to look for before single metrics are asked; what is absent is not asked."""

POD_LABELS_METRIC = "kube_pod_labels"
POD_LABELS_ENTRY = Entry(
    POD_LABELS_METRIC, "pod_labels", "labels of pods that config.toml keeps", "always 1", _POD
)
"""Asked only for the labels on the allow-list of config.toml."""

CATALOGUE = (*ALLOCATION_ENTRIES, *TELEMETRY_ENTRIES)


@dataclass(frozen=True, slots=True)
class Ask:
    """Entries that share one request."""

    name: str
    metrics: tuple[str, ...]
    matchers: str


def asks_of(entries: Iterable[Entry], pins: Pins = NO_PINS) -> tuple[Ask, ...]:
    """The requests that fetch these entries, in their order; pins may divide an ask."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        grouped.setdefault((entry.ask, entry.selected(pins)), []).append(entry.metric)
    return tuple(Ask(name, tuple(of), matchers) for (name, matchers), of in grouped.items())


def allocation_asks(pins: Pins = NO_PINS) -> tuple[Ask, ...]:
    """The requests that fetch all allocation entries, in the catalogue's order."""
    return asks_of(ALLOCATION_ENTRIES, pins)


def asked_entries(pod_labels: tuple[str, ...]) -> tuple[Entry, ...]:
    """All allocation entries; labels of pods only where some are on the allow-list."""
    return (*ALLOCATION_ENTRIES, *([POD_LABELS_ENTRY] if pod_labels else []))


def lasting_metrics() -> frozenset[str]:
    """Metrics whose series end only with their pod or node."""
    return frozenset(entry.metric for entry in ALLOCATION_ENTRIES if entry.lasts)


def metrics_of_every_pod() -> frozenset[str]:
    return frozenset(entry.metric for entry in ALLOCATION_ENTRIES if entry.of_every_pod)


def rechecked_entries() -> tuple[Entry, ...]:
    """What is counted again before a close: what lasts, and the health of the targets."""
    return tuple(entry for entry in ALLOCATION_ENTRIES if entry.lasts or entry.sentinel)


def device_metrics() -> frozenset[str]:
    """Metrics whose values are numbers of devices: whole, finite, not negative."""
    return frozenset(entry.metric for entry in ALLOCATION_ENTRIES if entry.unit == "devices")


def sentinels() -> tuple[str, ...]:
    return tuple(entry.metric for entry in CATALOGUE if entry.sentinel)
