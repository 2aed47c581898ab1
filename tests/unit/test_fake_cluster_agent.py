"""The agent of simulated GPUs: configuration, holders, MIG, failures, the exporter's page."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from domain.interval import format_instant
from fake_gpu.cluster.agent import (
    FAILURES_CONFIG_MAP,
    Agent,
    AgentSettings,
    ObservedObjects,
    remove_everything,
)
from fake_gpu.cluster.backends import Backend, KubeletBackend, KwokBackend
from fake_gpu.cluster.exporter import TopologyExporter
from fake_gpu.cluster.topology import read_topology
from orchestration.cli.main import cli
from tests.applying_api import ApplyingApi
from tests.json_output import differences
from tests.stub_kubelet import StubKubelet, eventually

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
DESIGN = (Path(__file__).parents[1] / "design_examples/mock-topology.yml").read_text("utf-8")
MIG_NODE = """\
mig-strategy: mixed
nodes:
  node-a: {gpu-product: A100-SXM4-40GB, gpus: [{id: GPU-a}, {id: GPU-b}]}
"""
PARTED = """\
version: v1
mig-configs:
  one-card:
    - {devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 2, "3g.20gb": 1}}
    - {devices: [1], mig-enabled: false}
  two-cards:
    - {devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 2, "3g.20gb": 1}}
    - {devices: [1], mig-enabled: true, mig-devices: {"1g.5gb": 3}}
  too-many:
    - {devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2, "1g.5gb": 1}}
  empty:
    - {devices: all, mig-enabled: true, mig-devices: {}}
