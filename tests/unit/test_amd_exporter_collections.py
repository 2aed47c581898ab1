"""Collections from tools that work, fail, hang or change; devices of pods and of the node;
readiness.

The tools are programs in a folder; the kubelet is a gRPC server on a socket (`tests.fake_rocm`).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from amd_exporter.collection import FAILURES_UNTIL_NOT_READY, Snapshot, SnapshotCollector
from amd_exporter.exposition import RegistryCollector
from amd_exporter.node import NodeError, driver_devices, node_object
from amd_exporter.pod_resources import holders
from amd_exporter.pod_resources_pb2 import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    DynamicResource,
    ListPodResourcesResponse,
    PodResources,
)
from amd_exporter.settings import ExporterSettings, read_settings
from amd_exporter.sources import (
    AMD_SMI_METRICS,
    AmdSmiLibrary,
    AmdSmiTool,
    RocmSmiTool,
    Runner,
)
from tests.fake_rocm import (
    Kubelet,
    Rocm,
    amd_smi_gpu,
    kubelet,
    library_gpu,
    partitioned_card,
    sysfs,
)

CARD = "0000:c1:00.0"
SERIES = dict[tuple[str, frozenset[tuple[str, str]]], float]
ROCM_SMI = json.dumps(
    {
        "card0": {
            "GPU use (%)": "40",
            "Unique ID": "0x0123456789abcdef",
            "PCI Bus": "0000:C1:00.0",
            "Card Series": "AMD Instinct MI300X",
            "Current Socket Graphics Package Power (W)": "300.0",
        },
        "system": {"Driver version": "6.3.6"},
    }
)


@pytest.fixture
def rocm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rocm:
    monkeypatch.setenv("PATH", os.defpath)  # hides the tools of this machine
    return Rocm(tmp_path / "rocm")


@pytest.fixture
def collection(rocm: Rocm, tmp_path: Path) -> Iterator[SnapshotCollector]:
    collected = collecting(rocm, settings(tmp_path))
    yield collected
    collected.stop()


def settings(tmp_path: Path, *arguments: str) -> ExporterSettings:
    own = ("--sysfs-path", str(tmp_path / "sys"), "--node-name", "node-1")
    return read_settings([*own, *arguments], {})


def collecting(
    rocm: Rocm, chosen: ExporterSettings, lookup: Callable[[], dict[str, object]] | None = None
) -> SnapshotCollector:
    """A collection whose tools have a limit of one second instead of ten."""
    tried = [
        AmdSmiLibrary(rocm.folder / "share" / "amd_smi", Runner(seconds_limit=5)),
        AmdSmiTool(rocm.folder, Runner(seconds_limit=0.5)),
        RocmSmiTool(rocm.folder, Runner(seconds_limit=0.5)),
    ]
    wanted = [source for source in tried if chosen.source in ("auto", source.name)]
    return SnapshotCollector(chosen, wanted, lookup)  # type: ignore[arg-type]


def page(collection: SnapshotCollector) -> SERIES:
    """Every series of the page, parsed by Prometheus' own parser."""
    registry = CollectorRegistry()
    registry.register(RegistryCollector(collection, "node-1"))
    text = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def values(collection: SnapshotCollector, name: str, label: str) -> dict[str, float]:
    """The values of one metric by one of its labels."""
    return {
        dict(labels)[label]: value
        for (metric, labels), value in page(collection).items()
        if metric == name
    }


def test_every_source_gives_the_same_device(rocm: Rocm, tmp_path: Path) -> None:
    rocm.library([library_gpu(0, bdf=CARD)])
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)])
    rocm.rocm_smi(ROCM_SMI)
    shown = {}
    for name in ("amdsmi", "amd-smi", "rocm-smi"):
        collection = collecting(rocm, settings(tmp_path, "--source", name))
        snapshot = collection.collect()
        collection.stop()
        assert (snapshot.source, snapshot.problems, snapshot.is_ready) == (name, {}, True)
        [device] = snapshot.devices
        shown[name] = device
    assert len({(d.uuid, d.pci_bus, d.product, d.partition) for d in shown.values()}) == 1
    library, tool = (dict(shown[name].readings) for name in ("amdsmi", "amd-smi"))
    # The library counts energy in units of its own; the tool rounds the value.
    assert library.pop("energy_joules_total") == pytest.approx(
        tool.pop("energy_joules_total"), 1e-4
    )
    assert library == tool
    assert shown["rocm-smi"].readings["power_watts"] == 300


def test_the_first_source_that_works_is_taken(rocm: Rocm, collection: SnapshotCollector) -> None:
    rocm.rocm_smi(ROCM_SMI, version="6.0.2")
    snapshot = collection.collect()
    assert snapshot.source == "rocm-smi"
    assert snapshot.problems == {"amdsmi": "not_found", "amd-smi": "not_found"}
    names = values(collection, "amd_gpu_exporter_source_problem", "source")
    assert names == {"amdsmi": 1, "amd-smi": 1}
    assert values(collection, "amd_gpu_exporter_source_info", "version") == {"6.0.2": 1}


