"""The keys of nodes: cards, MIG layouts, sharing, labels, and changes.

Put here: the keys below `nodes`.
Not here: workloads (`spec_work`), clusters and their monitoring (`spec`).
"""

# ruff: noqa: RUF009 (`key` is a dataclass field with a description)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import yaml

from fake_gpu.fleet.hardware import (
    place,
    products,
    profiles,
    similar_products,
    split_profile,
)
from fake_gpu.scenario.scalars import Seconds, Time
from fake_gpu.scenario.schema import InvalidScenarioValue, Reader, Shaped, key

LAYOUT_NOTATION = (
    "a name such as all-1g.5gb or all-balanced, or {all: {1g.5gb: 7}} or {0-1: {3g.20gb: 2}}"
)

# The largest machines have 16 cards. Composed hosts have more: this only keeps a slip of the pen
# from filling the memory.
MAXIMUM_CARDS = 1024
MAXIMUM_REPLICAS = 1000  # the finest shares of a card are thousandths
MAXIMUM_NODES = 2000

CardLayout = Mapping[str, int]  # profile -> how many on one card; {} is MIG on, nothing made


@dataclass(frozen=True, slots=True)
class CardLayoutSpec:
    """The MIG layout of each card: by name, or by selectors of cards. No entry: a whole card."""

    name: str  # "all-1g.5gb", or a config of a mig-parted file; "" when written out
    by_card: tuple[tuple[str, CardLayout | None], ...]  # ("all" | "0" | "0-3" | "0,2", layout)


def _layout(node: yaml.Node, path: str, reader: Reader) -> CardLayoutSpec:
    if isinstance(node, yaml.ScalarNode):
        return CardLayoutSpec(str(node.value), ())
    kind = Mapping[str, Mapping[str, int] | None]
    read = reader.read(node, kind, path)
    for selector in read:
        cards_selected(selector, MAXIMUM_CARDS)
    return CardLayoutSpec("", tuple(read.items()))


def cards_selected(selector: str, count: int) -> tuple[int, ...]:
    """The card numbers that `all`, `3`, `0-3` or `0,2` mean."""
    if selector == "all":
        return tuple(range(count))
    chosen: list[int] = []
    for part in selector.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise InvalidScenarioValue(f"{selector!r} selects no cards", "write all, 3, 0-3 or 0,2")
        chosen += range(int(first), int(last or first) + 1)
    return tuple(chosen)


LayoutNotation = Annotated[CardLayoutSpec, Shaped(_layout, LAYOUT_NOTATION)]


@dataclass(frozen=True, slots=True)
class MigSpec:
    layout: LayoutNotation = key(f"MIG layout of the cards: {LAYOUT_NOTATION}.")
    strategy: Literal["mixed", "single"] = key(
        "Strategy of the device plugin: `mixed` has one resource per profile, `single` has one.",
        default="mixed",
    )


@dataclass(frozen=True, slots=True)
class SharingSpec:
    replicas: int = key("Number of replicas of each device.")
    kind: Literal["time-slicing", "mps"] = key("Kind of sharing.", default="time-slicing")
    rename: bool = key("Offer `nvidia.com/gpu.shared` instead of `nvidia.com/gpu`.", default=False)

    def __post_init__(self) -> None:
        if not 2 <= self.replicas <= MAXIMUM_REPLICAS:
            raise InvalidScenarioValue(
                f"{self.replicas} replicas", f"share between 2 and {MAXIMUM_REPLICAS}"
            )


DcgmNamesNotation = Literal["old", "new", "both"]


@dataclass(frozen=True, slots=True)
class NodeChangeSpec:
    at: Time = key("Time of the change.")
    cordon: bool | None = key("`true` cordons the node, `false` ends the cordon.", default=None)
    ready: Literal["True", "False", "Unknown"] | None = key(
        "Ready condition of the node after the change.", default=None
    )
    labels: Mapping[str, str | None] = key("Labels to set; `null` removes a label.", factory=dict)
    dcgm_names: DcgmNamesNotation | None = key(
        "Metric names of dcgm-exporter after the change.", default=None
    )
    layout: LayoutNotation | None = key("New MIG layout.", default=None)
    takes: Seconds = key(
        "Duration of a change of layout, in which the node offers no devices.",
        default=300,
        shown="5m",
    )


@dataclass(frozen=True, slots=True)
class IncidentSpec:
    card: int = key("Number of the card, from 0.")
    from_: Time = key("Time at which the card becomes unhealthy.")
    until: Time | None = key(
        "Time at which the card is healthy again. Default: never.", default=None
    )
    mode: Literal["xid", "lost", "ecc", "unhealthy"] = key("Kind of failure.", default="xid")
    xid: int = key("XID that DCGM reports.", default=79)