"""


class World:
    """An API server, an agent, and the clock of both."""

    def __init__(self, text: str, folder: Path | None = None, names: str = "old") -> None:
        self.api = ApplyingApi()
        self.now = NOW
        self.text = text
        self.failures = ""
        self.parted = PARTED
        self.profiles: list[dict[str, Any]] = []
        self.pods: list[dict[str, Any]] = []
        self.api.put(
            "/api/v1/nodes/node-a",
            {"metadata": {"name": "node-a", "uid": "node-uid", "labels": {}}, "status": {}},
        )
        self.kubelet = StubKubelet(folder) if folder else None
        self.names = names
        self.restart()

    def restart(self) -> None:
        client = self.api.client()
        self.exporter = TopologyExporter(self.names)  # type: ignore[arg-type]
        kubelet = self.kubelet

        def backend(_: str) -> Backend:
            if kubelet is None:
                return KwokBackend(client)
            return KubeletBackend(kubelet.plugins, kubelet.pod_resources, self.exporter.metrics)

        settings = AgentSettings("gpus", mig_seconds=5, node_name="node-a" if kubelet else "")
        self.agent = Agent(client, settings, self.exporter, backend)

    @property
    def node(self) -> dict[str, Any]:
        return self.api.objects["/api/v1/nodes/node-a"]

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.node["metadata"]["labels"])

    @property
    def allocatable(self) -> dict[str, str]:
        return dict(self.node["status"].get("allocatable", {}))

    def config_map(self, name: str, key: str, text: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "gpus", "uid": "u"}, "data": {key: text}}

    def step(self, seconds: int = 1) -> None:
        self.now += timedelta(seconds=seconds)
        maps = [
            self.config_map("topology", "topology.yml", self.text),
            self.config_map(FAILURES_CONFIG_MAP, "failures.yaml", self.failures),
            *self.profiles,
        ]
        written = self.api.objects.get("/api/v1/namespaces/gpus/configmaps/topology-node-a")
        parted = self.config_map("mig-parted-config", "config.yaml", self.parted)
        self.agent.step(
            ObservedObjects(
                [self.node],
                self.pods,
                {m["metadata"]["name"]: m for m in [*maps, *([written] if written else [])]},
                parted,
            ),
            self.now,
        )

    def topology(self) -> dict[str, Any]:
        path = "/api/v1/namespaces/gpus/configmaps/topology-node-a"
        document = yaml.safe_load(self.api.objects[path]["data"]["topology.yml"])
        found: dict[str, Any] = document["nodes"]["node-a"]
        return found

    def is_valid(self, config_map: str) -> float | None:
        registry = self.exporter.metrics.registry
        name = "gpu_ledger_fake_gpu_configuration_valid"
        return registry.get_sample_value(name, {"config_map": config_map})

    def holders(self) -> list[str]:
        return [g["metrics"]["metadata"].get("container", "") for g in self.topology()["gpus"]]

    def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        families = text_string_to_metric_families(self.exporter.page(self.now))
        return [(s.labels, s.value) for f in families for s in f.samples if s.name == name]


def pod(name: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    started = format_instant(NOW)
    containers = [c["name"] for c in (*spec.get("initContainers", ()), *spec["containers"])]
    return {
        "metadata": {
            "namespace": "team-b",
            "name": name,
            "uid": f"uid-{name}",
            "annotations": {key.replace("_", "-"): v for key, v in annotations.items()},
            "creationTimestamp": started,
        },
        "spec": {"nodeName": "node-a", **spec},
        "status": {
            "phase": "Running",
            "startTime": started,
            "containerStatuses": [
                {"name": c, "state": {"running": {"startedAt": started}}} for c in containers
            ],
        },
    }


def container(name: str, count: int, resource: str = "nvidia.com/gpu", **more: str) -> dict:
    return {"name": name, "resources": {"limits": {resource: str(count)}}, **more}


# --- configuration --------------------------------------------------------------------------------


def test_the_file_of_the_design_document_is_applied_unchanged() -> None:
    world = World(DESIGN)
    world.step()
    assert world.allocatable == {"nvidia.com/gpu": "2"}
    assert world.labels["nvidia.com/gpu.product"] == "Tesla-K80"
    assert world.labels["nvidia.com/gpu.memory"] == "11441"
    assert world.labels["nvidia.com/gpu.count"] == "2"
    assert world.labels["nvidia.com/mig.strategy"] == "mixed"
    assert world.labels["nvidia.com/gfd.timestamp"] == str(int(world.now.timestamp()))
    first, second = world.samples("DCGM_FI_DEV_GPU_UTIL")
    assert first == (
        {
            "gpu": "0",
            "UUID": "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1",
            "device": "nvidia0",
            "modelName": "Tesla K80",
            "Hostname": "node-a",
            "container": "container",
            "namespace": "runai-project-a",
            "pod": "pod",
        },
        10,
    )
    assert second[1] == 100
    assert [value for _, value in world.samples("DCGM_FI_DEV_FB_USED")] == [5000, 10000]
    reserved = 11441 // 80
    assert world.samples("DCGM_FI_DEV_FB_FREE")[0][1] == 11441 - reserved - 5000
    gpus = world.topology()["gpus"]
    assert gpus == yaml.safe_load(DESIGN)["nodes"]["node-a"]["gpus"]


def test_a_pod_replaces_the_configured_load_of_a_card() -> None:
    world = World(DESIGN)
    world.pods = [pod("own", {"containers": [container("main", 1)]})]
    world.step()
    [(labels, value), (given, _)] = world.samples("DCGM_FI_DEV_GPU_UTIL")
    assert (labels["namespace"], labels["pod"], labels["container"]) == ("team-b", "own", "main")
    assert value == 100
    assert given["pod"] == "pod"


def test_a_valid_change_applies_at_once_and_an_invalid_one_does_not() -> None:
    world = World(DESIGN)
    world.step()
    world.text = DESIGN.replace("Tesla-K80", "Tesla-P40")
    world.step()
    assert world.labels["nvidia.com/gpu.product"] == "Tesla-P40"
    world.text = "nodes: {node-a: {gpu-product: Tesla-K80, gpus: [{id: 1}, {id: 1}]}}"
    world.step()
    world.step()
    assert world.labels["nvidia.com/gpu.product"] == "Tesla-P40"
    [event] = world.api.events
    assert (event["reason"], event["involvedObject"]["name"]) == (
        "InvalidConfiguration",
        "topology",
    )
    assert world.is_valid("gpus/topology") == 0
    world.text = DESIGN
    world.step()
    assert world.labels["nvidia.com/gpu.product"] == "Tesla-K80"
    assert world.is_valid("gpus/topology") == 1


def test_a_profile_of_the_users_applies_at_once_and_an_invalid_one_does_not() -> None:
    """The overridden H100 has 4 cards; the invalid profile is no mapping, then no product."""
    world = World("nodePools: {x: {gpu: {profile: h100}}}\nnodePoolLabelKey: pool\n")
    world.node["metadata"]["labels"]["pool"] = "x"
    world.step()
    assert world.allocatable == {"nvidia.com/gpu": "8"}
    for version, (text, allocatable, is_valid) in enumerate(
        [
            ("devices: [{}, {}, {}, {}]", "4", 1),
            ("- devices", "4", 0),
            ("device_defaults: {name: no such card}", "4", 0),
            ("devices: [{}]", "1", 1),
        ]
    ):
        profile = world.config_map("gpu-profile-h100", "profile.yaml", text)
        profile["metadata"] |= {
            "labels": {"fake-gpu-operator/gpu-profile": "true"},
            "resourceVersion": str(version),
        }
        world.profiles = [profile]
        world.step()
        assert world.allocatable == {"nvidia.com/gpu": allocatable}
        assert world.is_valid("gpus/topology") == is_valid
    first, second = [event["message"] for event in world.api.events]
    assert "gpu-profile-h100: no mapping under profile.yaml" in first
    assert "no product 'no-such-card'" in second


def test_a_utilisation_profile_in_the_configuration_is_followed_and_reloaded() -> None:
    """As the design document writes it: an hour of 80, an hour of 0, five times."""
    phases = '{ { time: "1h" utilization: 80 }, { time: "1h" utilization: 0 } repeat: 5 }'
    world = World(DESIGN.replace("utilization: 10\n", f"utilization: {phases}\n"))
    world.step()

    def shown() -> float:
        return world.samples("DCGM_FI_DEV_GPU_UTIL")[0][1]

    assert shown() == 80
    for seconds, expected in ((3600, 0), (3600, 80), (7 * 3600, 0), (3600, 0)):
        world.step(seconds)
        assert shown() == expected
    world.text = DESIGN.replace("utilization: 10\n", "utilization: 140\n")
    world.step()
    assert world.is_valid("gpus/topology") == 0
    assert shown() == 0
    world.text = DESIGN.replace("utilization: 10\n", "utilization: 20-30\n")
    world.step()
    assert shown() in range(20, 31)


def test_pools_are_found_by_their_label() -> None:
    world = World("nodePools: {x: {gpuProduct: Tesla-T4, gpuCount: 3}}\nnodePoolLabelKey: pool\n")
    world.step()
    assert world.allocatable == {}
    world.node["metadata"]["labels"]["pool"] = "x"
    world.step()
    assert world.allocatable == {"nvidia.com/gpu": "3"}
    assert world.labels["run.ai/fake.gpu"] == "true"
    assert world.topology()["gpus"][0]["id"] == f"GPU-{uuid5(UUID(int=0), 'node-a-0')}"


def test_a_node_removed_from_the_configuration_loses_its_gpus() -> None:
    world = World(DESIGN)
    world.node["metadata"]["labels"]["own"] = "label"
    world.step()
    world.text = "nodes: {}"
    world.step()
    assert world.labels == {"own": "label"}
    assert world.allocatable == {}


def test_an_uninstall_removes_labels_and_resources() -> None:
    world = World(DESIGN)
    own = {"cpu": "32", "pods": "110"}  # of no field manager: the node was created with them
    world.node["status"] = {"capacity": own, "allocatable": own}
    world.step()
    assert world.allocatable == {**own, "nvidia.com/gpu": "2"}
    assert remove_everything(world.api.client()) == ["node-a"]
    assert world.labels == {}
    assert world.node["status"] == {"capacity": own, "allocatable": own}
    assert remove_everything(world.api.client()) == ["node-a"]  # it is idempotent


def test_labels_survive_a_restart_and_only_they_are_gone_after_an_uninstall() -> None:
    """All labels but the time of discovery, also the state of a MIG configuration."""
    world = World(MIG_NODE)
    world.node["metadata"]["labels"]["team"] = "ml"
    world.step()
    change(world, "one-card")
    before = world.labels
    world.restart()
    assert world.labels == before
    world.step()
    timestamp = "nvidia.com/gfd.timestamp"
    assert {**world.labels, timestamp: ""} == {**before, timestamp: ""}
    assert world.labels["nvidia.com/mig.config.state"] == "success"
    remove_everything(world.api.client())
    assert world.labels == {"team": "ml", "nvidia.com/mig.config": "one-card"}


def test_a_conflicting_change_is_accepted_and_counted() -> None:
    world = World(DESIGN)
    world.api.conflict_once = True
    world.step()
    assert world.labels["nvidia.com/gpu.count"] == "2"
    registry = world.exporter.metrics.registry
    assert registry.get_sample_value("gpu_ledger_fake_gpu_apply_conflicts_total") == 1


def test_a_step_without_a_change_writes_nothing() -> None:
    world = World(DESIGN)
    world.step()
    writes = len(world.api.applied)
    world.step()
    world.step()
    assert len(world.api.applied) == writes


# --- holders --------------------------------------------------------------------------------------

FOUR = "nodes: {node-a: {gpu-product: Tesla-T4, gpus: [{id: g0}, {id: g1}, {id: g2}, {id: g3}]}}"
INIT_AND_SIDECAR = {
    "initContainers": [
        container("init", 2),
        container("sidecar", 1, restartPolicy="Always"),
    ],
    "containers": [container("main", 1)],
}


def test_containers_get_the_devices_that_the_device_manager_assigns() -> None:
    """As in the real one, the sidecar and the main container reuse devices of the init
    container.
    """
    world = World(FOUR)
    world.pods = [pod("p", INIT_AND_SIDECAR), pod("q", {"containers": [container("main", 2)]})]
    world.step()
    assert world.holders() == ["sidecar", "main", "main", "main"]
    world.pods = world.pods[1:]
    world.step()
    assert world.holders() == ["", "", "main", "main"]


def test_a_device_of_an_init_container_stays_assigned() -> None:
    world = World(FOUR)
    world.pods = [
        pod("p", {"initContainers": [container("i", 3)], "containers": [container("m", 1)]})
    ]
    world.step()
    gpus = world.topology()["gpus"]
    assert [g["metrics"]["metadata"].get("container") for g in gpus] == ["m", None, None, None]
    assert [g.get("taken-by", {}).get("pod") for g in gpus] == [None, "p", "p", None]
    assert {labels["pod"] for labels, _ in world.samples("DCGM_FI_DEV_GPU_UTIL")} == {"p", ""}


def test_a_restarted_agent_keeps_the_holders() -> None:
    world = World(FOUR)
    first, second = (pod(name, {"containers": [container("main", 1)]}) for name in "pq")
    world.pods = [first, second]
    world.step()
    world.pods = [second]
    world.step()
    before = world.topology()
    world.restart()
    world.step()
    assert world.topology() == before
    assert world.topology()["gpus"][1]["metrics"]["metadata"]["pod"] == "q"


def test_a_pod_that_ended_leaves_no_series() -> None:
    world = World(FOUR)
    world.pods = [pod("p", {"containers": [container("main", 1)]})]
    world.step()
    world.pods[0]["status"]["phase"] = "Succeeded"
    world.step()
    assert {labels["pod"] for labels, _ in world.samples("DCGM_FI_DEV_GPU_UTIL")} == {""}


@pytest.mark.parametrize(
    ("annotation", "seconds", "expected"),
    [
        ("40", 10, {40}),
        ("10-30", 10, set(range(10, 31))),
        ('{ { time: "1h" utilization: 80 }, { time: "1h" utilization: 0 } repeat: 5 }', 10, {80}),
        ('{ { time: "1h" utilization: 80 }, { time: "1h" utilization: 0 } repeat: 5 }', 3700, {0}),
        ("nonsense", 10, {100}),
    ],
)
def test_utilisation_follows_the_pods_annotation(
    annotation: str, seconds: int, expected: set[int]
) -> None:
    world = World(FOUR)
    found = pod("p", {"containers": [container("main", 1)]})
    found["metadata"]["annotations"]["run.ai/simulated-gpu-utilization"] = annotation
    world.pods = [found]
    world.step(seconds)
    assert world.samples("DCGM_FI_DEV_GPU_UTIL")[0][1] in expected
    assert [e["reason"] for e in world.api.events] == (
        ["InvalidUtilisation"] if annotation == "nonsense" else []
    )


def test_the_energy_is_the_integral_of_the_power() -> None:
    """A T4: 10 W idle, 70 W busy; 60 s idle, then 40 s busy: 3,400 J."""
    world = World("nodes: {node-a: {gpu-product: Tesla-T4, gpus: [{id: g0}]}}")
    world.step()
    world.step(60)
    world.pods = [pod("p", {"containers": [container("main", 1)]})]
    world.step(0)
    world.step(40)
    [(_, millijoules)] = world.samples("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total")
    assert millijoules == 3_400_000


def test_both_sets_of_names_are_written() -> None:
    world = World(FOUR, names="both")
    world.step()
    assert len(world.samples("DCGM_FI_DEV_GPU_UTIL")) == 4
    [labels, *_] = [labels for labels, _ in world.samples("DCGM_FI_DEV_GPU_UTIL_RATIO")]
    assert labels["hostname"] == "node-a"


# --- MIG and sharing ------------------------------------------------------------------------------


def change(world: World, config: str) -> None:
    world.node["metadata"]["labels"]["nvidia.com/mig.config"] = config
    world.step()
    assert world.labels["nvidia.com/mig.config.state"] == "pending"
    assert set(world.allocatable.values()) <= {"0"}
    assert world.samples("DCGM_FI_DEV_GPU_TEMP") == []
    world.step(5)


def test_a_label_changes_the_layout_as_mig_manager_does() -> None:
    world = World(MIG_NODE)
    world.step()
    assert world.labels["nvidia.com/gpu.deploy.device-plugin"] == "true"
    change(world, "one-card")
    assert world.labels["nvidia.com/mig.config.state"] == "success"
    assert world.allocatable == {
        "nvidia.com/gpu": "1",
        "nvidia.com/mig-1g.5gb": "2",
        "nvidia.com/mig-3g.20gb": "1",
    }
    assert world.labels["nvidia.com/mig-1g.5gb.count"] == "2"
    ids = [g["id"] for g in world.topology()["gpus"]]
    world.restart()
    world.step()
    assert [g["id"] for g in world.topology()["gpus"]] == ids
    change(world, "all-disabled")
    assert world.allocatable == {
        "nvidia.com/gpu": "2",
        "nvidia.com/mig-1g.5gb": "0",
        "nvidia.com/mig-3g.20gb": "0",
    }


def test_an_added_layout_can_be_used_at_once_and_an_invalid_file_changes_nothing() -> None:
    world = World(MIG_NODE)
    world.step()
    change(world, "own")
    assert world.labels["nvidia.com/mig.config.state"] == "failed"
    own = '  own:\n    - {devices: all, mig-enabled: true, mig-devices: {"2g.10gb": 3}}\n'
    world.parted = PARTED + own
    change(world, "one-card")
    change(world, "own")
    assert world.allocatable["nvidia.com/mig-2g.10gb"] == "6"
    world.parted = PARTED + own.replace("mig-enabled: true", "mig-enabled: maybe")
    world.step()
    assert world.is_valid("gpu-operator-resources/mig-parted-config") == 0
    [event] = world.api.events
    assert (event["reason"], event["involvedObject"]["name"]) == (
        "InvalidConfiguration",
        "mig-parted-config",
    )
    assert world.allocatable["nvidia.com/mig-2g.10gb"] == "6"
    change(world, "one-card")  # the layouts of the last valid file
    assert world.labels["nvidia.com/mig.config.state"] == "success"
    world.parted = PARTED
    world.step()
    assert world.is_valid("gpu-operator-resources/mig-parted-config") == 1


def test_a_recreated_instance_has_another_uuid() -> None:
    world = World(MIG_NODE)
    world.step()
    change(world, "one-card")
    first = {g["id"] for g in world.topology()["gpus"]}
    change(world, "all-disabled")
    change(world, "one-card")
    second = {g["id"] for g in world.topology()["gpus"]}
    assert first & second == {"GPU-b"}


@pytest.mark.parametrize("config", ["too-many", "no-such"])
def test_an_impossible_layout_fails(config: str) -> None:
    world = World(MIG_NODE)
    world.step()
    change(world, config)
    assert world.labels["nvidia.com/mig.config.state"] == "failed"
    assert world.allocatable == {"nvidia.com/gpu": "2"}


def test_a_layout_of_a_card_in_use_fails_until_the_pod_is_gone() -> None:
    world = World(MIG_NODE)
    world.pods = [pod("p", {"containers": [container("main", 1)]})]
    world.step()
    change(world, "one-card")
    assert world.labels["nvidia.com/mig.config.state"] == "failed"
    world.pods = []
    change(world, "all-1g.5gb")
    assert world.labels["nvidia.com/mig.config.state"] == "success"


def test_a_card_with_mig_but_without_instances_has_fourteen_series() -> None:
    world = World(MIG_NODE)
    world.step()
    change(world, "empty")
    page = world.exporter.page(world.now)
    names = [f.name for f in text_string_to_metric_families(page)]
    assert len(names) == 14
    assert "DCGM_FI_DEV_GPU_UTIL" not in names


def test_mig_instances_have_no_pcie_row_or_vgpu_series() -> None:
    world = World(MIG_NODE)
    world.step()
    change(world, "all-1g.5gb")
    page = world.exporter.page(world.now)
    names = {f.name for f in text_string_to_metric_families(page)}
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in names
    assert [n for n in names if "PCIE" in n or "ROW" in n or "VGPU" in n] == []
    assert len(world.samples("DCGM_FI_DEV_FB_USED")) == 14
    assert {labels["GPU_I_PROFILE"] for labels, _ in world.samples("DCGM_FI_DEV_FB_USED")} == {
        "1g.5gb"
    }


def test_replicas_are_offered_and_their_load_adds_up() -> None:
    world = World("nodes: {node-a: {gpu-product: Tesla-T4, replicas: 4, gpus: [{id: g0}]}}")
    world.pods = [
        pod("p", {"containers": [container("main", 1)]}),
        pod("q", {"containers": [container("main", 1)]}),
    ]
    for found in world.pods:
        found["metadata"]["annotations"]["run.ai/simulated-gpu-utilization"] = "30"
    world.step()
    assert world.allocatable == {"nvidia.com/gpu": "4"}
    assert world.labels["nvidia.com/gpu.product"] == "Tesla-T4-SHARED"
    [(labels, value)] = world.samples("DCGM_FI_DEV_GPU_UTIL")
    assert value == 60
    assert labels["pod"] == "q"
    document = {"mig-strategy": "none", "nodes": {"node-a": world.topology()}}
    assert len(read_topology(document).uses) == 2


def test_amd_cards_are_offered() -> None:
    world = World("nodes: {node-a: {gpu-product: AMD_Instinct_MI300X, gpus: [{id: a}, {id: b}]}}")
    world.step()
    assert world.allocatable == {"amd.com/gpu": "2"}
    assert world.labels["amd.com/gpu.product-name"] == "AMD_Instinct_MI300X"


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "capacity", "allocatable"),
    [
        ("{mode: unhealthy, device: 0}", "2", "1"),
        ("{mode: xid, device: 1}", "2", "1"),
        ("{mode: lost, device: 0}", "1", "1"),
        ("{mode: crash}", "2", "0"),
    ],
)
def test_failures_and_recovery_on_a_node_of_kwok(
    failure: str, capacity: str, allocatable: str
) -> None:
    world = World(DESIGN)
    world.failures = f"node-a: [{failure}]"
    world.step()
    assert world.node["status"]["capacity"] == {"nvidia.com/gpu": capacity}
    assert world.allocatable == {"nvidia.com/gpu": allocatable}
    world.failures = ""
    world.step()
    assert world.node["status"]["capacity"] == {"nvidia.com/gpu": "2"}
    assert world.allocatable == {"nvidia.com/gpu": "2"}


def test_an_xid_is_on_the_page_and_a_lost_card_is_not() -> None:
    world = World(DESIGN)
    world.failures = "node-a: [{mode: xid, device: 0, xid: 63}, {mode: lost, device: 1}]"
    world.step()
    assert [value for _, value in world.samples("DCGM_FI_DEV_XID_ERRORS")] == [63]


def test_invalid_failures_change_nothing_and_raise_an_event() -> None:
    world = World(DESIGN)
    world.failures = "node-a: [{mode: unhealthy, device: 0}]"
    world.step()
    world.failures = "node-a: [{mode: explode}]"
    world.step()
    assert world.allocatable == {"nvidia.com/gpu": "1"}
    [event] = world.api.events
    assert (event["reason"], event["involvedObject"]["name"]) == (
        "InvalidConfiguration",
        FAILURES_CONFIG_MAP,
    )
    assert world.is_valid("gpus/fake-gpu-failures") == 0


# --- with a kubelet -------------------------------------------------------------------------------


@contextmanager
def world_with_kubelet(text: str) -> Iterator[tuple[World, StubKubelet]]:
    """A world in a short folder, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        world = World(text, Path(folder) / "kubelet")
        assert world.kubelet is not None
        yield world, world.kubelet
        world.agent.close()
        world.kubelet.stop()


