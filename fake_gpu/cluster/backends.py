"""The two kinds of nodes: with a kubelet, and of kwok, where only the node object exists.

Put here: how devices are offered on a node, and how it is known who holds them.
Not here: which devices there are, and their labels and topologies (`agent`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from clients.kubernetes import KubernetesClient
from fake_gpu.cluster.errors import KubeletUnreachable
from fake_gpu.cluster.exporter import AgentMetrics
from fake_gpu.cluster.failures import Failure, plugin_failures
from fake_gpu.cluster.hardware import OfferedDevice
from fake_gpu.cluster.holders import Holding, assigned_holdings, listed_holdings
from fake_gpu.cluster.plugin import (
    HEALTHY,
    ResourcePlugin,
    list_pod_resources,
)

STATUS_MANAGER = "gpu-ledger-fake-gpus-status"
DOMAINS = ("nvidia.com/", "amd.com/")

Document = dict[str, Any]


class Backend(Protocol):
    """One kind of node."""

    def offer(
        self,
        node: Document,
        offers: Sequence[OfferedDevice],
        health: Mapping[str, str],
        failures: Sequence[Failure],
    ) -> None:
        """Offer these devices, and no others; without any the node offers nothing."""

    def holdings(
        self, offers: Sequence[OfferedDevice], pods: Sequence[Document], before: Sequence[Holding]
    ) -> list[Holding]:
        """Who holds which device; `before` is the last known state."""

    def close(self) -> None:
        """End the servers of the node."""


class KubeletBackend:
    """One node with a kubelet: a device plugin for each resource."""

    def __init__(self, plugins: Path, pod_resources: Path, metrics: AgentMetrics) -> None:
        self._folder = plugins
        self._pod_resources = pod_resources
        self._metrics = metrics
        self._plugins: dict[str, ResourcePlugin] = {}

    def offer(
        self,
        node: Document,
        offers: Sequence[OfferedDevice],
        health: Mapping[str, str],
        failures: Sequence[Failure],
    ) -> None:
        shown: dict[str, dict[str, str]] = {}
        groups: dict[str, str] = {}
        for offer in offers:
            of_resource = shown.setdefault(offer.resource, {})
            groups[offer.offer_id] = offer.device.card_id
            if offer.device.device_id in health:
                of_resource[offer.offer_id] = health[offer.device.device_id]
        for resource in set(self._plugins) - set(shown):
            self._plugins.pop(resource).stop()
        state = plugin_failures(failures)
        for resource, devices in sorted(shown.items()):
            plugin = self._plugins.get(resource)
            if plugin is None:
                plugin = self._plugins[resource] = ResourcePlugin(self._folder, resource)
            plugin.offer(devices, groups, state)
            if plugin.maintain():
                self._metrics.registrations.labels(resource).inc()

    def holdings(
        self, offers: Sequence[OfferedDevice], pods: Sequence[Document], before: Sequence[Holding]
    ) -> list[Holding]:
        try:
            listed = list_pod_resources(self._pod_resources)
        except KubeletUnreachable:
            return list(before)  # while the kubelet restarts, its pods keep their devices
        # Before the first Allocate of this process, taken devices are known from the topology.
        allocated = [h.offer_id for h in before if not h.container]
        for plugin in self._plugins.values():
            allocated += [i for i in plugin.allocated if i not in allocated]
        return listed_holdings(listed, pods, allocated)

    def close(self) -> None:
        for plugin in self._plugins.values():
            plugin.stop()


class KwokBackend:
    """Nodes of kwok: capacity and allocatable are patched into their status."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client

    def offer(
        self,
        node: Document,
        offers: Sequence[OfferedDevice],
        health: Mapping[str, str],
        failures: Sequence[Failure],
    ) -> None:
        name = node["metadata"]["name"]
        status = node.get("status", {})
        # Resources that are gone stay with 0, as a kubelet leaves them.
        known = [r for r in status.get("capacity") or {} if r.startswith(DOMAINS)]
        capacity = dict.fromkeys(known, 0)
        allocatable = dict.fromkeys(known, 0)
        state = plugin_failures(failures)
        serves = not (state.crashed or state.socket_removed)
        for offer in offers:
            of_device = health.get(offer.device.device_id)
            if of_device is not None:
                capacity[offer.resource] = capacity.get(offer.resource, 0) + 1
                more = of_device == HEALTHY and serves
                allocatable[offer.resource] = allocatable.get(offer.resource, 0) + more
        if not offers:  # withdrawn while a layout changes: capacity stays
            capacity |= {r: int((status.get("capacity") or {})[r]) for r in known}
        wanted = {
            "capacity": {r: str(count) for r, count in sorted(capacity.items())},
            "allocatable": {r: str(count) for r, count in sorted(allocatable.items())},
        }
        if all(dict(status.get(part) or {}).items() >= wanted[part].items() for part in wanted):
            return
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": node["metadata"]["uid"]},
            "status": wanted,
        }
        path = f"/api/v1/nodes/{quote(name, safe='')}/status"
        self._client.apply(path, document, field_manager=STATUS_MANAGER, force=True)

    def holdings(
        self, offers: Sequence[OfferedDevice], pods: Sequence[Document], before: Sequence[Holding]
    ) -> list[Holding]:
        return assigned_holdings(offers, pods, before)

    def close(self) -> None:
        """Do nothing: there is no server, and the status of the node stays."""
