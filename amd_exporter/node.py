"""What the node and its driver say about AMD GPUs: how many there should be, and which is which.

Put here: the driver's files under /sys, and the node's object in the Kubernetes API.
Not here: readings of the GPUs (`sources`), or which pod has one (`pod_resources`).
"""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

AMD_VENDOR = 0x1002
RESOURCE_PREFIX = "amd.com/"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API_SECONDS_LIMIT = 5.0
NODE_BYTES_LIMIT = 4 * 1024 * 1024  # a node's object; etcd takes 1.5 MB


@dataclass(frozen=True, slots=True)
class DriverDevice:
    """One logical device as the driver's topology has it."""

    pci_bus: str  # its function numbers the partitions of a card
    render_minor: int


def driver_devices(sysfs: Path) -> list[DriverDevice]:
    """The AMD GPUs that the driver shows, partitions included; empty without a driver."""
    return list(_topology(sysfs / "class" / "kfd" / "kfd" / "topology" / "nodes"))


def _topology(folder: Path) -> Iterator[DriverDevice]:
    for path in sorted(folder.glob("*/properties")):
        try:
            lines = path.read_text("utf-8").splitlines()
        except OSError:
            continue  # a GPU that this container may not see
        pairs = (line.split() for line in lines)
        values = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
        if values.get("vendor_id") == AMD_VENDOR and values.get("simd_count"):
            location, domain = values.get("location_id", 0), values.get("domain", 0)
            bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 0x7
            address = f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
            yield DriverDevice(address, values.get("drm_render_minor", -1))


def pci_by_name(sysfs: Path) -> dict[str, str]:
    """The PCI address of each device by the names that the driver has for it."""
    devices = driver_devices(sysfs)
    names = {device.pci_bus: device.pci_bus for device in devices}
    names |= {f"renderD{device.render_minor}": device.pci_bus for device in devices}
    for render in (sysfs / "devices" / "platform").glob("amdgpu_xcp_*/drm/renderD*"):
        if render.name in names:
            names[render.parent.parent.name] = names[render.name]
    return names


def pci_of(device_id: str, names: Mapping[str, str]) -> str:
    """The PCI address of a device by its name in Kubernetes; the name where it is unknown.

    AMD's device plugin names a card by its PCI address and a partition by its platform device
    (`amdgpu_xcp_3`); the DRA driver names both by card and render node (`gpu-17-145`).
    """
    name = device_id.lower()
    found = re.fullmatch(r"gpu-\d+-(\d+)", name)
    return names.get(f"renderD{found[1]}" if found else name, name)


# --- the node's object ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeObject:
    """The parts of the node's object that are shown."""

    labels: Mapping[str, str]
    gpu_capacity: int | None  # None where no AMD device plugin has registered


class NodeError(Exception):
    """The node's object could not be read."""


class KubernetesNode:
    """Reads one node from the Kubernetes API, with the pod's own service account."""

    def __init__(self, url: str, name: str, account: Path = ACCOUNT) -> None:
        self._url = f"{url}/api/v1/nodes/{name}"
        self._account = account

    def read(self) -> NodeObject:
        try:
            # Both are replaced while the exporter runs, so they are read each time.
            token = (self._account / "token").read_text("utf-8").strip()
            context = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
            request = urllib.request.Request(
                self._url,
                headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            )
            opener = urllib.request.build_opener(
                urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({})
            )
            with opener.open(request, timeout=API_SECONDS_LIMIT) as response:
                return node_object(json.loads(response.read(NODE_BYTES_LIMIT)))
        except urllib.error.HTTPError as error:
            raise NodeError(f"GET {self._url}: {error.code} {error.reason}") from error
        except (OSError, ValueError) as error:
            raise NodeError(f"GET {self._url}: {error}") from error


def node_object(document: object) -> NodeObject:
    """The labels of a node, and how many AMD devices its kubelet offers."""
    if not isinstance(document, dict):
        raise NodeError("the API server's response is no object")
    metadata, status = document.get("metadata") or {}, document.get("status") or {}
    capacity = [
        int(quantity)
        for resource, quantity in (status.get("capacity") or {}).items()
        if resource.startswith(RESOURCE_PREFIX) and str(quantity).isdigit()
    ]
    labels = {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
    return NodeObject(labels, sum(capacity) if capacity else None)