@dataclass(frozen=True, slots=True)
class NodeSpec:
    name: str = key(
        "Name of the node. With `count`, `-0`, `-1`, … are appended, or 0, 1, … replace `{i}`."
    )
    count: int = key("Number of equal nodes.", default=1)
    product: str = key(
        "Product of the cards, as in the label of GPU feature discovery. Default: no cards.",
        default="",
    )
    cards: int = key("Number of cards.", default=0)
    card_ids: tuple[str, ...] = key(
        "UUIDs of the cards. Default: calculated from the seed.",
        factory=tuple,
    )
    memory_mib: int | None = key(
        "Memory of a card in MiB. Default: that of the product.", default=None
    )
    mig: MigSpec | None = key("MIG configuration. Default: MIG is disabled.", default=None)
    sharing: SharingSpec | None = key("Time-slicing or MPS.", default=None)
    partition: str = key(
        "AMD partition: `spx_nps1` (whole), `dpx_nps1`, `qpx_nps1`, `cpx_nps1`, `cpx_nps4`.",
        default="",
    )
    partition_strategy: Literal["single", "mixed"] = key(
        "AMD: resource of partitions, `amd.com/gpu` (`single`) or `amd.com/cpx_nps4` (`mixed`).",
        default="single",
    )
    passthrough: str = key(
        "Offer cards to virtual machines under this resource, as nvidia.com/H100_SXM5_80GB.",
        default="",
    )
    dra: bool = key("Offer devices by ResourceSlices instead of a device plugin.", default=False)
    dra_shared: bool = key(
        "With `dra`: several claims can share a card, each with a part of its memory.",
        default=False,
    )
    discovery: bool = key(
        "GPU feature discovery sets labels; without it only ResourceSlices name the product.",
        default=True,
    )
    dra_extended_resource: bool = key(
        "With `dra`: requests for nvidia.com/gpu get devices of the device class.", default=False
    )
    roles: tuple[str, ...] = key("Node roles.", default=("worker",), shown="[worker]")
    labels: Mapping[str, str] = key(
        "Labels of the node; they replace labels of GPU feature discovery.", factory=dict
    )
    cpu_cores: int = key("Processor cores.", default=64)
    memory_gib: int = key("Memory of the node in GiB.", default=512)
    driver_version: str = key("Version of the GPU driver.", default="550.127.08")
    cuda_version: str = key("CUDA version of the driver.", default="12.4")
    dcgm_names: DcgmNamesNotation = key(
        "Metric names of dcgm-exporter: `old`, `new` (since DCGM 4.7, with other units), or `both` "
        "(two exporters).",
        default="old",
    )
    joins: Time | None = key(
        "Time at which the node joins. Default: before the start.", default=None
    )
    leaves: Time | None = key("Time at which the node is deleted. Default: never.", default=None)
    changes: tuple[NodeChangeSpec, ...] = key("Changes of the node.", factory=tuple)
    incidents: tuple[IncidentSpec, ...] = key("Cards that become unhealthy.", factory=tuple)

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAXIMUM_NODES:
            raise InvalidScenarioValue(f"count: {self.count}", f"1 to {MAXIMUM_NODES} nodes")
        if not 0 <= self.cards <= MAXIMUM_CARDS:
            raise InvalidScenarioValue(
                f"{self.cards} cards", f"a node has 0 to {MAXIMUM_CARDS} cards"
            )
        if bool(self.product) != bool(self.cards):
            raise InvalidScenarioValue(
                "a product without cards, or cards without a product", "give both"
            )
        if self.product and self.product not in products():
            raise InvalidScenarioValue(
                f"unknown product {self.product!r}", similar_products(self.product)
            )
        if self.card_ids and len(self.card_ids) != self.cards * self.count:
            raise InvalidScenarioValue(
                f"{len(self.card_ids)} card_ids for {self.cards * self.count} cards",
                "give one for each card, or none",
            )
        for incident in self.incidents:
            if not 0 <= incident.card < self.cards:
                raise InvalidScenarioValue(f"no card {incident.card}", f"0 to {self.cards - 1}")
        self._check_kind()
        self._check_layouts()

    def names(self) -> tuple[str, ...]:
        if self.count == 1 and "{i}" not in self.name:
            return (self.name,)
        pattern = self.name if "{i}" in self.name else self.name + "-{i}"
        return tuple(pattern.replace("{i}", str(i)) for i in range(self.count))

    def _check_kind(self) -> None:
        if self.dra_shared and (not self.dra or self.mig or self.dra_extended_resource):
            raise InvalidScenarioValue(
                "dra_shared without whole cards of dra", "give `dra: true` alone"
            )
        vendor = products()[self.product].vendor if self.product else ""
        if self.partition and vendor != "amd":
            raise InvalidScenarioValue(
                "partition on a card that is not AMD's", "use mig for NVIDIA cards"
            )
        if self.mig and not (vendor == "nvidia" and products()[self.product].mig_family):
            raise InvalidScenarioValue(f"{self.product or 'no card'} has no MIG", "leave `mig` out")
        if self.passthrough and (self.mig or self.sharing or self.dra):
            raise InvalidScenarioValue(
                "passthrough together with another way to offer cards", "choose one"
            )
        if self.partition and self.partition.split("_")[0] not in PARTITIONS:
            raise InvalidScenarioValue(
                f"partition {self.partition!r}", "one of: " + ", ".join(PARTITIONS)
            )

    def _check_layouts(self) -> None:
        layouts = [self.mig.layout] if self.mig else []
        layouts += [change.layout for change in self.changes if change.layout]
        if layouts and not self.mig:
            raise InvalidScenarioValue(
                "a new layout on a node without `mig`", "give the first layout too"
            )
        for layout in layouts:
            for _, card_layout in layout.by_card:
                if card_layout is not None:
                    check_card_layout(self.product, card_layout)


# How many partitions an AMD card has in each compute mode.
PARTITIONS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}


def check_card_layout(product: str, layout: CardLayout) -> None:
    """Raise when one card cannot be cut so."""
    known = profiles(products()[product].mig_family)
    for profile, number in layout.items():
        if split_profile(profile)[1] not in known:
            raise InvalidScenarioValue(
                f"{product} has no profile {profile!r}", "one of: " + ", ".join(known)
            )
        if number < 0:
            raise InvalidScenarioValue(f"{number} × {profile}", "count up from 0")
    wanted = {profile: number for profile, number in layout.items() if number}
    if place(products()[product], wanted) is None:
        listed = ", ".join(f"{n} × {p}" for p, n in wanted.items())
        raise InvalidScenarioValue(
            f"{listed} do not fit on one {product}", "see docs: MIG placements"
        )
