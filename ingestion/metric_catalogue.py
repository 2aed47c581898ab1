"""The catalogue: every metric that is queried, and why.

Put here: one entry per metric. A new exporter or vendor is a new entry.
Not here: sending queries (`ingestion.thanos.pull`), or the effect on a bill (`dbt/`).

The server decides how often a metric is sampled, so the interval is a dated decision of the
cluster, landed with every attempt (`warehouse.manifest.Sampling`) and compared by `doctor`.

Metrics with other names in other exporters or versions are one reading: `reading` is its name, and
`unit` its unit. Names and units of devices are translated only here.

Of an allocation entry the raw samples are queried; of a telemetry entry the hourly average, maximum
and count per device. Telemetry never decides an amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ingestion.exporter_pins import NO_PINS, Exporter, Pins

NATIVE_RESOURCES = (
    "cpu|memory|storage|pods|ephemeral[-_]storage|hugepages[-_].+|attachable[-_]volumes[-_].+"
)
"""Kubernetes' own resources. Everything else may be a device, also of an unknown vendor."""

DEVICE_MATCHER = f'resource!~"{NATIVE_RESOURCES}"'


class Family(StrEnum):
    ALLOCATION = "allocation"
    TELEMETRY = "telemetry"


@dataclass(frozen=True, slots=True)
class Entry:
    """One metric that is queried, and its properties."""

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
    reading: str = ""  # telemetry: the reading, by one name for all exporters and versions
    replaces: str = ""  # the name that the same field had before
    of_cards_only: bool = False  # no device measures it for a MIG instance or a later partition
    exporter: Exporter = Exporter.KUBE_STATE_METRICS

    def selected(self, pins: Pins) -> str:
        """Its matchers, with those that keep other exporters out."""
        tells = "namespace" in self.labels
        pinned = pins.matchers(self.exporter, is_of_pods=tells)
        return ",".join(part for part in (self.matchers, pinned) if part)


_POD = ("namespace", "pod", "uid")
_HOURLY = ("avg_over_time", "max_over_time", "count_over_time")


READING_UNITS: Mapping[str, float] = {
    "fraction": 1,
    "percent": 100,
    "MiB": 1,
    "MB": 1,  # AMD's tools write MiB so
    "bytes": 2**20,
    "bytes/s": 1,
    "W": 1,
    "degrees Celsius": 1,
}
"""How many of a unit make one unit of a reading: fractions, MiB, bytes/s, watts and °C."""

MOST_READING: Mapping[str, float] = {"fraction": 1, "percent": 1, "degrees Celsius": 200}
"""The largest reading of a unit. A larger value has another unit than its name says (DCGM before
4.7 had percentages under the name of a ratio), or means "not supported" (65535)."""


_DEVICE_LABELS = {
    "DCGM_": ("gpu", "UUID"),
    "gpu_operator_": ("node",),
    "gpu_": ("gpu_id", "hostname"),
    "amd_gpu_": ("gpu", "uuid", "node"),
}


def _telemetry(
    metric: str,
    unit: str,
    why: str,
    reading: str = "",
    matchers: str = "",
    *,
    of_cards_only: bool = False,
) -> Entry:
    exporters = [labels for start, labels in _DEVICE_LABELS.items() if metric.startswith(start)]
    labels = exporters[0] if exporters else ("job", "instance")
    exporter = Exporter.PROMETHEUS if metric.startswith("scrape") else Exporter.DEVICES
    return Entry(
        *(metric, metric, why, unit, labels, matchers),
        family=Family.TELEMETRY,
        functions=_HOURLY,
        reading=reading,
        of_cards_only=of_cards_only,
        exporter=exporter,
    )


def _renamed(
    metrics: tuple[str, str],
    units: tuple[str, str],
    why: str,
    reading: str = "",
    *,
    of_cards_only: bool = False,
) -> tuple[Entry, Entry]:
    """A field of DCGM under its names before and since DCGM 4.7 (dcgm-exporter 4.9)."""
    before, since = (
        _telemetry(f"DCGM_FI_{name}", unit, why, reading, of_cards_only=of_cards_only)
        for name, unit in zip(metrics, units, strict=True)
    )
    return before, replace(since, replaces=before.metric)


