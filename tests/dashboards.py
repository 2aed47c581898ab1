"""Dashboards over the portal's metrics and the exporters, and their forms for each console.

Put here: the content of each dashboard, and writing it as Grafana JSON and in the old form of the
OpenShift console.
Not here: metrics (`portal.metrics`) and rules (`tests.alert_rules`).

Tenant dashboards select by the namespace of the pod. dcgm-exporter writes it as `namespace`, and
Prometheus calls it `exported_namespace` unless `honorLabels` is set; `of_pods` takes both. DCGM 4.7
renamed metrics and changed units; `dcgm` takes both names and brings them to one unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

CHOSEN = 'namespace=~"$namespace"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: queries by legend, and how it is drawn."""

    title: str
    unit: str  # of Grafana: percentunit, bytes, watt, celsius, short, h, …
    queries: dict[str, str]  # legend → PromQL
    kind: str = "timeseries"  # or stat
    about: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page of panels."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: dict[str, str] = field(default_factory=dict)  # name → query of its values


EXPORTERS = ".*(dcgm|metrics)-exporter.*"
"""Pods of exporters. The labels of the target of a device without a pod name such a pod."""


def of_pods(metric: str, namespace: str = "$namespace") -> str:
    """The series of pods in the chosen namespaces, with and without the prefix `exported_`."""
    exported = f'{metric}{{exported_namespace=~"{namespace}",exported_namespace!=""}}'
    own = f'{metric}{{exported_namespace="",namespace=~"{namespace}",pod!="",pod!~"{EXPORTERS}"}}'
    return (
        f'label_replace(label_replace({exported}, "namespace", "$1", "exported_namespace", "(.+)"),'
        f' "pod", "$1", "exported_pod", "(.+)") or {own}'
    )


def dcgm(before: str, since: str, factor: str = "1", *, pods: bool = True) -> str:
    """A metric of DCGM by both of its names; `factor` brings the old unit to the new one."""
    old, new = (of_pods(name) if pods else name for name in (before, since))
    scaled = f"({old}) * {factor}" if factor != "1" else f"({old})"
    # A device that is shown under both names counts once.
    device = "(UUID, GPU_I_ID, namespace, pod, container)"
    return f"({new}) or on {device} ({scaled})"


def amd(name: str, own: str, factor: str = "1") -> str:
    """A metric of pods from AMD's exporter, else from the exporter of this project."""
    scaled = f"({of_pods(own)}) * {factor}" if factor != "1" else f"({of_pods(own)})"
    return f"({of_pods(name)}) or on (namespace, pod) ({scaled})"


def _mean_by_pod(metric: str) -> str:
    return f"avg by (namespace, pod, GPU_I_PROFILE) ({metric})"


def _sum_by_pod(metric: str) -> str:
    return f"sum by (namespace, pod, GPU_I_PROFILE) ({metric})"