def test_without_a_source_the_exporter_runs_and_reports_the_reason(
    rocm: Rocm, collection: SnapshotCollector
) -> None:
    rocm.failing("amd-smi", "crash")
    rocm.library([], how="init")
    snapshot = collection.collect()
    assert not snapshot.is_ready
    assert snapshot.problems == {
        "amdsmi": "library_error",
        "amd-smi": "exit_status",
        "rocm-smi": "not_found",
    }
    shown = page(collection)
    assert ("amd_gpu_exporter_ready", frozenset()) in shown
    assert shown["amd_gpu_exporter_ready", frozenset()] == 0
    assert not any(name == "amd_gpu_utilization_percent" for name, _ in shown)
    rocm.library([library_gpu(0, bdf=CARD)])
    assert collection.collect().is_ready


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("hang", "timeout"),
        ("crash", "exit_status"),
        ("killed", "exit_status"),
        ("garbage", "not_json"),
        ("nothing", "not_json"),
    ],
)
def test_no_old_value_is_shown_after_a_failure(
    rocm: Rocm, tmp_path: Path, how: str, reason: str
) -> None:
    rocm.rocm_smi(ROCM_SMI)
    collection = collecting(rocm, settings(tmp_path, "--source", "rocm-smi"))
    assert collection.collect().devices
    rocm.failing("rocm-smi", how)
    snapshot = collection.collect()
    assert snapshot.devices == ()
    assert snapshot.errors == {("rocm-smi", reason): 1}
    assert snapshot.results == {"success": 1, "failure": 1}
    assert values(collection, "amd_gpu_devices", "kind") == {"reported": 0}
    if how == "hang":
        child = int((rocm.folder / "child").read_text())
        deadline = time.monotonic() + 60
        while not _is_dead(child):
            assert time.monotonic() < deadline, "it still runs"
            time.sleep(0.01)
    rocm.rocm_smi(ROCM_SMI)
    assert collection.collect().devices


