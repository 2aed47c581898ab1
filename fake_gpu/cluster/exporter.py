"""The page of a dcgm-exporter, made of topologies, and the server of port 9400.

Put here: series of devices and their holders, energy, the agent's own metrics, HTTP.
Not here: fields and their values (`fake_gpu.exporters.dcgm`), or how topologies come about.

Each series of a card has the eight labels gpu, UUID, device, modelName, Hostname, container,
namespace, pod; series of MIG instances have GPU_I_PROFILE and GPU_I_ID as well.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from fake_gpu.cluster.topology import HoldingUse, Topology
from fake_gpu.exporters.dcgm import (
    ENERGY,
    MICROJOULES,
    RENAMED,
    DcgmReading,
    Field,
    Style,
    fields_of,
    identity,
    labels_of,
)
from fake_gpu.exporters.devices import IDLE_USED_MIB, NO_END, Entity, EntityState, entities_of
from fake_gpu.exporters.exposition import Pairs, SeriesLine, family_text
from fake_gpu.fleet.model import Card, DcgmNames, Node

Names = Literal["old", "new", "both"]
STYLE = Style(pci_bus_id=False, driver_version=False)
NEW_ENERGY = f"DCGM_FI_{RENAMED[ENERGY.removeprefix('DCGM_FI_')].name}"
CONNECTIONS_SECONDS = 10.0


class TopologyExporter:
    """The topologies of the nodes that one agent shows; safe for threads."""

    def __init__(self, names: Names = "old") -> None:
        self._names: tuple[DcgmNames, ...] = ("old", "new") if names == "both" else (names,)
        self._topologies: dict[str, Topology] = {}
        self._energy: dict[str, int] = {}  # in microjoules, by card
        self._at: datetime | None = None
        self._lock = threading.Lock()
        self.metrics = AgentMetrics()

    def show(self, topologies: Mapping[str, Topology], now: datetime) -> None:
        """Show these topologies from now on."""
        with self._lock:
            self._advance(now)
            self._topologies = dict(topologies)

    def page(self, now: datetime) -> str:
        with self._lock:
            self._advance(now)
            shown = [t for _, t in sorted(self._topologies.items()) if not t.is_paused]
            nodes = [(_node(topology), topology) for topology in shown]
            return "".join(
                text
                for names in self._names
                for field in fields_of(STYLE, names)
                if (text := self._family(field, names, nodes))
            )

    def documents(self) -> dict[str, object]:
        """The topologies in their form as documents, by node."""
        with self._lock:
            return {name: t.as_document() for name, t in sorted(self._topologies.items())}

    def _advance(self, now: datetime) -> None:
        """Add the energy since the last call: the integral of the power."""
        if self._at is not None and now > self._at:
            elapsed = (now - self._at).total_seconds()
            for topology in self._topologies.values():
                for card in topology.hardware.cards:
                    spent = int(_milliwatts(topology, card) * elapsed * 1000)
                    self._energy[card.card_id] = self._energy.get(card.card_id, 0) + spent
        self._at = now

    def _family(
        self, field: Field, names: DcgmNames, nodes: Sequence[tuple[Node, Topology]]
    ) -> str:
        lines = [
            SeriesLine(labels_of((*identity(node, entity, STYLE), *labels), names), value)
            for node, topology in nodes
            for entity, labels, value in self._values(field, node, topology)
        ]
        return family_text(field.head, lines, field.text) if lines else ""

    def _values(
        self, field: Field, node: Node, topology: Topology
    ) -> Iterator[tuple[Entity, Pairs, float]]:
        for entity in _entities(node, topology):
            if not _has(field, entity):
                continue
            uses = [use for device in entity.devices for use in topology.uses_of(device)]
            card = entity.card
            if field.head.name in (ENERGY, NEW_ENERGY):
                value = float(self._energy.get(card.card_id, 0) // MICROJOULES[field.head.name])
            else:
                step = EntityState(0, NO_END, _pct(entity, topology), _used_mib(entity, uses), ())
                incident = topology.incidents.get(card.card_id)
                value = field.value(
                    DcgmReading(entity, step, _milliwatts(topology, card), incident)
                )
            yield entity, _holder(uses), value


def _node(topology: Topology) -> Node:
    hardware = topology.hardware
    return Node(
        cluster_id="",
        name=hardware.node,
        uid="",
        created_at=0,
        gone_at=None,
        roles=(),
        host_ip="",
        cpu_cores=0,
        memory_bytes=0,
        driver_version=hardware.spec.driver_version,
        cuda_version="",
        mig_strategy=hardware.spec.mig.strategy if hardware.spec.mig else "none",
        cards=hardware.cards,
        devices=hardware.devices,
        states=(),
    )


def _entities(node: Node, topology: Topology) -> Iterator[Entity]:
    """The devices with series: cards, GPU instances, cards with MIG enabled but no instances.

    A card that fell off the bus has no series.
    """
    lost = {i.card_id for i in topology.incidents.values() if i.mode == "lost"}
    for entity in entities_of(node):
        if entity.card.card_id not in lost and entity.card.vendor == "nvidia":
            yield entity
    for cut in topology.hardware.cuts:
        if cut.placed == () and cut.card.card_id not in lost:
            yield Entity(cut.card, (), cut.card.memory_mib, Fraction(1), 0, NO_END)


def _has(field: Field, entity: Entity) -> bool:
    if entity.gpu_instance_id is not None:
        return field.of_instances
    return bool(entity.devices) or field.of_mig_cards


def _pct(entity: Entity, topology: Topology) -> Fraction | int:
    """How busy an entity is: replicas add up, a compute instance is a part of its instance."""
    total: Fraction | int = 0
    for device in entity.devices:
        part = Fraction(1)
        if not device.replica_count and entity.share and device.compute_share < entity.share:
            part = device.compute_share / entity.share
        total += sum(use.utilisation for use in topology.uses_of(device)) * part
    return min(total, 100)


def _used_mib(entity: Entity, uses: Sequence[HoldingUse]) -> int:
    usable = entity.memory_mib - entity.reserved_mib
    return min(max(sum(use.used_mib for use in uses), IDLE_USED_MIB), usable)


def _milliwatts(topology: Topology, card: Card) -> int:
    """The idle power, and the rest in proportion to the load of the card's devices."""
    load = sum(
        use.utilisation * (device.compute_share * (device.replica_count or 1))
        for device in topology.hardware.devices
        if device.card_id == card.card_id
        for use in topology.uses_of(device)
    )
    above = (card.peak_watts - card.idle_watts) * 10 * min(load, 100)
    return card.idle_watts * 1000 + int(above)


