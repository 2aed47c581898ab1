"""The device plugin of a fake node: its devices, and the resources that the node offers with them.

Put here: cards to devices, capacity and allocatable.
Not here: the assignment of devices (`calendar`, `scheduler`), or labels (`feature_discovery`).

Pure functions from hardware to devices and counts, so that a plugin that uses the kubelet's gRPC
only has to send the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from fake_gpu.fleet.feature_discovery import CardCut, instance_names
from fake_gpu.fleet.hardware import PlacedInstance, gpu_instance_id, products, resource_of, shares
from fake_gpu.fleet.model import Card, Device
from fake_gpu.scenario.seeds import RandomStream, stream
from fake_gpu.scenario.spec_hardware import PARTITIONS, NodeSpec

WHOLE = "whole"


def cards_of(seed: int, cluster: str, spec: NodeSpec, node: str, position: int) -> tuple[Card, ...]:
    """The cards of one node; `position` is its place among the nodes of its entry."""
    if not spec.product:
        return ()
    product = products()[spec.product]
    given = spec.card_ids[position * spec.cards : (position + 1) * spec.cards]
    cards = []
    for index in range(spec.cards):
        draw = stream(seed, cluster, "card", node, index)
        prefix = "GPU-" if product.vendor == "nvidia" else ""
        cards.append(
            Card(
                card_id=given[index] if given else prefix + draw.uuid(),
                index=index,
                vendor=product.vendor,
                product=product.product,
                model_name=product.model_name,
                memory_mib=spec.memory_mib or product.memory_mib,
                compute_slots=product.compute_slots,
                memory_slots=product.memory_slots,
                pci_bus_id=f"{index // 28:08X}:{0x10 + 8 * (index % 28):02X}:00.0",
                serial=str(draw.between(10**12, 10**13 - 1)),
                pci_device=product.pci_device,
                idle_watts=product.idle_watts,
                peak_watts=product.peak_watts,
            )
        )
    return tuple(cards)


def devices_of(
    spec: NodeSpec, cut: CardCut, draw: RandomStream, exists_from: int, exists_until: int | None
) -> list[Device]:
    """The devices of one card while it is cut so."""
    card = cut.card
    if card.vendor == "amd":
        return _partitions(spec, card, exists_from, exists_until)
    if cut.placed is not None:
        return [
            _shared(spec, _instance(spec, card, placed, n, name, draw, exists_from, exists_until))
            for placed in cut.placed
            for n, name in enumerate(instance_names(placed))
        ]
    whole = Device(
        device_id=card.card_id,
        card_id=card.card_id,
        card_index=card.index,
        makeup="passthrough" if spec.passthrough else "whole",
        resource="" if spec.dra else spec.passthrough or "nvidia.com/gpu",
        profile=WHOLE,
        compute_share=Fraction(1),
        memory_share=Fraction(1),
        memory_mib=card.memory_mib,
        exists_from=exists_from,
        exists_until=exists_until,
        dra_name=f"gpu-{card.index}" if spec.dra else "",
    )
    return [_shared(spec, whole)]


def _instance(
    spec: NodeSpec,
    card: Card,
    placed: PlacedInstance,
    number: int,
    name: str,
    draw: RandomStream,
    exists_from: int,
    exists_until: int | None,
) -> Device:
    """One MIG instance; made again, it has another UUID."""
    product = products()[card.product]
    computes = name if placed.compute_instances else ""
    compute_share, memory_share = shares(product, placed, computes)
    single = spec.mig is not None and spec.mig.strategy == "single"
    short = name.replace(".", "")
    dra_name = f"gpu-{card.index}-mig-{short}-{placed.profile.profile_id}-{placed.start}"
    return Device(
        device_id=f"MIG-{draw.uuid()}",
        card_id=card.card_id,
        card_index=card.index,
        makeup="mig",
        resource="" if spec.dra else ("nvidia.com/gpu" if single else resource_of(name)),
        profile=name,
        compute_share=compute_share,
        memory_share=memory_share,
        memory_mib=placed.profile.memory_mib,
        exists_from=exists_from,
        exists_until=exists_until,
        gpu_instance_id=gpu_instance_id(placed, product.memory_slots),
        compute_instance_id=number,
        placement_start=placed.start,
        placement_size=placed.profile.placement_size,
        dra_name=dra_name if spec.dra else "",
    )


def _shared(spec: NodeSpec, device: Device) -> Device:
    """The same device, offered as replicas where the node shares its devices."""
    if spec.dra_shared:
        each = Fraction(1, device.memory_mib)
        return replace(
            device,
            makeup="shared",
            compute_share=each,
            memory_share=each,
            replica_count=device.memory_mib,
        )
    if spec.sharing is None:
        return device
    count = spec.sharing.replicas
    resource = device.resource + (".shared" if spec.sharing.rename else "")
    return replace(
        device,
        makeup="mig_replica" if device.makeup == "mig" else "replica",
        resource=resource,
        compute_share=device.compute_share / count,
        memory_share=device.memory_share / count,
        replica_count=count,
    )


def _partitions(
    spec: NodeSpec, card: Card, exists_from: int, exists_until: int | None
) -> list[Device]:
    """AMD: the card, or its equal partitions."""
    mode = spec.partition or "spx_nps1"
    count = PARTITIONS[mode.split("_")[0]]
    resource = "amd.com/gpu" if spec.partition_strategy == "single" else f"amd.com/{mode}"
    return [
        Device(
            device_id=card.card_id if count == 1 else f"{card.card_id}/{number}",
            card_id=card.card_id,
            card_index=card.index,
            makeup="whole" if count == 1 else "partition",
            resource=resource,
            profile=WHOLE if count == 1 else mode,
            compute_share=Fraction(1, count),
            memory_share=Fraction(1, count),
            memory_mib=card.memory_mib // count,
            exists_from=exists_from,
            exists_until=exists_until,
            partition_id=number,
        )
        for number in range(count)
    ]


def counts_of(devices: Iterable[Device], known: Sequence[str] = ()) -> Mapping[str, int]:
    """Devices (replicas) by resource; resources that once were stay, as 0."""
    counts = dict.fromkeys(known, 0)
    for device in devices:
        if device.resource:
            more = device.replica_count or 1
            counts[device.resource] = counts.get(device.resource, 0) + more
    return dict(sorted(counts.items()))
