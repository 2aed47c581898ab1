"""The topology of a node: its devices, who holds them and how busy they are, as a document.

Put here: the state that the status updater writes and the exporter reads, and its YAML form.
Not here: writing it to a ConfigMap (`agent`), or series (`exporter`).

The form is that of the configuration: `nodes` by name, with `gpus` whose `metrics` name the holder.
Further keys, which that form does not have: MIG layouts, replicas, failures, taken devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from domain.interval import parse_instant
from fake_gpu.cluster.configuration import GivenUse
from fake_gpu.cluster.hardware import Hardware, MigLayout
from fake_gpu.cluster.holders import Holding
from fake_gpu.cluster.plugin import HEALTHY
from fake_gpu.exporters.devices import RESERVED_ONE_IN
from fake_gpu.fleet.model import Device, Incident
from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.seeds import stream
from fake_gpu.scenario.spec_hardware import CardLayoutSpec, MigSpec, NodeSpec, SharingSpec
from fake_gpu.scenario.utilisation import parse_load

UTILISATION_ANNOTATION = "run.ai/simulated-gpu-utilization"
FRACTION_ANNOTATION = "gpu-fraction"
IDLE_PREFIX = "runai-idle-gpu-"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HoldingUse:
    """A holding, and how busy its container makes the device."""

    holding: Holding
    utilisation: int = 0
    used_mib: int = 0


@dataclass(frozen=True, slots=True)
class Topology:
    """One node at one instant."""

    hardware: Hardware
    uses: tuple[HoldingUse, ...] = ()
    health: Mapping[str, str] = field(default_factory=dict)  # by device ID; lost ones are absent
    incidents: Mapping[str, Incident] = field(default_factory=dict)  # by card ID
    mig_config: str = ""  # the configuration that was applied last
    is_paused: bool = False

    def uses_of(self, device: Device) -> list[HoldingUse]:
        return [u for u in self.uses if _device_id(u.holding.offer_id) == device.device_id]

    def as_document(self) -> Document:
        spec = self.hardware.spec
        entry: Document = {
            "gpu-memory": spec.memory_mib or self.hardware.cards[0].memory_mib,
            "gpu-product": spec.product,
            "driver-version": spec.driver_version,
            "gpus": [self._gpu(device) for device in self.hardware.devices],
        }
        if spec.sharing:
            entry["replicas"] = spec.sharing.replicas
        if any(layout != MigLayout() for layout in self.hardware.layouts):
            entry["cards"] = [card.card_id for card in self.hardware.cards]
            entry["mig-config"] = self.mig_config
            entry["mig-layouts"] = [
                {"instances": None if m.instances is None else dict(m.instances),
                 "generation": m.generation}
                for m in self.hardware.layouts
            ]  # fmt: skip
        if self.is_paused:
            entry["paused"] = True
        strategy = spec.labels.get("nvidia.com/mig.strategy") or (
            spec.mig.strategy if spec.mig else "none"
        )
        return {"mig-strategy": strategy, "nodes": {self.hardware.node: entry}}

    def _gpu(self, device: Device) -> Document:
        uses = self.uses_of(device)
        named = [use for use in uses if use.holding.container]
        last = named[-1] if named else None
        entry: Document = {
            "id": device.device_id,
            "metrics": {
                "metadata": _metadata(last.holding) if last else {},
                "utilization": last.utilisation if last else 0,
                "fb-used": last.used_mib if last else 0,
            },
        }
        if device.gpu_instance_id is not None:
            entry |= {"card": device.card_index, "mig-profile": device.profile}
        if device.replica_count:
            entry["replicas"] = [
                {
                    **_metadata(use.holding),
                    "id": use.holding.offer_id,
                    "utilization": use.utilisation,
                    "fb-used": use.used_mib,
                }
                for use in uses
            ]
        elif uses and last is None:
            entry["taken-by"] = _metadata(uses[-1].holding)
        health = self.health.get(device.device_id)
        if health != HEALTHY:
            entry["health"] = health or "Lost"
        if incident := self.incidents.get(device.card_id):
            entry |= {"failure": incident.mode, "xid": incident.xid}
        return entry


def _device_id(offer_id: str) -> str:
    return offer_id.partition("::")[0]


def _metadata(holding: Holding) -> Document:
    metadata = {"namespace": holding.namespace, "pod": holding.pod, "container": holding.container}
    return metadata | ({"uid": holding.uid} if holding.uid else {})


def read_topology(document: Mapping[str, Any]) -> Topology:
    """The state that a document describes."""
    [(name, entry)] = document["nodes"].items()
    strategy = document.get("mig-strategy", "none")
    gpus: Sequence[Mapping[str, Any]] = entry["gpus"]
    layouts = [
        MigLayout(found["instances"], int(found["generation"]))
        for found in entry.get("mig-layouts") or ()
    ]
    ids = tuple(entry.get("cards") or [gpu["id"] for gpu in gpus])
    mig = MigSpec(CardLayoutSpec("all-disabled", ()), "single" if strategy == "single" else "mixed")
    replicas = int(entry.get("replicas", 1))
    spec = NodeSpec(
        name=name,
        product=entry["gpu-product"],
        cards=len(ids),
        card_ids=ids,
        memory_mib=int(entry["gpu-memory"]),
        driver_version=str(entry.get("driver-version", "")),
        mig=mig if layouts else None,
        sharing=SharingSpec(replicas) if replicas > 1 else None,
        labels={"nvidia.com/mig.strategy": strategy},
    )
    hardware = Hardware(name, spec, tuple(layouts) or (MigLayout(),) * len(ids))
    cards = {device.device_id: device.card_id for device in hardware.devices}
    return Topology(
        hardware,
        tuple(use for gpu in gpus for use in _uses(gpu)),
        {g["id"]: g.get("health", HEALTHY) for g in gpus if g.get("health") != "Lost"},
        {
            cards[gpu["id"]]: Incident(
                cards[gpu["id"]], 0, None, gpu["failure"], int(gpu.get("xid", 0))
            )
            for gpu in gpus
            if "failure" in gpu and gpu["id"] in cards
        },
        str(entry.get("mig-config", "")),
        bool(entry.get("paused")),
    )


def _uses(gpu: Mapping[str, Any]) -> list[HoldingUse]:
    if "replicas" in gpu:
        return [
            HoldingUse(_holding(r["id"], r), int(r["utilization"]), int(r["fb-used"]))
            for r in gpu["replicas"]
        ]
    if holder := gpu.get("taken-by"):
        return [HoldingUse(_holding(gpu["id"], holder))]
    metrics = gpu.get("metrics") or {}
    metadata = metrics.get("metadata") or {}
    if not metadata.get("pod"):
        return []
    holding = _holding(gpu["id"], metadata)
    return [HoldingUse(holding, int(metrics["utilization"]), int(metrics["fb-used"]))]


def _holding(offer_id: str, metadata: Mapping[str, Any]) -> Holding:
    return Holding(
        offer_id,
        str(metadata["namespace"]),
        str(metadata["pod"]),
        str(metadata.get("uid", "")),
        str(metadata.get("container", "")),
    )


# --- how busy -----------------------------------------------------------------------------------


def uses_of_holdings(
    hardware: Hardware,
    holdings: Sequence[Holding],
    pods: Mapping[str, Document],
    given: Mapping[int, GivenUse],
    configured_at: datetime,
    now: datetime,
) -> tuple[HoldingUse, ...]:
    """The uses of a node's devices; cards that no pod holds show the use in the configuration."""
    elapsed = int((now - configured_at).total_seconds())
    devices = {device.device_id: device for device in hardware.devices}
    found = []
    for holding in holdings:
        device = devices.get(_device_id(holding.offer_id))
        if device is not None:
            found.append(_use(holding, device, pods.get(holding.uid), now))
    held = {devices[_device_id(use.holding.offer_id)].card_index for use in found}
    for card, use in given.items():
        of_card = [device for device in hardware.devices if device.card_index == card]
        if card not in held and len(of_card) == 1 and of_card[0].replica_count is None:
            holding = Holding(of_card[0].device_id, use.namespace, use.pod, "", use.container)
            load = use.load.draw(stream(0, hardware.node, card))
            found.append(HoldingUse(holding, load.pct_at(elapsed), use.used_mib))
    return tuple(found)


