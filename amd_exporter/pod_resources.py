"""The container of each AMD device, from the kubelet's pod-resources socket.

Put here: the gRPC call, and reading its response.
Not here: the names of devices (`node`), or its messages (`pod_resources.proto`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc

from amd_exporter.devices import DeviceHolder, HoldersUnknown
from amd_exporter.node import RESOURCE_PREFIX, pci_by_name, pci_of
from amd_exporter.pod_resources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse

LIST = "/v1.PodResourcesLister/List"
DRA_DRIVER = "gpu.amd.com"
SECONDS_LIMIT = 5.0
OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),  # the kubelet's own limit
    # The kubelet's server refuses the path of a socket as an authority.
    ("grpc.default_authority", "localhost"),
)


def holders(socket: Path, sysfs: Path) -> dict[str, DeviceHolder]:
    """The container that holds each device, by PCI address.

    If several containers share a device, it is the first by namespace, pod and container.
    """
    names = pci_by_name(sysfs)
    held: dict[str, DeviceHolder] = {}
    for device_id, holder in sorted(_claims(_list(socket)), key=_order):
        held.setdefault(pci_of(device_id, names), holder)
    return held


def _order(claim: tuple[str, DeviceHolder]) -> tuple[str, str, str]:
    return claim[1].namespace, claim[1].pod, claim[1].container


def _list(socket: Path) -> ListPodResourcesResponse:
    # One channel per call: the kubelet creates a new socket at each restart.
    with grpc.insecure_channel(f"unix://{socket}", options=OPTIONS) as channel:
        call = channel.unary_unary(
            LIST,
            request_serializer=ListPodResourcesRequest.SerializeToString,
            response_deserializer=ListPodResourcesResponse.FromString,
        )
        try:
            response: ListPodResourcesResponse = call(
                ListPodResourcesRequest(), timeout=SECONDS_LIMIT
            )
        except grpc.RpcError as error:
            code = error.code().name if isinstance(error, grpc.Call) else "UNKNOWN"
            raise HoldersUnknown(f"{socket}: {code}") from error
    return response


def _claims(response: ListPodResourcesResponse) -> Iterator[tuple[str, DeviceHolder]]:
    for pod in response.pod_resources:
        for container in pod.containers:
            holder = DeviceHolder(pod.namespace, pod.name, container.name)
            for devices in container.devices:
                if devices.resource_name.startswith(RESOURCE_PREFIX):
                    yield from ((device_id, holder) for device_id in devices.device_ids)
            for claim in container.dynamic_resources:
                for resource in claim.claim_resources:
                    if resource.driver_name == DRA_DRIVER:
                        yield resource.device_name, holder