def _is_dead(process: int) -> bool:
    """Without a parent that reads its status, a killed process stays a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_output_above_the_limit_is_cut(
    rocm: Rocm, collection: SnapshotCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amd_exporter.sources.OUTPUT_BYTES_LIMIT", 100_000)
    rocm.failing("rocm-smi", "flood")
    assert collection.collect().problems["rocm-smi"] == "too_large"


@pytest.mark.parametrize(
    ("how", "reason"),
    [("crash", "crashed"), ("call", "library_error"), ("hang", "timeout")],
)
def test_a_crashing_library_does_not_stop_the_exporter(
    rocm: Rocm, tmp_path: Path, how: str, reason: str
) -> None:
    source = AmdSmiLibrary(rocm.folder / "share" / "amd_smi", Runner(seconds_limit=5))
    collection = SnapshotCollector(settings(tmp_path), [source])
    rocm.library([library_gpu(0, bdf=CARD)])
    assert collection.collect().devices
    rocm.library([], how=how)
    source.close()
    if how == "hang":
        source._runner.seconds_limit = 0.5
    assert collection.collect().problems == {"amdsmi": reason}
    source._runner.seconds_limit = 5
    rocm.library([library_gpu(0, bdf=CARD)])
    assert collection.collect().devices
    collection.stop()


def test_the_library_stays_loaded_between_collections(rocm: Rocm, tmp_path: Path) -> None:
    rocm.library([library_gpu(0, bdf=CARD)])
    source = AmdSmiLibrary(rocm.folder / "share" / "amd_smi", Runner(seconds_limit=5))
    source.read()
    first = source._process
    source.read()
    assert first is not None
    assert source._process is first
    source.close()
    assert first.poll() is not None


def test_a_card_that_is_gone_has_no_series(rocm: Rocm, collection: SnapshotCollector) -> None:
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD), amd_smi_gpu(1, bdf="0000:c2:00.0", serial="0x2")])
    collection.collect()
    assert set(values(collection, "amd_gpu_power_watts", "pci_bus")) == {CARD, "0000:c2:00.0"}
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)])
    collection.collect()
    assert set(values(collection, "amd_gpu_power_watts", "pci_bus")) == {CARD}


def test_amd_smi_starts_once_per_collection_and_again_when_it_changed(
    rocm: Rocm, collection: SnapshotCollector
) -> None:
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)], version="25.3.0")
    assert collection.collect().version == "25.3.0"
    assert rocm.calls() == ["metric", "version", "list", "static"]
    collection.collect()
    assert rocm.calls() == ["metric"]
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)], version="27.1.0")
    assert collection.collect().version == "27.1.0"
    assert values(collection, "amd_gpu_exporter_source_info", "tested") == {"false": 1}


def test_options_that_a_tool_refuses_are_left_out(
    rocm: Rocm, collection: SnapshotCollector
) -> None:
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)], refused="--energy", before="some text\n")
    assert collection.collect().devices
    assert rocm.calls() == ["metric", "metric", "version", "list", "static"]
    collection.collect()
    assert rocm.calls() == ["metric"]


def test_a_tool_that_crashed_is_later_called_with_the_same_options(
    rocm: Rocm, collection: SnapshotCollector
) -> None:
    """A crash is not a refusal of an option, so it must not select the call without options."""
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)])
    collection.collect()
    rocm.failing("amd-smi", "crash")
    collection.collect()
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)], refused="--never")
    rocm.calls()
    assert collection.collect().devices
    assert rocm.arguments()[0] == " ".join(("metric", *AMD_SMI_METRICS[0][1:]))


def test_a_program_that_cannot_be_killed_is_not_started_twice(rocm: Rocm, tmp_path: Path) -> None:
    rocm.rocm_smi(ROCM_SMI)
    runner = Runner(seconds_limit=5)
    source = RocmSmiTool(rocm.folder, runner)
    collection = SnapshotCollector(settings(tmp_path), [source])
    with subprocess.Popen(["sleep", "600"]) as held:
        runner._running = held  # like a process that the driver blocks
        assert collection.collect().problems == {"rocm-smi": "stuck"}
        held.kill()
    assert collection.collect().devices


def test_three_failures_end_readiness_and_try_every_source(
    rocm: Rocm, collection: SnapshotCollector
) -> None:
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)])
    assert collection.collect().source == "amd-smi"
    rocm.failing("amd-smi", "crash")
    rocm.rocm_smi(ROCM_SMI)
    ready = [collection.collect().is_ready for _ in range(FAILURES_UNTIL_NOT_READY)]
    assert ready == [True, True, False]
    snapshot: Snapshot = collection.collect()
    assert (snapshot.source, snapshot.is_ready) == ("rocm-smi", True)


# --- the node ---


def test_devices_that_the_driver_has_are_expected(
    rocm: Rocm, collection: SnapshotCollector, tmp_path: Path
) -> None:
    """AMD's own exporter shows one of two partitions; here the difference is a metric."""
    sysfs(tmp_path / "sys", {"0000:05:00.0": 128, "0000:05:00.1": 129})
    rocm.amd_smi(partitioned_card("05", 0, 2)[:1])
    collection.collect()
    assert values(collection, "amd_gpu_devices", "kind") == {"expected": 2, "reported": 1}


def test_an_integrated_node_of_the_topology_is_no_gpu(tmp_path: Path) -> None:
    assert driver_devices(tmp_path) == []
    sysfs(tmp_path, {CARD: 128})
    assert [device.pci_bus for device in driver_devices(tmp_path)] == [CARD]


def test_a_node_offers_the_resources_of_its_device_plugin() -> None:
    capacity = {
        "cpu": "64",
        "amd.com/cpx_nps4": "16",
        "amd.com/spx_nps1": "2",
        "nvidia.com/gpu": "1",
    }
    metadata = {"labels": {"amd.com/gpu.family": "AI"}}
    node = node_object({"metadata": metadata, "status": {"capacity": capacity}})
    assert (node.gpu_capacity, node.labels) == (18, {"amd.com/gpu.family": "AI"})
    assert node_object({"metadata": {}}).gpu_capacity is None
    with pytest.raises(NodeError):
        node_object([])


# --- pods ---


def pods(*entries: tuple[str, str, str, str, list[str]]) -> ListPodResourcesResponse:
    """(namespace, pod, container, resource, device IDs); a resource name without `/` is a DRA
    driver.
    """
    return ListPodResourcesResponse(
        pod_resources=[
            PodResources(
                name=pod,
                namespace=namespace,
                containers=[
                    ContainerResources(
                        name=container,
                        devices=[ContainerDevices(resource_name=resource, device_ids=ids)]
                        if "/" in resource
                        else [],
                        dynamic_resources=[
                            DynamicResource(
                                claim_resources=[
                                    ClaimResource(driver_name=resource, device_name=each)
                                    for each in ids
                                ]
                            )
                        ],
                    )
                ],
            )
            for namespace, pod, container, resource, ids in entries
        ]
    )


@pytest.fixture
def listing(tmp_path: Path) -> Iterator[Kubelet]:
    with kubelet(tmp_path / "kubelet.sock") as served:
        yield served