POD = "{{namespace}}/{{pod}} {{GPU_I_PROFILE}}"
_PROFILED = (
    ("Graphics or compute engine active (1001)", "GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
    ("SM active (1002)", "SM_ACTIVE", "SM_UTIL_RATIO"),
    ("SM occupancy (1003)", "SM_OCCUPANCY", "SM_OCCUPANCY_RATIO"),
    ("Tensor cores active (1004)", "PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
    ("Memory interface active (1005)", "DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
    ("FP64 active (1006)", "PIPE_FP64_ACTIVE", "FP64_UTIL_RATIO"),
    ("FP32 active (1007)", "PIPE_FP32_ACTIVE", "FP32_UTIL_RATIO"),
    ("FP16 active (1008)", "PIPE_FP16_ACTIVE", "FP16_UTIL_RATIO"),
)
_TRAFFIC = (
    ("PCIe sent (1009)", "PCIE_TX_BYTES"),
    ("PCIe received (1010)", "PCIE_RX_BYTES"),
    ("NVLink sent (1011)", "NVLINK_TX_BYTES"),
    ("NVLink received (1012)", "NVLINK_RX_BYTES"),
)

PROVIDER = Dashboard(
    "provider",
    "GPU billing: provider",
    (
        Panel(
            "Complete hours of the month",
            "percentunit",
            {"{{cluster}} {{source}}": "gpu_ledger_coverage_ratio"},
        ),
        Panel("Due hours", "short", {"{{cluster}} {{source}}": "gpu_ledger_due_hours"}),
        Panel(
            "Data is complete since",
            "s",
            {"{{period}}": "time() - gpu_ledger_complete_until_timestamp_seconds"},
            "stat",
        ),
        Panel(
            "Findings that block the close",
            "short",
            {"{{period}} {{code}}": 'gpu_ledger_findings{blocks="true"}'},
            "stat",
        ),
        Panel(
            "Cost of the month by tenant",
            "short",
            {"{{tenant_namespace}}": "topk(10, gpu_ledger_tenant_cost)"},
        ),
        Panel(
            "Burn rate per hour by tenant",
            "short",
            {"{{tenant_namespace}}": "topk(10, gpu_ledger_tenant_burn_rate_per_hour)"},
        ),
        Panel(
            "Budget used",
            "percentunit",
            {"{{tenant_namespace}} {{budget}}": "gpu_ledger_budget_used_ratio"},
        ),
        Panel(
            "Idle money by tenant",
            "short",
            {"{{tenant_namespace}}": "topk(10, gpu_ledger_tenant_idle_cost)"},
        ),
        Panel(
            "Unsold money by class",
            "short",
            {"{{cluster}} {{gpu_class}}": "gpu_ledger_unsold_cost"},
        ),
        Panel(
            "Age of the portal's snapshots",
            "s",
            {"": "time() - gpu_ledger_snapshot_timestamp_seconds"},
            "stat",
        ),
    ),
)
TENANT = Dashboard(
    "tenant",
    "GPU billing: tenant",
    (
        Panel(
            "Cost of the month", "short", {"{{currency}}": f"gpu_ledger:tenant_cost{{{CHOSEN}}}"}
        ),
        Panel(
            "Burn rate per hour",
            "short",
            {"{{currency}}": f"gpu_ledger:tenant_burn_rate:per_hour{{{CHOSEN}}}"},
        ),
        Panel(
            "Budget used",
            "percentunit",
            {"{{budget}}": f"gpu_ledger:budget_used:ratio{{{CHOSEN}}}"},
        ),
        Panel("Idle money", "short", {"{{currency}}": f"gpu_ledger:tenant_idle_cost{{{CHOSEN}}}"}),
    ),
    {"namespace": "label_values(gpu_ledger:tenant_cost, namespace)"},
)
PROGRAMME = Dashboard(
    "programme",
    "GPU billing: programme",
    (
        Panel("Active worker nodes", "short", {"{{cluster}}": "gpu_ledger_active_worker_nodes"}),
        Panel("Cards in use at one instant", "short", {"{{cluster}}": "gpu_ledger_gpus_active"}),
        Panel("Installed cards", "short", {"{{cluster}}": "gpu_ledger_gpus_installed"}),
        Panel(
            "Share of the cards in use",
            "percentunit",
            {"": "sum(gpu_ledger_gpus_active) / sum(gpu_ledger_gpus_installed)"},
        ),
    ),
)
GPU_BY_POD = Dashboard(
    "gpu-by-pod",
    "GPU by pod, with MIG instances",
    (
        *(
            Panel(
                title,
                "percentunit",
                {POD: _mean_by_pod(dcgm(f"DCGM_FI_PROF_{old}", f"DCGM_FI_PROF_{new}"))},
            )
            for title, old, new in _PROFILED
        ),
        *(
            Panel(
                title,
                "Bps",
                {POD: _sum_by_pod(of_pods(f"DCGM_FI_PROF_{name}"))},
            )
            for title, name in _TRAFFIC
        ),
        Panel(
            "Memory used",
            "bytes",
            {POD: _sum_by_pod(dcgm("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_BYTES", "1048576"))},
        ),
        Panel(
            "AMD: engine active",
            "percent",
            {
                "{{namespace}}/{{pod}}": "avg by (namespace, pod) "
                f"({amd('gpu_gfx_activity', 'amd_gpu_utilization_percent')})"
            },
        ),
        Panel(
            "AMD: memory used",
            "decmbytes",
            {
                "{{namespace}}/{{pod}}": "sum by (namespace, pod) "
                f"({amd('gpu_used_vram', 'amd_gpu_memory_used_bytes', '9.5367431640625e-07')})"
            },
        ),
    ),
    {"namespace": "label_values(kube_pod_container_resource_requests, namespace)"},
)
_DEVICE = "{{Hostname}}{{hostname}} GPU {{gpu}} {{GPU_I_ID}}"
GPU_STATUS = Dashboard(
    "gpu-status",
    "GPU status",
    (
        Panel(
            "Temperature",
            "celsius",
            {_DEVICE: "DCGM_FI_DEV_GPU_TEMP_CELSIUS or on (UUID) DCGM_FI_DEV_GPU_TEMP"},
        ),
        Panel(
            "Power",
            "watt",
            {_DEVICE: "DCGM_FI_DEV_BOARD_POWER_WATTS or on (UUID) DCGM_FI_DEV_POWER_USAGE"},
        ),
        Panel(
            "SM clock",
            "hertz",
            {_DEVICE: "DCGM_FI_DEV_SM_CLOCK_HERTZ or on (UUID) DCGM_FI_DEV_SM_CLOCK * 1000000"},
        ),
        Panel(
            "Last XID error",
            "none",
            {_DEVICE: "DCGM_FI_DEV_XID_ERROR or on (UUID) DCGM_FI_DEV_XID_ERRORS"},
        ),
        Panel(
            "Remapped rows, uncorrectable",
            "short",
            {
                _DEVICE: "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL "
                "or on (UUID) DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
            },
        ),
        Panel(
            "Devices that pods can have, by node",
            "short",
            {
                "{{node}} {{resource}}": "kube_node_status_allocatable"
                '{resource=~"(nvidia|amd)_com_.*"}'
            },
        ),
        Panel(
            "AMD: temperature",
            "celsius",
            {
                "{{hostname}}{{node}} {{gpu_id}}{{gpu}}": "gpu_junction_temperature "
                'or amd_gpu_temperature_celsius{sensor="junction"}'
            },
        ),
        Panel(
            "AMD: power",
            "watt",
            {"{{hostname}}{{node}} {{gpu_id}}{{gpu}}": "gpu_package_power or amd_gpu_power_watts"},
        ),
    ),
)
QUOTA = Dashboard(
    "gpu-quota",
    "GPU quota by project",
    (
        Panel(
            "Quota used",
            "short",
            {
                "{{namespace}} {{resource}}": "kube_resourcequota"
                f'{{type="used",resource=~"requests.(nvidia|amd).com/.*",{CHOSEN}}}'
            },
        ),
        Panel(
            "Quota",
            "short",
            {
                "{{namespace}} {{resource}}": "kube_resourcequota"
                f'{{type="hard",resource=~"requests.(nvidia|amd).com/.*",{CHOSEN}}}'
            },
        ),
        Panel(
            "Devices requested by pods",
            "short",
            {
                "{{namespace}} {{resource}}": "sum by (namespace, resource) "
                "(kube_pod_container_resource_requests"
                f'{{resource=~"(nvidia|amd)_com_.*",node!="",{CHOSEN}}})'
            },
        ),
    ),
    {"namespace": "label_values(kube_pod_container_resource_requests, namespace)"},
)
DASHBOARDS = (PROVIDER, TENANT, PROGRAMME, GPU_BY_POD, GPU_STATUS, QUOTA)

WIDTH, HEIGHT, PER_ROW = 12, 8, 2


def grafana(dashboard: Dashboard) -> dict[str, Any]:
    """The JSON model of Grafana."""
    return {
        "uid": f"gpu-ledger-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["gpu-ledger"],
        "schemaVersion": 39,
        "timezone": "utc",
        "editable": False,
        "refresh": "5m",
        "time": {"from": "now-7d", "to": "now"},
        "templating": {"list": list(_variables(dashboard))},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    for name, query in dashboard.variables.items():
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "allValue": ".+",
            "current": {"text": "All", "value": "$__all"},
        }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, PER_ROW)
    return {
        "id": number + 1,
        "title": panel.title,
        "description": panel.about,
        "type": panel.kind,
        "datasource": DATASOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": _targets(panel, {"datasource": DATASOURCE}),
    }


def _targets(panel: Panel, also: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"refId": chr(ord("A") + number), "expr": query, "legendFormat": legend, **also}
        for number, (legend, query) in enumerate(panel.queries.items())
    ]


def openshift_console(dashboard: Dashboard) -> dict[str, Any]:
    """The old form with rows, which is the only one that the OpenShift console reads."""
    rows = []
    for first in range(0, len(dashboard.panels), PER_ROW):
        panels = [
            {
                "id": first + number + 1,
                "title": panel.title,
                "type": "singlestat" if panel.kind == "stat" else "graph",
                "span": 12 // PER_ROW,
                "datasource": "$datasource",
                "targets": _targets(panel, {"format": "time_series", "intervalFactor": 2}),
                "yaxes": [{"format": panel.unit, "show": True}, {"format": "short", "show": False}],
                "format": panel.unit,
            }
            for number, panel in enumerate(dashboard.panels[first : first + PER_ROW])
        ]
        rows.append({"title": "", "showTitle": False, "collapse": False, "panels": panels})
    return {
        "title": dashboard.title,
        "uid": f"gpu-ledger-{dashboard.name}",
        "schemaVersion": 14,
        "tags": ["gpu-ledger"],
        "timezone": "utc",
        "refresh": "5m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "hide": 2},
                *(
                    {
                        "name": name,
                        "type": "query",
                        "datasource": "$datasource",
                        "query": query,
                        "refresh": 2,
                        "includeAll": True,
                        "multi": False,
                        "allValue": ".+",
                    }
                    for name, query in dashboard.variables.items()
                ),
            ]
        },
        "rows": rows,
    }
