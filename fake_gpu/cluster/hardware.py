"""The simulated cards of one node of a real cluster, and the devices that it offers.

Put here: devices, resources and labels of a node, from its configuration and its MIG layouts.
Not here: the same for simulated nodes (`fake_gpu.fleet`), or holders of devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from uuid import UUID, uuid5

from fake_gpu.fleet.device_plugin import cards_of, devices_of
from fake_gpu.fleet.feature_discovery import CardCut, amd_labels, nvidia_labels
from fake_gpu.fleet.hardware import PlacedInstance, place, products
from fake_gpu.fleet.model import Card, Device
from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.seeds import stream
from fake_gpu.scenario.spec_hardware import NodeSpec, check_card_layout

SEED = 0
NIL = UUID(int=0)
PAUSED = "paused-for-mig-change"
PAUSED_LABELS = tuple(
    f"nvidia.com/gpu.deploy.{name}"
    for name in ("dcgm-exporter", "device-plugin", "gpu-feature-discovery")
)
REPLICA_SEPARATOR = "::"  # between a device's ID and a replica's number, as in NVIDIA's plugin


@dataclass(frozen=True, slots=True)
class MigLayout:
    """The instances of one card (None: MIG is disabled), and the number of its changes."""

    instances: Mapping[str, int] | None = None
    generation: int = 0

    def placed(self, product: str) -> tuple[PlacedInstance, ...] | None:
        if self.instances is None:
            return None
        wanted = {profile: count for profile, count in self.instances.items() if count}
        found = place(products()[product], wanted)
        if found is None:
            raise InvalidScenarioValue(
                f"{wanted} does not fit on {product}", "see gpu-ledger mig layouts"
            )
        return found


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """One device as the kubelet counts it: a device or a replica of it."""

    offer_id: str
    resource: str
    device: Device


@dataclass(frozen=True)
class Hardware:
    """The cards and devices of one node."""

    node: str
    spec: NodeSpec
    layouts: tuple[MigLayout, ...]  # by card

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        spec = self.spec
        if not spec.card_ids:
            ids = tuple(f"GPU-{uuid5(NIL, f'{self.node}-{n}')}" for n in range(spec.cards))
            spec = replace(spec, card_ids=ids, name=self.node)
        return cards_of(SEED, "", spec, self.node, 0)

    @cached_property
    def cuts(self) -> tuple[CardCut, ...]:
        return tuple(
            CardCut(card, layout.placed(card.product))
            for card, layout in zip(self.cards, self.layouts, strict=True)
        )

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices; an instance has another UUID after each change of its card."""
        return tuple(
            device
            for cut, layout in zip(self.cuts, self.layouts, strict=True)
            for device in devices_of(
                self.spec,
                cut,
                stream(SEED, self.node, "mig", cut.card.card_id, layout.generation),
                0,
                None,
            )
        )

    def offers(self) -> Iterator[OfferedDevice]:
        for device in self.devices:
            count = device.replica_count
            for number in range(count or 1):
                name = (
                    f"{device.device_id}{REPLICA_SEPARATOR}{number}" if count else device.device_id
                )
                yield OfferedDevice(name, device.resource, device)

    def labels(self, discovered_at: datetime, *, is_paused: bool) -> dict[str, str]:
        """The labels of feature discovery; labels mark components that the operator paused."""
        product = products()[self.spec.product]
        if product.vendor == "amd":
            return {**amd_labels(self.spec, product), **self.spec.labels}
        labels = {
            **nvidia_labels(self.spec, product, self.cuts),
            **self.spec.labels,
            "nvidia.com/gfd.timestamp": str(int(discovered_at.timestamp())),
            "run.ai/fake.gpu": "true",
        }
        return labels | (dict.fromkeys(PAUSED_LABELS, PAUSED) if is_paused else {})

    def with_layouts(self, wanted: Sequence[Mapping[str, int] | None]) -> Hardware:
        """The node with other layouts; cards that do not change keep their instances.

        Raises InvalidScenarioValue for a layout that does not fit.
        """
        for instances in wanted:
            if instances is not None:
                check_card_layout(self.spec.product, instances)
        layouts = tuple(
            now if _counts(now.instances) == _counts(new) else MigLayout(new, now.generation + 1)
            for now, new in zip(self.layouts, wanted, strict=True)
        )
        return replace(self, layouts=layouts)


def _counts(instances: Mapping[str, int] | None) -> dict[str, int] | None:
    if instances is None:
        return None
    return {profile: count for profile, count in instances.items() if count}


def without_mig(node: str, spec: NodeSpec) -> Hardware:
    return Hardware(node, spec, (MigLayout(),) * spec.cards)