def test_pods_are_named_by_each_kind_of_device_id(tmp_path: Path, listing: Kubelet) -> None:
    partitions = {"0000:05:00.0": 128, "0000:05:00.1": 129, "0000:06:00.0": 130, CARD: 131}
    sysfs(tmp_path / "sys", partitions, platform={"amdgpu_xcp_30": 129})
    listing.response = pods(
        ("b", "train", "main", "amd.com/cpx_nps4", ["0000:05:00.0", "amdgpu_xcp_30"]),
        ("c", "claims", "main", "gpu.amd.com", ["gpu-3-130"]),
        ("d", "other", "main", "nvidia.com/gpu", [CARD]),
        # Two pods may share a claim: the first by name is shown.
        ("e", "shared-2", "main", "gpu.amd.com", ["gpu-4-131"]),
        ("e", "shared-1", "main", "gpu.amd.com", ["gpu-4-131"]),
    )
    held = holders(listing.socket, tmp_path / "sys")
    assert {address: (h.namespace, h.pod, h.container) for address, h in held.items()} == {
        "0000:05:00.0": ("b", "train", "main"),
        "0000:05:00.1": ("b", "train", "main"),
        "0000:06:00.0": ("c", "claims", "main"),
        CARD: ("e", "shared-1", "main"),
    }


def test_pod_labels_are_optional_for_device_readings(
    rocm: Rocm, tmp_path: Path, listing: Kubelet
) -> None:
    rocm.amd_smi([amd_smi_gpu(0, bdf=CARD)])
    chosen = settings(tmp_path, "--extra-labels", "rack=r1")

    def lookup() -> dict[str, object]:
        return dict(holders(listing.socket, tmp_path / "sys"))

    collection = collecting(rocm, chosen, lookup)
    listing.response = pods(("team-a", "train-0", "main", "amd.com/gpu", [CARD]))
    collection.collect()
    assert values(collection, "amd_gpu_power_watts", "pod") == {"train-0": 300}
    assert values(collection, "amd_gpu_power_watts", "namespace") == {"team-a": 300}
    assert values(collection, "amd_gpu_power_watts", "rack") == {"r1": 300}
    listing.failure = grpc.StatusCode.UNAVAILABLE
    assert collection.collect().pods_known is False
    assert values(collection, "amd_gpu_power_watts", "pod") == {"": 300}
    listing.failure = None
    assert collection.collect().pods_known is True
    assert listing.listed == 3
    collection.stop()


# --- settings ---


def test_settings_come_from_flags_then_the_environment_then_defaults(tmp_path: Path) -> None:
    assert read_settings([], {}).port == 9400
    assert read_settings([], {}).interval_seconds == 30
    environment = {"EXPORTER_PORT": "9500", "COLLECTION_INTERVAL": "15", "LOG_LEVEL": "debug"}
    environment |= {"METRICS_PATH": "/gpus", "EXTRA_LABELS": "rack=r1, row=7", "NODE_NAME": "n"}
    chosen = read_settings(["--port", "9600"], environment)
    assert (chosen.port, chosen.interval_seconds, chosen.log_level) == (9600, 15, "DEBUG")
    assert (chosen.metrics_path, chosen.node_name) == ("/gpus", "n")
    assert chosen.extra_labels == {"rack": "r1", "row": "7"}


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("EXPORTER_PORT", "0", "not a port"),
        ("EXPORTER_PORT", "http", "not a port"),
        ("COLLECTION_INTERVAL", "1", "not between 5 and 3600"),
        ("COLLECTION_INTERVAL", "nan", "not between 5 and 3600"),
        ("LOG_LEVEL", "LOUD", "not one of DEBUG"),
        ("METRICS_PATH", "metrics", "not a path"),
        ("METRICS_PATH", "/readyz", "not a path"),
        ("SOURCE", "nvidia-smi", "not one of auto"),
        ("LISTEN_ADDRESS", "localhost", "does not appear to be"),
        ("EXTRA_LABELS", "pod=x", "is there already"),
        ("EXTRA_LABELS", "a b=x", "is not NAME=VALUE"),
        ("EXTRA_LABELS", "a=" + "x" * 129, "more than 128"),
        ("EXTRA_LABELS", ",".join(f"l{n}=x" for n in range(11)), "more than 10"),
        ("NODE_LABELS", "zone", "needs --read-node"),
        ("NODE_LABELS", "a b", "not the key"),
        ("READ_NODE", "maybe", "neither true nor false"),
        ("TLS_CERT_FILE", "/nowhere/tls.crt", "No such file"),
        ("TLS_KEY_FILE", __file__, "belong together"),
        ("TLS_CLIENT_CA_FILE", __file__, "needs --tls-cert"),
        ("POD_RESOURCES_SOCKET", "kubelet.sock", "not an absolute path"),
        ("KUBERNETES_API_URL", "http://api", "not an https"),
    ],
)
def test_a_wrong_setting_is_refused(
    variable: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings([], {variable: value})
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