@pytest.fixture
def kubelet_world() -> Iterator[World]:
    with world_with_kubelet(FOUR) as (world, _):
        yield world


def test_the_list_of_a_kubelet_assigns_devices_to_containers(
    kubelet_world: World,
) -> None:
    world, kubelet = kubelet_world, kubelet_world.kubelet
    assert kubelet is not None
    world.step()
    eventually(lambda: len(kubelet.devices.get("nvidia.com/gpu", {})) == 4)
    assert not world.node["status"].get("capacity")  # the kubelet sets it
    world.pods = [
        pod("p", {"initContainers": [container("i", 2)], "containers": [container("m", 1)]})
    ]
    kubelet.allocate("nvidia.com/gpu", ["g1", "g2"])
    kubelet.listed[("team-b", "p")] = {"m": {"nvidia.com/gpu": ["g2"]}}
    world.step()
    gpus = world.topology()["gpus"]
    assert [g["metrics"]["metadata"].get("container", "") for g in gpus] == ["", "", "m", ""]
    assert [g.get("taken-by", {}).get("pod", "") for g in gpus] == ["", "p", "", ""]
    kubelet.stop()
    world.step()  # the kubelet restarts: its pods keep their devices
    assert world.holders() == ["", "", "m", ""]
    kubelet.start()
    world.step()
    eventually(lambda: len(kubelet.devices.get("nvidia.com/gpu", {})) == 4)


