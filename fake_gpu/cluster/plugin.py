"""A device plugin of the kubelet (v1beta1): one gRPC server for each resource of a node.

Put here: registration, ListAndWatch, Allocate, and the failures of these calls.
Not here: which devices there are (`hardware`), or which container has which (`holders`).

A kubelet that restarts deletes all sockets of the folder, so a plugin detects it, listens again
and register again. `maintain` compares the sockets' inodes; the agent calls it every second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from fake_gpu.cluster.errors import KubeletUnreachable
from fake_gpu.cluster.kubelet_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
)

VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
CALL_SECONDS = 5.0
THREADS = 8
"""One ListAndWatch call holds a thread for as long as a kubelet is connected."""
STREAM_SECONDS = 0.5
"""How often a ListAndWatch call checks that its kubelet is still there."""
SOCKET_BYTES_LIMIT = 107
"""Of a path of a socket on Linux."""

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

Reply = TypeVar("Reply", bound=Message)


@dataclass(frozen=True, slots=True)
class PluginFailures:
    """The failures of one plugin until they are ended."""

    refuse: str = ""  # the message with which Allocate is refused
    slow_seconds: float = 0.0  # before Allocate responds
    crashed: bool = False  # no server at all
    socket_removed: bool = False  # the server runs, its socket is gone


class ResourcePlugin:
    """The device plugin of one resource."""

    def __init__(self, folder: Path, resource: str) -> None:
        self.resource = resource
        self.allocated: list[str] = []  # device IDs in the order of Allocate, newest last
        self._folder = folder
        self._socket = folder / f"fake-{resource.replace('/', '-')}.sock"
        if len(str(self._socket).encode()) > SOCKET_BYTES_LIMIT:
            raise KubeletUnreachable(
                str(self._socket), f"a path of more than {SOCKET_BYTES_LIMIT} bytes"
            )
        self._devices: dict[str, str] = {}
        self._groups: Mapping[str, str] = {}
        self._failures = PluginFailures()
        self._changed = threading.Condition()
        self._version = 0
        self._server: grpc.Server | None = None
        self._own_inode = 0
        self._kubelet_inode = 0

    def offer(
        self, devices: Mapping[str, str], groups: Mapping[str, str], failures: PluginFailures
    ) -> None:
        """Offer device IDs with their health; `groups` is the card of each ID."""
        with self._changed:
            self._failures = failures
            self._groups = dict(groups)
            if self._devices != devices:
                self._devices = dict(devices)
                self._version += 1
                self._changed.notify_all()

    def maintain(self) -> bool:
        """Serve and be registered, as far as failures allow; whether it registered just now."""
        if self._failures.crashed:
            self.stop()
            return False
        if self._failures.socket_removed:
            self._socket.unlink(missing_ok=True)
            return False
        kubelet = _inode(self._folder / KUBELET_SOCKET)
        if self._server is not None and _inode(self._socket) != self._own_inode:
            self.stop()
        if self._server is None:
            self._listen()
        if not kubelet:
            self._kubelet_inode = 0
            return False
        if kubelet == self._kubelet_inode:
            return False
        self._register()
        self._kubelet_inode = kubelet
        return True

    def stop(self) -> None:
        """End the server; the kubelet then counts the resource as not allocatable."""
        if self._server is not None:
            server, self._server = self._server, None
            with self._changed:
                self._version += 1
                self._changed.notify_all()
            server.stop(grace=None).wait(CALL_SECONDS)
        self._socket.unlink(missing_ok=True)
        self._own_inode = self._kubelet_inode = 0

    def _listen(self) -> None:
        self._socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(THREADS))
        handlers = {
            "GetDevicePluginOptions": _unary(self._options, Empty),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list_and_watch, Empty.FromString, ListAndWatchResponse.SerializeToString
            ),
            "GetPreferredAllocation": _unary(self._prefer, PreferredAllocationRequest),
            "Allocate": _unary(self._allocate, AllocateRequest),
            "PreStartContainer": _unary(self._pre_start, PreStartContainerRequest),
        }
        service = grpc.method_handlers_generic_handler(f"{VERSION}.DevicePlugin", handlers)
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"unix:{self._socket}")
        server.start()
        self._server, self._own_inode = server, _inode(self._socket)
        self._kubelet_inode = 0

    def _register(self) -> None:
        request = RegisterRequest(
            version=VERSION,
            endpoint=self._socket.name,
            resource_name=self.resource,
            options=DevicePluginOptions(get_preferred_allocation_available=True),
        )
        socket = self._folder / KUBELET_SOCKET
        call(socket, f"/{VERSION}.Registration/Register", request, Empty)

    # --- the kubelet's calls ----------------------------------------------------------------------

    def _options(self, request: Empty, context: grpc.ServicerContext) -> DevicePluginOptions:
        return DevicePluginOptions(get_preferred_allocation_available=True)

    def _list_and_watch(
        self, request: Empty, context: grpc.ServicerContext
    ) -> Iterator[ListAndWatchResponse]:
        server, sent = self._server, -1
        while context.is_active() and self._server is server:
            with self._changed:
                if sent == self._version:
                    self._changed.wait(STREAM_SECONDS)
                    continue
                sent = self._version
                devices = [Device(id=key, health=self._devices[key]) for key in self._devices]
            yield ListAndWatchResponse(devices=devices)

    def _prefer(
        self, request: PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> PreferredAllocationResponse:
        """Replicas of the card of which the fewest are in use, as NVIDIA's plugin spreads them."""
        responses = []
        for wanted in request.container_requests:
            chosen = list(wanted.must_include_device_ids)
            free = [i for i in wanted.available_device_ids if i not in chosen]
            while len(chosen) < wanted.allocation_size and free:
                best = min(free, key=lambda key: (-self._free_of(key, free), key))
                free.remove(best)
                chosen.append(best)
            responses.append(ContainerPreferredAllocationResponse(device_ids=chosen))
        return PreferredAllocationResponse(container_responses=responses)

    def _free_of(self, device: str, free: Sequence[str]) -> int:
        card = self._groups.get(device, device)
        return sum(self._groups.get(other, other) == card for other in free)

    def _allocate(
        self, request: AllocateRequest, context: grpc.ServicerContext
    ) -> AllocateResponse:
        failures = self._failures
        if failures.slow_seconds:
            time.sleep(failures.slow_seconds)
        if failures.refuse:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, failures.refuse)
        with self._changed:
            for container in request.container_requests:
                for device in container.device_ids:
                    if device in self.allocated:
                        self.allocated.remove(device)
                    self.allocated.append(device)
        # Empty on purpose: the container gets no device file and no environment.
        return AllocateResponse(
            container_responses=[ContainerAllocateResponse() for _ in request.container_requests]
        )

    def _pre_start(
        self, request: PreStartContainerRequest, context: grpc.ServicerContext
    ) -> PreStartContainerResponse:
        return PreStartContainerResponse()


def _unary(behavior: Any, request: type[Message]) -> grpc.RpcMethodHandler:
    return grpc.unary_unary_rpc_method_handler(
        behavior,
        request_deserializer=request.FromString,
        response_serializer=lambda reply: reply.SerializeToString(),
    )


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def call(socket: Path, method: str, request: Message, reply: type[Reply]) -> Reply:
    """Call a method of the server behind a socket."""
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub = channel.unary_unary(
            method,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        try:
            found: Reply = stub(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            code = error.code().name if isinstance(error, grpc.Call) else "UNKNOWN"
            detail = error.details() if isinstance(error, grpc.Call) else str(error)
            raise KubeletUnreachable(str(socket), f"{method}: {code}: {detail}"[:300]) from error
    return found


def list_pod_resources(socket: Path) -> ListPodResourcesResponse:
    """The devices of every container on the node, as the kubelet has them."""
    method = "/v1.PodResourcesLister/List"
    return call(socket, method, ListPodResourcesRequest(), ListPodResourcesResponse)
