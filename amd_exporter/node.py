"""The number and names of AMD GPUs, from the driver and from the node's Kubernetes object.

Put here: the driver's files under /sys, and the node's object in the Kubernetes API.
Not here: readings of the GPUs (`sources`), or the pod of a GPU (`pod_resources`).
"""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AMD_VENDOR = 0x1002
RESOURCE_PREFIX = "amd.com/"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API_SECONDS_LIMIT = 5.0
NODE_BYTES_LIMIT = 4 * 1024 * 1024  # limit for one object; etcd stores at most 1.5 MB


@dataclass(frozen=True, slots=True)
class DriverDevice:
    """One logical device in the driver's topology."""

    pci_bus: str  # its function numbers the partitions of a card
    render_minor: int


def driver_devices(sysfs: Path) -> list[DriverDevice]:
    """The AMD GPUs of the driver, with partitions; empty without a driver."""
    devices = []
    folder = sysfs / "class" / "kfd" / "kfd" / "topology" / "nodes"
    for path in sorted(folder.glob("*/properties")):
        try:
            lines = path.read_text("utf-8").splitlines()
        except OSError:
            continue  # a GPU that is not visible to this container
        pairs = (line.split() for line in lines)
        values = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
        if values.get("vendor_id") == AMD_VENDOR and values.get("simd_count"):
            location, domain = values.get("location_id", 0), values.get("domain", 0)
            bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 0x7
            address = f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
            devices.append(DriverDevice(address, values.get("drm_render_minor", -1)))
    return devices


def pci_by_name(sysfs: Path) -> dict[str, str]:
    """The PCI address of each device, by the names that the driver uses."""
    devices = driver_devices(sysfs)
    names = {device.pci_bus: device.pci_bus for device in devices}
    names |= {f"renderD{device.render_minor}": device.pci_bus for device in devices}
    for render in (sysfs / "devices" / "platform").glob("amdgpu_xcp_*/drm/renderD*"):
        if render.name in names:
            names[render.parent.parent.name] = names[render.name]
    return names


def pci_of(device_id: str, names: Mapping[str, str]) -> str:
    """The PCI address of a device by its name in Kubernetes; the name itself if it is unknown.

    AMD's device plugin names a card by its PCI address and a partition by its platform device
    (`amdgpu_xcp_3`). The DRA driver names both by card and render node (`gpu-17-145`).
    """
    name = device_id.lower()
    found = re.fullmatch(r"gpu-\d+-(\d+)", name)
    return names.get(f"renderD{found[1]}" if found else name, name)


# --- the node's object ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeObject:
    """The fields of the node's object that the page shows."""

    labels: Mapping[str, str]
    gpu_capacity: int | None  # None if no AMD device plugin has registered


class NodeError(Exception):
    """The node's object could not be read."""


class KubernetesNode:
    """Reads one node from the Kubernetes API with the service account of the pod."""

    def __init__(self, url: str, name: str, account: Path = ACCOUNT) -> None:
        self._url = f"{url}/api/v1/nodes/{name}"
        self._account = account

    def read(self) -> NodeObject:
        try:
            # Kubernetes replaces both files while the exporter runs: read them each time.
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
    """The labels of a node, and the number of AMD devices that its kubelet offers."""
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