ALLOCATION_ENTRIES = (
    Entry(
        "up",
        "health",
        "whether each target was scraped: a gap in it is a gap in all metrics of the target",
        "0 or 1",
        ("job", "instance"),
        sentinel=True,
        exporter=Exporter.PROMETHEUS,
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
        exporter=Exporter.SCHEDULER,
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
        "when the kubelet accepted the pod: before images are pulled, so only a lower bound",
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
        "the programme counts workers",
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
        "active nodes are Ready; other conditions are facts about the health of a node",
        "0 or 1",
        ("node", "condition", "status"),
        'status="true"',
    ),
    Entry(
        "kube_resourcequota",
        "quotas",
        "hard and used device quotas, to compare with allocations",
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
    *_renamed(
        ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO"),
        ("percent", "fraction"),
        "utilisation of a whole card",
        "card_use",
        of_cards_only=True,
    ),
    *_renamed(
        ("DEV_MEM_COPY_UTIL", "DEV_MEMORY_UTIL_RATIO"),
        ("percent", "fraction"),
        "memory traffic of a whole card",
        "memory_traffic",
        of_cards_only=True,
    ),
    *_renamed(
        ("DEV_FB_USED", "DEV_FB_USED_BYTES"),
        ("MiB", "bytes"),
        "memory in use: an idle card with full memory is held",
        "memory_used",
    ),
    *_renamed(
        ("DEV_ENC_UTIL", "DEV_ENC_UTIL_RATIO"),
        ("percent", "fraction"),
        "video encoders: use that no core shows",
        of_cards_only=True,
    ),
    *_renamed(
        ("DEV_DEC_UTIL", "DEV_DEC_UTIL_RATIO"),
        ("percent", "fraction"),
        "video decoders: use that no core shows",
        of_cards_only=True,
    ),
    *_renamed(
        ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
        ("W", "W"),
        "energy of use, and a second signal of idleness",
        "power",
    ),
    *_renamed(
        ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS"),
        ("degrees Celsius", "degrees Celsius"),
        "heat: why a clock is held down",
        "temperature",
    ),
    *_renamed(("DEV_XID_ERRORS", "DEV_XID_ERROR"), ("code", "code"), "the last error of a device"),
    *_renamed(
        ("DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED"),
        ("0 or 1", "0 or 1"),
        "broken memory that cannot be replaced",
    ),
    *_renamed(
        ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
        ("rows", "rows"),
        "a counter: memory that failed a tenant",
    ),
    *(
        _telemetry(f"DCGM_FI_DEV_{name}", unit, why)
        for name, unit, why in (
            ("CLOCK_THROTTLE_REASONS", "bits", "why a clock is held down"),
            ("CLOCKS_EVENT_REASONS", "bits", "the same under its newer name"),
            ("ECC_DBE_VOL_TOTAL", "errors", "a counter: errors that memory could not correct"),
            ("ECC_DBE_AGG_TOTAL", "errors", "the same over the life of the card"),
            ("NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "errors", "a counter: bad links between cards"),
            ("NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "errors", "the same of data"),
            ("NVLINK_REPLAY_ERROR_COUNT_TOTAL", "errors", "the same of replays"),
            ("NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "errors", "the same of recoveries"),
        )
    ),
    *_renamed(
        ("PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO"),
        ("fraction", "fraction"),
        "1001: the use of a MIG instance",
        "use",
    ),
    *_renamed(
        ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"),
        ("fraction", "fraction"),
        "1002: multiprocessors with work",
        "sm_active",
    ),
    *_renamed(
        ("PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO"),
        ("fraction", "fraction"),
        "1003: how many of their warps are active",
        "sm_occupancy",
    ),
    *_renamed(
        ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"),
        ("fraction", "fraction"),
        "1004: tensor cores",
        "tensor_active",
    ),
    *_renamed(
        ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"),
        ("fraction", "fraction"),
        "1005: memory interface",
        "dram_active",
    ),
    *_renamed(
        ("PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO"),
        ("fraction", "fraction"),
        "1006: double precision",
        "fp64_active",
    ),
    *_renamed(
        ("PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO"),
        ("fraction", "fraction"),
        "1007: single precision",
        "fp32_active",
    ),
    *_renamed(
        ("PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO"),
        ("fraction", "fraction"),
        "1008: half precision",
        "fp16_active",
    ),
    _telemetry("DCGM_FI_PROF_PCIE_TX_BYTES", "bytes/s", "1009: to the host", "pcie_sent"),
    _telemetry("DCGM_FI_PROF_PCIE_RX_BYTES", "bytes/s", "1010: from the host", "pcie_received"),
    _telemetry("DCGM_FI_PROF_NVLINK_TX_BYTES", "bytes/s", "1011: to other cards", "nvlink_sent"),
    _telemetry(
        "DCGM_FI_PROF_NVLINK_RX_BYTES", "bytes/s", "1012: from other cards", "nvlink_received"
    ),
    _telemetry("gpu_gfx_activity", "percent", "AMD: utilisation", "card_use", of_cards_only=True),
    _telemetry(
        "gpu_umc_activity", "percent", "AMD: memory traffic", "memory_traffic", of_cards_only=True
    ),
    _telemetry("gpu_used_vram", "MB", "AMD: memory in use", "memory_used"),
    _telemetry("gpu_package_power", "W", "AMD: power", "power", of_cards_only=True),
    _telemetry("gpu_junction_temperature", "degrees Celsius", "AMD: heat", "temperature"),
    # Of the GPU operator, and of its node-status-exporter: 1 where a part is ready.
    *(
        _telemetry(f"gpu_operator_{name}", "0 or 1", why)
        for name, why in (
            ("reconciliation_status", "whether the operator could do all of its work"),
            ("node_driver_ready", "whether the driver of a node is ready"),
            ("node_toolkit_ready", "whether containers of a node get devices"),
            ("node_plugin_ready", "whether the device plugin of a node is ready"),
            ("node_cuda_ready", "whether a program of CUDA runs on a node"),
            ("node_driver_validation", "whether the driver of a node passed its test"),
            (
                "node_device_plugin_devices_total",
                "devices that the device plugin of a node offers; -1 if that is not known",
            ),
        )
    ),
    # Of our own exporter for AMD, which omits readings that a partition does not have.
    _telemetry("amd_gpu_utilization_percent", "percent", "AMD: utilisation", "card_use"),
    _telemetry(
        "amd_gpu_memory_activity_percent", "percent", "AMD: memory traffic", "memory_traffic"
    ),
    _telemetry("amd_gpu_memory_used_bytes", "bytes", "AMD: memory in use", "memory_used"),
    _telemetry("amd_gpu_power_watts", "W", "AMD: power", "power"),
    _telemetry(
        *("amd_gpu_temperature_celsius", "degrees Celsius", "AMD: heat", "temperature"),
        'sensor="junction"',
    ),
)

TELEMETRY_NAMES = ("scrape_samples_scraped", "DCGM_FI_.+", "gpu_.+", "amd_gpu_.+")
"""Names that are looked up before single metrics are queried; absent metrics are not queried."""

POD_LABELS_METRIC = "kube_pod_labels"
POD_LABELS_ENTRY = Entry(
    POD_LABELS_METRIC, "pod_labels", "labels of pods that config.toml keeps", "always 1", _POD
)
"""Queried only if config.toml has an allow-list of labels."""

CATALOGUE = (*ALLOCATION_ENTRIES, *TELEMETRY_ENTRIES)


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """Entries that share one request."""

    name: str
    metrics: tuple[str, ...]
    matchers: str


def group_queries(entries: Iterable[Entry], pins: Pins = NO_PINS) -> tuple[MetricQuery, ...]:
    """The requests that fetch these entries, in their order; pins may divide an ask."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        grouped.setdefault((entry.ask, entry.selected(pins)), []).append(entry.metric)
    return tuple(MetricQuery(name, tuple(of), matchers) for (name, matchers), of in grouped.items())


def allocation_queries(pins: Pins = NO_PINS) -> tuple[MetricQuery, ...]:
    """The requests that fetch all allocation entries, in the catalogue's order."""
    return group_queries(ALLOCATION_ENTRIES, pins)


def queried_entries(pod_labels: tuple[str, ...]) -> tuple[Entry, ...]:
    """All allocation entries; labels of pods only where some are on the allow-list."""
    return (*ALLOCATION_ENTRIES, *([POD_LABELS_ENTRY] if pod_labels else []))


def lasting_metrics() -> frozenset[str]:
    """Metrics whose series end only with their pod or node."""
    return frozenset(entry.metric for entry in ALLOCATION_ENTRIES if entry.lasts)


def metrics_of_all_pods() -> frozenset[str]:
    return frozenset(entry.metric for entry in ALLOCATION_ENTRIES if entry.of_every_pod)


def entries_to_recheck() -> tuple[Entry, ...]:
    """The entries that are counted again before a close: lasting series, and the health of the
    targets."""
    return tuple(entry for entry in ALLOCATION_ENTRIES if entry.lasts or entry.sentinel)


def device_metrics() -> frozenset[str]:
    """Metrics whose values are numbers of devices: whole, finite, not negative."""
    return frozenset(entry.metric for entry in ALLOCATION_ENTRIES if entry.unit == "devices")


def sentinels() -> tuple[str, ...]:
    return tuple(entry.metric for entry in CATALOGUE if entry.sentinel)