def _holder(uses: Sequence[HoldingUse]) -> Pairs:
    """Of several holders the exporter names one; a device that is only taken has no name."""
    named = [use.holding for use in uses if use.holding.container]
    if not named:
        return (("container", ""), ("namespace", ""), ("pod", ""))
    last = named[-1]
    return (("container", last.container), ("namespace", last.namespace), ("pod", last.pod))


class AgentMetrics:
    """The metrics of the agent itself."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        name = "gpu_ledger_fake_gpu"
        self.config_valid = Gauge(
            f"{name}_configuration_valid",
            "1 if the newest content of a ConfigMap is valid, 0 if an older one is in use.",
            ["config_map"],
            registry=self.registry,
        )
        self.reloads = Counter(
            f"{name}_configuration_reloads",
            "Changed ConfigMaps that were read, by result.",
            ["config_map", "result"],
            registry=self.registry,
        )
        self.conflicts = Counter(
            f"{name}_apply_conflicts",
            "Writes that another field manager had changed, and that were then forced.",
            registry=self.registry,
        )
        self.failed_steps = Counter(
            f"{name}_failed_steps", "Steps that ended with an error.", registry=self.registry
        )
        self.nodes = Gauge(f"{name}_nodes", "Nodes with simulated GPUs.", registry=self.registry)
        self.registrations = Counter(
            f"{name}_registrations",
            "Registrations of device plugins with a kubelet, by resource.",
            ["resource"],
            registry=self.registry,
        )


class ExporterServer(ThreadingHTTPServer):
    """`/metrics`, `/topology`, `/topology/nodes/NODE`, `/healthz`, `/readyz`."""

    daemon_threads = True

    def __init__(self, address: str, port: int, exporter: TopologyExporter) -> None:
        self.exporter = exporter
        self.is_ready = False
        super().__init__((address, port), _TopologyHandler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()


class _TopologyHandler(BaseHTTPRequestHandler):
    server: ExporterServer
    protocol_version = "HTTP/1.1"
    timeout = CONNECTIONS_SECONDS

    def do_GET(self) -> None:
        exporter, path = self.server.exporter, self.path.partition("?")[0]
        if path == "/metrics":
            page = exporter.page(datetime.now(UTC)).encode()
            own = generate_latest(exporter.metrics.registry)
            self._send(200, page + own, CONTENT_TYPE_LATEST)
        elif path == "/topology":
            self._send_json(200, exporter.documents())
        elif path.startswith("/topology/nodes/"):
            found = exporter.documents().get(path.removeprefix("/topology/nodes/"))
            self._send_json(200 if found else 404, found or {"error": "no such node"})
        elif path == "/healthz":
            self._send(200, b"ok\n", "text/plain")
        elif path == "/readyz":
            ready = self.server.is_ready
            self._send(200 if ready else 503, b"ok\n" if ready else b"starting\n", "text/plain")
        else:
            self._send(404, b"not found\n", "text/plain")

    def _send_json(self, status: int, document: object) -> None:
        self._send(status, json.dumps(document).encode(), "application/json")

    def _send(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are not logged: a Prometheus sends one every few seconds."""
