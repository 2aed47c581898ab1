"""The device manager of a kubelet in Python: registration, ListAndWatch, Allocate, list of devices.

Put here: the server for a plugin and a status updater in tests without real servers.
Not here: expectations. tests/servers compares the plugin with the real device manager.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from fake_gpu.cluster.kubelet_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerDevices,
    ContainerResources,
    Empty,
    ListAndWatchResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
    RegisterRequest,
)

DEADLINE_SECONDS = 20.0


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.005)


class StubKubelet:
    """The sockets of a kubelet below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = folder / "device-plugins"
        self.pod_resources = folder / "pod-resources" / "kubelet.sock"
        self.plugins.mkdir(parents=True)
        self.pod_resources.parent.mkdir()
        self.devices: dict[str, dict[str, str]] = {}  # resource -> ID -> health
        self.registered: list[RegisterRequest] = []
        # (namespace, pod) -> container -> resource -> IDs
        self.listed: dict[tuple[str, str], Mapping[str, Mapping[str, list[str]]]] = {}
        self._servers: list[grpc.Server] = []
        self._channels: list[grpc.Channel] = []
        self.start()

    def start(self) -> None:
        """Delete all sockets, like a kubelet at its start, and listen."""
        for socket in self.plugins.glob("*.sock"):
            socket.unlink()
        self._serve(
            self.plugins / "kubelet.sock",
            "v1beta1.Registration",
            {"Register": (self._register, RegisterRequest)},
        )
        self._serve(
            self.pod_resources,
            "v1.PodResourcesLister",
            {"List": (self._list, ListPodResourcesRequest)},
        )

    def stop(self) -> None:
        for channel in self._channels:
            channel.close()
        for server in self._servers:
            server.stop(None).wait()
        self._channels, self._servers = [], []
        self.devices = {}

    def _serve(self, socket: Path, service: str, methods: dict[str, tuple]) -> None:
        server = grpc.server(ThreadPoolExecutor(2))
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                function,
                request_deserializer=request.FromString,
                response_serializer=lambda reply: reply.SerializeToString(),
            )
            for name, (function, request) in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        self._servers.append(server)

    def _register(self, request: RegisterRequest, context: object) -> Empty:
        self.registered.append(request)
        channel = self._channel(request.resource_name)
        watch = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=Empty.SerializeToString,
            response_deserializer=ListAndWatchResponse.FromString,
        )
        resource = request.resource_name

        def follow() -> None:
            try:
                for response in watch(Empty()):
                    self.devices[resource] = {d.id: d.health for d in response.devices}
            except grpc.RpcError:
                pass
            if resource in self.devices:
                self.devices[resource] = dict.fromkeys(self.devices[resource], "Unhealthy")

        threading.Thread(target=follow, daemon=True).start()
        return Empty()

    def _channel(self, resource: str) -> grpc.Channel:
        endpoint = [r.endpoint for r in self.registered if r.resource_name == resource][-1]
        channel = grpc.insecure_channel(f"unix:{self.plugins / endpoint}")
        self._channels.append(channel)
        return channel

    def allocate(self, resource: str, device_ids: list[str]) -> AllocateResponse:
        """Call Allocate for one container."""
        call = self._channel(resource).unary_unary(
            "/v1beta1.DevicePlugin/Allocate",
            request_serializer=AllocateRequest.SerializeToString,
            response_deserializer=AllocateResponse.FromString,
        )
        request = AllocateRequest(
            container_requests=[ContainerAllocateRequest(device_ids=device_ids)]
        )
        response: AllocateResponse = call(request, timeout=DEADLINE_SECONDS)
        return response

    def _list(self, request: object, context: object) -> ListPodResourcesResponse:
        return ListPodResourcesResponse(
            pod_resources=[
                PodResources(
                    namespace=namespace,
                    name=name,
                    containers=[
                        ContainerResources(
                            name=container,
                            devices=[
                                ContainerDevices(resource_name=resource, device_ids=ids)
                                for resource, ids in devices.items()
                            ],
                        )
                        for container, devices in containers.items()
                    ],
                )
                for (namespace, name), containers in self.listed.items()
            ]
        )
