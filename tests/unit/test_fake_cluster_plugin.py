"""The device plugin, against a stub kubelet: registration, health, failures, restarts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from fake_gpu.cluster.errors import KubeletUnreachable
from fake_gpu.cluster.kubelet_pb2 import (
    ContainerPreferredAllocationRequest,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
)
from fake_gpu.cluster.plugin import PluginFailures, ResourcePlugin, call
from tests.stub_kubelet import StubKubelet, eventually

GPU = "nvidia.com/gpu"
NONE = PluginFailures()
TWO = {"GPU-0": "Healthy", "GPU-1": "Healthy"}


@pytest.fixture
def kubelet() -> Iterator[StubKubelet]:
    """A stub in a short folder, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        stub = StubKubelet(Path(folder))
        yield stub
        stub.stop()


@pytest.fixture
def plugin(kubelet: StubKubelet) -> Iterator[ResourcePlugin]:
    found = ResourcePlugin(kubelet.plugins, GPU)
    found.offer(TWO, {}, NONE)
    assert found.maintain()
    eventually(lambda: kubelet.devices.get(GPU) == TWO)
    yield found
    found.stop()


def test_a_plugin_registers_once_with_version_and_resource(
    kubelet: StubKubelet, plugin: ResourcePlugin
) -> None:
    assert not plugin.maintain()
    [request] = kubelet.registered
    assert (request.version, request.resource_name) == ("v1beta1", GPU)
    assert (kubelet.plugins / request.endpoint).is_socket()


def test_allocate_returns_an_empty_response(kubelet: StubKubelet, plugin: ResourcePlugin) -> None:
    response = kubelet.allocate(GPU, ["GPU-1"])
    [container] = response.container_responses
    assert container.ByteSize() == 0
    assert plugin.allocated == ["GPU-1"]


def test_health_changes_reach_the_kubelet(kubelet: StubKubelet, plugin: ResourcePlugin) -> None:
    plugin.offer({"GPU-0": "Unhealthy", "GPU-1": "Healthy"}, {}, NONE)
    eventually(lambda: kubelet.devices[GPU]["GPU-0"] == "Unhealthy")
    plugin.offer({"GPU-1": "Healthy"}, {}, NONE)
    eventually(lambda: kubelet.devices[GPU] == {"GPU-1": "Healthy"})
    plugin.offer(TWO, {}, NONE)
    eventually(lambda: kubelet.devices[GPU] == TWO)
    assert len(kubelet.registered) == 1


def test_a_refused_allocate_has_the_message(kubelet: StubKubelet, plugin: ResourcePlugin) -> None:
    plugin.offer(TWO, {}, PluginFailures(refuse="out of order"))
    with pytest.raises(grpc.RpcError, match="out of order"):
        kubelet.allocate(GPU, ["GPU-0"])
    assert plugin.allocated == []
    plugin.offer(TWO, {}, NONE)
    kubelet.allocate(GPU, ["GPU-0"])


def test_a_restarted_kubelet_gets_a_new_registration(
    kubelet: StubKubelet, plugin: ResourcePlugin
) -> None:
    """It also deletes the socket of the plugin, so the plugin listens again."""
    kubelet.stop()
    kubelet.start()
    assert plugin.maintain()
    eventually(lambda: kubelet.devices.get(GPU) == TWO)
    kubelet.allocate(GPU, ["GPU-0"])


def test_a_crashed_plugin_is_restarted(kubelet: StubKubelet, plugin: ResourcePlugin) -> None:
    plugin.offer(TWO, {}, PluginFailures(crashed=True))
    assert not plugin.maintain()
    eventually(lambda: set(kubelet.devices[GPU].values()) == {"Unhealthy"})
    plugin.offer(TWO, {}, NONE)
    assert plugin.maintain()
    eventually(lambda: kubelet.devices[GPU] == TWO)


def test_a_removed_socket_is_created_again(kubelet: StubKubelet, plugin: ResourcePlugin) -> None:
    plugin.offer(TWO, {}, PluginFailures(socket_removed=True))
    plugin.maintain()
    socket = kubelet.plugins / kubelet.registered[-1].endpoint
    assert not socket.exists()
    plugin.offer(TWO, {}, NONE)
    assert plugin.maintain()
    assert socket.exists()


def test_the_plugin_waits_for_a_missing_kubelet(kubelet: StubKubelet) -> None:
    kubelet.stop()
    (kubelet.plugins / "kubelet.sock").unlink(missing_ok=True)
    plugin = ResourcePlugin(kubelet.plugins, GPU)
    plugin.offer(TWO, {}, NONE)
    assert not plugin.maintain()
    kubelet.start()
    assert plugin.maintain()
    plugin.stop()


def test_replicas_are_preferred_on_the_card_with_the_fewest_in_use(
    kubelet: StubKubelet, plugin: ResourcePlugin
) -> None:
    ids = [f"GPU-{card}::{number}" for card in "ab" for number in range(4)]
    plugin.offer(dict.fromkeys(ids, "Healthy"), {i: i.partition("::")[0] for i in ids}, NONE)
    request = PreferredAllocationRequest(
        container_requests=[
            ContainerPreferredAllocationRequest(
                available_device_ids=ids[1:], must_include_device_ids=[], allocation_size=3
            )
        ]
    )
    socket = kubelet.plugins / kubelet.registered[-1].endpoint
    method = "/v1beta1.DevicePlugin/GetPreferredAllocation"
    [found] = call(socket, method, request, PreferredAllocationResponse).container_responses
    assert list(found.device_ids) == ["GPU-b::0", "GPU-a::1", "GPU-b::1"]


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KubeletUnreachable, match="more than 107 bytes"):
        ResourcePlugin(tmp_path / ("x" * 100), GPU)
