"""The number of physical cards of a node.

Put here: cards from capacity and labels, with bounds where the devices are not known.
Not here: the kind of one resource (`domain.gpu.classify`), or the packing (`domain.mig.packing`).

A node's capacity counts devices: slices under MIG, replicas under sharing, partitions on AMD. Where
only those are known, the result is the smallest and the largest number of cards over all layouts
that the capacity allows. If the two are equal, the number is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from domain.gpu.catalogue import Catalogue, GpuProduct, Vendor
from domain.gpu.classify import classify
from domain.gpu.kinds import DeviceForm, DeviceKind, Reason, Unclassified
from domain.gpu.labels import NodeLabels
from domain.gpu.names import may_be_a_device
from domain.gpu.nvidia import GPU, parse_product_label
from domain.mig.packing import pack
from domain.mig.placing import gpu_instances
from domain.mig.profile import MigProfile, parse_profile

MOST_CARDS = 100_000
"""On one node. A larger capacity is an error of the source; its packing is not calculated."""


class HowKnown(StrEnum):
    """The basis of a number of cards."""

    LABEL = "label"  # a label of the node has the number of its cards
    CAPACITY = "capacity"  # the capacity counts cards, or equal parts of cards
    LAYOUTS = "layouts"  # the smallest number, over all layouts that the capacity permits


@dataclass(frozen=True, slots=True)
class CardCount:
    """The smallest and the largest number of cards of one product on one node."""

    product: str
    gpu_class: str
    least: int
    most: int
    how_known: HowKnown


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of one node by product, and the resources that could not be classified."""

    counts: tuple[CardCount, ...]
    unclassified: tuple[tuple[str, Unclassified], ...] = ()

    @property
    def least(self) -> int:
        return sum(count.least for count in self.counts)

    @property
    def most(self) -> int:
        return sum(count.most for count in self.counts)

    @property
    def is_exact(self) -> bool:
        return self.least == self.most and not self.unclassified


@dataclass(slots=True)
class _Devices:
    """The devices of one product, by kind: whole cards, equal parts of a card, MIG instances."""

    product: GpuProduct
    whole: int = 0
    parts: dict[int, int] = field(default_factory=dict)  # parts of a card -> number of such parts
    instances: dict[MigProfile, int] = field(default_factory=dict)

    def add(self, kind: DeviceKind, count: int) -> None:
        if kind.kind in (DeviceForm.WHOLE, DeviceForm.PASSTHROUGH):
            self.whole += count
        elif kind.kind in (DeviceForm.REPLICA, DeviceForm.PARTITION):
            per_card = int(1 / kind.compute_share)
            self.parts[per_card] = self.parts.get(per_card, 0) + count
        else:
            profile = parse_profile(kind.mig_profile)
            devices = _cards_of(count, kind.replicas)
            self.instances[profile] = self.instances.get(profile, 0) + devices

    @property
    def plain_cards(self) -> int:
        """The cards that are not cut by MIG."""
        return self.whole + sum(_cards_of(count, parts) for parts, count in self.parts.items())

    def gpu_instances(self) -> dict[MigProfile, int]:
        """The smallest numbers of GPU instances, because compute instances may share one."""
        assert self.product.geometry is not None, "only products with a geometry have MIG resources"
        return dict(gpu_instances(self.product.geometry, self.instances))


def physical_cards(
    node_capacity: Mapping[str, int], node_labels: Mapping[str, str], catalogue: Catalogue
) -> NodeCards:
    """The cards of a node, by product."""
    devices, unclassified = _devices(node_capacity, node_labels, catalogue)
    labelled = _labelled_cards(NodeLabels(node_labels), catalogue)
    if labelled is not None and labelled[0].product not in devices:
        devices[labelled[0].product] = _Devices(labelled[0])
    counts = [_card_count(found, labelled) for found in devices.values()]
    return NodeCards(tuple(count for count in counts if count.most), unclassified)


def _devices(
    node_capacity: Mapping[str, int], node_labels: Mapping[str, str], catalogue: Catalogue
) -> tuple[dict[str, _Devices], tuple[tuple[str, Unclassified], ...]]:
    """The devices of a node by product."""
    devices: dict[str, _Devices] = {}
    unclassified = []
    for resource, count in sorted(node_capacity.items()):
        if count <= 0 or not may_be_a_device(resource):
            continue
        kind = classify(resource, node_labels, catalogue, node_capacity=node_capacity)
        if isinstance(kind, DeviceKind):
            product = catalogue.products[kind.product]
            devices.setdefault(product.product, _Devices(product)).add(kind, min(count, MOST_CARDS))
        elif kind.reason is not Reason.NOT_A_DEVICE:
            unclassified.append((resource, kind))
    return devices, tuple(unclassified)


def _labelled_cards(labels: NodeLabels, catalogue: Catalogue) -> tuple[GpuProduct, int] | None:
    """NVIDIA's `gpu.count`; None if it counts slices, as under the MIG strategy `single`."""
    value, count = labels.value(f"{GPU}.product"), labels.count(f"{GPU}.count")
    if value is None or count is None:
        return None
    label = parse_product_label(value)
    product = catalogue.product(label.model)
    if product is None or label.profile or product.vendor != Vendor.NVIDIA:
        return None
    return product, count


def _card_count(devices: _Devices, labelled: tuple[GpuProduct, int] | None) -> CardCount:
    """The cards of one product: by the label, unless the capacity needs more cards."""
    product = devices.product
    least, most = devices.plain_cards, devices.plain_cards
    if devices.instances and product.geometry is not None:
        instances = devices.gpu_instances()
        least += pack(product.geometry, instances, {}, None).card_count
        most += sum(instances.values())
    stated = labelled[1] if labelled is not None and labelled[0] == product else None
    if stated is not None and stated >= least:
        return CardCount(product.product, product.gpu_class, stated, stated, HowKnown.LABEL)
    how_known = HowKnown.LAYOUTS if devices.instances else HowKnown.CAPACITY
    return CardCount(product.product, product.gpu_class, least, most, how_known)


def _cards_of(devices: int, per_card: int) -> int:
    """⌈devices / per card⌉."""
    return -(-devices // per_card)