def test_a_failure_on_a_node_with_a_kubelet_reaches_it(kubelet_world: World) -> None:
    world, kubelet = kubelet_world, kubelet_world.kubelet
    assert kubelet is not None
    world.failures = "node-a: [{mode: unhealthy, device: g1}, {mode: lost, device: g3}]"
    world.step()
    expected = {"g0": "Healthy", "g1": "Unhealthy", "g2": "Healthy"}
    eventually(lambda: kubelet.devices.get("nvidia.com/gpu") == expected)


SHARED = "nodes: {node-a: {gpu-product: Tesla-T4, replicas: 3, gpus: [{id: g0}, {id: g1}]}}"
AMD = "nodes: {node-a: {gpu-product: AMD_Instinct_MI300X, gpus: [{id: x}, {id: y}]}}"


@pytest.mark.parametrize(
    ("text", "layout", "resource", "of_card_0", "of_card_1"),
    [
        (MIG_NODE, "two-cards", "nvidia.com/mig-1g.5gb", 2, 3),
        (SHARED, "", "nvidia.com/gpu", 3, 3),
        (AMD, "", "amd.com/gpu", 1, 1),
    ],
    ids=["mig", "replicas", "amd"],
)
def test_every_kind_of_resource_registers_fails_and_registers_again(
    text: str, layout: str, resource: str, of_card_0: int, of_card_1: int
) -> None:
    with world_with_kubelet(text) as (world, kubelet):
        world.step()
        if layout:
            world.node["metadata"]["labels"]["nvidia.com/mig.config"] = layout
            world.step()
            world.step(5)

        def counted() -> tuple[int, int]:
            """Healthy and unhealthy devices."""
            health = list(kubelet.devices.get(resource, {}).values())
            return health.count("Healthy"), health.count("Unhealthy")

        eventually(lambda: counted() == (of_card_0 + of_card_1, 0))
        world.failures = "node-a: [{mode: unhealthy, device: 0}]"
        world.step()
        eventually(lambda: counted() == (of_card_1, of_card_0))
        kubelet.stop()
        kubelet.start()
        world.step()
        eventually(lambda: counted() == (of_card_1, of_card_0))
        world.failures = ""
        world.step()
        eventually(lambda: counted() == (of_card_0 + of_card_1, 0))


# --- the command line -----------------------------------------------------------------------------


def test_a_configuration_is_checked_before_it_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "topology.yml"
    path.write_text(DESIGN)
    printed = CliRunner().invoke(cli, ["fake", "cluster", "check", str(path), "-o", "json"])
    assert differences("fake cluster check", printed.stdout) == []
    assert [row["shown_pod"] for row in json.loads(printed.stdout)] == ["runai-project-a/pod"] * 2