def _use(holding: Holding, device: Device, pod: Document | None, now: datetime) -> HoldingUse:
    if pod is None or not holding.container:
        return HoldingUse(holding)
    started = _started_at(pod, holding.container)
    if started is None:
        return HoldingUse(holding)
    annotations = pod["metadata"].get("annotations") or {}
    elapsed = int((now - started).total_seconds())
    usable = device.memory_mib
    if device.gpu_instance_id is None:
        usable -= device.memory_mib // RESERVED_ONE_IN
    return HoldingUse(
        holding,
        _utilisation(annotations, holding, elapsed),
        int(usable * _fraction(annotations)) // (device.replica_count or 1),
    )


def _utilisation(annotations: Mapping[str, str], holding: Holding, elapsed: int) -> int:
    text = annotations.get(UTILISATION_ANNOTATION)
    if text is None:
        return 0 if holding.pod.startswith(IDLE_PREFIX) else 100
    try:
        load = parse_load(text)
    except InvalidScenarioValue:
        return 100  # as without the annotation; the status updater sends an Event
    return load.draw(stream(0, holding.uid, holding.container)).pct_at(max(elapsed, 0))


def _fraction(annotations: Mapping[str, str]) -> float:
    try:
        fraction = float(annotations.get(FRACTION_ANNOTATION, 1))
    except ValueError:
        return 1.0
    return fraction if 0 < fraction <= 1 else 1.0


def has_invalid_utilisation(pod: Document) -> str:
    """The annotation's text if it cannot be read, else nothing."""
    text = str((pod["metadata"].get("annotations") or {}).get(UTILISATION_ANNOTATION, "100"))
    try:
        parse_load(text)
    except InvalidScenarioValue:
        return text
    return ""


def _started_at(pod: Document, container: str) -> datetime | None:
    """When a container started, if it runs."""
    status = pod.get("status", {})
    for found in (
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ):
        if found.get("name") == container:
            running = (found.get("state") or {}).get("running")
            return parse_instant(running["startedAt"]) if running else None
    if status.get("phase") == "Running" and status.get("startTime"):
        return parse_instant(status["startTime"])
    return None
